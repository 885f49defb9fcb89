"""What `mrcjax run --trace` and `mrcjax trace` share."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from mrcjax.cli.arguments import whole_number
from mrcjax.cli.waiting import at_once
from mrcjax.units import SpecError

if TYPE_CHECKING:
    from mrcjax.archive import AnyRun
    from mrcjax.outcome import Outcome
    from mrcjax.tracing import Recording

TraceFile = Annotated[
    Path | None,
    arg(
        metavar="FILE.json",
        help="Write the sends of some ranks and the use of links over time, for Perfetto "
        "(ui.perfetto.dev); the archive then holds the use of links too.",
        help_behavior_hint="",
    ),
]
TraceRanks = Annotated[
    int | None,
    whole_number("--trace-ranks"),
    arg(
        help="Ranks in the trace, 16 without it: the last and the first to finish, and others.",
        help_behavior_hint="",
    ),
]


def check_trace(file: Path | None, ranks: int | None) -> None:
    """Refuse what would fail after the emulation."""
    if file is None:
        if ranks is not None:
            raise SpecError("--trace-ranks needs a trace", remedy="name it with --trace FILE.json")
        return
    _check_file(file)


def _check_file(path: Path) -> None:
    # without mrcjax.tracing, which imports jax
    if path.is_dir():
        raise SpecError(f"{path} is a folder", remedy="name a file in it, such as trace.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise SpecError(
            f"{path} cannot be written ({reason})", remedy="name another file"
        ) from None
    if not os.access(path.parent, os.W_OK):
        raise SpecError(f"{path} cannot be written (permission denied)", remedy="name another file")


def traced(outcome: "Outcome", file: Path, ranks: int | None, command: str) -> "Outcome":
    """Write the trace of a run; return the run with the use of its links over time."""
    from mrcjax.tracing import use_over_time

    recording = recorded(outcome, ranks)
    save(recording, file, command)
    return replace(outcome, link_use=use_over_time(recording))


def recorded(run: "AnyRun", ranks: int | None) -> "Recording":
    """Emulate a run again and keep its sends."""
    from mrcjax.tracing import RANKS, record

    return at_once(lambda: record(run, ranks=RANKS if ranks is None else ranks), "tracing sends")


def save(recording: "Recording", file: Path, command: str, events: int | None = None) -> None:
    """Write a trace, and say on stderr what it leaves out."""
    from mrcjax.tracing import EVENTS, write_trace

    most = EVENTS if events is None else events
    written = write_trace(file, recording, command=command, events=most)
    said = "; ".join((f"{written.events:,} events", *written.left_out))
    print(f"mrcjax: {file}: {said}", file=sys.stderr)
