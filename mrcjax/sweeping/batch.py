"""A batch of points from specs to results: built and compiled, launched, finished.

Three steps, so that the next batch is built and compiled while one runs.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from mrcjax.batched import ready_to_launch, width_of
from mrcjax.case import Case, build
from mrcjax.emulation import inputs_of, precision, run, structure_of
from mrcjax.engine import Times
from mrcjax.findings import outcome_of
from mrcjax.larger import Laid, kin, lay
from mrcjax.outcome import Outcome
from mrcjax.round_order import order_warning
from mrcjax.spec import Spec, SpecError
from mrcjax.step import run_with_step, runs_of
from mrcjax.sweeping.result import Result, failed, result_of


def goes_in_batches(spec: Spec) -> bool:
    """Whether points like this are emulated many at once; the others run one by one."""
    return (
        spec.engine.kind == "chunk"
        and not spec.engine.aggregate
        and spec.engine.devices == 1
        and spec.faults.scenarios == 1
    )


NO_ROOM = (MemoryError, jax.errors.JaxRuntimeError)  # what a device says when it has none


@dataclass(frozen=True)
class Run:
    """A run that a point needs: of itself, or of a bucket of its training step.

    point: place of the point among the specs. row: place of the run's times among those of its
    program. laid: how it lies in larger arrays; None where it has arrays of its own size.
    """

    point: int
    case: Case
    laid: Laid | None
    row: int


@dataclass(frozen=True)
class Alike:
    """Runs of a batch whose arrays have one structure, and the program that does them all."""

    runs: list[Run]
    rows: int
    launch: Callable[[], Times]


@dataclass(frozen=True)
class Prepared:
    """A batch that is built and compiled.

    refused: runs that cannot be built, by the place of their point.
    """

    specs: Sequence[Spec]
    keep: tuple[str, ...]
    alike: list[Alike]
    refused: list[tuple[int, Spec, SpecError]]


@dataclass(frozen=True)
class Running:
    """A batch whose programs are on their way; times: of each of its `alike`."""

    prepared: Prepared
    started: float
    times: list[Times]


def emulate_batch(
    specs: Sequence[Spec], room: int, keep: tuple[str, ...], larger: Spec | None = None
) -> list[Result]:
    """Emulate specs, `room` at most in one program; a spec that cannot be run is a result too.

    larger: the arrays of this one are those of all, where they can be.
    """
    try:
        return finish(launch(prepare(specs, room, keep, larger)))
    except NO_ROOM:
        return one_by_one(specs, keep)


def one_by_one(specs: Sequence[Spec], keep: tuple[str, ...]) -> list[Result]:
    """Emulate specs that together find no room, each alone; one that finds none says so."""
    results = []
    for spec in specs:
        try:
            results += finish(launch(prepare([spec], 1, keep)))
        except NO_ROOM as error:
            said = (str(error).splitlines() or [""])[0][:200]
            results.append(Result(reason=f"cannot be emulated here, perhaps for memory: {said}"))
    return results


def prepare(
    specs: Sequence[Spec], room: int, keep: tuple[str, ...], larger: Spec | None = None
) -> Prepared:
    """Build the cases of a batch, and compile what they need."""
    prepared = Prepared(specs, keep, [], [])
    known: dict[Any, Any] = {}
    found: dict[Any, tuple[list[Run], list[tuple]]] = {}
    most = [] if larger is None else [_inputs(each, known) for each in runs_of(larger)]
    for place, spec in enumerate(specs):
        for number, each in enumerate(_batched_runs(spec)):
            try:
                case, inputs = _inputs(each, known)
            except SpecError as error:
                prepared.refused.append((place, each, error))
                continue
            inputs, laid = _laid(case, inputs, most[number] if number < len(most) else None)
            key = (spec.engine.precision, structure_of(inputs, case.config))
            runs, rows = found.setdefault(key, ([], []))
            row = _row(rows, inputs, [one.row for one in runs if one.point == place])
            runs.append(Run(place, case, laid, row))
    for (word, _), (runs, rows) in found.items():
        places, config = max(room, len(rows)), runs[0].case.config
        width = width_of(rows[0], places)
        is_laid = runs[0].laid is not None
        with precision(word):
            ready = ready_to_launch(rows, config, places, width, all_vary=is_laid)
        prepared.alike.append(Alike(runs, len(rows), ready))
    return prepared


def _batched_runs(spec: Spec) -> list[Spec]:
    """Runs that a point needs of its batch; none where it goes alone, or cannot be run at all."""
    try:
        return runs_of(spec) if goes_in_batches(spec) else []
    except SpecError:
        return []


def _row(rows: list[tuple], inputs: tuple, own: list[int]) -> int:
    """Place of these inputs among the rows: of equal ones of the same point, or a new one.

    Buckets that are scattered and gathered in equal shards, for one, are the same sends.
    """
    leaves = jax.tree.leaves(inputs)
    for row in own:
        pairs = zip(leaves, jax.tree.leaves(rows[row]), strict=True)
        if all(one is other or np.array_equal(one, other) for one, other in pairs):
            return row
    rows.append(inputs)
    return len(rows) - 1


def _inputs(spec: Spec, known: dict[Any, Any]) -> tuple[Case, tuple]:
    with precision(spec.engine.precision):
        case = build(spec, known=known)
        return case, inputs_of(case)


def _laid(case: Case, inputs: tuple, most: tuple[Case, tuple] | None) -> tuple[tuple, Laid | None]:
    """Inputs of a case in the arrays of a larger one, and how it lies there; None: in its own."""
    if most is None or case.network.ranks > most[0].network.ranks:
        return inputs, None
    common = kin(inputs, case.config)
    if common is None or common != kin(most[1], most[0].config):
        return inputs, None
    return lay(inputs, most[1])


def launch(prepared: Prepared) -> Running:
    """Start the programs of a batch; JAX runs them behind."""
    started, times = time.perf_counter(), []
    for alike in prepared.alike:
        with precision(alike.runs[0].case.spec.engine.precision):
            times.append(alike.launch())
    return Running(prepared, started, times)


def finish(running: Running) -> list[Result]:
    """Wait for a batch and say what came out of each of its specs, in their order."""
    prepared = running.prepared
    outcomes: dict[int, list[tuple[Spec, Callable[[], Outcome]]]] = {}
    for alike, times in zip(prepared.alike, running.times, strict=True):
        times = jax.tree.map(np.asarray, jax.block_until_ready(times))
        each_s = (time.perf_counter() - running.started) / alike.rows
        for each in alike.runs:
            found = partial(_outcome, each, times, each_s)
            outcomes.setdefault(each.point, []).append((each.case.spec, found))
    for point, spec, error in prepared.refused:
        outcomes.setdefault(point, []).append((spec, partial(_refuse, error)))
    return [
        _result(spec, outcomes.get(place), prepared.keep)
        for place, spec in enumerate(prepared.specs)
    ]


def _outcome(of: Run, times: Times, wall_s: float) -> Outcome:
    """What came out of a run, of the times of all; wall_s: of each."""
    mine = jax.tree.map(lambda x: x[of.row], times)
    mine = mine if of.laid is None else of.laid.own(mine)
    with precision(of.case.spec.engine.precision):
        outcome = outcome_of(of.case, mine, {"run": wall_s})
    said = order_warning(of.case, outcome.time_s, outcome.schedule_bound_s)
    if said is None:
        return outcome
    return replace(outcome, warnings=(*outcome.warnings, said))


def _refuse(error: SpecError) -> Outcome:
    raise error


def _result(
    spec: Spec, found: list[tuple[Spec, Callable[[], Outcome]]] | None, keep: tuple[str, ...]
) -> Result:
    """The result of a point, and of the training step around it, if it asks for one.

    found: what came out of the runs it needs, by their specs; None: it is run alone.
    """

    def emulate(asked: Spec) -> Outcome:
        assert found is not None
        return next(outcome() for each, outcome in found if each == asked)

    try:
        outcome, trained = run_with_step(spec, emulate=run if found is None else emulate)
        return result_of(outcome, keep, trained)
    except SpecError as error:
        return failed(error)
