"""Which command is asked for, and what its words mean."""

import functools
import io
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from inspect import signature
from typing import Any

import tyro.extras
from tyro.conf import DisallowNone, FlagCreatePairsOff

from mrcjax.cli.arguments import WrongOption
from mrcjax.cli.bound import bound_command
from mrcjax.cli.compare import compare_command
from mrcjax.cli.diff import diff_command
from mrcjax.cli.plot import plot_command
from mrcjax.cli.refusing import usage_error
from mrcjax.cli.report import report_command
from mrcjax.cli.run import run_command
from mrcjax.cli.show import show_command
from mrcjax.cli.spec import spec_command
from mrcjax.cli.sweep import sweep_command
from mrcjax.cli.trace import trace_command
from mrcjax.cli.tune import tune_command

COMMANDS: dict[str, Callable[..., None]] = {
    "run": run_command,
    "compare": compare_command,
    "bound": bound_command,
    "sweep": sweep_command,
    "tune": tune_command,
    "show": show_command,
    "diff": diff_command,
    "plot": plot_command,
    "trace": trace_command,
    "report": report_command,
    "spec": spec_command,
}


def dispatch(given: list[str]) -> None:
    """Run the command that the words of a command line ask for; raises SpecError."""
    if given == ["--version"]:
        from mrcjax import __version__

        print(f"mrcjax {__version__}")
        return
    try:
        run = _asked_for(given)
    except SystemExit:
        if given[0] in ("run", "compare"):
            from mrcjax.training import LEFT_OUT

            print(LEFT_OUT)
        raise
    run()


def _asked_for(given: list[str]) -> Callable[[], None]:
    """Return the command with its options; raises SpecError, and SystemExit after --help."""
    said = io.StringIO()
    command = shlex.join(["mrcjax", *given])
    try:
        with redirect_stderr(said):
            return tyro.extras.subcommand_cli_from_dict(
                {name: _later(function, command) for name, function in COMMANDS.items()},
                prog="mrcjax",
                description="How long a collective takes on a GPU network, what binds it, and how "
                "far it is from the best possible. `mrcjax --version` prints the version.",
                args=_one_override_each(given),
                config=(FlagCreatePairsOff, DisallowNone),
            )
    except WrongOption as wrong:
        raise wrong.error from None
    except SystemExit as stop:
        if not stop.code:
            raise
        raise usage_error(said.getvalue(), given, list(COMMANDS)) from None


def _later(function: Callable[..., None], command: str) -> Callable[..., Callable[[], None]]:
    """Return a function of the same arguments that does not run it yet."""
    known = {"command": command} if "command" in signature(function).parameters else {}

    @functools.wraps(function)
    def asked(*values: Any, **options: Any) -> Callable[[], None]:
        return functools.partial(function, *values, **options | known)

    return asked


def _one_override_each(given: Sequence[str]) -> list[str]:
    """Turn `--set a.b=1 c.d=2` into `--set a.b=1 --set c.d=2`; both may be written."""
    words: list[str] = []
    follows = False  # whether the last word is an override
    for word in given:
        if follows and re.match(r"\w+(\.\w+)+\s*=", word):
            words.append("--set")
        follows = words[-1:] == ["--set"]
        words.append(word)
    return words
