"""What commands share: the spec they are asked about, and JSON as they print it."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrcjax.units import SpecError

if TYPE_CHECKING:
    from mrcjax.archive import Sweep
    from mrcjax.spec import Spec


def load(file: Path, overrides: Sequence[str]) -> "Spec":
    """Read the spec that a command line asks for; a path is never taken for text."""
    from mrcjax.spec import load_spec

    return load_spec(file, overrides)


def target_of(asked: "Spec", out: Path | None) -> Path | None:
    """Return the archive to write: that of the command line wins over that of the spec."""
    if out is None and asked.output.file is not None:
        out = Path(asked.output.file)
    if out is None and asked.output.figures:
        raise SpecError(
            "needs an archive to stand beside",
            where="output.figures",
            value=True,
            remedy="give --out FILE.h5 or output.file, or leave figures out",
        )
    return out


def what(asked: "Spec") -> str:
    """Name the collective and the network of a spec."""
    asked_for = f"{asked.traffic.kind} traffic" if asked.traffic else asked.the_collective.kind
    return f"{asked_for} on {where(asked)}"


def where(asked: "Spec") -> str:
    """Name the network of a spec."""
    return f"{asked.network.kind} with {asked.network.ranks:,} ranks"


def refuse_run_of_sweep(stored: "Sweep", run: str | None, remedy: str) -> None:
    """Raise SpecError where --run names a run of an archive whose points have no names."""
    if run is not None:
        raise SpecError(
            "holds a sweep, which has no runs by name", where=str(stored.path), remedy=remedy
        )


def print_json(value: Any) -> None:
    """Print one JSON value."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Replace what JSON has no word for: NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
