"""A batch of points from specs to results: built and compiled, launched, finished.

Three steps, so that the next batch is built and compiled while one runs.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from mrcjax.batched import ready_to_launch, width_of
from mrcjax.case import Case, build
from mrcjax.emulation import inputs_of, precision, structure_of
from mrcjax.engine import Times
from mrcjax.findings import outcome_of
from mrcjax.larger import Laid, kin, lay
from mrcjax.round_order import order_warning
from mrcjax.spec import Spec, SpecError
from mrcjax.step import run_with_step
from mrcjax.sweeping.result import Result, failed, result_of


def goes_in_batches(spec: Spec) -> bool:
    """Whether points like this are emulated many at once; the others run one by one."""
    return (
        spec.engine.kind == "chunk"
        and not spec.engine.aggregate
        and spec.engine.devices == 1
        and spec.faults.scenarios == 1
        and spec.training is None
    )


NO_ROOM = (MemoryError, jax.errors.JaxRuntimeError)  # what a device says when it has none


@dataclass(frozen=True)
class Alike:
    """Cases of a batch whose arrays have one structure, with their places among the specs.

    laid: of each case how it lies in larger arrays; None where it has arrays of its own size.
    """

    places: list[int]
    cases: list[Case]
    laid: list[Laid | None]
    launch: Callable[[], Times]


@dataclass(frozen=True)
class Prepared:
    """A batch that is built and compiled."""

    keep: tuple[str, ...]
    results: list[Result | None]
    alike: list[Alike]
    single: list[tuple[int, Spec]]


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
    prepared = Prepared(keep, [None] * len(specs), [], [])
    known: dict[Any, Any] = {}
    found: dict[Any, list[tuple[int, Case, Laid | None, tuple]]] = {}
    most = _inputs(larger, known) if larger is not None else None
    for place, spec in enumerate(specs):
        if not goes_in_batches(spec):
            prepared.single.append((place, spec))
            continue
        try:
            case, inputs = _inputs(spec, known)
        except SpecError as error:
            prepared.results[place] = failed(error)
            continue
        laid = _laid(case, inputs, most)
        inputs = inputs if laid is None else laid.inputs
        key = (spec.engine.precision, structure_of(inputs, case.config))
        found.setdefault(key, []).append((place, case, laid, inputs))
    for (word, _), members in found.items():
        places, cases, laid, inputs = (list(each) for each in zip(*members, strict=True))
        width = width_of(inputs[0], max(room, len(cases)))
        with precision(word):
            ready = ready_to_launch(inputs, cases[0].config, max(room, len(cases)), width)
        prepared.alike.append(Alike(places, cases, laid, ready))
    return prepared


def _inputs(spec: Spec, known: dict[Any, Any]) -> tuple[Case, tuple]:
    with precision(spec.engine.precision):
        case = build(spec, known=known)
        return case, inputs_of(case)


def _laid(case: Case, inputs: tuple, most: tuple[Case, tuple] | None) -> Laid | None:
    """How a case lies in the arrays of a larger one; None where it has its own."""
    if most is None:
        return None
    common = kin(inputs, case.config)
    if common is None or common != kin(most[1], most[0].config):
        return None
    fits = case.network.ranks <= most[0].network.ranks
    return lay(inputs, most[1]) if fits else None


def launch(prepared: Prepared) -> Running:
    """Start the programs of a batch; JAX runs them behind."""
    started, times = time.perf_counter(), []
    for alike in prepared.alike:
        with precision(alike.cases[0].spec.engine.precision):
            times.append(alike.launch())
    return Running(prepared, started, times)


def finish(running: Running) -> list[Result]:
    """Wait for a batch and say what came out of each of its specs, in their order."""
    prepared = running.prepared
    for alike, times in zip(prepared.alike, running.times, strict=True):
        times = jax.tree.map(np.asarray, jax.block_until_ready(times))
        each_s = (time.perf_counter() - running.started) / len(alike.cases)
        with precision(alike.cases[0].spec.engine.precision):
            members = zip(alike.places, alike.cases, alike.laid, strict=True)
            for i, (place, case, laid) in enumerate(members):
                mine = jax.tree.map(lambda x, i=i: x[i], times)
                mine = mine if laid is None else laid.own(mine)
                prepared.results[place] = _one(case, mine, each_s, prepared.keep)
    for place, spec in prepared.single:
        prepared.results[place] = _alone(spec, prepared.keep)
    done = [result for result in prepared.results if result is not None]
    assert len(done) == len(prepared.results)
    return done


def _one(case: Case, times: Times, wall_s: float, keep: tuple[str, ...]) -> Result:
    try:
        outcome = outcome_of(case, times, {"run": wall_s})
    except SpecError as error:
        return failed(error)
    said = order_warning(case, outcome.time_s, outcome.schedule_bound_s)
    if said is not None:
        outcome = replace(outcome, warnings=(*outcome.warnings, said))
    return result_of(outcome, keep)


def _alone(spec: Spec, keep: tuple[str, ...]) -> Result:
    """Emulate a point that goes in no batch, and the training step around it if it asks for one."""
    try:
        outcome, trained = run_with_step(spec)
        return result_of(outcome, keep, trained)
    except SpecError as error:
        return failed(error)
