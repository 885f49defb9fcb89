"""`run`: from a spec to its outcome, bounds and binding resource included."""

import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.sharding import Mesh

from mrcjax import aggregate, devices
from mrcjax.bound import lower_bounds
from mrcjax.case import Case, build
from mrcjax.collective import Phase, Schedule
from mrcjax.engine import Config, SendTimes, Times, emulate, lay_out_sends
from mrcjax.engine.plan import bound_to_ports, in_arrival_order, inner_rule, outer_rule
from mrcjax.fluid import Written, fair, write_out
from mrcjax.network.graph import GraphFabric
from mrcjax.outcome import Binding, FlowTimes, Outcome, Scenarios, Tier
from mrcjax.programs import compiled, structure
from mrcjax.round_order import order_warning
from mrcjax.scenarios import cut_off_pair, scenario_times
from mrcjax.spec import Spec, SpecError

_jitted = {
    emulate: jax.jit(emulate, static_argnames="config").lower,
    fair: jax.jit(fair).lower,
}
_sharded: dict[Mesh, Any] = {}


def precision(name: str) -> AbstractContextManager:
    """JAX's 64-bit mode for the time of one run; the global setting is left as it was."""
    return jax.enable_x64(True) if name == "float64" else nullcontext()


def run(spec: Spec, *, brief: bool = False, known: dict | None = None) -> Outcome:
    """Emulate a spec: what `mrcjax run` does. Several threads may do so at once.

    Args:
        spec: what to emulate.
        brief: compile without optimisation, where the rounds to run are few: about half the time
            to compile, several times that to run. The results are the same.
        known: times by what was emulated, looked up and added to. A reduce-scatter and an
            all-gather of equal shards, for one, are the same sends.

    Raises:
        SpecError: for what cannot be built, and where a link that is down is needed.
    """
    if spec.engine.aggregate:
        return _run_aggregated(spec)
    with precision(spec.engine.precision):
        started = time.perf_counter()
        mesh = devices.mesh_of(spec)
        case = build(spec)
        written = write_out(case) if spec.engine.kind == "fluid" else None
        inputs = inputs_of(case, written)
        placed = devices.place(inputs, mesh, spec.network.ranks)
        built = time.perf_counter()
        engine = emulate if written is None else fair
        emulation = _compile(placed, case.config, brief, engine, mesh)
        ready = time.perf_counter()
        if known is None:
            found = jax.block_until_ready(emulation(*placed))
        else:
            found = _recall(known, inputs, case.config, lambda: emulation(*placed))
        done = time.perf_counter()
        wall_s = {"build": built - started, "compile": ready - built, "run": done - ready}
        outcome = outcome_of(case, found, wall_s, written, devices.name(mesh))
        if written is not None:
            return outcome

        def again(config: Config) -> float:
            return float(_compile(placed, config, brief, emulate, mesh)(*placed).time_s)

        said = order_warning(case, outcome.time_s, outcome.schedule_bound_s, again)
        outcome = replace(outcome, warnings=(*outcome.warnings, *([said] if said else [])))
        return _with_scenarios(case, outcome, inputs[-1])


def _with_scenarios(case: Case, outcome: Outcome, schedule: Schedule) -> Outcome:
    """The outcome with the completion times of all scenarios, where the spec asks for several."""
    if case.spec.faults.scenarios == 1:
        return outcome
    started = time.perf_counter()
    times_s, is_cut_off = scenario_times(case, schedule)
    if is_cut_off.any():
        _refuse_cut_off(case, int(np.flatnonzero(is_cut_off)[0]))
    wall_s = outcome.wall_s | {"scenarios": time.perf_counter() - started}
    return replace(outcome, wall_s=wall_s, scenarios=Scenarios(times_s))


def inputs_of(case: Case, written: Written | None = None) -> tuple:
    """Arguments of `emulate`, or of `fair` where the sends are written out."""
    if written is None:
        return case.params, case.network, plain_schedule(case)
    params = case.params
    dtype = params.capacity_bytes_per_s.dtype
    quantum = jnp.asarray(float(case.spec.engine.quantum), dtype)
    layout = lay_out_sends(written.sends, case.network.num_links)
    return written.sends, layout, params.capacity_bytes_per_s, params.latency_s, quantum


