"""Write the file of a sweep while its points come in; none that is finished is ever lost."""

import contextlib
import dataclasses
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from mrcjax.archive.error import ArchiveError
from mrcjax.archive.provenance import iso, versions
from mrcjax.archive.replacing import folder_made, locked, replaced, resolved
from mrcjax.archive.sweep.columns import row_of
from mrcjax.archive.sweep.points import At, Axis, Places, Point
from mrcjax.archive.sweep.segment import folder_of, read_segment, segments_of, write_segment
from mrcjax.archive.sweep.state import ended_now, start
from mrcjax.archive.sweep.storing import AXES_UP_TO, Header, Session, write_sweep

FOLDING_SHARE = 0.03  # of the time of a sweep that folding may take


@contextlib.contextmanager
def sweep_writer(
    path: str | Path,
    axes: Sequence[Axis],
    *,
    excluded: Collection[At] = (),
    spec_text: str = "",
    command: str = "",
    resume: bool = False,
) -> Iterator["SweepWriter"]:
    """Be the only writer of a sweep's file, from its first point to its last.

    The file is complete at every moment; a process killed at any moment leaves all points whose
    `add` had returned, in the file or in segments beside it, which `load` reads alike. At the end,
    also that by an exception, the segments are folded into the file.

    Args:
        path: the HDF5 file; missing folders are created.
        axes: of the points that will be added, and of `excluded` and `done`.
        excluded: places on the axes that a condition leaves out.
        spec_text: the spec, TOML.
        command: the command line.
        resume: go on with the sweep that the file holds, if it holds one. Its axes may lack
            labels of `axes` or have others; then the file gets the labels of both.

    Raises:
        ArchiveError: another process is writing the file; it holds something else, or a sweep
            without `resume`, or one over other axes; it cannot be written.
    """
    target = resolved(path)
    if not 0 < len(axes) <= AXES_UP_TO:
        raise ArchiveError(
            f"cannot hold a sweep over {len(axes)} axes",
            target,
            f"sweep at least one and at most {AXES_UP_TO}; zip some of them",
        )
    with contextlib.ExitStack() as stack:
        with folder_made(target):
            stack.enter_context(locked(target, timeout_s=0))
            folder_of(target).mkdir(exist_ok=True)
        stack.callback(_remove_if_empty, folder_of(target))
        writer = SweepWriter(target, axes, excluded, spec_text, command, resume)
        try:
            yield writer
        except BaseException:
            # what cannot be folded now stays in the segments
            with contextlib.suppress(Exception):
                writer.fold()
                writer.remove_if_new()
            raise
        writer.fold()


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


class SweepWriter:
    """Adds points to a sweep's file; made by `sweep_writer`.

    Attributes:
        done: id -> place of the finished points that were there before and are on the axes.
        failed: likewise of those that failed.
        spec_before: the spec of the sweep that is gone on with; None for a new one.
    """

    done: dict[str, At]
    failed: dict[str, At]
    spec_before: str | None = None

    def __init__(
        self,
        target: Path,
        axes: Sequence[Axis],
        excluded: Collection[At],
        spec_text: str,
        command: str,
        resume: bool,
    ):
        now = iso(datetime.now(UTC))
        header = Header(now, spec_text, (Session(command, now, now, versions()),), tuple(axes))
        self._target = target
        self._state, self.spec_before = start(target, header, resume)
        self._segments = segments_of(target)
        places = Places(self._state.header.axes)
        for path in self._segments:
            self._state.take(read_segment(path, places))
        # a reader that has listed a segment must never find another one under its name
        numbers = [int(path.stem) for path in self._segments]
        self._number = max([self._state.header.last_segment, *numbers])
        self._places = places.of(axes)
        self._state.ask(self._places, excluded)
        self.done, self.failed = (self._there(status) for status in ("done", "failed"))
        self._bytes = 0  # of the file and the segments
        self._folded_at, self._empty_fold_s, self._fold_s_per_byte = 0.0, 0.0, 1e-8
        self._is_changed = True
        self._is_new = self.spec_before is None and not self._segments
        self.fold()

    def _there(self, status: str) -> dict[str, At]:
        block = np.ix_(*self._places)
        columns = self._state.columns
        places = np.argwhere(columns["status"][block] == status).tolist()
        return {columns["id"][block][tuple(at)]: tuple(at) for at in places} if places else {}

    def add(self, points: Iterable[Point]) -> None:
        """Add finished points; they are on disk when this returns, and visible to readers.

        Raises:
            ArchiveError: the disk is full or fails; all points added before are safe.
        """
        axes = self._state.header.axes
        placed = [dataclasses.replace(point, at=self._place(point.at)) for point in points]
        if not placed:
            return
        path = folder_of(self._target) / f"{self._number + 1:08d}.h5"
        rows = [row_of(point) for point in placed]
        try:
            write_segment(path, axes, placed, rows)
        except ArchiveError as error:
            raise self._failure(error) from error
        self._number += 1
        self._is_new = False
        for i, (point, row) in enumerate(zip(placed, rows, strict=True)):
            self._state.put(point.at, row, (path, (i,)))
        self._is_changed = True
        # last: if this is interrupted before, the segment stays and is taken over when gone on
        self._segments.append(path)
        self._bytes += path.stat().st_size
        if self._fold_takes_s() <= FOLDING_SHARE * (time.monotonic() - self._folded_at):
            try:
                self.fold()
            except ArchiveError:
                # a disk may have room for segments but not for a second copy of the file;
                # the last fold, at the end, says so
                self._folded_at = time.monotonic()

    def has(self, at: At, id: str, with_finish: bool = False) -> bool:
        """Whether the point of this place is done, with this id, and its finish times if asked."""
        columns, place = self._state.columns, self._place(at)
        is_done = columns["status"][place] == "done" and columns["id"][place] == id
        return bool(is_done) and (not with_finish or place in self._state.kept)

    def remove_if_new(self) -> None:
        """Remove the file if it was not there before and no point was added."""
        if self._is_new:
            self._target.unlink(missing_ok=True)

    def _fold_takes_s(self) -> float:
        return self._empty_fold_s + self._bytes * self._fold_s_per_byte

    def _place(self, at: At) -> At:
        if len(at) != len(self._places):
            raise ValueError(f"{at} has not one index for each axis")
        return tuple(int(place[i]) for place, i in zip(self._places, at, strict=True))

    def fold(self) -> None:
        """Put all segments into the file, which is replaced as a whole."""
        if not self._is_changed:
            return
        began = time.monotonic()
        state = self._state
        state.header = ended_now(state.header, self._number)
        try:
            with replaced(self._target, False) as draft:
                write_sweep(draft, state.header, state.columns, state.kept)
        except ArchiveError as error:
            raise self._failure(error) from error
        # only now: until its new file is durable, a segment is all there is
        for path in self._segments:
            path.unlink(missing_ok=True)
        self._segments = []
        state.kept = {at: (self._target, at) for at in state.kept}
        self._is_changed = False
        self._folded_at = time.monotonic()
        took_s, self._bytes = self._folded_at - began, self._target.stat().st_size
        if state.kept:
            self._fold_s_per_byte = max(took_s - self._empty_fold_s, 0.0) / self._bytes
        else:
            self._empty_fold_s = took_s

    def _failure(self, error: ArchiveError) -> ArchiveError:
        if "could not be written" not in error.what:
            return error  # a file that finish times are copied from is damaged
        return ArchiveError(
            error.what,
            self._target,
            "free space and go on with --resume; every point that was finished is kept",
        )
