"""The cut that makes a training step shortest: one for all its buckets.

A step never gets shorter when a bucket takes longer, so the best cut of a bucket is the best of a
step that has one, and the step whose buckets take their lower bounds is a bound of the step. A
reduce-scatter and an all-gather of equal shards are the same sends: one search serves both.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from mrcjax import training
from mrcjax.emulation import run
from mrcjax.spec import Spec, SpecError, TuneSpec
from mrcjax.step import bucket_spec, step_of, train
from mrcjax.training import Buckets
from mrcjax.tuning.tuned import Step, Tuned, TunedStep
from mrcjax.tuning.weights import Weights

Report = Callable[[str], None]
Search = Callable[..., Tuned]


def tune_step(
    search: Search,
    spec: Spec,
    *,
    start: Weights | None = None,
    history: Sequence[Step] = (),
    report: Report = lambda text: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Tuned:
    """Tune every bucket with `search`, try what was found on the others, keep the best step.

    Raises SpecError where the step has no buckets, or they are not of all ranks.
    """
    started = time.perf_counter()
    sent, wanted = _wanted(spec)
    searches: dict[str, Tuned] = {}
    for kind, each in wanted.items():
        if searches and _are_the_same_sends(spec, sent):
            searches[kind] = next(iter(searches.values()))
            continue
        prefix = f"{kind}: "
        behind = [
            replace(step, stage=step.stage.removeprefix(prefix))
            for step in history
            if step.stage.startswith(prefix)
        ]

        def say(text: str, prefix: str = prefix) -> None:
            report(prefix + text)

        searches[kind] = search(
            each, start=start, history=behind, report=say, is_stopped=is_stopped
        )
    times = _times(spec, sent, searches, report)
    steps = {name: _step_s(spec, sent, each) for name, each in times.items()}
    name = min(_choices(spec, searches, times), key=lambda name: steps[name])
    weights = _cuts(searches)[name]
    asked = msgspec.structs.replace(spec, tune=None)
    best = asked if weights is None else weights.into(spec)
    trained = train(best)
    own = next(iter(searches.values()))
    kinds = {found.bound_kind for found in searches.values()}
    bound_s = {kind: found.lower_bound_s for kind, found in searches.items()}
    bound = step_of(spec, sent, bound_s)
    names = set.intersection(*(set(found.optima_s) for found in searches.values()))
    optima = {
        each: {kind: found.optima_s[each] for kind, found in searches.items()}
        for each in own.optima_s
        if each in names
    }
    before = times["before"]
    each_once = dict.fromkeys(id(found) for found in searches.values())
    steps_taken = [
        replace(step, stage=f"{kind}: {step.stage}")
        for kind, found in searches.items()
        if each_once.pop(id(found), True) is None
        for step in found.history
    ]
    return Tuned(
        spec=spec,
        best=best,
        outcome=next(iter(trained.outcomes.values())),
        before_s=steps["before"],
        found_by=name,
        heuristics_s={key: steps[key] for key in own.heuristics_s},
        bounds_s={f"buckets: {', '.join(sorted(kinds))}": bound.step_s},
        optima_s={key: step_of(spec, sent, each).step_s for key, each in optima.items()},
        parameters=own.parameters,
        history=tuple(steps_taken),
        wall_s={**own.wall_s, "all": time.perf_counter() - started},
        stopped=any(found.stopped for found in searches.values()),
        rounding_s=own.rounding_s,
        objective="step",
        cuts=_cuts(searches),
        step=TunedStep(
            before=step_of(spec, sent, before) if _is_finite(before) else None,
            after=trained.step,
            bound=bound,
            buckets=searches,
        ),
    )


def _wanted(spec: Spec) -> tuple[Buckets, dict[str, Spec]]:
    """The buckets and the spec of each by collective; SpecError where a step is not known."""
    options = spec.tune or TuneSpec()
    if spec.training is None:
        raise SpecError(
            "needs a section [training]",
            where="tune.objective",
            value="step",
            remedy="`mrcjax spec --example training` prints one to start from",
        )
    if spec.faults.scenarios > 1:
        raise SpecError(
            "is known of one scenario only",
            where="tune.objective",
            value="step",
            remedy="set faults.scenarios = 1",
        )
    sent = training.buckets(spec.training, spec.network.ranks, node_size=spec.network.node_size)
    if not sent.distinct:
        raise SpecError(
            "leaves one replica, which sends no buckets",
            where="training.tensor_parallel",
            value=spec.training.tensor_parallel,
            remedy="use more ranks, or smaller parallel sizes",
        )
    if sent.group_size != spec.network.ranks:
        raise SpecError(
            f"makes groups of {sent.group_size} of {spec.network.ranks} ranks, and buckets are "
            "tuned only over all ranks",
            where="training.tensor_parallel",
            value=spec.training.tensor_parallel,
            remedy="use tensor_parallel = 1 and pipeline_parallel = 1",
        )
    is_sharded = sent.parameter is not None
    if options.shards and is_sharded:
        raise SpecError(
            "would give some ranks more of the optimiser's work and state, which "
            "training.optimiser_time takes to be the same everywhere",
            where="tune.shards",
            value=True,
            remedy='leave shards out, or use training.optimiser_sharding = "none"',
        )
    pieces = options.chunks is not None and max(options.chunks) > 1
    if pieces and not is_sharded and spec.the_collective.kind != "all_reduce":
        raise SpecError(
            "cannot hold what is found for the pieces of an all_reduce bucket",
            where="collective.kind",
            value=spec.the_collective.kind,
            remedy='use kind = "all_reduce", or leave tune.chunks out',
        )
    plain = msgspec.structs.replace(options, objective=None)
    asked = msgspec.structs.replace(spec, tune=plain)
    return sent, {each.collective: bucket_spec(asked, sent, each) for each in sent.distinct}


def _are_the_same_sends(spec: Spec, sent: Buckets) -> bool:
    sizes = {bucket.size_bytes for bucket in sent.distinct}
    is_reduced_in_time = spec.network.reduction_rate is not None
    return len(sizes) == 1 and spec.the_collective.shards is None and not is_reduced_in_time


def _times(
    spec: Spec, sent: Buckets, searches: dict[str, Tuned], report: Report
) -> dict[str, dict[str, float]]:
    """Seconds of every bucket by cut and collective; what one search alone found is tried."""
    own = next(iter(searches.values()))
    times = {"before": {kind: found.before_s for kind, found in searches.items()}}
    for name in own.heuristics_s:
        times[name] = {kind: found.heuristics_s[name] for kind, found in searches.items()}
    cuts = _cuts(searches)
    for kind, found in searches.items():
        name = _name(kind, found, searches)
        if name in times:
            continue
        weights = cuts[name]
        assert weights is not None
        best = weights.into(spec)
        times[name] = {}
        for bucket in sent.distinct:
            other = searches[bucket.collective]
            if other is found:
                times[name][bucket.collective] = found.after_s
                continue
            report(f"emulating {bucket.collective} with {name}")
            times[name][bucket.collective] = run(bucket_spec(best, sent, bucket)).time_s
    return times


def _cuts(searches: dict[str, Tuned]) -> dict[str, Weights | None]:
    """What may be chosen, by name."""
    own = next(iter(searches.values()))
    cuts = {name: own.cuts[name] for name in ("before", *own.heuristics_s)}
    for kind, found in searches.items():
        cuts.setdefault(_name(kind, found, searches), found.cuts[found.found_by])
    return cuts


def _name(kind: str, found: Tuned, searches: dict[str, Tuned]) -> str:
    """Name of the best of a search, with its bucket where there are several searches."""
    is_simple = found.found_by == "before" or found.found_by in found.heuristics_s
    is_only = all(other is found for other in searches.values())
    return found.found_by if is_simple or is_only else f"{found.found_by} of the {kind}"


def _choices(spec: Spec, searches: dict[str, Tuned], times: dict) -> list[str]:
    """The cuts that are of the kind asked for: simple ones are not whole on a rail."""
    if spec.tune is not None and spec.tune.rails == "whole":
        return [_name(kind, found, searches) for kind, found in searches.items()]
    return list(times)


def _step_s(spec: Spec, sent: Buckets, times_s: dict[str, float]) -> float:
    return step_of(spec, sent, times_s).step_s if _is_finite(times_s) else math.inf


def _is_finite(times_s: dict[str, float]) -> bool:
    return all(math.isfinite(each) for each in times_s.values())