def _run_aggregated(spec: Spec) -> Outcome:
    """The same for an all-to-all by classes of alike flows."""
    started = time.perf_counter()
    aggregate.check(spec)
    even = spec
    if getattr(spec.network, "load_balancing", "") == "spray":
        # so many flows spread over many paths load all cables alike, as one trunk
        network = msgspec.structs.replace(spec.network, load_balancing="ideal", paths=256)
        even = msgspec.structs.replace(spec, network=network)
    with precision(spec.engine.precision):
        case = replace(build(even), spec=spec)
        built = time.perf_counter()
        times = aggregate.times_of(case)
        wall_s = {"build": built - started, "compile": 0.0, "run": time.perf_counter() - built}
        return outcome_of(case, times, wall_s)


def times_of(case: Case) -> Times:
    """Times of a built case, by the code that `run` compiles for it; for search loops."""
    inputs = inputs_of(case)
    return _compile(inputs, case.config, False, emulate)(*inputs)


def scenarios_of(case: Case) -> Scenarios | None:
    """Completion times of all scenarios of a built case, as `run` gives them; None where it is one.

    Infinite where a link that is down is needed.
    """
    if case.spec.faults.scenarios == 1:
        return None
    times_s, is_cut_off = scenario_times(case, plain_schedule(case))
    return Scenarios(np.where(is_cut_off, np.inf, times_s))


def plain_schedule(case: Case) -> Schedule:
    """The schedule without what makes no difference to its times, so that more runs share code.

    With equal chunks it does not matter whose chunk is sent, and without a reducer's rate not
    whether it is reduced.
    """
    equal = all(chunks.shape[-1] == 1 for chunks in case.params.chunk_bytes)
    sizes = _first_alike(case.params.chunk_bytes)
    phases = [replace(phase, sizes=sizes[phase.sizes]) for phase in case.schedule.phases]
    if not equal or case.params.reduction_bytes_per_s is not None:
        return replace(case.schedule, phases=tuple(phases))
    phases = [replace(p, name="sends", owner=(0, 0, False), reduces=False) for p in phases]
    return replace(case.schedule, phases=tuple(_joined(phases)), kind="", algorithm="")


def _first_alike(arrays: tuple[jax.Array, ...]) -> list[int]:
    """Number of the first array that is equal to each."""
    first: dict[tuple, int] = {}
    values = [np.asarray(array) for array in arrays]
    return [first.setdefault((x.shape, x.tobytes()), number) for number, x in enumerate(values)]


def _joined(phases: list[Phase]) -> list[Phase]:
    """Phases with those made one that only continue the one before, lane by lane.

    The all-gather of a ring is such a one: its sends wait for the last arrival on their lane, as
    all others do. Half as many loops to compile.
    """
    joined: list[Phase] = []
    place: list[int] = []  # of each phase among the joined
    for number, phase in enumerate(phases):
        before = joined[-1] if joined else None
        is_awaited_here_only = [p.after for p in phases].count(number - 1) == 1
        if before is not None and is_awaited_here_only and _continues(phase, number - 1, before):
            joined[-1] = replace(before, rounds=before.rounds + phase.rounds)
        else:
            after = phase.after if phase.after < 0 else place[phase.after]
            joined.append(replace(phase, after=after))
        place.append(len(joined) - 1)
    return joined


def _continues(phase: Phase, last: int, before: Phase) -> bool:
    """Whether a phase goes on with the rounds of the one before, which is number `last`."""
    if (phase.after, phase.after_scope, phase.needs) != (last, "lane", "lane"):
        return False
    if phase.table >= 0 or phase.lines:  # there the round's number counts
        return False
    rounds, after, scope = before.rounds, before.after, before.after_scope
    return replace(phase, rounds=rounds, after=after, after_scope=scope) == before


