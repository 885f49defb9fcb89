"""Which command is asked for, and what its words mean."""

import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial

import tyro.extras
from tyro.conf import DisallowNone, FlagCreatePairsOff

from mrcjax.cli.bound import bound_command
from mrcjax.cli.compare import compare_command
from mrcjax.cli.diff import diff_command
from mrcjax.cli.plot import plot_command
from mrcjax.cli.report import report_command
from mrcjax.cli.run import run_command
from mrcjax.cli.show import show_command
from mrcjax.cli.spec import spec_command
from mrcjax.cli.sweep import sweep_command
from mrcjax.cli.trace import trace_command
from mrcjax.cli.tune import tune_command


def dispatch(given: list[str]) -> None:
    """Run the command that the words of a command line ask for."""
    if given == ["--version"]:
        from mrcjax import __version__

        print(f"mrcjax {__version__}")
        return
    command = shlex.join(["mrcjax", *given])
    commands: dict[str, Callable[..., None]] = {
        "run": partial(run_command, command=command),
        "compare": partial(compare_command, command=command),
        "bound": bound_command,
        "sweep": partial(sweep_command, command=command),
        "tune": partial(tune_command, command=command),
        "show": show_command,
        "diff": diff_command,
        "plot": partial(plot_command, command=command),
        "trace": partial(trace_command, command=command),
        "report": partial(report_command, command=command),
        "spec": spec_command,
    }
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="mrcjax",
            description="How long a collective takes on a GPU network, what binds it, and how far "
            "it is from the best possible. `mrcjax --version` prints the version.",
            args=_one_override_each(given),
            config=(FlagCreatePairsOff, DisallowNone),
        )
    except SystemExit as stop:
        if stop.code == 0 and given[0] in ("run", "compare"):
            from mrcjax.training import LEFT_OUT

            print(LEFT_OUT)
        raise


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
