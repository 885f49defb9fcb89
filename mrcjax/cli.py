"""The command line: arguments in, text or one JSON object out, errors as one line and a status.

Whatever takes long to import is imported by the command that needs it.
"""

import hashlib
import json
import logging
import math
import os
import platform
import re
import shlex
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro.extras
from tyro.conf import DisallowNone, FlagCreatePairsOff, Positional, UseAppendAction, arg

if TYPE_CHECKING:
    from mrcjax.archive import Archive, Run, Table
    from mrcjax.outcome import Outcome
    from mrcjax.spec import Spec
    from mrcjax.step import TrainingOutcome

USAGE_ERROR, INTERRUPTED, PIPE_CLOSED = 2, 130, 141  # exit statuses, as shells count them

T = TypeVar("T")

SpecFile = Annotated[Positional[Path], arg(metavar="SPEC", help="The spec, a TOML file.")]
ArchiveFile = Annotated[Positional[Path], arg(metavar="FILE.h5", help="The archive.")]
AsJson = Annotated[bool, arg(name="json", help="Print exactly one JSON object.")]
Overrides = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(
        name="set",
        metavar="KEY=VALUE",
        help="Override any key of the spec, for example network.ranks=4096.",
    ),
]
OneRun = Annotated[str | None, arg(metavar="NAME", help="The run; without it the only one.")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        _command(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return _pipe_closed()
    except MemoryError:
        return _refused("out of memory; use fewer ranks or links, or a machine with more memory")
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        return _refused(message)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _command(given: list[str]) -> None:
    if given == ["--version"]:
        from mrcjax import __version__

        print(f"mrcjax {__version__}")
        return
    commands: dict[str, Callable[..., None]] = {
        "run": run_command(given),
        "compare": compare_command(given),
        "bound": bound_command,
        "show": show_command,
        "plot": plot_command,
        "spec": spec_command,
    }
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="mrcjax",
            description="How long a collective takes on a GPU network, what binds it, and how far "
            "it is from the best possible. `mrcjax --version` prints the version.",
            args=_overrides_apart(given),
            config=(FlagCreatePairsOff, DisallowNone),
        )
    except SystemExit as stop:
        if stop.code == 0 and given[0] in ("run", "compare"):
            from mrcjax.training import LEFT_OUT

            print(LEFT_OUT)
        raise


def _overrides_apart(given: Sequence[str]) -> list[str]:
    """Allow `--set a.b=1 c.d=2` beside `--set a.b=1 --set c.d=2`."""
    apart: list[str] = []
    is_override = False
    for word in given:
        is_another = is_override and re.match(r"\w+(\.\w+)+\s*=", word)
        is_first = bool(apart) and apart[-1] == "--set"
        if is_another and not is_first:
            apart.append("--set")
        apart.append(word)
        is_override = bool(word == "--set" or is_first or is_another)
    return apart


# --- commands ----------------------------------------------------------------------------------


def run_command(given: Sequence[str]) -> Callable[..., None]:
    """Return `mrcjax run`, which notes in the archive how it was called."""

    def run(
        spec: SpecFile,
        *,
        as_json: AsJson = False,
        out: Annotated[
            Path | None,
            arg(metavar="FILE.h5", help="Add the run to this archive (over output.file)."),
        ] = None,
        overrides: Overrides = (),
        explain: Annotated[
            bool, arg(help="Also print the hardware and every assumption with its source.")
        ] = False,
    ) -> None:
        """Emulate a spec: how long it takes, what binds it, how far it is from the best.

        With a [training] section also the training step around it, and the cost of a run.
        """
        asked = _load(spec, overrides)
        target = _target(asked, out)
        from mrcjax import archive

        if target is not None:
            archive.check_writable(target)
        _prepare_jax()
        from mrcjax.network.inventory import inventory

        materials = inventory(asked.network) if explain else None
        outcome, trained = _at_once(lambda: _emulated(asked), _what(asked))
        if target is not None:
            name = f"{outcome.kind}-{outcome.algorithm}-{outcome.ranks}"
            runs = {name: outcome}
            tables = {}
            if trained is not None:
                buckets = trained.outcomes.items()
                runs |= {f"{name}-{k}": o for k, o in buckets if o is not outcome}
                tables = {f"{name}-training": _training_table(asked, trained)}
            command = shlex.join(["mrcjax", *given])
            archive.write(target, runs, command=command, tables=tables)
            if asked.output.figures:
                _draw_run(outcome, target.with_suffix(""), "png", command)
        assumptions = _assumptions(asked) if explain else []
        if as_json:
            found = outcome.to_json()
            if trained is not None:
                found["training"] = trained.to_json()
            if materials is not None:
                found["explain"] = {
                    "hardware": dict(materials.rows()),
                    "assumptions": assumptions,
                }
            _print_json(found)
            return
        from mrcjax.report.table import run_text, table_text, text_table

        blocks = [run_text(outcome)]
        if trained is not None:
            blocks.append(table_text(_training_table(asked, trained)))
            blocks += [f"warning: {text}" for text in trained.warnings]
        if materials is not None:
            blocks.append(text_table(_rows(materials.rows())))
        if assumptions:
            blocks.append(text_table(assumptions))
        print("\n\n".join(blocks))

    return run
