"""`tune`: from a spec to the best way found of cutting its collective."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import jax
import jax.numpy as jnp
import msgspec
import numpy as np

from mrcjax.case import Case, build, recut
from mrcjax.emulation import outcome_of, precision, times_of
from mrcjax.engine import Times
from mrcjax.spec import FlatRails, Spec, SpecError, TuneSpec
from mrcjax.tuning.classes import Classes, classes_of, one_by_one
from mrcjax.tuning.damage import check_faults
from mrcjax.tuning.descent import BLOCK, Descent, Objective, adam, annealed, descend
from mrcjax.tuning.emulated import Emulated, emulated_of, emulated_time, num_sends
from mrcjax.tuning.limits import HALVES, limits
from mrcjax.tuning.reference import references
from mrcjax.tuning.surrogate import Cutting, Load, load_of, load_time, shares_of
from mrcjax.tuning.tuned import Step, Tuned
from mrcjax.tuning.weights import Weights, given_shares, weights_of_cutting, weights_of_spec
from mrcjax.tuning.whole import PROPOSALS, assign, dealt, polish, rounding_loss
from mrcjax.units import format_seconds

ENGINE_STEPS = 100
ENGINE_SENDS = 150_000_000  # of all engine steps together, unless the spec says how many steps
AT_THE_BOUND = 1e-9  # of the bound: nothing is left to find
MOST_PAIRS = 20_000_000  # pairs of classes times rails that the loads are worked out for

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
    tried: dict[str, float] = field(default_factory=dict)
    best: "_Tried | None" = None
    wall_s: dict[str, float] = field(default_factory=dict)
    stopped: bool = False
    last_s: float = math.inf  # of the last rounding

    def emulate(self, name: str, weights: Weights | None) -> float:
        """Time a cut on the engine and keep the best; None is the spec as it stands."""
        self.report(f"emulating {name}")
        case = self.case if weights is None else recut(self.case, weights.into(self.spec))
        times = times_of(case)
        time_s = float(times.time_s)
        time_s = time_s if math.isfinite(time_s) else math.inf
        self.tried[name] = time_s
        is_whole = weights.rail is not None if weights else not self.spec.the_collective.stripe
        is_wanted = is_whole or self.options.rails != "whole" or self.case.network.ports == 1
        if is_wanted and (self.best is None or time_s < self.best.time_s):
            self.best = _Tried(name, time_s, case, times, weights)
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
    on the engine beside simple cuts, and the best of all is returned.

    Args:
        spec: what to tune; [tune] says how, without the section everything is free.
        case: the spec as built, where its numbers were changed by hand; the best spec then gives
            its time only with the same change.
        start: where to start instead of at the rates of the rails.
        history: steps already behind, that led to `start`; they count.
        report: called with what is being done.
        is_stopped: asked between steps; True ends the search with the best so far.

    Raises:
        SpecError: for networks and algorithms that cannot be cut, and what cannot be built.
    """
    options = spec.tune or TuneSpec()
    check(spec, options)
    with precision(spec.engine.precision):
        started = time.perf_counter()
        case = build(spec) if case is None else case
        by_pair = options.rails in ("table", "whole")
        classes = one_by_one(case) if by_pair else classes_of(case)
        _check_size(classes)
        search = _Search(spec, options, case, classes, report, is_stopped)
        search.history += history
        search.wall_s["build"] = time.perf_counter() - started
        return _tune(search, start)


def _tune(search: _Search, start: Weights | None) -> Tuned:
    spec, options, classes = search.spec, search.options, search.classes
    given = weights_of_spec(spec)
    pieces = options.chunks or (spec.the_collective.chunks,)
    load, first = _load(search, given), _start(search, start)
    shard_bytes = None if first.shards is not None else np.asarray(load.shard_bytes)
    shares = None if first.source is not None else np.asarray(shares_of(load, first))
    search.report("bounding")
    free = {"programme": options.programme, "in_halves": max(pieces) == 1}
    bounds, optima = search.timed(
        "bounds", limits, search.case, classes, shard_bytes, shares, **free
    )
    heuristics = search.timed("heuristics", _heuristics, search)
    if start is not None:
        search.timed("start", search.emulate, "start", start)
    found: list[tuple[float, Weights, float | None]] = []
    for pipelined in sorted({count > 1 for count in pieces}):
        counts = [count for count in pieces if (count > 1) == pipelined]
        found += _by_loads(search, replace(load, pipelined=pipelined), first, given, counts)
    _, cut, rounding_s = min(found, key=lambda each: each[0])
    assert search.best is not None
    is_done = search.best.time_s <= max(bounds.values()) * (1 + AT_THE_BOUND)
    if not search.stopped and not is_done:
        down = _polish if options.rails == "whole" else _down_the_engine
        search.timed("engine", down, search, cut, first)
    best = search.best
    return Tuned(
        spec=spec,
        best=best.case.spec
        if best.weights is not None
        else msgspec.structs.replace(spec, tune=None),
        outcome=outcome_of(best.case, best.times, dict(search.wall_s)),
        before_s=search.tried["before"],
        found_by=best.name,
        heuristics_s=heuristics,
        bounds_s=bounds,
        optima_s=optima,
        parameters=_num_parameters(search, first),
        history=tuple(search.history),
        wall_s=search.wall_s,
        stopped=search.stopped,
        rounding_s=rounding_s,
    )


