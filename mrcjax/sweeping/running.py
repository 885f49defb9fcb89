"""`sweep`: emulate every point of a sweep that is not done yet, and keep each batch at once."""

import functools
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mrcjax.archive import ArchiveError, Axis, Point, Sweep, load_sweep, sweep_writer
from mrcjax.spec import Spec, SpecError, SweepSpec, sweep_to_toml
from mrcjax.spec import load_sweep as load_sweep_spec
from mrcjax.spec.sweep import CASE
from mrcjax.sweeping.batch import (
    NO_ROOM,
    Prepared,
    Running,
    finish,
    launch,
    one_by_one,
    prepare,
)
from mrcjax.sweeping.handing import Part, Workers, handed_out
from mrcjax.sweeping.plan import Group, make_plan
from mrcjax.sweeping.result import Result

AHEAD = 2  # batches that are built and compiled while one runs

Report = Callable[[str], None]


def sweep(
    spec: SweepSpec | str | Path,
    out: str | Path | None = None,
    *,
    set: Sequence[str] = (),
    resume: bool = False,
    jobs: int | None = None,
    scheduler: str | None = None,
    command: str = "",
    report: Report | None = None,
    is_stopped: Callable[[], bool] | None = None,
    begin: Callable[[], None] | None = None,
) -> Sweep:
    """Emulate all points of a sweep; what `mrcjax sweep` does.

    Points of equal arrays run many at once, by one compiled program; so do numbers of ranks that
    differ, where that is cheaper than compiling. Every finished batch is on disk before the next
    one is waited for.

    Args:
        spec: a spec with a `[sweep]` table, its file or its text.
        out: the archive, HDF5; without it output.file of the spec.
        set: overrides as of the command line; one with several values is swept over.
        resume: do only what the archive lacks; the sweep may have grown since. Points whose
            finish times are asked for and were not kept are done again.
        jobs: processes that share the batches; a script that asks for several has what it does
            under `if __name__ == "__main__":`.
        scheduler: address of a Dask scheduler whose workers share them, or "local" for a cluster
            of this machine, of `jobs` workers or one for each core; needs the extra `cluster`.
        command: the command line, for the archive.
        report: told in words how far it is.
        is_stopped: asked whether to end early, with what is done: between batches, or at any time
            where others do them.
        begin: a function of a module, called in each of the others first.

    Raises:
        SpecError: the sweep cannot be read, not one of its points can be run, or there is no such
            scheduler.
        ArchiveError: the archive cannot be written, or holds something else, or points of another
            spec beside those that are asked for.
    """
    asked = spec if isinstance(spec, SweepSpec) else load_sweep_spec(spec, set)
    target = out if out is not None else asked.base.get("output", {}).get("file")
    if target is None:
        raise SpecError(
            "is needed: points are kept as they are finished",
            where="output.file",
            remedy="name an archive with --out FILE.h5",
        )
    workers = Workers(jobs, scheduler, begin)
    _sweep_into(target, asked, resume, workers, command, report, is_stopped)
    return load_sweep(target)


def _sweep_into(
    target: str | Path,
    asked: SweepSpec,
    resume: bool,
    workers: Workers,
    command: str,
    report: Report | None,
    is_stopped: Callable[[], bool] | None,
) -> None:
    axes = [Axis(axis.name, axis.coords, axis.units) for axis in asked.axes]
    text = sweep_to_toml(asked)
    if resume:
        _refuse_mixture(target, asked, axes)
    placed = list(asked.points())
    excluded = [at for at, point in placed if point is None]
    with sweep_writer(
        target, axes, excluded=excluded, spec_text=text, command=command, resume=resume
    ) as writer:
        is_done = functools.partial(writer.has, with_finish="finish" in asked.keep)
        plan = make_plan(placed, is_done, workers.sharing)
        writer.add(
            Point(point.at, id_, "failed", str(point.error), {}, None) for point, id_ in plan.failed
        )
        progress = Progress(plan.points, report)
        parts = _parts(plan.groups, workers.number)
        if workers.are_others:
            every = handed_out(parts, asked.keep, workers, is_stopped)
        else:
            every = in_turn(parts, asked.keep)
        for part, results in every:
            _, points, ids = part
            new = map(_kept, points, ids, results)
            # a point that is done again for its finish times, and fails now, stays as it was
            writer.add(p for p in new if p.status == "done" or not writer.has(p.at, p.id))
            progress.more(len(points))
            if is_stopped is not None and is_stopped():
                break


