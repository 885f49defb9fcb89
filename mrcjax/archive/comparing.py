"""Compare two archives run by run, or point by point, within a tolerance."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mrcjax.archive.contents import Archive
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.sweep import Sweep
from mrcjax.units import SpecError

FINISH = "finish_s"
# what tells nothing about results; compared only if asked for
_LEFT_OUT = ("wall_s", "id", "result_hash", "finish_count", "device", "reason")

Stored = Archive | Sweep
Name = tuple[tuple[str, Any], ...]  # of a run or a point: its labels by key


@dataclass(frozen=True)
class Difference:
    """One column in which the archives differ.

    Attributes:
        key: of the column.
        count: number of runs or points in which it differs.
        largest: relative difference where it is largest; infinite where texts differ, or where a
            value is missing on one side.
        name: of that run or point, by key.
        first, second: the two values there; of finish times those of the rank that differs most.
    """

    key: str
    count: int
    largest: float
    name: Mapping[str, Any]
    first: Any
    second: Any


@dataclass(frozen=True)
class Comparison:
    """What differs between two archives; `differences` are sorted, the largest first."""

    compared: int  # runs or points that both have
    keys: tuple[str, ...]  # columns compared
    differences: tuple[Difference, ...]
    only_first: tuple[Mapping[str, Any], ...]  # names of runs or points
    only_second: tuple[Mapping[str, Any], ...]
    keys_only_first: tuple[str, ...]  # columns that only one has: told, but no difference
    keys_only_second: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether both have the same runs or points, with equal values in all columns compared."""
        return not (self.differences or self.only_first or self.only_second)


def differ(
    first: Stored, second: Stored, rtol: float = 1e-9, columns: Sequence[str] = ()
) -> Comparison:
    """Compare two archives: runs by their names, points of sweeps by their labels.

    Numbers are equal if they differ by no more than `rtol` of the larger one.

    Args:
        first, second: archives, both of runs or both of sweeps over the same axes.
        rtol: relative tolerance.
        columns: keys to compare; none: all that both have, but for the time that computing took,
            the device, and hashes. Finish times are "finish_s".

    Raises:
        ArchiveError: the archives are of different kinds, or over different axes.
        SpecError: a column is in neither or only one of them.
    """
    a, b = _named_rows(first), _named_rows(second)
    _refuse_unlike(first, second)
    keys, only_a, only_b = _keys(first, second, columns)
    both = [name for name in a if name in b]
    found = [_of_column(key, both, a, b, rtol) for key in keys if key != FINISH]
    if FINISH in keys:
        found.append(_of_finish_times(first, second, both, a, b, rtol))
    differences = [difference for difference in found if difference is not None]
    return Comparison(
        compared=len(both),
        keys=tuple(keys),
        differences=tuple(sorted(differences, key=lambda d: -d.largest)),
        only_first=tuple(dict(name) for name in a if name not in b),
        only_second=tuple(dict(name) for name in b if name not in a),
        keys_only_first=only_a,
        keys_only_second=only_b,
    )


def _named_rows(stored: Stored) -> dict[Name, dict[str, Any]]:
    """Return the rows by name; each with its place in the archive under ""."""
    if isinstance(stored, Archive):
        return {(("run", row["run"]),): {"": row["run"], **row} for row in stored.table()}
    places = list(stored.places("done", "failed"))
    rows = stored.rows("done", "failed")
    return {
        tuple(stored.labels(at).items()): {"": at, **row}
        for at, row in zip(places, rows, strict=True)
    }


def _refuse_unlike(first: Stored, second: Stored) -> None:
    if isinstance(first, Sweep) != isinstance(second, Sweep):
        kinds = ["a sweep" if isinstance(s, Sweep) else "runs" for s in (first, second)]
        raise ArchiveError(
            f"holds {kinds[0]} and {second.path} {kinds[1]}", first.path, "compare like with like"
        )
    if isinstance(first, Sweep) and isinstance(second, Sweep):
        over = [[list(axis.coords) for axis in sweep.axes] for sweep in (first, second)]
        if over[0] != over[1]:
            said = [", ".join(" with ".join(keys) for keys in axes) for axes in over]
            raise ArchiveError(
                f"is a sweep over {said[0]}, and {second.path} over {said[1]}",
                first.path,
                "compare sweeps over the same keys",
            )


def _all_keys(stored: Stored) -> list[str]:
    if isinstance(stored, Archive):
        return [*stored.columns, FINISH]
    return [*stored.variables, *([FINISH] if FINISH in stored else [])]


def _keys(
    first: Stored, second: Stored, columns: Sequence[str]
) -> tuple[list[str], tuple[str, ...], tuple[str, ...]]:
    a, b = _all_keys(first), _all_keys(second)
    for key in columns:
        for keys, stored in ((a, first), (b, second)):
            if key not in keys:
                raise SpecError(
                    f"is no column of {stored.path}",
                    where="--columns",
                    value=key,
                    remedy=f"use {', '.join(key for key in a if key in b)}",
                )
    if columns:
        return list(columns), (), ()
    a, b = ([key for key in keys if key not in _LEFT_OUT] for keys in (a, b))
    both = [key for key in a if key in b]
    return both, tuple(k for k in a if k not in b), tuple(k for k in b if k not in a)


def _of_column(
    key: str, both: Sequence[Name], a: Mapping, b: Mapping, rtol: float
) -> Difference | None:
    pairs = [(a[name][key], b[name][key]) for name in both]
    if any(isinstance(value, str) for pair in pairs for value in pair):
        apart = np.array([0.0 if x == y else np.inf for x, y in pairs])
    else:
        apart = _apart(*np.array(pairs, dtype=np.float64).reshape(-1, 2).T)
    if not (apart > rtol).any():
        return None
    worst = int(apart.argmax())
    return Difference(
        key, int((apart > rtol).sum()), float(apart[worst]), dict(both[worst]), *pairs[worst]
    )


def _apart(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the relative differences; infinite where one is missing or infinite alone."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(x - y) / np.maximum(np.abs(x), np.abs(y))
    is_equal = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(is_equal, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _of_finish_times(
    first: Stored, second: Stored, both: Sequence[Name], a: Mapping, b: Mapping, rtol: float
) -> Difference | None:
    """Compare finish times rank by rank, of those that both keep."""
    count, found = 0, None
    times = [
        _finish_times(stored, [rows[name][""] for name in both])
        for stored, rows in ((first, a), (second, b))
    ]
    for name, x, y in zip(both, *times, strict=True):
        if x is None or y is None:
            continue
        apart = _apart(x, y) if x.shape == y.shape else np.full(1, np.inf)
        worst = int(apart.argmax()) if apart.size else -1
        if apart.size and apart[worst] > rtol:
            count += 1
            if found is None or apart[worst] > found.largest:
                pair = float(x[worst]), float(y[worst])
                found = Difference(FINISH, 0, float(apart[worst]), dict(name), *pair)
    return None if found is None else replace(found, count=count)


def _finish_times(stored: Stored, places: Sequence[Any]) -> Iterator[np.ndarray | None]:
    if isinstance(stored, Sweep):
        return stored.finish_times(places)
    return (stored.runs[name].finish_s for name in places)
