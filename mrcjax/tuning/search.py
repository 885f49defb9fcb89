"""`tune`: from a spec to the best way found of cutting its collective."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from mrcjax.case import Case, build, recut
from mrcjax.emulation import precision, scenarios_of
from mrcjax.findings import outcome_of
from mrcjax.spec import Spec, TuneSpec
from mrcjax.tuning.beginning import beginning_cutting, beginning_load
from mrcjax.tuning.checks import check, check_size, lanes_per_rail
from mrcjax.tuning.classes import Classes, alike, classes_of, one_by_one
from mrcjax.tuning.limits import limits, scenario_limits
from mrcjax.tuning.stages import by_loads, by_polishing, by_references, down_the_engine
from mrcjax.tuning.surrogate import Cutting, shares_of
from mrcjax.tuning.training_step import tune_step
from mrcjax.tuning.tried import Report, Search
from mrcjax.tuning.tuned import Step, Tuned
from mrcjax.tuning.weights import Weights, is_alike, weights_of_spec

AT_THE_BOUND = 1e-9  # of the bound: nothing is left to find


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
        search = Search(spec, options, case, classes, report, is_stopped)
        search.history += history
        search.wall_s["build"] = time.perf_counter() - started
        return _tune(search, start)


def _sorted_ranks(case: Case, options: TuneSpec) -> Classes:
    if options.rails in ("table", "whole"):
        return one_by_one(case)
    is_alike = case.spec.faults.scenarios > 1 and options.alike is not False
    return alike(case) if is_alike else classes_of(case)


def _tune(search: Search, start: Weights | None) -> Tuned:
    spec, options = search.spec, search.options
    given = weights_of_spec(spec)
    of = spec, options, search.classes
    load, first = beginning_load(*of, given), beginning_cutting(*of, start)
    shard_bytes = None if first.shards is not None else np.asarray(load.shard_bytes)
    shares = None if first.source is not None else np.asarray(shares_of(load, first))
    are_alike = all(is_alike(search.classes, cut) for cut in (given, start or given))
    bounds, optima = search.timed(
        "bounds", _limits, search, shard_bytes, shares, max(search.pieces) == 1, are_alike
    )
    heuristics = search.timed("heuristics", by_references, search)
    if start is not None:
        search.timed("start", search.emulate, "start", start)
    found = min(by_loads(search, load, first, given), key=lambda each: each.time_s)
    assert search.best is not None
    is_done = search.best.time_s <= max(bounds.values()) * (1 + AT_THE_BOUND)
    if not search.stopped and not is_done:
        if options.rails == "whole":
            search.timed("engine", by_polishing, search, found.cut)
        else:
            search.timed("engine", down_the_engine, search, found.cut, first)
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
        rounding_s=found.rounding_s,
        objective=search.objective,
        cuts={name: tried.weights for name, tried in search.tried.items()},
        scenarios_s={name: each.times_s for name, each in found_at.items() if each is not None},
        fresh_s=fresh,
    )


def _limits(
    search: Search,
    shard_bytes: np.ndarray | None,
    shares: np.ndarray | None,
    in_halves: bool,
    are_alike: bool,
) -> tuple[dict[str, float], dict[str, float]]:
    """Lower bounds of any cut that is free as asked, and optima of the linear programmes."""
    search.report("bounding")
    free = {"programme": search.options.programme, "in_halves": in_halves}
    given = search.case, search.classes, shard_bytes, shares
    if search.objective is None:
        return limits(*given, **free)
    return scenario_limits(*given, search.objective, are_alike=are_alike, **free)


def _fresh(search: Search, shown: dict[str, str]) -> dict[str, np.ndarray]:
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


def _num_parameters(search: Search, first: Cutting) -> int:
    """Free numbers of the cut by rank; by class where ranks of a class are cut alike."""
    classes = search.classes
    ranks, rails = len(classes.count) if classes.alike else classes.ranks, classes.rails
    rows = 0 if first.source is None else 2 * ranks * rails
    pairs = 0 if first.table is None else ranks * ranks * rails
    return rows + pairs + (0 if first.shards is None else ranks)
