"""The axes of a sweep and its points, and how axes grow when a sweep is extended."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mrcjax.archive.dataset import storable

Label = str | int | float | bool
At = tuple[int, ...]  # index of a label on every axis

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Axis:
    """One dimension of a sweep: one swept key, or several that change together.

    Attributes:
        name: of the dimension, its first swept key ("network.ranks") or "case".
        coords: key -> labels, equally many for every key, in SI units where they are quantities;
            the first key is `name`. Labels of a key are all numbers, all booleans or all texts:
            what is mixed becomes text.
        units: key -> unit of its labels, for those that have one.
    """

    name: str
    coords: Mapping[str, Sequence[Label]]
    units: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        plain = {key: _of_one_type(labels) for key, labels in self.coords.items()}
        object.__setattr__(self, "coords", plain)
        counts = {len(labels) for labels in plain.values()}
        if next(iter(plain), None) != self.name or len(counts) != 1:
            raise ValueError(f"axis {self.name}: equally many labels, the first key is its name")
        if len(set(self.steps())) != len(self):
            raise ValueError(f"axis {self.name} has the same labels twice")

    def __len__(self) -> int:
        return len(self.coords[self.name])

    def steps(self) -> list[tuple[Label, ...]]:
        """Return the labels of all keys, step by step."""
        return list(zip(*self.coords.values(), strict=True))


@dataclass(frozen=True)
class Point:
    """One point of a sweep, computed or failed.

    Attributes:
        at: index of its label on every axis.
        id: hash of what it depends on: its spec and the version of the code.
        status: "done" | "failed".
        reason: why it failed, or "".
        values: its scalars, in SI units; a key that is absent is a missing value.
        finish_s: (ranks,) s, when each rank has finished; None where that is not kept.
    """

    at: At
    id: str
    status: str = "done"
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    finish_s: np.ndarray | None = None


def merged(old: Sequence[Axis], new: Sequence[Axis]) -> tuple[Axis, ...]:
    """Return axes with the labels of both, those of `old` first; ValueError where keys differ.

    Numbers that ascend in both ascend in the result.
    """
    if [list(axis.coords) for axis in old] != [list(axis.coords) for axis in new]:
        raise ValueError("other axes")
    return tuple(_joined(a, b) for a, b in zip(old, new, strict=True))


class Places:
    """Where labels stand on axes."""

    def __init__(self, axes: Sequence[Axis]):
        self._axes = axes
        self._steps = [{step: i for i, step in enumerate(axis.steps())} for axis in axes]

    def of(self, inner: Sequence[Axis]) -> list[np.ndarray]:
        """Return the indices of the labels of other axes, axis by axis; KeyError for others."""
        return [
            np.array([steps[step] for step in _as_on(axis, small).steps()], dtype=np.int64)
            for axis, small, steps in zip(self._axes, inner, self._steps, strict=True)
        ]


def narrowed(axes: Sequence[Axis], at: Sequence[At]) -> tuple[tuple[Axis, ...], np.ndarray]:
    """Return axes with only the labels of some points, and the places of these on them."""
    columns = np.array(at, dtype=np.int64).reshape(len(at), len(axes)).T
    used, places = zip(*(np.unique(column, return_inverse=True) for column in columns), strict=True)
    small = tuple(
        Axis(axis.name, {k: [labels[i] for i in some] for k, labels in axis.coords.items()})
        for axis, some in zip(axes, (u.tolist() for u in used), strict=True)
    )
    return small, np.stack(places, axis=1)


def _as_on(axis: Axis, small: Axis) -> Axis:
    """Return an axis with its labels of the types that they have on another one."""
    if list(axis.coords) != list(small.coords):
        raise KeyError(small.name)
    coords = {
        key: [type(axis.coords[key][0])(label) for label in labels]
        for key, labels in small.coords.items()
    }
    return Axis(small.name, coords)


def _joined(old: Axis, new: Axis) -> Axis:
    columns = [_of_one_type([*old.coords[key], *new.coords[key]]) for key in old.coords]
    steps = list(dict.fromkeys(zip(*columns, strict=True)))
    if _ascends(columns[0][: len(old)]) and _ascends(columns[0][len(old) :]):
        steps.sort(key=lambda step: step[0])
    labels = map(list, zip(*steps, strict=True))
    coords = dict(zip(old.coords, labels, strict=True))
    return Axis(old.name, coords, {**old.units, **new.units})


def _ascends(labels: Sequence[Label]) -> bool:
    return not any(isinstance(label, str) for label in labels) and list(labels) == sorted(labels)


def _of_one_type(labels: Sequence[Any]) -> list[Label]:
    # NumPy's numbers and quantities with a unit become plain ones
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    types = {type(label) for label in plain}
    if types <= {bool}:
        return plain
    if types <= {int} and all(label in _INT64 for label in plain):
        return plain
    if not types & {bool, str} and all(isinstance(label, int | float) for label in plain):
        with suppress(OverflowError):
            if all(float(label) == label for label in plain):
                return [float(label) for label in plain]
    return [label if type(label) is str else storable(str(label)) for label in plain]
