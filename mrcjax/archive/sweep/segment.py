"""Segments: files of a few finished points each, beside the file of their sweep.

The file of a sweep is replaced as a whole, and replacing a large one for every batch would cost
more than the batch. So a batch is first a file of its own, durable when its name appears, until it
is folded into the sweep's file.

The alternative within one file, HDF5's single writer and multiple readers (SWMR), does not do: no
dataset or attribute may be added once it is on; a killed writer leaves flags in the file that make
plain readers refuse it until someone clears them; what it guarantees, it guarantees only on file
systems with ordered writes; and a sweep that is extended needs other shapes anyway.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mrcjax.archive.dataset import json_text, read, storable, store
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.layout import SCHEMA
from mrcjax.archive.opening import kind_of, opened
from mrcjax.archive.provenance import version
from mrcjax.archive.replacing import replaced
from mrcjax.archive.sweep import finish
from mrcjax.archive.sweep.points import At, Axis, Places, Point, narrowed


def folder_of(target: Path) -> Path:
    """Return the folder of a sweep's segments, beside its file."""
    return target.with_name(f".{target.name}.parts")


def segments_of(target: Path) -> list[Path]:
    """Return the segments there are, oldest first."""
    return sorted(path for path in folder_of(target).glob("*.h5") if path.stem.isdecimal())


@dataclass(frozen=True)
class Segment:
    """What a segment holds, but for the finish times."""

    path: Path
    places: list[At]  # of its points
    rows: list[dict[str, Any]]


def axes_to_json(axes: Sequence[Axis]) -> str:
    """Return the text that stands for axes in a file."""
    return json_text([[axis.name, axis.coords, axis.units] for axis in axes])


def axes_from_json(text: str) -> tuple[Axis, ...]:
    """Return the axes that such a text stands for."""
    return tuple(Axis(*parts) for parts in json.loads(text))


def write_segment(
    path: Path, axes: Sequence[Axis], points: Sequence[Point], rows: Sequence[dict[str, Any]]
) -> None:
    """Write points and their rows into a new segment; durable, and visible, when this returns."""
    own, at = narrowed(axes, [point.at for point in points])
    ranks = max((len(p.finish_s) for p in points if p.finish_s is not None), default=0)
    with replaced(path, False) as draft, h5py.File(draft, "w") as file:
        file.attrs["schema"] = SCHEMA
        file.attrs["kind"] = "segment"
        file.attrs["mrcjax_version"] = version()
        file.attrs["created"] = ""
        file.attrs["axes"] = axes_to_json(own)
        store(file, "at", at, "1", "index on axes")
        # one dataset, not one for each variable: a segment is written, read once, and removed
        text = np.frombuffer(storable(json_text(list(rows))).encode(), dtype=np.uint8)
        store(file, "rows", text, "", "values of each point, JSON")
        if ranks:
            dataset = finish.create(file, (len(points),), ranks)
            for i, point in enumerate(points):
                if point.finish_s is not None:
                    finish.put(dataset, (i,), point.finish_s)


def read_segment(path: Path, places: Places) -> Segment:
    """Read a segment; its points are placed by their labels.

    Raises:
        ArchiveError: the segment is damaged, or has other labels.
    """
    with opened(path) as file:
        if kind_of(file) != "segment":
            raise ArchiveError("is no segment of a sweep", path, "move it elsewhere")
        own = axes_from_json(str(file.attrs["axes"]))
        at = read(file["at"])
        rows = json.loads(read(file["rows"]).tobytes())
        where = [there[i] for there, i in zip(places.of(own), at.T, strict=True)]
        placed = list(zip(*(indices.tolist() for indices in where), strict=True))
    return Segment(path, placed, rows)