def _compile(
    inputs: tuple, config: Config, brief: bool, engine: Callable, mesh: Mesh | None = None
):
    """Compile once per structure, shapes and devices; numbers are arguments."""
    lower = _jitted[engine] if mesh is None else _sharded_emulation(mesh).lower
    static = {"config": config} if engine is emulate else {}
    # elsewhere than on the CPU the option costs more than it saves
    is_brief = brief and jax.default_backend() == "cpu"
    options: dict[str, str | bool] = {"xla_backend_optimization_level": "0"} if is_brief else {}
    key = (engine, structure_of(inputs, config), brief, mesh)
    return compiled(key, lambda: lower(*inputs, **static), options)


def _sharded_emulation(mesh: Mesh) -> Any:
    """The engine on several devices; every process gets the whole result."""
    whole = devices.on_all(mesh)
    return _sharded.setdefault(
        mesh, jax.jit(emulate, static_argnames="config", out_shardings=whole)
    )


def structure_of(inputs: tuple, config: Config) -> Hashable:
    """What runs that share compiled code have in common."""
    return structure(inputs), config


def _recall(known: dict, inputs: tuple, config: Config, emulation: Callable[[], Any]) -> Any:
    """Emulate what is not known yet."""
    numbers = tuple(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(inputs))
    key = (structure_of(inputs, config), numbers)
    if key not in known:
        known[key] = jax.block_until_ready(emulation())
    return known[key]


def outcome_of(
    case: Case,
    found: Times | SendTimes,
    wall_s: dict[str, float],
    written: Written | None = None,
    device: str | None = None,
) -> Outcome:
    """What `run` gives back for a case whose times are known."""
    spec = case.spec
    if isinstance(found, Times) or written is None:
        assert isinstance(found, Times)
        times, report = found, {}
    else:
        times, report = written.times(found, case.params), _report(case, found, written)
    time_s = float(times.time_s)
    link_bytes = np.asarray(times.link_bytes, np.float64)
    capacity = np.asarray(case.params.capacity_bytes_per_s, np.float64)
    _refuse_needed_but_down(case, link_bytes, capacity)
    if not np.isfinite(time_s):
        raise SpecError(
            f"engine.precision: the completion time is {time_s} in {spec.engine.precision}, out of "
            "the range of its numbers; use smaller sizes and times, or float64"
        )
    bounds = lower_bounds(case)
    kind = max(bounds, key=lambda name: bounds[name])
    busy = np.divide(link_bytes, capacity, out=np.zeros_like(link_bytes), where=link_bytes > 0)
    algbw = case.size_bytes / time_s if time_s > 0 else 0.0
    return Outcome(
        spec=spec,
        kind=spec.network.kind,
        ranks=spec.network.ranks,
        num_links=case.wiring.num_physical_links,
        collective=case.schedule.kind,
        algorithm=case.schedule.algorithm,
        size_bytes=case.size_bytes,
        engine="aggregate" if spec.engine.aggregate else spec.engine.kind,
        precision=spec.engine.precision,
        device=devices.name(None) if device is None else device,
        time_s=time_s,
        finish_s=np.asarray(times.finish_s, np.float64),
        tiers=_tiers(case, link_bytes),
        link_bytes=link_bytes,
        link_capacity_bytes_per_s=capacity,
        link_name=case.wiring.link_name,
        bounds_s=bounds,
        lower_bound_s=bounds[kind],
        bound_kind=kind,
        schedule_bound_s=max(float(busy.max(initial=0.0)), bounds[kind]),
        binding=_binding(case, time_s, busy),
        algbw_bytes_per_s=algbw,
        busbw_bytes_per_s=algbw * _bus_factor(case),
        wall_s=wall_s,
        warnings=_warnings(case, link_bytes, capacity),
        seeds=_seeds(spec),
        **report,
    )


def _report(case: Case, found: SendTimes, written: Written) -> dict[str, Any]:
    """What only engine `fluid` has to tell of a run."""
    said: dict[str, Any] = {
        "fluid": {
            "sends": written.num_sends,
            "events": int(found.events),
            "passes": int(found.passes),
            "quantum_s": float(case.spec.engine.quantum),
            "merge_error_s": float(found.merge_error_s),
        }
    }
    if case.flows is not None:
        finish = np.asarray(found.delivered_s, np.float64)[: written.num_sends]
        said["flows"] = FlowTimes(case.flows.src, case.flows.dst, case.flows.size_bytes, finish)
    return said


