"""Read a sweep, also one that is still growing: its file and the segments beside it as one."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mrcjax.archive.condition import chosen, names_in
from mrcjax.archive.dataset import read
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.opening import Snapshot, opened
from mrcjax.archive.sweep import finish
from mrcjax.archive.sweep.columns import STATUSES, Columns, result_hash
from mrcjax.archive.sweep.points import At, Axis, Places, Point
from mrcjax.archive.sweep.segment import Segment, read_segment, segments_of
from mrcjax.archive.sweep.storing import Header, hash_of_results, read_header

_TRIES = 100


class Sweep:
    """The points of a sweep as arrays over its axes; each is read when first asked for.

    What is seen is the sweep as it was when it was loaded, even if it has grown since. `sweep[key]`
    is the array of a variable ("time_s") or of "finish_s", which has a last axis of ranks.
    """

    def __init__(self, snapshot: Snapshot, header: Header, segments: list[Segment]):
        self.path = snapshot.path
        self.header = header
        self._snapshot = snapshot
        self._columns = Columns(self.shape, self._read, header.variables)
        self._late: dict[At, tuple[Segment, int]] = {}  # points that are not in the file yet
        for segment in segments:
            for i, (at, row) in enumerate(zip(segment.places, segment.rows, strict=True)):
                self._columns.put(at, row)
                self._late[at] = segment, i

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"Sweep({str(self.path)!r}, {shape} points over {', '.join(self.names)})"

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes, each with its name and labels."""
        return self.header.axes

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels on each axis."""
        return tuple(map(len, self.axes))

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Labels of every swept key: key -> (labels of its axis,)."""
        found = {}
        for axis in self.axes:
            for key, labels in axis.coords.items():
                dtype = object if isinstance(labels[0], str) else None
                found[key] = np.array(labels, dtype=dtype)
        return found

    @property
    def variables(self) -> tuple[str, ...]:
        """Keys of the arrays over the axes."""
        return tuple(self._columns.keys)

    def __contains__(self, key: str) -> bool:
        return key in self._columns.keys or (key == finish.KEY and self._has_finish_times())

    def __getitem__(self, key: str) -> np.ndarray:
        if key == finish.KEY:
            return self._all_finish_times()
        if key not in self._columns.keys:
            raise ArchiveError(
                f'has no variable "{key}"', self.path, f"it has {', '.join(self.variables)}"
            )
        return self._columns[key]

    @property
    def status(self) -> np.ndarray:
        """What is known of each point: "missing", "excluded", "done" or "failed"."""
        return self["status"]

    @property
    def reason(self) -> np.ndarray:
        """Why points failed; "" elsewhere."""
        return self["reason"]

    def point(self, at: At) -> Point:
        """Return one point, with its finish times where they are kept."""
        row = self._columns.row(tuple(at))
        own = ("status", "reason", "id", "finish_count", "result_hash")
        values = {key: value for key, value in row.items() if key not in own}
        return Point(
            at=tuple(at),
            id=row["id"],
            status=row["status"],
            reason=row["reason"],
            values=values,
            finish_s=self.finish_s(at),
        )

    def labels(self, at: At) -> dict[str, Any]:
        """Return the labels of one point by swept key."""
        return {
            key: labels[i]
            for axis, i in zip(self.axes, at, strict=True)
            for key, labels in axis.coords.items()
        }

    def places(self, *statuses: str) -> Iterator[At]:
        """Return the places of the points of any of these statuses, the last axis fastest."""
        found = np.isin(self.status.astype(str), statuses)
        return map(tuple, np.argwhere(found).tolist())

    def rows(self, *statuses: str) -> list[dict[str, Any]]:
        """Return one dict per finished point: its labels and its variables, SI units.

        Labels stand under the whole key ("network.ranks") and under its last part ("ranks") where
        that is not the name of something else. Of points that are not done a variable of that name
        ("ranks") is the label.

        Args:
            statuses: those of the points wanted; none: "done".
        """
        mask = np.isin(self.status.astype(str), statuses or ("done",))
        places = np.nonzero(mask)
        columns: dict[str, list] = {}
        for axis, indices in zip(self.axes, places, strict=True):
            for key, labels in axis.coords.items():
                columns[key] = [labels[i] for i in indices.tolist()]
        columns |= {short: columns[key] for short, key in self.short_names().items()}
        columns |= {key: self[key][mask].tolist() for key in self.variables}
        self._label_unfinished(columns)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _label_unfinished(self, columns: dict[str, list]) -> None:
        """Have points that are not done what they were to be ("ranks"), not what is missing: 0."""
        keys = [key for axis in self.axes for key in axis.coords]
        last = [key.rpartition(".")[2] for key in keys]
        for key, short in zip(keys, last, strict=True):
            if short != key and short in self.variables and last.count(short) == 1:
                each = zip(columns[short], columns[key], columns["status"], strict=True)
                columns[short] = [own if is_ == "done" else label for own, label, is_ in each]

    def where(self, condition: str) -> list[dict[str, Any]]:
        """Return the `rows` of which a condition is true.

        Points that failed are among them if the condition asks for the status or the reason.

        Args:
            condition: such as "ranks >= 4096 and network == 'flat_rails'", see `chosen`.

        Raises:
            SpecError: the condition cannot be read or evaluated.
        """
        asks = names_in(condition) & {"status", "reason"}
        return chosen(self.rows(*STATUSES if asks else ()), condition)

    def short_names(self) -> dict[str, str]:
        """Return the last parts of swept keys that are names of nothing else, with the keys."""
        keys = [key for axis in self.axes for key in axis.coords]
        last = [key.rpartition(".")[2] for key in keys]
        taken = {*keys, *self.variables}
        return {
            short: key
            for short, key in zip(last, keys, strict=True)
            if last.count(short) == 1 and short not in taken and short.isidentifier()
        }

    def check(self) -> int:
        """Compute the hashes of all results again and return the number of points.

        Raises:
            ArchiveError: a result is not what was written.
        """
        places = list(self.places("done", "failed"))
        for at, finish_s in zip(places, self.finish_times(places), strict=True):
            row = self._columns.row(at)
            if result_hash(row, finish_s) != row["result_hash"]:
                raise ArchiveError(
                    f"has other results than were written at {self.labels(at)}",
                    self.path,
                    "restore it from a copy, or compute the sweep again",
                )
        is_folded = not self._late
        if is_folded and self.results_hash != self.header.results_hash:
            raise ArchiveError("has other points than were written", self.path)
        return len(places)

    def provenance(self) -> dict[str, Any]:
        """Return what the results come from, as plain values: versions, device, commands, hash."""
        header = self.header
        return {
            "schema": header.schema,
            "mrcjax_version": header.mrcjax_version,
            "created": header.created,
            "ended": header.sessions[-1].ended,
            "device": header.device,
            "precision": header.precision,
            "results_hash": self.results_hash,
            "sessions": [vars(session) for session in header.sessions],
            "spec": header.spec_text,
        }

    @property
    def results_hash(self) -> str:
        """Hash of the labels and results of all points that are done; equal for equal results."""
        return hash_of_results(self.axes, self._columns)

    def finish_s(self, at: At) -> np.ndarray | None:
        """Return when each rank has finished, (ranks,) s; None where that is not kept."""
        return next(self.finish_times([at]))

    def finish_times(self, places: Iterable[At]) -> Iterator[np.ndarray | None]:
        """Yield `finish_s` of many points; the file is opened once."""
        counts = self["finish_count"]
        with self._snapshot.opened() as file:
            stored = file.get(finish.KEY)
            for at in places:
                count = int(counts[tuple(at)])
                if not count:
                    yield None
                elif tuple(at) in self._late:
                    yield self._late_finish_s(tuple(at))
                else:
                    yield stored[tuple(at)][:count]

    def _late_finish_s(self, at: At) -> np.ndarray | None:
        segment, i = self._late[at]
        try:
            with opened(segment.path) as file:
                return file[finish.KEY][i][: self["finish_count"][at]]
        except ArchiveError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
        # it was folded into the file since
        newer = load_sweep(self.path)
        return newer.finish_s(newer.place(self.labels(at)))

    def place(self, labels: dict[str, Any]) -> At:
        """Return the place of the point with these labels; ArchiveError where there is none."""
        place = []
        for axis in self.axes:
            steps: list[tuple] = [*axis.steps()]
            wanted = tuple(labels.get(key) for key in axis.coords)
            if wanted not in steps:
                raise ArchiveError(f"has no point with {axis.name} = {wanted[0]}", self.path)
            place.append(steps.index(wanted))
        return tuple(place)

    def _read(self, key: str) -> np.ndarray:
        with self._snapshot.opened() as file:
            return read(file[key])

    def _has_finish_times(self) -> bool:
        return bool(self["finish_count"].any())

    def _all_finish_times(self) -> np.ndarray:
        if not self._has_finish_times():
            raise ArchiveError("keeps no finish times", self.path, 'sweep with keep = ["finish"]')
        counts = self["finish_count"]
        times_s = np.full((*self.shape, int(counts.max())), np.nan)
        places = list(map(tuple, np.argwhere(counts).tolist()))
        for at, finish_s in zip(places, self.finish_times(places), strict=True):
            times_s[at][: counts[at]] = finish_s
        return times_s


def load_sweep(path: str | Path) -> Sweep:
    """Open a sweep; arrays are read when they are first asked for.

    Raises:
        ArchiveError: there is no such file, or it is damaged, newer, or not that of a sweep.
    """
    target = Path(path).expanduser()
    for _ in range(_TRIES):
        # in this order: what is folded into the file after the segments are listed is seen there
        listed = segments_of(target.resolve())
        snapshot = Snapshot(target)
        with snapshot.opened() as file:
            header = read_header(file, target)
        places = Places(header.axes)
        try:
            segments = [read_segment(path, places) for path in listed]
        except ArchiveError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
        else:
            return Sweep(snapshot, header, segments)
    raise ArchiveError("changes faster than it can be read", target, "try again")