def _by_loads(
    search: _Search, load: Load, first: Cutting, given: Weights, counts: list[int]
) -> list[tuple[float, Weights, float | None]]:
    """Descend by loads and emulate that in every number of pieces: time, cut, loss of rounding."""
    stage = "loads, pipelined" if load.pipelined else "loads"
    options = search.options
    steps, rate = options.steps, options.learning_rate
    relaxed = search.timed(stage, _descend, search, stage, load_time, load, first, steps, rate).best
    found = []
    for count in counts:
        name = stage if len(counts) == 1 else f"{stage}, {count} pieces"
        cut = replace(weights_of_cutting(search.classes, relaxed, given), chunks=count)
        if options.rails == "whole":
            cut = search.timed("rounding", _round, search, load, relaxed, cut)
            assert cut.rail is not None
            found.append((search.last_s, cut, rounding_loss(load, relaxed, cut.rail)))
        else:
            time_s = search.timed(f"emulation of {name}", search.emulate, name, cut)
            found.append((time_s, cut, None))
    return found


def check(spec: Spec, options: TuneSpec) -> None:
    """Refuse what cannot be tuned; raises SpecError."""
    network, collective = spec.network, spec.the_collective
    is_plane = isinstance(network, FlatRails) and network.reach == "all"
    if not is_plane or network.node_size > 1 or network.channels not in (None, network.ports):
        raise SpecError(
            "can be tuned only as planes without nodes, one lane per rail",
            where="network.kind",
            value=network.kind,
            remedy='use kind = "flat_rails" with reach = "all"',
        )
    if collective.algorithm != "direct" or collective.group_size is not None:
        raise SpecError(
            "can be tuned only over all ranks",
            where="collective.algorithm",
            value=collective.algorithm,
            remedy='use algorithm = "direct" without group_size',
        )
    if collective.element_bytes is not None:
        raise SpecError(
            "does not go with tuning, which cuts in exact fractions",
            where="collective.element_bytes",
            value=collective.element_bytes,
            remedy="leave element_bytes out",
        )
    if collective.split != "equal":
        raise SpecError(
            "does not go with tuning, which finds the cut over rails itself",
            where="collective.split",
            value=collective.split,
            remedy="leave split out",
        )
    check_faults(spec)
    if network.ranks < 2:
        raise SpecError(
            "leaves nothing to tune", where="network.ranks", value=network.ranks, remedy="use 2"
        )
    if options.shards and collective.kind != "all_reduce":
        raise SpecError(
            f"is given by what a {collective.kind} is",
            where="tune.shards",
            value=True,
            remedy="only an all_reduce may place its shards freely; leave shards out",
        )
    if options.chunks and max(options.chunks) > 1 and collective.kind != "all_reduce":
        raise SpecError(
            f"cannot be pipelined in a {collective.kind}",
            where="tune.chunks",
            value=options.chunks,
            remedy="it has one half only; leave chunks out",
        )
    if not _frees_rails(spec, options) and not _frees_shards(spec, options):
        raise SpecError(
            "leaves nothing free here",
            where="tune.rails",
            value=options.rails,
            remedy="with one rail or fixed rails only the shards of an all_reduce can be tuned",
        )
    cuts = collective.stripe or network.ports == 1
    if not _frees_rails(spec, options) and not cuts:
        raise SpecError(
            "needs sends that are striped over the rails",
            where="tune.rails",
            value=options.rails,
            remedy="set collective.stripe = true, or free the rails",
        )


def _frees_rails(spec: Spec, options: TuneSpec) -> bool:
    return options.rails != "fixed" and spec.network.ports > 1