def _refuse_mixture(target: str | Path, asked: SweepSpec, axes: Sequence[Axis]) -> None:
    """Refuse an archive with points of another spec that this sweep would not do again."""
    try:
        held = load_sweep(target)
        before = load_sweep_spec(held.header.spec_text)
    except (ArchiveError, SpecError):
        return  # there is none, or the writer says what is wrong with it
    steps = [set(axis.steps()) for axis in axes]
    theirs = [axis.steps() for axis in held.axes]
    others = sum(
        any(step[i] not in ours for step, i, ours in zip(theirs, at, steps, strict=False))
        for at in held.places("done", "failed")
    )
    if others and _unswept(before) != _unswept(asked):
        raise ArchiveError(
            f"holds {others:,} points of a spec that differs in more than what is swept over, "
            "and this sweep would leave them as they are",
            held.path,
            "ask for their labels, too, or name another file",
        )


def _unswept(asked: SweepSpec) -> Any:
    """What all points of a sweep share, and the changes of cases."""
    base = {key: table for key, table in asked.base.items() if key != "output"}
    return base, *(axis.changes for axis in asked.axes if axis.name == CASE)


def _parts(groups: Iterable[Group], workers: int) -> Iterator[Part]:
    for group in groups:
        for points, ids in group.parts(workers):
            yield group, points, ids


def _kept(point: Any, id_: str, result: Result) -> Point:
    status = "failed" if result.reason else "done"
    return Point(point.at, id_, status, result.reason, result.values, result.finish_s)


def in_turn(parts: Iterable[Part], keep: tuple[str, ...]) -> Iterator[tuple[Part, list[Result]]]:
    """Results of every batch, in this process: one runs while the next are built and compiled."""
    running: tuple[Part, Running] | None = None
    with ThreadPoolExecutor(AHEAD, "batch") as pool:
        ready: deque[tuple[Part, Future[Prepared]]] = deque()
        coming = iter(parts)

        def order_more() -> None:
            for part in itertools.islice(coming, AHEAD - len(ready)):
                group, batch = part[0], _specs(part)
                future = pool.submit(prepare, batch, group.room, keep, group.larger)
                ready.append((part, future))

        try:
            order_more()
            while ready:
                part, prepared = ready.popleft()
                order_more()
                try:
                    following = part, launch(prepared.result())
                except NO_ROOM:
                    if running is not None:
                        yield running[0], _finished(*running, keep)
                    running = None
                    yield part, one_by_one(_specs(part), keep)
                    continue
                if running is not None:
                    yield running[0], _finished(*running, keep)
                running = following
            if running is not None:
                yield running[0], _finished(*running, keep)
        finally:
            for _, prepared in ready:
                prepared.cancel()


def _specs(part: Part) -> list[Spec]:
    return [point.spec for point in part[1]]


def _finished(part: Part, running: Running, keep: tuple[str, ...]) -> list[Result]:
    try:
        return finish(running)
    except NO_ROOM:
        return one_by_one(_specs(part), keep)


class Progress:
    """Tells how many points are done, how quickly they come and how long the rest will take."""

    def __init__(self, total: int, report: Report | None):
        self.total, self.report, self.done = total, report, 0
        self.started = time.monotonic()
        self.more(0)

    def more(self, points: int) -> None:
        """Count points that are done."""
        self.done += points
        if self.report is None:
            return
        taken_s = time.monotonic() - self.started
        text = f"{self.done:,} of {self.total:,} points"
        if self.done and taken_s > 0:
            rate = self.done / taken_s
            text += f", {rate:,.3g} a second, {(self.total - self.done) / rate:,.0f} s left"
        self.report(text)
