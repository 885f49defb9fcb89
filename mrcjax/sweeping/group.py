"""Points of a sweep that share a program: what they take, and how many make a batch."""

import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax

from mrcjax.case import build
from mrcjax.emulation import inputs_of, precision
from mrcjax.engine.plan import bound_to_ports
from mrcjax.larger import kin
from mrcjax.spec import Spec, SpecError, SweepPoint
from mrcjax.step import runs_of
from mrcjax.sweeping.batch import goes_in_batches

MOST_AT_ONCE = 32  # points of a batch; more save nothing worth having
LONGEST_S = 5.0  # that a batch may take, by the guess below: it is what a kill can lose
MEMORY_SHARE = 0.25  # of what is free

# Rough, of one core: they say in --explain what is worth waiting for, and size batches.
_SEND_S = {"ports": 2e-9, "paths": 1e-7}
_COMPILE_S = {"ports": 1.5, "paths": 6.0}


@dataclass(frozen=True)
class Group:
    """Points that differ in numbers alone and so, as far as the specs tell, share a program."""

    points: tuple[SweepPoint, ...]
    ids: tuple[str, ...]
    room: int  # points of a batch
    sends: int | None  # of a point, in the mean; None: not known before it is run
    bytes_each: int
    seconds_each: float | None
    compile_s: float
    programs: int  # to compile, as far as is known
    batched: bool
    ranks: tuple[int, ...]  # the numbers of ranks there are, in order
    example: Spec  # a point that can be built, of the most ranks, if there is one
    kin: Hashable | None = None  # see `classes`
    larger: Spec | None = None  # whose arrays all points are laid into

    @property
    def title(self) -> str:
        """What the points have in common."""
        spec = self.example
        done = spec.traffic.kind if spec.collective is None and spec.traffic else None
        work = done or f"{spec.the_collective.kind} {spec.the_collective.algorithm}"
        ranks = f"{self.ranks[0]:,} ranks"
        if len(self.ranks) > 1:
            ranks = f"{len(self.ranks)} sizes from {self.ranks[0]:,} to {self.ranks[-1]:,} ranks"
        return f"{spec.network.kind}, {ranks}, {work}, {spec.engine.kind}"

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


def group_of(members: Sequence[tuple[SweepPoint, str]], workers: int) -> Group:
    """Weigh points that differ in numbers alone, by one of them; members: with their ids."""
    points, ids = zip(*members, strict=True)
    first: Spec = points[0].spec
    batched = goes_in_batches(first)
    weighed = _Weighed(None, 2**20, "paths", 1, None)
    example = first
    for point in points[:3]:  # one of the first will do, if it can be built at all
        try:
            if batched:
                weighed, example = _weighed(point.spec), point.spec
            break
        except SpecError:
            continue
    sends, bytes_each, way, programs_, kin_ = weighed
    seconds = None if sends is None else max(sends * _SEND_S[way], 1e-5)
    return Group(
        points=tuple(points),
        ids=tuple(ids),
        room=room_of(bytes_each, seconds, len(points), workers) if batched else 1,
        sends=sends,
        bytes_each=bytes_each,
        seconds_each=seconds,
        compile_s=_COMPILE_S[way] * programs_,
        programs=programs_,
        batched=batched,
        ranks=(first.network.ranks,),
        example=example,
        kin=kin_,
    )


def room_of(bytes_each: int, seconds: float | None, points: int, workers: int) -> int:
    """Points of a batch: as many as have room in memory and are soon done."""
    fits = int(MEMORY_SHARE * free_bytes() // max(bytes_each * workers, 1))
    quick = int(LONGEST_S // seconds) if seconds else MOST_AT_ONCE
    return max(1, min(fits, quick, MOST_AT_ONCE, points))


class _Weighed(NamedTuple):
    """What a point takes: sends, bytes in a batch, the way of its sends, programs; and its kin."""

    sends: int | None
    bytes_each: int
    way: str
    programs: int
    kin: Hashable | None


def _weighed(spec: Spec) -> _Weighed:
    """Add up the runs that a point needs."""
    each = [_weighed_run(run) for run in runs_of(spec)]
    kins = tuple(one.kin for one in each)
    return _Weighed(
        sum(one.sends or 0 for one in each),
        sum(one.bytes_each for one in each),
        "paths" if any(one.way == "paths" for one in each) else "ports",
        len({one.kin or number for number, one in enumerate(each)}),
        None if None in kins else (spec.engine.precision, kins),
    )


def _weighed_run(spec: Spec) -> _Weighed:
    with precision(spec.engine.precision):
        case = build(spec)
        inputs = inputs_of(case)
    common = kin(inputs, case.config)
    phases = case.schedule.phases
    lanes = max((p.lanes for p in phases), default=1) * case.network.ranks
    # laid into larger arrays each point has indices of its own, too
    own_arrays = inputs[0] if common is None else inputs
    numbers = sum(leaf.nbytes for leaf in jax.tree.leaves(own_arrays))
    results = 8 * (case.network.num_links + case.network.ranks)
    by_ports = all(bound_to_ports(p, case.network) for p in phases)
    moving = 8 * (16 * lanes + 12 * case.network.num_links)
    # on a CPU points go one after the other, and what moves is there once
    own = 0 if jax.default_backend() == "cpu" else moving
    sends = sum(p.rounds * p.lanes for p in phases) * case.network.ranks
    way = "ports" if by_ports else "paths"
    return _Weighed(sends, numbers + results + own, way, 1, common)


def free_bytes() -> int:
    """Memory that is free where the points will be emulated."""
    if jax.default_backend() != "cpu":
        stats = jax.devices()[0].memory_stats() or {}
        if "bytes_limit" in stats:
            return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
