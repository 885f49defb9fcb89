"""Emulate every run of the comparison in a few threads; what is alike is done once."""

import os
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

import msgspec

from mrcjax.comparison.rows import Row, all_reduce_spec, step_spec
from mrcjax.emulation import run
from mrcjax.network.inventory import Inventory, inventory
from mrcjax.outcome import Outcome
from mrcjax.spec import FlatRails, Spec
from mrcjax.step import TrainingOutcome, network_watts, train
from mrcjax.training import RunCost, run_cost

ALGORITHMS = ("direct", "ring")
_MOST_THREADS = 4  # XLA compiles outside Python's lock; some compilations use several cores

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Results:
    """All runs of one row.

    all_reduces: table a: by algorithm, over all ranks without nodes; table b: by GPU.
    steps: table a: by algorithm of the buckets; table b: by GPU.
    """

    row: Row
    all_reduces: dict[str, Outcome] = field(default_factory=dict)
    steps: dict[str, TrainingOutcome] = field(default_factory=dict)

    @property
    def inventory(self) -> Inventory:
        """What the network is built of; the same for every step."""
        return next(iter(self.steps.values())).inventory

    @property
    def network_w(self) -> float:
        """Power of switches and modules; known for every row."""
        watts = self.inventory.watts_without_nics
        assert watts is not None
        return watts

    def runs(self) -> dict[str, Outcome]:
        """Every outcome by its name in the archive."""
        start = f"{self.row.part}-{self.row.key}"
        named = {f"{start}-all_reduce-{key}": outcome for key, outcome in self.all_reduces.items()}
        seen: list[Outcome] = []
        for key, trained in self.steps.items():
            for bucket, outcome in trained.outcomes.items():
                if not any(outcome is other for other in seen):
                    seen.append(outcome)
                    named[f"{start}-bucket-{bucket}-{key}"] = outcome
        return named


def passive(results: Results) -> tuple[Inventory, dict[str, RunCost]]:
    """Return hardware and run costs, by GPU, with the rails as passive optical planes."""
    network = results.row.spec.network
    assert isinstance(network, FlatRails)
    materials = inventory(msgspec.structs.replace(network, plane="optical"))
    watts, usd = network_watts(materials), materials.usd_with_nics
    assert watts is not None
    assert usd is not None
    costs = {}
    for gpu, trained in results.steps.items():
        training = results.row.training(gpu)
        costs[gpu] = run_cost(training, trained.step, network.ranks, watts, usd)
    return materials, costs


def emulate(rows: list[Row], progress: Progress | None = None) -> list[Results]:
    """Run everything that the tables of these rows need."""
    found = [Results(row) for row in rows]
    jobs = [job for results in found for job in _jobs(results)]
    # what takes long comes first, so that no thread ends up alone with it
    jobs.sort(key=lambda job: job.is_long, reverse=True)
    threads = max(1, min(os.cpu_count() or 1, _MOST_THREADS))
    pool = ThreadPoolExecutor(threads, thread_name_prefix="compare")
    try:
        futures = [pool.submit(job.work) for job in jobs]
        names = dict(zip(futures, (job.name for job in jobs), strict=True))
        left = set(futures)
        while left:
            if progress is not None:
                first = next(name for future, name in names.items() if future in left)
                progress(f"{len(jobs) - len(left)} of {len(jobs)} emulated, now {first}")
            done, left = wait(left, timeout=0.5, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
    finally:
        pool.shutdown(cancel_futures=True)
    return found


@dataclass(frozen=True)
class _Job:
    """Runs that share their compiled code, one after the other."""

    name: str
    work: Callable[[], None]
    is_long: bool


def _jobs(results: Results) -> list[_Job]:
    row = results.row
    work: dict[str, tuple[bool, Callable[[], None]]] = {}
    if row.part == "a":
        for algorithm in ALGORITHMS:
            spec = all_reduce_spec(row.spec, algorithm=algorithm)
            work[f"{algorithm} all-reduce"] = (
                _is_long(row.spec, algorithm),
                partial(_all_reduce, results, algorithm, spec),
            )
            work[f"{algorithm} step"] = (
                _is_long(row.spec, algorithm),
                partial(_step_by, results, algorithm),
            )
    else:
        is_long = _is_long(row.spec, step_spec(row.spec).the_collective.algorithm)
        work = {
            "all-reduce": (is_long, partial(_all_reduces_by_gpu, results)),
            "step": (is_long, partial(_steps_by_gpu, results)),
        }
    return [_Job(f"{row.name}, {name}", job, long) for name, (long, job) in work.items()]


def _is_long(spec: Spec, algorithm: str) -> bool:
    """Whether the rounds take longer than compiling them: a direct one off the trunks.

    The rounds of a ring repeat and are skipped; those on trunks and rails are quick.
    """
    balancing = getattr(spec.network, "load_balancing", "ideal")
    return algorithm == "direct" and balancing != "ideal"


def _run(spec: Spec, known: dict | None = None) -> Outcome:
    return run(spec, brief=not _is_long(spec, spec.the_collective.outermost), known=known)


def _all_reduce(results: Results, key: str, spec: Spec) -> None:
    results.all_reduces[key] = _run(spec)


def _step_by(results: Results, algorithm: str) -> None:
    spec = results.row.spec
    results.steps[algorithm] = train(spec, algorithm, emulate=partial(_run, known={}))


def _all_reduces_by_gpu(results: Results) -> None:
    known: dict = {}
    for gpu, spec in results.row.specs.items():
        results.all_reduces[gpu] = _run(all_reduce_spec(spec), known)


def _steps_by_gpu(results: Results) -> None:
    """Emulate the buckets once: they go between nodes, where the GPUs' own links play no part."""
    first = results.row.spec
    buckets: dict[tuple[str, float], Outcome] = {}
    known: dict = {}

    def emulate_once(spec: Spec) -> Outcome:
        key = spec.the_collective.kind, float(spec.the_collective.size)
        if spec.the_collective.group_stride % spec.network.node_size:
            return _run(spec, known)
        if key not in buckets:
            buckets[key] = _run(msgspec.structs.replace(spec, network=first.network), known)
        return buckets[key]

    for gpu, spec in results.row.specs.items():
        results.steps[gpu] = train(step_spec(spec), emulate=emulate_once)
