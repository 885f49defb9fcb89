"""What the times of a run mean: its outcome with bounds and what binds, or why there is none."""

from typing import Any

import numpy as np

from mrcjax import aggregate, devices
from mrcjax.bound import lower_bounds
from mrcjax.case import Case
from mrcjax.collective.turns import messages_in_turn
from mrcjax.engine import SendTimes, Times
from mrcjax.engine.plan import bound_to_ports, in_arrival_order, inner_rule, outer_rule
from mrcjax.fluid import Written
from mrcjax.network.graph import GraphFabric
from mrcjax.outcome import Binding, FlowTimes, Outcome, Tier
from mrcjax.scenarios import cut_off_pair
from mrcjax.spec import Spec, SpecError


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
    tiers = _tiers(case, link_bytes)
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
        tiers=tiers,
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
        warnings=_warnings(case, tiers, link_bytes, capacity),
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
        refuse_cut_off(case, 0)


def refuse_cut_off(case: Case, scenario: int) -> None:
    """Raise the SpecError that says which pair of ranks has no way left in a scenario."""
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
        return messages_in_turn(case.schedule)
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


def _warnings(
    case: Case, tiers: tuple[Tier, ...], link_bytes: np.ndarray, capacity: np.ndarray
) -> tuple[str, ...]:
    """What a reader must know about how far the numbers can be trusted."""
    said = list(case.spec.network.cautions)
    shared = [t for t in tiers if "share" in t.rule]
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
