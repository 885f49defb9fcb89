"""The axes of a sweep, and the points that they make: one changed spec each."""

import copy
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mrcjax.spec.changing import merge, put
from mrcjax.spec.condition import Condition, parsed_condition, reason_of
from mrcjax.spec.load import spec_from_dict
from mrcjax.spec.names import Names
from mrcjax.spec.sections import Spec
from mrcjax.units import SpecError

CASE = "case"  # the axis of named changes


@dataclass(frozen=True)
class SweepAxis:
    """One axis of a sweep: keys that change together.

    coords: key -> what it is at every place, as a number in SI units or as text; the first key is
    the name. changes: for every place the tables or values to put into the spec, by key. units: of
    the keys that are quantities.
    """

    name: str
    coords: dict[str, tuple[float | str, ...]]
    changes: tuple[dict[str, Any], ...]
    units: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.changes)


@dataclass(frozen=True)
class SweepPoint:
    """One point: its place along every axis, and its spec or what is wrong with it."""

    at: tuple[int, ...]
    labels: dict[str, float | str]
    spec: Spec | None
    error: SpecError | None = None


@dataclass(frozen=True)
class SweepSpec:
    """A spec with a `[sweep]` table.

    base: the spec's other tables, as TOML gives them. keep: arrays to keep of every point.
    """

    base: dict[str, Any]
    axes: tuple[SweepAxis, ...]
    where: str | None
    keep: tuple[str, ...]

    def __len__(self) -> int:
        """Places on the grid, those that `where` leaves out included."""
        return math.prod(map(len, self.axes))

    def points(self) -> Iterator[tuple[tuple[int, ...], SweepPoint | None]]:
        """Every place with its point; None where `where` leaves it out."""
        return ((at, self.point(at)) for at in self.places())

    def places(self) -> Iterator[tuple[int, ...]]:
        """Every place, the last axis quickest."""
        return itertools.product(*(range(len(axis)) for axis in self.axes))

    def labels(self, at: tuple[int, ...]) -> dict[str, float | str]:
        """What every swept key is at a place."""
        return {
            key: values[i]
            for axis, i in zip(self.axes, at, strict=True)
            for key, values in axis.coords.items()
        }

    def raw(self, at: tuple[int, ...]) -> dict[str, Any]:
        """The tables of the spec at a place; raises SpecError where a change has no place."""
        raw = copy.deepcopy(self.base)
        for axis, i in zip(self.axes, at, strict=True):
            for key, value in axis.changes[i].items():
                if key == CASE:
                    merge(raw, value)
                else:
                    put(raw, key, copy.deepcopy(value))
        return raw

    def point(self, at: tuple[int, ...]) -> SweepPoint | None:
        """The point at a place; None where `where` leaves it out."""
        labels = self.labels(at)
        try:
            raw = self.raw(at)
            if self.where is not None and not self._is_wanted(raw, labels):
                return None
            return SweepPoint(at, labels, spec_from_dict(raw))
        except SpecError as error:
            return SweepPoint(at, labels, None, error)

    def _is_wanted(self, raw: dict[str, Any], labels: dict[str, float | str]) -> bool:
        names = Names(raw, labels)
        try:
            return self._condition.value(self._parsed, names)
        except Exception as error:
            raise no_condition(self.where, error, names) from None

    @cached_property
    def _condition(self) -> Condition:
        return Condition()

    @cached_property
    def _parsed(self) -> Any:
        return parsed_condition(self.where or "True")


def no_condition(where: str | None, error: Exception, names: Mapping[str, Any]) -> SpecError:
    """Return the error of a condition that cannot be worked out."""
    known = f"; names here: {', '.join(names)}" if names else ""
    return SpecError(
        f"cannot be worked out ({reason_of(error)})",
        where="sweep.where",
        value=where,
        remedy=f'write for example "network.ranks * network.rails <= 65536"{known}',
    )
