"""A sweep's batches handed to others: processes of this machine, or a Dask cluster."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mrcjax.spec import Spec
from mrcjax.sweeping.batch import emulate_batch
from mrcjax.sweeping.cluster import LOCAL, on_cluster
from mrcjax.sweeping.plan import Group
from mrcjax.sweeping.result import Result
from mrcjax.sweeping.workers import IsStopped, Lost, in_processes
from mrcjax.units import SpecError

PRESUMED = 8  # workers of a cluster that was not asked yet: a group is no fewer batches

Part = tuple[Group, Sequence[Any], Sequence[str]]  # points and ids of a batch
Batch = tuple[list[Spec], int, tuple[str, ...], Spec | None]  # arguments of `emulate_batch`


@dataclass(frozen=True)
class Workers:
    """Who does the batches.

    jobs: processes, or workers of a Dask cluster of this machine; None: one, or one per core.
    scheduler: address of a Dask scheduler, or "local"; None: no Dask. prepare: called in each
    worker first.
    """

    jobs: int | None = None
    scheduler: str | None = None
    prepare: Callable[[], None] | None = None

    def __post_init__(self):
        if self.jobs is not None and self.jobs < 1:
            raise SpecError("must be 1 or more", where="jobs", value=self.jobs)
        if self.jobs is not None and self.scheduler not in (None, LOCAL):
            raise SpecError(
                "does not go with a scheduler, which has the workers that it has",
                where="jobs",
                value=self.jobs,
                remedy='leave it out, or use scheduler = "local"',
            )

    @property
    def are_others(self) -> bool:
        """Whether anyone but this process does the batches."""
        return self.scheduler is not None or self.number > 1

    @property
    def number(self) -> int:
        """How many there are, about."""
        if self.scheduler is None or self.jobs is not None:
            return self.jobs or 1
        return (os.cpu_count() or 1) if self.scheduler == LOCAL else PRESUMED

    @property
    def sharing(self) -> int:
        """How many share the memory of this machine."""
        return 1 if self.scheduler not in (None, LOCAL) else self.number


def handed_out(
    parts: Iterable[Part],
    keep: tuple[str, ...],
    workers: Workers,
    is_stopped: IsStopped | None = None,
) -> Iterator[tuple[Part, list[Result]]]:
    """Results of every batch, as they are done; they are those of `emulate_batch` here.

    Of a batch that kills whoever does it each point is tried alone.
    """
    given = list(parts)
    batches: list[Batch] = [
        ([point.spec for point in points], group.room, keep, group.larger)
        for group, points, _ in given
    ]
    alone: list[Part] = []
    for number, found in _each(batches, workers, is_stopped):
        group, points, ids = given[number]
        if not isinstance(found, Lost):
            yield given[number], found
        elif len(points) == 1:
            yield given[number], [Result(reason=found.reason)]
        else:
            single = replace(group, room=1, larger=None)
            alone += [(single, (p,), (i,)) for p, i in zip(points, ids, strict=True)]
    if alone:
        yield from handed_out(alone, keep, workers, is_stopped)


def _each(
    batches: Sequence[Batch], workers: Workers, is_stopped: IsStopped | None
) -> Iterator[tuple[int, Any]]:
    if workers.scheduler is None:
        return in_processes(emulate_part, batches, workers.number, workers.prepare, is_stopped)
    asked = (workers.scheduler, workers.jobs, workers.prepare, is_stopped)
    return on_cluster(emulate_part, batches, *asked)


def emulate_part(batch: Batch) -> list[Result]:
    """Emulate a batch, as a worker does."""
    return emulate_batch(*batch)
