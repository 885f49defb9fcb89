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

from mrcjax.archive.dataset import json_text, read, store
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.layout import SCHEMA
from mrcjax.archive.opening import kind_of, opened
from mrcjax.archive.provenance import version
from mrcjax.archive.replacing import replaced
from mrcjax.archive.sweep import finish
from mrcjax.archive.sweep.columns import Columns, row_of, write_columns
from mrcjax.archive.sweep.points import At, Axis, Point, placing


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
    return json_text([[axis.name, axis.coords] for axis in axes])


def axes_from_json(text: str) -> tuple[Axis, ...]:
    """Return the axes that such a text stands for."""
    return tuple(Axis(name, coords) for name, coords in json.loads(text))


def write_segment(path: Path, axes: Sequence[Axis], points: Sequence[Point]) -> None:
    """Write points into a new segment; it is durable, and visible, when this returns."""
    columns = Columns((len(points),))
    for i, point in enumerate(points):
        columns.put((i,), row_of(point))
    ranks = max((len(p.finish_s) for p in points if p.finish_s is not None), default=0)
    with replaced(path, False) as draft, h5py.File(draft, "w") as file:
        file.attrs["schema"] = SCHEMA
        file.attrs["kind"] = "segment"
        file.attrs["mrcjax_version"] = version()
        file.attrs["created"] = ""
        file.attrs["axes"] = axes_to_json(axes)
        file.attrs["variables"] = json_text(list(columns.keys))
        store(file, "at", np.array([p.at for p in points], dtype=np.int64), "1", "index on axes")
        write_columns(file, columns)
        if ranks:
            dataset = finish.create(file, (len(points),), ranks)
            for i, point in enumerate(points):
                if point.finish_s is not None:
                    finish.put(dataset, (i,), point.finish_s)


def read_segment(path: Path, axes: Sequence[Axis]) -> Segment:
    """Read a segment; its points are placed by their labels on the axes given.

    Raises:
        ArchiveError: the segment is damaged, or its labels are not on the axes.
    """
    with opened(path) as file:
        if kind_of(file) != "segment":
            raise ArchiveError("is no segment of a sweep", path, "move it elsewhere")
        own = axes_from_json(str(file.attrs["axes"]))
        at = read(file["at"])
        keys = json.loads(file.attrs["variables"])
        columns = Columns((len(at),), lambda key: read(file[key]), keys)
        rows = [columns.row((i,)) for i in range(len(at))]
        where = placing(own, axes)
        places = [tuple(int(w[i]) for w, i in zip(where, row, strict=True)) for row in at]
    return Segment(path, places, rows)