def _seeds(spec: Spec) -> dict[str, int]:
    found = {"network": getattr(spec.network, "seed", None)}
    if spec.traffic is not None and spec.traffic.kind == "permutation":
        found["traffic"] = spec.traffic.seed
    return {name: seed for name, seed in found.items() if seed is not None} | spec.faults.seeds


def _refuse_needed_but_down(case: Case, link_bytes: np.ndarray, capacity: np.ndarray) -> None:
    needed = np.flatnonzero((link_bytes > 0) & (capacity <= 0))
    if len(needed) and case.flows is not None:
        raise SpecError(
            f'a flow needs "{case.wiring.link_name(int(needed[0]))}", which is down',
            where="faults",
            remedy="give it a rate above 0, or the flow another route",
        )
    if len(needed):
        _refuse_cut_off(case, 0)


def _refuse_cut_off(case: Case, scenario: int) -> None:
    """Say which pair of ranks has no way left."""
    faults = case.spec.faults
    pair = cut_off_pair(case, scenario)
    assert pair is not None
    sender, receiver, link = pair
    where = "faults.links" if not faults.random else "faults.random"
    drawn = f"in scenario {scenario} (every seed + {scenario}) " if faults.scenarios > 1 else ""
    kind, graph = case.spec.network.kind, isinstance(case.network.fabric, GraphFabric)
    if any(phase.tree >= 0 for phase in case.schedule.phases):
        remedy = (
            "what switches reduce goes around nothing: give it a rate above 0, or use another "
            "algorithm"
        )
    elif graph and faults.reroute != "spread" and faults.scenarios == 1:
        remedy = 'give it a rate above 0, or find other routes with faults.reroute = "spread"'
    elif not case.network.can_reroute:
        remedy = f"a {kind} like this goes around nothing: give it a rate above 0"
        if case.network.rails == "joined":
            remedy += ', or set network.cross_rail = "spine" and faults.reroute = "spread"'
    elif faults.reroute == "none":
        remedy = (
            'nothing is rerouted with faults.reroute = "none": give it a rate above 0, or set '
            'reroute = "spread" or "neighbour"'
        )
    else:
        remedy = "no other way is up: give it a rate above 0, or leave the rank out"
    raise SpecError(
        f"{where}: {drawn}rank {sender} cannot reach rank {receiver}: "
        f'"{case.wiring.link_name(link)}" is down; {remedy}'
    )


def _bus_factor(case: Case) -> float:
    """busbw / algbw of nccl-tests (its doc/PERFORMANCE.md); traffic has none."""
    if case.flows is not None:
        return 1.0
    asked = case.spec.the_collective
    n = case.spec.network.ranks if asked.group_size is None else asked.group_size
    return (2.0 if asked.kind == "all_reduce" else 1.0) * (n - 1) / n


def _tiers(case: Case, link_bytes: np.ndarray) -> tuple[Tier, ...]:
    """Every tier with the rule by which its links were shared in this run."""
    if case.spec.engine.aggregate:
        return tuple(Tier(t.name, t.first, t.count, aggregate.RULE) for t in case.network.tiers)
    rules: dict[str, set[str]] = {}
    if case.spec.engine.kind == "fluid":
        used = {t.name for t in case.network.tiers if link_bytes[t.first :][: t.count].any()}
        return tuple(
            Tier(t.name, t.first, t.count, "max-min" if t.name in used else "unused")
            for t in case.network.tiers
        )
    for phase in case.schedule.phases:
        for name, rule in _phase_rules(case, phase).items():
            rules.setdefault(name, set()).add(rule)
    return tuple(
        Tier(t.name, t.first, t.count, "+".join(sorted(rules.get(t.name, {"unused"}))))
        for t in case.network.tiers
    )


