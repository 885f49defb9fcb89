"""Batches done by the workers of a Dask cluster, on this machine or on others."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from mrcjax.sweeping.identity import code_version
from mrcjax.sweeping.workers import POLL_S, IsStopped, Lost, Work, heed_no_interrupt, lost
from mrcjax.units import SpecError

LOCAL = "local"
PATIENCE_S = 60  # for a scheduler to answer, and for its first worker
GATHERING_S = 5  # for a result to come from its worker, until others are looked at
ENDING_S = 0.5  # for a worker of this machine to end by itself
EACH = 2  # batches of a worker's thread at a time: one in hand, one on its way

_prepared: list[Callable[[], None]] = []  # in a worker: what was called


@dataclass(frozen=True)
class Task:
    """Work as a worker gets it; it refuses to do it by other code."""

    work: Work
    prepare: Callable[[], None] | None
    version: str

    def __call__(self, batch: Any) -> Any:
        """Do a batch."""
        if code_version() != self.version:
            raise SpecError(
                "has workers with another version of mrcjax or JAX, whose results may differ",
                where="scheduler",
                remedy="install the same on all machines",
            )
        if self.prepare is not None and self.prepare not in _prepared:
            self.prepare()
            _prepared.append(self.prepare)
        return self.work(batch)


def on_cluster(
    work: Work,
    batches: Sequence[Any],
    scheduler: str,
    jobs: int | None = None,
    prepare: Callable[[], None] | None = None,
    is_stopped: IsStopped | None = None,
) -> Iterator[tuple[int, Any]]:
    """Do batches on a Dask cluster: number and result, or `Lost`, of each as it is done.

    Dask does again what a worker had in hand when it died, on another. Arguments as of
    `in_processes`.

    Args:
        work: a function of a module, called with a batch; both and the result are pickled.
        batches: what there is to do.
        scheduler: its address, or "local" for workers of this machine.
        jobs: workers of this machine; None: one for each core.
        prepare: called in each worker first.
        is_stopped: asked several times a second whether to end at once.

    Raises:
        SpecError: Dask is not installed, no scheduler or no worker is there, or the workers have
            other code.
    """
    distributed = _distributed()
    task = Task(work, prepare, code_version())
    with _client(distributed, scheduler, jobs) as client:
        most = EACH * sum(client.nthreads().values())
        given = iter(enumerate(batches))
        running: dict[Any, int] = {}
        while not (is_stopped and is_stopped()):
            for number, batch in islice(given, most - len(running)):
                running[client.submit(task, batch, pure=False)] = number
            if not running:
                return
            try:
                done, _ = distributed.wait(list(running), POLL_S, "FIRST_COMPLETED")
            except TimeoutError:
                continue
            except CancelledError as error:
                raise _scheduler_lost(scheduler) from error
            for future in done:
                try:
                    found = _result(distributed, future, scheduler)
                except TimeoutError:  # it went with a worker that died, and is done again
                    continue
                yield running.pop(future), found


def _result(distributed: Any, future: Any, scheduler: str) -> Any | Lost:
    try:
        return future.result(timeout=GATHERING_S)
    except distributed.KilledWorker:
        return lost("several workers died")
    except CancelledError as error:
        raise _scheduler_lost(scheduler) from error
    except ModuleNotFoundError as error:
        raise SpecError(
            f"has workers that lack {error.name}",
            where="scheduler",
            value=scheduler,
            remedy="install mrcjax on all machines",
        ) from error


def _scheduler_lost(scheduler: str) -> SpecError:
    return SpecError(
        "was lost; what is finished is kept",
        where="scheduler",
        value=scheduler,
        remedy="start it again, and go on with --resume",
    )


def _distributed() -> Any:
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise SpecError(
            "needs Dask, which is not installed",
            where="scheduler",
            remedy='pip install "mrcjax[cluster]"',
        ) from error
    return distributed


@contextmanager
def _client(distributed: Any, scheduler: str, jobs: int | None) -> Iterator[Any]:
    # that a worker died and is replaced is what Dask is there for; what matters is raised
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if scheduler == LOCAL:
        with _local(distributed, jobs) as client:
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=PATIENCE_S)
    except (OSError, ValueError) as error:  # a time that is over is an OSError, too
        raise SpecError(
            "is no address where a Dask scheduler answers",
            where="scheduler",
            value=scheduler,
            remedy='start one with `dask scheduler`, or use "local"',
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError as error:
            raise SpecError(
                "has no workers",
                where="scheduler",
                value=scheduler,
                remedy=f"start some with `dask worker {scheduler}`",
            ) from error
        yield client


@contextmanager
def _local(distributed: Any, jobs: int | None) -> Iterator[Any]:
    import dask.config

    with (
        # else a worker that dies a second time within this is not replaced
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}),
        distributed.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            preload=[__name__],
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        try:
            yield client
        finally:
            client.sync(_end, list(cluster.workers.values()))


async def _end(nannies: list[Any]) -> None:
    """End workers at once; asked to close, each would finish its batch first."""
    for nanny in nannies:
        nanny.close_gracefully()  # starts no other in its place
    ends = (nanny.kill(timeout=ENDING_S) for nanny in nannies)
    await asyncio.gather(*ends, return_exceptions=True)


def dask_setup(worker: Any) -> None:
    """What Dask calls in a worker of this machine when it begins."""
    del worker
    heed_no_interrupt()
