"""What a writer knows of a sweep: its header and columns in memory, and where finish times are."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from mrcjax.archive.dataset import read
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.opening import opened
from mrcjax.archive.provenance import iso
from mrcjax.archive.sweep.columns import ALWAYS, Columns, missing_of
from mrcjax.archive.sweep.points import At, Axis, Places, merged
from mrcjax.archive.sweep.segment import Segment, folder_of, segments_of
from mrcjax.archive.sweep.storing import Header, read_header

_REMEDY_FOREIGN = "name another file; nothing that mrcjax did not write is overwritten"


@dataclass
class State:
    """A sweep as far as it is computed, but for the finish times."""

    header: Header
    columns: Columns  # over the axes
    # place of each point with finish times -> the file that has them, and the place there
    kept: dict[At, tuple[Path, tuple[int, ...]]] = field(default_factory=dict)

    def put(self, at: At, row: dict[str, Any], where: tuple[Path, tuple[int, ...]]) -> None:
        """Set all that is known of a point, in the place of what was; finish times are `where`."""
        self.columns.put(at, row)
        self.kept.pop(at, None)
        if row["finish_count"]:
            self.kept[at] = where

    def take(self, segment: Segment) -> None:
        """Take over the points of a segment."""
        for i, (at, row) in enumerate(zip(segment.places, segment.rows, strict=True)):
            self.put(at, row, (segment.path, (i,)))

    def ask(self, places: Sequence[np.ndarray], excluded: Collection[At]) -> None:
        """Say that all points of a block are wanted, save those excluded and those that are there.

        Args:
            places: for each axis the indices of the block.
            excluded: places within the block.
        """
        block = np.ix_(*places)
        status = self.columns["status"][block]
        wanted = np.full(status.shape, "missing", dtype=object)
        for at in excluded:
            wanted[at] = "excluded"
        is_there = (status == "done") | (status == "failed")
        self.columns["status"][block] = np.where(is_there, status, wanted)


def start(target: Path, header: Header, resume: bool) -> tuple[State, str | None]:
    """Return the state to go on from, and the spec of the sweep that the file holds, if any.

    Raises:
        ArchiveError: the file holds something else, or a sweep that may not be gone on with.
    """
    folder = folder_of(target)
    for leftover in folder.glob(".*.tmp"):
        leftover.unlink(missing_ok=True)
    # an empty file is none
    if not target.exists() or (target.is_file() and target.stat().st_size == 0):
        if segments_of(target) and not resume:
            raise ArchiveError(
                f"is gone, but finished points of its sweep are in {folder}",
                target,
                "go on with --resume, or remove that folder",
            )
        return _empty(header), None
    with opened(target, _REMEDY_FOREIGN) as file:
        before = read_header(file, target)
        if not resume:
            raise ArchiveError(
                "already holds a sweep", target, "go on with --resume, or name another file"
            )
        header = _gone_on_with(before, header, target)
        columns = Columns(
            tuple(map(len, before.axes)), lambda key: read(file[key]), before.variables
        )
        return _widened(State(before, columns), header, target), before.spec_text


def ended_now(header: Header, last_segment: int) -> Header:
    """Return the header with the present as the end of its last session."""
    *others, last = header.sessions
    last = dataclasses.replace(last, ended=iso(datetime.now(UTC)))
    return dataclasses.replace(header, sessions=(*others, last), last_segment=last_segment)


def _empty(header: Header) -> State:
    columns = Columns(tuple(map(len, header.axes)))
    # what no sweep has asked for is excluded
    columns["status"] = np.full(columns.shape, "excluded", dtype=object)
    for key, kind in ALWAYS.items():
        dtype = np.dtype({str: object}.get(kind, kind))
        columns[key] = np.full(columns.shape, missing_of(dtype), dtype=dtype)
    return State(header, columns)


def _gone_on_with(before: Header, header: Header, target: Path) -> Header:
    try:
        axes = merged(before.axes, header.axes)
    except ValueError:
        raise ArchiveError(
            f"holds a sweep over {_names(before.axes)}, not over {_names(header.axes)}",
            target,
            "labels may be added, axes may not; name another file",
        ) from None
    sessions = (*before.sessions, *header.sessions)
    return dataclasses.replace(
        header,
        created=before.created,
        axes=axes,
        sessions=sessions,
        last_segment=before.last_segment,
    )


def _names(axes: Sequence[Axis]) -> str:
    return ", ".join(" with ".join(axis.coords) for axis in axes)


def _widened(state: State, header: Header, target: Path) -> State:
    """Place what a file has on axes that may have more labels."""
    wide = _empty(header)
    places = Places(header.axes).of(state.header.axes)
    block = np.ix_(*places)
    for key in state.columns.keys:
        old = state.columns[key]
        if key not in wide.columns.keys:
            wide.columns[key] = np.full(wide.columns.shape, missing_of(old.dtype), dtype=old.dtype)
        wide.columns[key][block] = old
    for at in map(tuple, np.argwhere(state.columns["finish_count"]).tolist()):
        new = tuple(int(place[i]) for place, i in zip(places, at, strict=True))
        wide.kept[new] = (target, at)
    return wide