def _phase_rules(case: Case, phase) -> dict[str, str]:
    network = case.network
    if phase.tree >= 0:
        tree = case.schedule.trees[phase.tree]
        rules = {True: "single", False: "share"}
        used = {}
        for links, alone in zip((*tree.up, *tree.down), tree.alone * 2, strict=True):
            real = np.unique(np.asarray(links)[np.asarray(links) != network.no_link])
            used |= {network.tier_of(int(link)).name: rules[alone] for link in real[:1]}
        return used
    ports = [t.name for t in network.tiers if t.sharing == "port"]
    fabric = [t.name for t in network.tiers if t.sharing != "port"]
    inner = inner_rule(network, phase, case.config)
    if bound_to_ports(phase, network):
        is_node = phase.domain == "node"
        here = [name for name in ports if name.startswith("node") == is_node]
        per_port = -(-phase.lanes // (network.node_ports if is_node else network.ports))
        rule = "single" if per_port == 1 else f"slots({per_port})"
        if in_arrival_order(network, phase, case.config):
            return dict.fromkeys((*here, *fabric), "sort by arrival")
        return dict.fromkeys(here, rule) | ({} if is_node else dict.fromkeys(fabric, inner))
    outer = outer_rule(network, phase, case.config)
    if network.reroute == "spread" and not (network.ports > 1 and phase.per_lane > 0):
        outer = "share"
    if network.by_table:
        return dict.fromkeys(fabric, outer if inner != "share" else inner)
    return dict.fromkeys(ports, outer) | dict.fromkeys(
        fabric, inner if network.relay is None else outer
    )


def _binding(case: Case, time_s: float, busy: np.ndarray) -> Binding:
    """The busiest link, or latency where waiting in turn takes longer than the link's work."""
    messages = _messages_in_turn(case)
    if messages == 0 or time_s == 0:
        return Binding("none", "nothing is sent", 0.0)
    busiest = int(np.argmax(busy))
    waiting = messages * _path_latency(case)
    utilisation = float(busy[busiest] / time_s)
    if waiting > busy[busiest]:
        return Binding("latency", f"{messages} message latencies in turn", utilisation)
    return Binding("link", case.wiring.link_name(busiest), utilisation)


def _messages_in_turn(case: Case) -> int:
    """Most messages of which each waits for the one before."""
    if case.flows is None:
        return sum(p.rounds if p.needs == "lane" else 1 for p in case.schedule.phases)
    depth = np.ones(len(case.flows.src), int)
    firsts = case.flows.firsts()
    for flow in case.flows.order:
        depth[flow] += depth[firsts[flow]].max(initial=0)
    return int(depth.max(initial=0))


def _path_latency(case: Case) -> float:
    """Typical latency of a message: the median link of each tier on the way."""
    latency = np.asarray(case.params.latency_s)
    total = float(case.params.endpoint_latency_s)
    if isinstance(case.network.fabric, GraphFabric):
        return total + case.network.fabric.hops * float(np.median(latency))
    only_nodes = all(phase.domain == "node" for phase in case.schedule.phases)
    for tier in case.network.tiers:
        if tier.name.startswith("node") == only_nodes:
            total += float(np.median(latency[tier.first : tier.first + tier.count]))
    return total


def _warnings(case: Case, link_bytes: np.ndarray, capacity: np.ndarray) -> tuple[str, ...]:
    """What a reader must know about how far the numbers can be trusted."""
    said = list(case.spec.network.cautions)
    shared = [t for t in _tiers(case, link_bytes) if "share" in t.rule]
    if case.spec.engine.aggregate:
        if getattr(case.spec.network, "load_balancing", "") == "spray":
            said.append("sprayed paths are taken to load all parallel cables alike")
        return tuple(said)
    rounds = max((p.rounds for p in case.schedule.phases), default=0)
    for tier in shared:
        part = slice(tier.first, tier.first + tier.count)
        used = link_bytes[part] > 0
        if used.any():
            per_round = (link_bytes[part][used] / capacity[part][used]).max() / max(rounds, 1)
            said.append(
                f"{tier.name}: chunks of one round share a link without order; each may be off by "
                f"its link's work of a round, about {per_round:.3g} s"
            )
    if case.spec.engine.precision == "float32":
        said.append(
            f"float32: a clock rounds to 6e-8 of itself in each of up to {rounds} rounds; expect "
            f"errors up to {6e-8 * max(rounds, 1):.1g} of the time"
        )
    return tuple(said)
