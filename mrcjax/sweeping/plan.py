"""In which order a sweep's points are emulated, how many at a time, and what that will take."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from mrcjax.spec import SweepPoint
from mrcjax.sweeping.classes import classes
from mrcjax.sweeping.group import Group, group_of
from mrcjax.sweeping.identity import identity
from mrcjax.units import Quantity

At = tuple[int, ...]
Placed = tuple[At, SweepPoint | None]


@dataclass(frozen=True)
class Plan:
    """What a sweep is going to do."""

    groups: tuple[Group, ...]
    excluded: tuple[tuple[int, ...], ...]  # places that the condition leaves out
    failed: tuple[tuple[SweepPoint, str], ...]  # points whose spec is wrong, with ids
    known: int  # points that are done already

    @property
    def points(self) -> int:
        """Points to emulate."""
        return sum(len(group.points) for group in self.groups)

    @property
    def compilations(self) -> int:
        """Programs to compile, at least."""
        return sum(group.programs for group in self.groups)

    def rows(self) -> list[dict[str, Any]]:
        """One line per group for `--explain`."""
        return [
            {
                "points": len(group.points),
                "alike": group.title,
                "batches": f"{group.batches} of {group.room}" if group.batched else "one by one",
                "sends of a point": "" if group.sends is None else f"{group.sends:,}",
                "memory of a batch": f"{group.room * group.bytes_each / 2**20:,.1f} MiB",
                "compiling, about": f"{group.compile_s:.0f} s",
                "running, about": ""
                if group.seconds_each is None
                else f"{group.seconds_each * len(group.points):,.1f} s",
            }
            for group in self.groups
        ]


def make_plan(
    points: Iterable[Placed], is_done: Callable[[At, str], bool] | None = None, workers: int = 1
) -> Plan:
    """Group the points of a sweep; those that are done need nothing more.

    points: as `SweepSpec.points` gives them. workers: how many share the memory.
    """
    excluded: list[tuple[int, ...]] = []
    failed: list[tuple[SweepPoint, str]] = []
    alike: dict[Any, list[tuple[SweepPoint, str]]] = {}
    known = 0
    for at, point in points:
        if point is None:
            excluded.append(at)
        elif point.spec is None:
            failed.append((point, ""))
        else:
            id_ = identity(point.spec)
            if is_done is not None and is_done(at, id_):
                known += 1
            else:
                alike.setdefault(_shape(point.spec), []).append((point, id_))
    groups = classes([group_of(members, workers) for members in alike.values()], workers)
    return Plan(groups, tuple(excluded), tuple(failed), known)


def _shape(value: Any) -> Any:
    """A spec without its numbers: what remains decides the shapes of arrays.

    Of quantities and fractions only counts whether they are zero, since what is absent is not
    computed.
    """
    if isinstance(value, msgspec.Struct):
        return (
            type(value).__name__,
            *(
                "seed" if key == "seed" else _shape(getattr(value, key))
                for key in value.__struct_fields__
                if key != "output"
            ),
        )
    if isinstance(value, Quantity | float):
        return value != 0
    if isinstance(value, tuple | list):
        return tuple(_shape(inner) for inner in value)
    if isinstance(value, dict):
        return tuple((str(key), _shape(inner)) for key, inner in value.items())
    return value
