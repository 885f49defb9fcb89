"""`tune`: from a spec to the best way found of cutting its collective."""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import jax.numpy as jnp
import msgspec
import numpy as np

from mrcjax.case import Case, build, recut
from mrcjax.emulation import precision, scenarios_of, times_of
from mrcjax.engine import Times
from mrcjax.findings import outcome_of
from mrcjax.outcome import Scenarios
from mrcjax.spec import Spec, TuneSpec
from mrcjax.tuning.batch import (
    DEFAULT,
    EmulatedBatch,
    Loads,
    batch_of,
    batch_time,
    loads_of,
    loads_time,
    value_of,
)
from mrcjax.tuning.beginning import beginning_cutting, beginning_load
from mrcjax.tuning.checks import check, check_size, lanes_per_rail
from mrcjax.tuning.classes import Classes, alike, classes_of, one_by_one
from mrcjax.tuning.descent import BLOCK, Descent, Objective, adam, annealed, descend
from mrcjax.tuning.emulated import Emulated, emulated_of, emulated_time, num_sends
from mrcjax.tuning.limits import limits, scenario_limits
from mrcjax.tuning.reference import references
from mrcjax.tuning.surrogate import Cutting, Load, load_time, shares_of
from mrcjax.tuning.training_step import tune_step
from mrcjax.tuning.tuned import Step, Tuned
from mrcjax.tuning.weights import (
    Weights,
    is_alike,
    weights_of_cutting,
    weights_of_spec,
)
from mrcjax.tuning.whole import PROPOSALS, assign, dealt, polish, rounding_loss
from mrcjax.units import format_seconds

ENGINE_STEPS = 100
ENGINE_SENDS = 150_000_000  # of all engine steps together, unless the spec says how many steps
AT_THE_BOUND = 1e-9  # of the bound: nothing is left to find

T = TypeVar("T")
Report = Callable[[str], None]


@dataclass
class _Search:
    """A search under way."""

    spec: Spec
    options: TuneSpec
    case: Case
    classes: Classes
    report: Report
    is_stopped: Callable[[], bool]
    history: list[Step] = field(default_factory=list)
    tried: dict[str, "_Tried"] = field(default_factory=dict)
    best: "_Tried | None" = None
    wall_s: dict[str, float] = field(default_factory=dict)
    stopped: bool = False
    last_s: float = math.inf  # of the last rounding

    @property
    def objective(self) -> str | None:
        """What is made of the times of several scenarios; None where there is one."""
        if self.spec.faults.scenarios == 1:
            return None
        return self.options.objective or DEFAULT

    def emulate(self, name: str, weights: Weights | None) -> float:
        """Time a cut on the engine and keep the best; None is the spec as it stands."""
        self.report(f"emulating {name}")
        case = self.case if weights is None else recut(self.case, weights.into(self.spec))
        times, scenarios = times_of(case), scenarios_of(case)
        time_s = float(times.time_s)
        time_s = time_s if math.isfinite(time_s) else math.inf
        is_finite = math.isfinite(time_s)
        if scenarios is not None and self.objective is not None:
            time_s = value_of(self.objective, scenarios.times_s)
            is_finite = bool(np.isfinite(scenarios.times_s).all())
        self.tried[name] = found = _Tried(name, time_s, case, times, weights, scenarios)
        is_whole = weights.rail is not None if weights else not self.spec.the_collective.stripe
        is_wanted = is_whole or self.options.rails != "whole" or self.case.network.ports == 1
        # what never ends in one scenario is no spec to run
        is_wanted &= is_finite or self.best is None
        if is_wanted and (self.best is None or time_s < self.best.time_s):
            self.best = found
        return time_s

    def timed(self, name: str, work: Callable[..., T], *args, **kwargs) -> T:
        """Do the work and note how long it took."""
        before = time.perf_counter()
        found = work(*args, **kwargs)
        self.wall_s[name] = time.perf_counter() - before
        return found


