"""Batches done by processes of this machine: handed out, collected, done again where one dies."""

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import connection
from typing import Any

from mrcjax.units import SpecError

MOST_DEATHS = 3  # of processes that had one batch in hand
POLL_S = 0.2  # between looks at whether to stop

Work = Callable[[Any], Any]
IsStopped = Callable[[], bool]


@dataclass(frozen=True)
class Lost:
    """In the place of a result: whoever did the batch died of it, again and again."""

    reason: str


def in_processes(
    work: Work,
    batches: Sequence[Any],
    jobs: int,
    prepare: Callable[[], None] | None = None,
    is_stopped: IsStopped | None = None,
) -> Iterator[tuple[int, Any]]:
    """Do batches in `jobs` processes: number and result, or `Lost`, of each as it is done.

    What a process had in hand when it died is done again, one batch at a time, so that it shows
    which of them, if any, is the cause. All processes end with the iterator, and with this process
    whatever ends it.

    Args:
        work: a function of a module, called with a batch; both and the result are pickled.
        batches: what there is to do.
        jobs: processes.
        prepare: called in each process first.
        is_stopped: asked several times a second whether to end at once.

    Raises:
        SpecError: no process can be started.
    """
    left = dict(enumerate(batches))
    deaths: Counter[int] = Counter()
    is_new = True
    while left and not (is_stopped and is_stopped()):
        suspects = {number: left[number] for number in left if deaths[number]}
        # one more than there are processes, so that none waits for its next
        most = 1 if suspects else jobs + 1
        with _processes(1 if suspects else jobs, prepare) as pool:
            if is_new:
                _refuse_without_start(pool)
                is_new = False
            for number, future in _finished(pool, work, suspects or left, most, is_stopped):
                if not isinstance(future.exception(), BrokenExecutor):
                    del left[number]
                    yield number, future.result()
                    continue
                deaths[number] += 1
                if deaths[number] == MOST_DEATHS:
                    del left[number]
                    yield number, lost(f"{MOST_DEATHS} processes died")


def lost(what: str) -> Lost:
    """A batch that is given up."""
    return Lost(f"{what} of the batch that it is in, perhaps for lack of memory; try fewer jobs")


def _finished(
    pool: Executor,
    work: Work,
    batches: Mapping[int, Any],
    most: int,
    is_stopped: IsStopped | None = None,
) -> Iterator[tuple[int, Future]]:
    """Hand out batches in order, `most` at a time: number and future of each that is done."""
    waiting = iter(list(batches.items()))
    running: dict[Future, int] = {}
    while not (is_stopped and is_stopped()):
        try:
            with _born_deaf():
                for number, batch in islice(waiting, most - len(running)):
                    running[pool.submit(work, batch)] = number
        except BrokenExecutor:
            waiting = iter(())  # those in hand say so, too
        if not running:
            return
        done, _ = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED)
        for future in done:
            yield running.pop(future), future


@contextmanager
def _processes(jobs: int, prepare: Callable[[], None] | None) -> Iterator[ProcessPoolExecutor]:
    # a fork of a process with threads, as JAX has them, may hang
    context = multiprocessing.get_context("spawn")
    with children_killed():
        pool = ProcessPoolExecutor(jobs, context, _begin, (prepare,))
        try:
            yield pool
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def children_killed() -> Iterator[None]:
    """Kill, at the end, what processes were started meanwhile."""
    others = set(multiprocessing.active_children())
    try:
        yield
    finally:
        for child in set(multiprocessing.active_children()) - others:
            child.kill()
            child.join()


@contextmanager
def _born_deaf() -> Iterator[None]:
    """Have processes that start now not hear of Ctrl-C, also before they can say so themselves."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _refuse_without_start(pool: ProcessPoolExecutor) -> None:
    try:
        with _born_deaf():
            first = pool.submit(os.getpid)
        first.result()
    except BrokenExecutor as error:
        raise SpecError(
            "no other process can be started",
            where="jobs",
            remedy="leave it out; in a script, have what it does under "
            '`if __name__ == "__main__":`',
        ) from error


def _begin(prepare: Callable[[], None] | None) -> None:
    """What a process does first."""
    heed_no_interrupt()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()


def heed_no_interrupt() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
