"""The stages of a search: simple cuts, down the loads of the ports, down the engine's own time."""

import itertools
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from mrcjax.case import recut
from mrcjax.tuning.batch import batch_of, batch_time, loads_of, loads_time
from mrcjax.tuning.checks import lanes_per_rail
from mrcjax.tuning.emulated import emulated_of, emulated_time, num_sends
from mrcjax.tuning.reference import references
from mrcjax.tuning.surrogate import Cutting, Load, load_time
from mrcjax.tuning.tried import Search
from mrcjax.tuning.tuned import Step
from mrcjax.tuning.weights import Weights, weights_of_cutting
from mrcjax.tuning.whole import PROPOSALS, assign, dealt, polish, rounding_loss

ENGINE_STEPS = 100
ENGINE_SENDS = 150_000_000  # of all engine steps together, unless the spec says how many steps


class Found(NamedTuple):
    """A cut that a descent by loads led to."""

    time_s: float
    cut: Weights
    rounding_s: float | None = None  # whole sends: loads' time after rounding less that before


def by_references(search: Search) -> dict[str, float]:
    """Emulate the spec as it stands, and return the times of the simple cuts by name."""
    size, ranks = float(search.spec.the_collective.size), search.case.network.ranks
    search.emulate("before", None)
    half_bytes = size * (ranks - 1) / ranks
    found = references(search.classes.on_average(), half_bytes)
    if search.objective is not None:
        name = "source x destination"
        found[f"{name}, least rates"] = references(search.classes, half_bytes)[name]
    return {name: search.emulate(name, weights) for name, weights in found.items()}


def by_loads(search: Search, load: Load, first: Cutting, given: Weights) -> list[Found]:
    """Descend by loads and emulate that in every number of pieces and of lanes on a rail."""
    lanes = lanes_per_rail(search.spec, search.options)
    tried = lanes[1:] or lanes
    # only where lanes reduce in time do the loads depend on their number
    groups = [tried] if load.reduction is None else [[each] for each in tried]
    found: list[Found] = []
    for pipelined in sorted({count > 1 for count in search.pieces}):
        counts = [count for count in search.pieces if (count > 1) == pipelined]
        for group in groups:
            here = replace(load, pipelined=pipelined)
            if load.reduction is not None:
                here = replace(here, reduction=load.reduction * (group[0] / max(lanes)))
            found += _by_loads(search, here, first, given, counts, group)
    return found


def _by_loads(
    search: Search,
    load: Load,
    first: Cutting,
    given: Weights,
    counts: list[int],
    lanes: list[int],
) -> list[Found]:
    """Descend once and emulate the cut in some numbers of pieces and of lanes on a rail."""
    stage = "loads, pipelined" if load.pipelined else "loads"
    options, rails = search.options, search.classes.rails
    if options.channels is not None and load.reduction is not None:
        stage += f", {lanes[0] * rails} channels"
    steps, rate = options.steps, options.learning_rate
    objective, constants = load_time, load
    if search.objective is not None and search.classes.scenarios is not None:
        objective = loads_time
        constants = loads_of(load, search.classes.scenarios, search.objective)
    descent = search.timed(stage, search.descend, stage, objective, constants, first, steps, rate)
    relaxed = descent.best
    found: list[Found] = []
    for count, per_rail in itertools.product(counts, lanes):
        name = stage if len(counts) == 1 else f"{stage}, {count} pieces"
        name += f", {per_rail * rails} channels" if len(lanes) > 1 else ""
        cut = replace(weights_of_cutting(search.classes, relaxed, given), chunks=count)
        if options.channels is not None:
            cut = replace(cut, channels=per_rail * rails)
        if options.rails == "whole":
            time_s, cut = search.timed("rounding", _round, search, load, relaxed, cut)
            assert cut.rail is not None
            found.append(Found(time_s, cut, rounding_loss(load, relaxed, cut.rail)))
        else:
            time_s = search.timed(f"emulation of {name}", search.emulate, name, cut)
            found.append(Found(time_s, cut))
    return found


def _round(search: Search, load: Load, relaxed: Cutting, cut: Weights) -> tuple[float, Weights]:
    """Round by the relaxed cut and by the order of the sends; time and cut of the better."""
    found = {
        name: Weights(rail=rail, shards=cut.shards, chunks=cut.chunks)
        for name, rail in (("rounded", assign(load, relaxed)), ("dealt", dealt(load, relaxed)))
    }
    times = {name: search.emulate(name, weights) for name, weights in found.items()}
    better = min(times, key=lambda name: times[name])
    return times[better], found[better]


def down_the_engine(search: Search, cut: Weights, first: Cutting) -> None:
    """Go on by rank from a cut, on the engine's own time, and try what that finds."""
    case = recut(search.case, cut.into(search.spec))
    asked = search.options.engine_steps
    sends = num_sends(case) * case.spec.faults.scenarios
    steps = min(ENGINE_STEPS, ENGINE_SENDS // sends) if asked is None else asked
    if steps == 0:
        return
    objective, constants = emulated_time, emulated_of(case)
    params, ranks = constants.params, case.network.ranks
    first_of, index = np.arange(ranks), np.arange(ranks)
    if search.objective is not None:
        first_of, index = search.classes.first, search.classes.index
        objective, constants = batch_time, batch_of(case, index, search.objective)
    weights, rails = params.shares, case.network.ports
    assert weights is not None
    shards = jnp.log(jnp.broadcast_to(params.chunk_bytes[0][0], (ranks,)))
    here = Cutting(
        source=None if first.source is None else jnp.log(weights.source)[:rails, first_of],
        destination=None
        if first.source is None
        else jnp.log(weights.destination)[:rails, first_of],
        shards=None if first.shards is None else shards[first_of],
    )
    # by now all is nearly right: a tenth of the step
    rate = search.options.learning_rate / 10
    found = search.descend("engine", objective, constants, here, steps, rate).best
    by_rank = {
        key: np.exp(np.asarray(score) - np.asarray(score).max(axis=0))[..., index]
        for key, score in found._asdict().items()
        if score is not None
    }
    search.emulate("engine", replace(cut, **by_rank))


def by_polishing(search: Search, cut: Weights) -> None:
    """Move single sends of a cut whole on its rails while the engine's own time gets shorter."""
    assert cut.rail is not None
    case = recut(search.case, cut.into(search.spec))
    asked = search.options.engine_steps
    proposals = PROPOSALS if asked is None else asked
    search.report("polishing")
    rail, way = polish(case, cut.rail, proposals=proposals, is_stopped=search.is_stopped)
    search.history += [Step("engine", n, value, value) for n, value in enumerate(way)]
    search.stopped = search.is_stopped()
    search.emulate("engine", replace(cut, rail=rail))