def _frees_shards(spec: Spec, options: TuneSpec) -> bool:
    return options.shards is not False and spec.the_collective.kind == "all_reduce"


def _check_size(classes: Classes) -> None:
    pairs = len(classes.count) ** 2 * classes.rails
    if pairs > MOST_PAIRS:
        raise SpecError(
            f"has {len(classes.count):,} ranks that all differ; pairs of them times rails are "
            f"{pairs:,} and the most is {MOST_PAIRS:,}",
            where="network.ranks",
            value=classes.ranks,
            remedy='use fewer ranks, ports of fewer different rates, or tune.rails = "shares"',
        )


def _load(search: _Search, given: Weights) -> Load:
    """The surrogate's constants, with the spec's own cut for what is not free."""
    spec, classes = search.spec, search.classes
    shard_bytes = None
    if given.shards is not None:
        shards = given.shards / given.shards.sum() * float(spec.the_collective.size)
        shard_bytes = np.bincount(classes.index, shards) / classes.count
    halves = tuple(bool(to_receiver) for _, to_receiver in HALVES[spec.the_collective.kind])
    shares = None
    if not _frees_rails(spec, search.options):
        shares = given_shares(classes, given)
    return load_of(
        classes, float(spec.the_collective.size), halves, given=shares, shard_bytes=shard_bytes
    )


def _start(search: _Search, start: Weights | None) -> Cutting:
    """Logarithms to start from: the rates of both ports, or those of a given cut."""
    classes, options = search.classes, search.options
    source = destination = table = shards = None
    if _frees_rails(search.spec, options):
        ends = (classes.egress, classes.ingress)
        if start is not None and start.source is not None and start.destination is not None:
            ends = (start.source.T[classes.first], start.destination.T[classes.first])
        source, destination = (_log(end) for end in ends)
        if options.rails == "table":
            table = jnp.zeros(classes.live.shape)
            if start is not None and start.table is not None:
                table = _log(np.moveaxis(start.table, 0, 2))
    if _frees_shards(search.spec, options):
        shards = jnp.zeros(len(classes.count))
        if start is not None and start.shards is not None:
            shards = _log(start.shards[classes.first])
    return Cutting(source, destination, table, shards)


def _log(weight: np.ndarray) -> jax.Array:
    """Logarithms; of zeros, which only ports that are down should have, something small."""
    best = weight.max(axis=-1, keepdims=True)
    return jnp.asarray(np.log(np.maximum(weight / np.where(best > 0, best, 1.0), 1e-12)))


def _heuristics(search: _Search) -> dict[str, float]:
    size, ranks = float(search.spec.the_collective.size), search.case.network.ranks
    search.emulate("before", None)
    found = references(search.classes, size * (ranks - 1) / ranks)
    return {name: search.emulate(name, weights) for name, weights in found.items()}


def _down_the_engine(search: _Search, cut: Weights, first: Cutting) -> None:
    """Go on by rank from a cut, on the engine's own time, and try what that finds."""
    case = recut(search.case, cut.into(search.spec))
    asked = search.options.engine_steps
    steps = min(ENGINE_STEPS, ENGINE_SENDS // num_sends(case)) if asked is None else asked
    if steps == 0:
        return
    constants = emulated_of(case)
    weights, ranks = constants.params.shares, case.network.ranks
    assert weights is not None
    shards = jnp.log(jnp.broadcast_to(constants.params.chunk_bytes[0][0], (ranks,)))
    here = Cutting(
        source=None if first.source is None else jnp.log(weights.source),
        destination=None if first.source is None else jnp.log(weights.destination),
        shards=None if first.shards is None else shards,
    )
    # by now all is nearly right: a tenth of the step
    rate = search.options.learning_rate / 10
    found = _descend(search, "engine", emulated_time, constants, here, steps, rate)
    source, destination = (
        old if new is None else np.exp(np.asarray(new) - np.asarray(new).max(axis=0))
        for new, old in ((found.best.source, cut.source), (found.best.destination, cut.destination))
    )
    shards = cut.shards
    if found.best.shards is not None:
        score = np.asarray(found.best.shards)
        shards = np.exp(score - score.max())
    weights = replace(cut, source=source, destination=destination, shards=shards)
    search.emulate("engine", weights)


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
    constants: Load | Emulated,
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
    """Free numbers of the cut by rank."""
    ranks, rails = search.classes.ranks, search.classes.rails
    rows = 0 if first.source is None else 2 * ranks * rails
    pairs = 0 if first.table is None else ranks * ranks * rails
    return rows + pairs + (0 if first.shards is None else ranks)
