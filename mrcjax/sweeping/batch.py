"""Many points as one compiled program: cases of equal arrays in a row, one after the other.

A program takes the numbers of as many points as the batch has room for, and the count of those
that are asked for. On a CPU it takes points in groups so small that what moves stays in the cache,
which for thousands of lanes means one by one; on an accelerator all at once.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.case import Case, build
from mrcjax.emulation import inputs_of, outcome_of, precision, run, structure_of
from mrcjax.engine import Config, Times, emulate
from mrcjax.outcome import Outcome
from mrcjax.round_order import order_warning
from mrcjax.spec import Spec, SpecError
from mrcjax.step import train
from mrcjax.sweeping.result import Result, failed, result_of

WIDTH_LANES = 4096  # lanes of all ranks that a CPU takes at once: more fall out of its cache
WIDEST = 32  # points side by side


def goes_in_batches(spec: Spec) -> bool:
    """Whether points like this are emulated many at once; the others run one by one."""
    return (
        spec.engine.kind == "chunk"
        and not spec.engine.aggregate
        and spec.engine.devices == 1
        and spec.faults.scenarios == 1
        and spec.training is None
    )


@dataclass
class Prepared:
    """A batch that is built: cases of one structure with their places among the specs."""

    room: int
    keep: tuple[str, ...]
    results: list[Result | None]
    cases: dict[Any, list[tuple[int, Case, tuple]]] = field(default_factory=dict)
    single: list[tuple[int, Spec]] = field(default_factory=list)


@dataclass
class Running:
    """A batch whose programs are on their way; `times` holds one pytree for each structure."""

    prepared: Prepared
    started: float
    times: list[Times] = field(default_factory=list)


def emulate_batch(specs: Sequence[Spec], room: int, keep: tuple[str, ...]) -> list[Result]:
    """Emulate specs, `room` at most in one program; a spec that cannot be run is a result too."""
    return finish(launch(prepare(specs, room, keep)))


def prepare(specs: Sequence[Spec], room: int, keep: tuple[str, ...]) -> Prepared:
    """Build the cases of a batch."""
    prepared = Prepared(room, keep, [None] * len(specs))
    known: dict[Any, Any] = {}
    for place, spec in enumerate(specs):
        if not goes_in_batches(spec):
            prepared.single.append((place, spec))
            continue
        try:
            with precision(spec.engine.precision):
                case = build(spec, known=known)
                inputs = inputs_of(case)
        except SpecError as error:
            prepared.results[place] = failed(error)
            continue
        key = (spec.engine.precision, structure_of(inputs, case.config))
        prepared.cases.setdefault(key, []).append((place, case, inputs))
    return prepared


def launch(prepared: Prepared) -> Running:
    """Start the programs of a batch; JAX runs them behind."""
    running = Running(prepared, time.perf_counter())
    for members in prepared.cases.values():
        with precision(members[0][1].spec.engine.precision):
            running.times.append(_emulate_alike(members, prepared.room))
    return running


def finish(running: Running) -> list[Result]:
    """Wait for a batch and say what came out of each of its specs, in their order."""
    prepared = running.prepared
    for members, times in zip(prepared.cases.values(), running.times, strict=True):
        times = jax.tree.map(np.asarray, jax.block_until_ready(times))
        each_s = (time.perf_counter() - running.started) / len(members)
        with precision(members[0][1].spec.engine.precision):
            for i, (place, case, _) in enumerate(members):
                mine = jax.tree.map(lambda x, i=i: x[i], times)
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
        if spec.training is None:
            return result_of(run(spec), keep)
        trained = train(spec)
        outcome = _asked(spec, trained.outcomes) or run(spec)
        return result_of(outcome, keep, trained)
    except SpecError as error:
        return failed(error)


def _asked(spec: Spec, outcomes: dict[str, Outcome]) -> Outcome | None:
    return next((each for each in outcomes.values() if each.spec == spec), None)


def _emulate_alike(members: list[tuple[int, Case, tuple]], room: int) -> Times:
    """Times of cases whose arrays have one structure, (points, ...) each."""
    count = len(members)
    leaves = [jax.tree.leaves(inputs) for _, _, inputs in members]
    structure = jax.tree.structure(members[0][2])
    own = len(jax.tree.leaves(members[0][2][0]))  # of Params, which come first
    varies = tuple(
        place < own or any(not _same(each[place], leaves[0][place]) for each in leaves[1:])
        for place in range(len(leaves[0]))
    )
    rest = max(room, count) - count  # places that nobody asks for repeat the first point
    stacked = [
        np.stack([np.asarray(each[place]) for each in leaves + leaves[:1] * rest])
        for place, is_varied in enumerate(varies)
        if is_varied
    ]
    shared = [leaf for leaf, is_varied in zip(leaves[0], varies, strict=True) if not is_varied]
    config = members[0][1].config
    width = _width(members[0][1], len(stacked[0]))
    return _program(jnp.asarray(count), stacked, shared, structure, varies, config, width)


def _same(one: Any, other: Any) -> bool:
    return one is other or np.array_equal(np.asarray(one), np.asarray(other))


def _width(case: Case, room: int) -> int:
    """Points side by side."""
    if jax.default_backend() != "cpu":
        return room
    lanes = max((phase.lanes for phase in case.schedule.phases), default=1) * case.network.ranks
    return int(np.clip(WIDTH_LANES // max(lanes, 1), 1, min(room, WIDEST)))


@partial(jax.jit, static_argnames=("structure", "varies", "config", "width"))
def _program(
    count: jax.Array,
    stacked: list,
    shared: list,
    structure: Any,
    varies: tuple[bool, ...],
    config: Config,
    width: int,
) -> Times:
    """Emulate the first `count` of the stacked points, `width` at a time."""

    def one(own: list) -> Times:
        mine, others = iter(own), iter(shared)
        leaves = [next(mine) if is_varied else next(others) for is_varied in varies]
        return emulate(*jax.tree.unflatten(structure, leaves), config=config)

    room = stacked[0].shape[0]
    shapes = jax.eval_shape(one, [x[0] for x in stacked])
    times = jax.tree.map(lambda x: jnp.zeros((room, *x.shape), x.dtype), shapes)

    def some(k: jax.Array, times: Times) -> Times:
        # the last group begins early enough to be whole; what it repeats comes out the same
        first = jnp.minimum(k * width, room - width)
        taken = [jax.lax.dynamic_slice_in_dim(x, first, width) for x in stacked]
        if width == 1:
            found = jax.tree.map(lambda x: x[None], one([x[0] for x in taken]))
        else:
            found = jax.vmap(one)(taken)
        return jax.tree.map(
            lambda all_, new: jax.lax.dynamic_update_slice_in_dim(all_, new, first, 0), times, found
        )

    return jax.lax.fori_loop(0, -(-count // width), some, times)
