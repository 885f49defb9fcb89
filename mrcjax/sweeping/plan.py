"""In which order a sweep's points are emulated, how many at a time, and what that will take."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import msgspec

from mrcjax.case import build
from mrcjax.emulation import inputs_of, precision
from mrcjax.engine.plan import bound_to_ports
from mrcjax.spec import Spec, SpecError, SweepPoint
from mrcjax.sweeping.batch import goes_in_batches
from mrcjax.sweeping.identity import identity
from mrcjax.units import Quantity

At = tuple[int, ...]
Placed = tuple[At, SweepPoint | None]

MOST_AT_ONCE = 32  # points of a batch; more save nothing worth having
LONGEST_S = 5.0  # that a batch may take, by the guess below: it is what a kill can lose
MEMORY_SHARE = 0.25  # of what is free

# Rough, of one core: they say in --explain what is worth waiting for, and size batches.
_SEND_S = {"ports": 2e-9, "paths": 1e-7}
_COMPILE_S = {"ports": 1.5, "paths": 6.0}


@dataclass(frozen=True)
class Group:
    """Points that differ in numbers alone and so, as far as the specs tell, share a program."""

    title: str
    points: tuple[SweepPoint, ...]
    ids: tuple[str, ...]
    room: int  # points of a batch
    sends: int | None  # of a point; None: not known before it is run
    bytes_each: int
    seconds_each: float | None
    compile_s: float
    batched: bool

    @property
    def batches(self) -> int:
        """Batches of the group."""
        return -(-len(self.points) // self.room)

    def parts(self, workers: int = 1) -> Iterator[tuple[tuple[SweepPoint, ...], tuple[str, ...]]]:
        """Points and ids of every batch; of each worker one, at least, if there are enough."""
        size = min(self.room, -(-len(self.points) // workers))
        for first in range(0, len(self.points), size):
            part = slice(first, first + size)
            yield self.points[part], self.ids[part]


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
        return len(self.groups)

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
    groups = tuple(_group(members, workers) for members in alike.values())
    return Plan(groups, tuple(excluded), tuple(failed), known)


def _group(members: Sequence[tuple[SweepPoint, str]], workers: int) -> Group:
    points, ids = zip(*members, strict=True)
    first: Spec = points[0].spec
    batched = goes_in_batches(first)
    sends, bytes_each, way = None, 2**20, "paths"
    for point in points[:3]:  # one of the first will do, if it can be built at all
        try:
            if batched:
                sends, bytes_each, way = _weighed(point.spec)
            break
        except SpecError:
            continue
    seconds = None if sends is None else max(sends * _SEND_S[way], 1e-5)
    room = 1
    if batched:
        fits = int(MEMORY_SHARE * free_bytes() // max(bytes_each * workers, 1))
        quick = int(LONGEST_S // seconds) if seconds else MOST_AT_ONCE
        room = max(1, min(fits, quick, MOST_AT_ONCE, len(points)))
    return Group(
        title=_title(first),
        points=tuple(points),
        ids=tuple(ids),
        room=room,
        sends=sends,
        bytes_each=bytes_each,
        seconds_each=seconds,
        compile_s=_COMPILE_S[way],
        batched=batched,
    )


def _weighed(spec: Spec) -> tuple[int, int, str]:
    """Sends of a point, bytes that it takes in a batch, and the way its sends are taken."""
    with precision(spec.engine.precision):
        case = build(spec)
        arrays = jax.tree.leaves(inputs_of(case)[0])
    phases = case.schedule.phases
    lanes = max((p.lanes for p in phases), default=1) * case.network.ranks
    numbers = sum(leaf.nbytes for leaf in arrays)
    results = 8 * (case.network.num_links + case.network.ranks)
    by_ports = all(bound_to_ports(p, case.network) for p in phases)
    moving = 8 * (16 * lanes + 12 * case.network.num_links)
    # on a CPU points go one after the other, and what moves is there once
    own = 0 if jax.default_backend() == "cpu" else moving
    sends = sum(p.rounds * p.lanes for p in phases) * case.network.ranks
    return sends, numbers + results + own, "ports" if by_ports else "paths"


def _title(spec: Spec) -> str:
    done = spec.traffic.kind if spec.collective is None and spec.traffic else None
    work = done or f"{spec.the_collective.kind} {spec.the_collective.algorithm}"
    return f"{spec.network.kind}, {spec.network.ranks:,} ranks, {work}, {spec.engine.kind}"


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


def free_bytes() -> int:
    """Memory that is free where the points will be emulated."""
    if jax.default_backend() != "cpu":
        stats = jax.devices()[0].memory_stats() or {}
        if "bytes_limit" in stats:
            return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