@dataclass(frozen=True)
class _Tried:
    """A cut and what the engine says to it."""

    name: str
    time_s: float
    case: Case
    times: Times
    weights: Weights | None
    scenarios: Scenarios | None


def tune(
    spec: Spec,
    *,
    case: Case | None = None,
    start: Weights | None = None,
    history: Sequence[Step] = (),
    report: Report = lambda text: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Tuned:
    """Find the shards and the cut over rails that make a collective quickest.

    First down the loads of the ports, then down the engine's own time; whatever is found is timed
    on the engine beside simple cuts, and the best of all is returned. With faults.scenarios one
    cut serves them all, and "time" is what tune.objective makes of theirs; the simple cuts and
    the best are then timed in as many fresh ones too, of the seeds that follow. With the
    objective "step" the buckets of the training step are tuned, and times are the step's.

    Args:
        spec: what to tune; [tune] says how, without the section everything is free.
        case: the spec as built, where its numbers were changed by hand; the best spec then gives
            its time only with the same change. Several scenarios are drawn anew.
        start: where to start instead of at the rates of the rails.
        history: steps already behind, that led to `start`; they count.
        report: called with what is being done.
        is_stopped: asked between steps; True ends the search with the best so far.

    Raises:
        SpecError: for networks and algorithms that cannot be cut, and what cannot be built.
    """
    options = spec.tune or TuneSpec()
    if options.objective == "step":
        more = {"start": start, "history": history, "report": report, "is_stopped": is_stopped}
        return tune_step(tune, spec, **more)
    check(spec, options)
    with precision(spec.engine.precision):
        started = time.perf_counter()
        case = build(spec) if case is None else case
        classes = _sorted_ranks(case, options)
        check_size(classes)
        # no bound holds for more lanes than the most that are tried
        classes = replace(classes, lanes=max(lanes_per_rail(spec, options)))
        search = _Search(spec, options, case, classes, report, is_stopped)
        search.history += history
        search.wall_s["build"] = time.perf_counter() - started
        return _tune(search, start)


def _sorted_ranks(case: Case, options: TuneSpec) -> Classes:
    if options.rails in ("table", "whole"):
        return one_by_one(case)
    is_alike = case.spec.faults.scenarios > 1 and options.alike is not False
    return alike(case) if is_alike else classes_of(case)


def _tune(search: _Search, start: Weights | None) -> Tuned:
    spec, options = search.spec, search.options
    given = weights_of_spec(spec)
    pieces = options.chunks or (spec.the_collective.chunks,)
    of = spec, options, search.classes
    load, first = beginning_load(*of, given), beginning_cutting(*of, start)
    shard_bytes = None if first.shards is not None else np.asarray(load.shard_bytes)
    shares = None if first.source is not None else np.asarray(shares_of(load, first))
    are_alike = all(is_alike(search.classes, cut) for cut in (given, start or given))
    bounds, optima = search.timed(
        "bounds", _limits, search, shard_bytes, shares, max(pieces) == 1, are_alike
    )
    heuristics = search.timed("heuristics", _heuristics, search)
    if start is not None:
        search.timed("start", search.emulate, "start", start)
    found: list[tuple[float, Weights, float | None]] = []
    lanes = lanes_per_rail(spec, options)
    tried = lanes[1:] or lanes
    # only where lanes reduce in time do the loads depend on their number
    groups = [tried] if load.reduction is None else [[each] for each in tried]
    for pipelined in sorted({count > 1 for count in pieces}):
        counts = [count for count in pieces if (count > 1) == pipelined]
        for group in groups:
            here = replace(load, pipelined=pipelined)
            if load.reduction is not None:
                here = replace(here, reduction=load.reduction * (group[0] / max(lanes)))
            found += _by_loads(search, here, first, given, counts, group)
    _, cut, rounding_s = min(found, key=lambda each: each[0])
    assert search.best is not None
    is_done = search.best.time_s <= max(bounds.values()) * (1 + AT_THE_BOUND)
    if not search.stopped and not is_done:
        down = _polish if options.rails == "whole" else _down_the_engine
        search.timed("engine", down, search, cut, first)
    best = search.best
    shown = {"before": "before", **{name: name for name in heuristics}, "after": best.name}
    fresh = search.timed("fresh scenarios", _fresh, search, shown) if search.objective else {}
    found_at = {name: search.tried[key].scenarios for name, key in shown.items()}
    outcome = outcome_of(best.case, best.times, dict(search.wall_s))
    return Tuned(
        spec=spec,
        best=best.case.spec
        if best.weights is not None
        else msgspec.structs.replace(spec, tune=None),
        outcome=replace(outcome, scenarios=best.scenarios),
        before_s=search.tried["before"].time_s,
        found_by=best.name,
        heuristics_s=heuristics,
        bounds_s=bounds,
        optima_s=optima,
        parameters=_num_parameters(search, first),
        history=tuple(search.history),
        wall_s=search.wall_s,
        stopped=search.stopped,
        rounding_s=rounding_s,
        objective=search.objective,
        cuts={name: tried.weights for name, tried in search.tried.items()},
        scenarios_s={name: each.times_s for name, each in found_at.items() if each is not None},
        fresh_s=fresh,
    )


def _limits(search: _Search, shard_bytes, shares, in_halves: bool, are_alike: bool):
    search.report("bounding")
    free = {"programme": search.options.programme, "in_halves": in_halves}
    given = search.case, search.classes, shard_bytes, shares
    if search.objective is None:
        return limits(*given, **free)
    return scenario_limits(*given, search.objective, are_alike=are_alike, **free)


def _fresh(search: _Search, shown: dict[str, str]) -> dict[str, np.ndarray]:
    """Times of cuts in as many scenarios more, (scenarios,) by name."""
    search.report("emulating fresh scenarios")
    count = search.spec.faults.scenarios
    spec = _later_seeds(search.spec, count)
    case = build(spec)
    found: dict[str, np.ndarray] = {}
    for name, key in shown.items():
        weights = search.tried[key].weights
        scenarios = scenarios_of(case if weights is None else recut(case, weights.into(spec)))
        assert scenarios is not None
        found[name] = scenarios.times_s
    return found


def _later_seeds(spec: Spec, by: int) -> Spec:
    """The spec with every seed of its faults larger."""
    later = tuple(msgspec.structs.replace(each, seed=each.seed + by) for each in spec.faults.random)
    return msgspec.structs.replace(spec, faults=msgspec.structs.replace(spec.faults, random=later))


def _by_loads(
    search: _Search,
    load: Load,
    first: Cutting,
    given: Weights,
    counts: list[int],
    lanes: list[int],
) -> list[tuple[float, Weights, float | None]]:
    """Descend by loads and emulate that in every number of pieces and of lanes on a rail.

    Returns time, cut and loss of rounding of each.
    """
    stage = "loads, pipelined" if load.pipelined else "loads"
    options, rails = search.options, search.classes.rails
    if options.channels is not None and load.reduction is not None:
        stage += f", {lanes[0] * rails} channels"
    steps, rate = options.steps, options.learning_rate
    objective, constants = load_time, load
    if search.objective is not None and search.classes.scenarios is not None:
        objective = loads_time
        constants = loads_of(load, search.classes.scenarios, search.objective)
    descent = search.timed(stage, _descend, search, stage, objective, constants, first, steps, rate)
    relaxed = descent.best
    found = []
    for count, per_rail in itertools.product(counts, lanes):
        name = stage if len(counts) == 1 else f"{stage}, {count} pieces"
        name += f", {per_rail * rails} channels" if len(lanes) > 1 else ""
        cut = replace(weights_of_cutting(search.classes, relaxed, given), chunks=count)
        if options.channels is not None:
            cut = replace(cut, channels=per_rail * rails)
        if options.rails == "whole":
            cut = search.timed("rounding", _round, search, load, relaxed, cut)
            assert cut.rail is not None
            found.append((search.last_s, cut, rounding_loss(load, relaxed, cut.rail)))
        else:
            time_s = search.timed(f"emulation of {name}", search.emulate, name, cut)
            found.append((time_s, cut, None))
    return found


def _heuristics(search: _Search) -> dict[str, float]:
    size, ranks = float(search.spec.the_collective.size), search.case.network.ranks
    search.emulate("before", None)
    half_bytes = size * (ranks - 1) / ranks
    found = references(search.classes.on_average(), half_bytes)
    if search.objective is not None:
        name = "source x destination"
        found[f"{name}, least rates"] = references(search.classes, half_bytes)[name]
    return {name: search.emulate(name, weights) for name, weights in found.items()}


def _down_the_engine(search: _Search, cut: Weights, first: Cutting) -> None:
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
    found = _descend(search, "engine", objective, constants, here, steps, rate).best
    by_rank = {
        key: np.exp(np.asarray(score) - np.asarray(score).max(axis=0))[..., index]
        for key, score in found._asdict().items()
        if score is not None
    }
    search.emulate("engine", replace(cut, **by_rank))


def _round(search: _Search, load: Load, relaxed: Cutting, cut: Weights) -> Weights:
    """Round by the relaxed cut and by the order of the sends; the better of the two."""
    found = {
        name: Weights(rail=rail, shards=cut.shards, chunks=cut.chunks)
        for name, rail in (("rounded", assign(load, relaxed)), ("dealt", dealt(load, relaxed)))
    }
    times = {name: search.emulate(name, weights) for name, weights in found.items()}
    search.last_s = min(times.values())
    return found[min(times, key=lambda name: times[name])]


def _polish(search: _Search, cut: Weights, first: Cutting) -> None:
    """Move single sends on the engine."""
    del first
    assert cut.rail is not None
    case = recut(search.case, cut.into(search.spec))
    asked = search.options.engine_steps
    proposals = PROPOSALS if asked is None else asked
    search.report("polishing")
    rail, way = polish(case, cut.rail, proposals=proposals, is_stopped=search.is_stopped)
    search.history += [Step("engine", n, value, value) for n, value in enumerate(way)]
    search.stopped = search.is_stopped()
    search.emulate("engine", replace(cut, rail=rail))


def _descend(
    search: _Search,
    stage: str,
    objective: Objective,
    constants: Load | Loads | Emulated | EmulatedBatch,
    first: Cutting,
    steps: int,
    rate: float,
) -> Descent:
    def look(more: int, best_s: float) -> bool:
        search.report(f"{stage}: step {done + more} of {steps}, {format_seconds(best_s)}")
        return not search.is_stopped()

    done = min(steps, sum(step.stage == stage for step in search.history))
    warm, cold = search.options.temperature
    if stage == "engine":  # which begins where the loads ended
        warm = math.sqrt(warm * cold)
    found = descend(
        objective,
        constants,
        first,
        annealed(warm, cold, steps)[done:],
        adam(rate, steps, done),
        on_block=look,
        block=5 if stage == "engine" else BLOCK,
    )
    values = zip(found.smooth_s, found.exact_s, strict=True)
    search.history += [
        Step(stage, done + n, smooth, exact) for n, (smooth, exact) in enumerate(values)
    ]
    search.stopped = search.stopped or found.stopped
    return found


def _num_parameters(search: _Search, first: Cutting) -> int:
    """Free numbers of the cut by rank; by class where ranks of a class are cut alike."""
    classes = search.classes
    ranks, rails = len(classes.count) if classes.alike else classes.ranks, classes.rails
    rows = 0 if first.source is None else 2 * ranks * rails
    pairs = 0 if first.table is None else ranks * ranks * rails
    return rows + pairs + (0 if first.shards is None else ranks)
