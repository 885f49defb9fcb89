"""Rounds whose lanes are bound to ports: the fast path of engine `chunk`.

Every lane sends to the rank `shift` positions on, so on each lane the receivers are a permutation
of the senders. The receiver's port is seen from the receiver: values move there by a rotation,
and no hop at either end needs a sort or a scatter.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Schedule
from mrcjax.engine.cut import Given, Kind, cut_rounds
from mrcjax.engine.ends import Ends, ends_of
from mrcjax.engine.fabric import NEVER, Inside, inner_links, inside_of
from mrcjax.engine.loop import run_rounds
from mrcjax.engine.maxplus import later, multiple
from mrcjax.engine.params import Config, Params
from mrcjax.engine.plan import Plan, in_arrival_order, inner_rule
from mrcjax.engine.port_arrival import all_at_once
from mrcjax.engine.port_round import Ports, one_round, watched_round
from mrcjax.engine.spread import spread, spread_among
from mrcjax.engine.watching import Seen, Watch, watched_rounds
from mrcjax.network.links import Network


def run_phase(
    params: Params,
    network: Network,
    schedule: Schedule,
    config: Config,
    phase: Phase,
    ports: Ports,
    fabric_free: jax.Array,
    entry: jax.Array,
    watch: Watch | None = None,
) -> tuple[Ports, jax.Array, jax.Array, jax.Array, Seen | None]:
    """Emulate one phase.

    entry: (lanes, ranks) when the data of the first sends is there. Returns the ports' clocks,
    fabric_free (links + 1,), arrivals (lanes, ranks) with -inf for lanes that got nothing, the
    bytes put on every link (links + 1,), and what was seen of what is watched.
    """
    num_ports, ranks = ports.ingress_free.shape
    inside = phase.domain == "network" and len(inner_links(network, schedule, phase, 0)) > 0
    reduces = phase.reduces and params.reduction_bytes_per_s is not None
    extent = schedule.extent(phase)
    fills = ports.lane_free.shape[0] != phase.lanes
    plan = Plan(
        phase=phase,
        ports=num_ports,
        ranks=ranks,
        per_port=ports.lane_free.shape[0] // num_ports,
        rule=inner_rule(network, phase, config),
        store_and_forward=config.switching == "store_and_forward",
        # a weight of zero leaves a lane without its part of a send
        masked=fills or params.shares is not None or extent is not None,
        brief=watch is None
        and ports.lane_free.shape[0] == num_ports
        and phase.needs == "own"
        and not reduces
        and not in_arrival_order(network, phase, config),
    )
    ends = ends_of(params, network, plan, extent)
    equal = ends.egress_seconds is not None
    fixed = phase.per_round == 0
    hops = inside_of(params, network, schedule, phase, inside, fixed)
    dtype = params.capacity_bytes_per_s.dtype
    never = jnp.full((plan.lanes, ranks), NEVER, dtype)
    entry = jnp.concatenate([entry, never[phase.lanes :]]) if fills else entry
    if phase.needs == "own":
        ports = replace(ports, lane_free=later(ports.lane_free, entry))
    clocks = (ports, entry if phase.needs == "lane" else never, fabric_free)
    port_bytes = jnp.zeros((2, plan.lanes, ranks), dtype) if not equal else None
    state = (clocks, (jnp.zeros_like(fabric_free), port_bytes))
    repeats = config.fast_forward and fixed and equal and dtype == jnp.float64
    repeats = repeats and params.jitter is None
    seen = None
    if watch is not None:
        masked = replace(plan, masked=True)
        step = partial(watched_round, masked, watch)
        state, seen = watched_rounds(step, phase.rounds, state, (ends, hops))
    elif in_arrival_order(network, phase, config):
        state = all_at_once(params, plan, ends, hops, state)
    elif _is_cut_straight(plan, inside, params):
        state = _cut(plan, ends, state)
    else:
        all_rounds = _all_rounds if extent is None else _rounds_among
        state = all_rounds(plan, repeats, ends, hops, state)
    (ports, arrived, fabric_free), (link_bytes, port_bytes) = state
    arrivals = _arrivals(plan, ports, arrived, ends)
    link_bytes = _add_port_bytes(network, plan, ends, link_bytes, port_bytes)
    return ports, fabric_free, arrivals[: phase.lanes], link_bytes, seen


def _all_rounds(plan: Plan, repeats: bool, ends: Ends, hops: Inside, state):
    """Round after round: first those in which every lane sends, then those with idle lanes."""
    phase = plan.phase
    # Idle lanes appear in the last rounds at most; with a fabric one loop for all rounds compiles
    # in half the time and the masks cost next to nothing.
    full = 0 if plan.masked else int(phase.rounds_of_lanes()[-1])
    full = 0 if hops.enabled and full < phase.rounds else full
    if full and _is_spread(plan, ends, hops):
        state = _spread(plan, full, ends, state)
    elif full:
        state = run_rounds(partial(one_round, plan, 0), full, repeats, state, (ends, hops))
    if full < phase.rounds:
        masked = replace(plan, masked=True)
        step = partial(one_round, masked, full)
        state = run_rounds(step, phase.rounds - full, repeats, state, (ends, hops))
    return state


def _rounds_among(plan: Plan, repeats: bool, ends: Ends, hops: Inside, state):
    """The same of a phase that is there in part, whose rounds are a number like others."""
    phase, extent, first = plan.phase, ends.extent, 0
    assert extent is not None
    if plan.lanes == phase.lanes and _is_spread(plan, ends, hops):
        first = phase.rounds_of_lanes(extent)[-1]
        state = _spread(plan, first, ends, state)
    step = partial(one_round, plan, first)
    return run_rounds(step, extent.rounds - first, repeats, state, (ends, hops))


def _is_spread(plan: Plan, ends: Ends, hops: Inside) -> bool:
    """Whether equal chunks meet nothing between the ports; see `spread`."""
    is_plain = ends.egress_seconds is not None and ends.jitter is None
    return plan.brief and is_plain and not hops.enabled


def _spread(plan: Plan, rounds: int | jax.Array, ends: Ends, state):
    """The first rounds of a phase in which nothing is met between the ports; see `spread`."""
    (ports, _, fabric_free), tallies = state
    assert ends.egress_seconds is not None
    assert ends.ingress_seconds is not None
    numbers = (
        ports.lane_free,
        ports.ingress_free,
        ends.egress_seconds,
        ends.ingress_seconds,
        ends.egress_latency_s,
    )
    if isinstance(rounds, int):
        ingress_free, tails = spread(plan.phase, rounds, plan.store_and_forward, *numbers)
    else:
        assert ends.extent is not None
        size = ends.extent.size
        ingress_free, tails = spread_among(
            size, plan.phase, rounds, plan.store_and_forward, *numbers
        )
    lane_free = ports.lane_free + multiple(rounds, ends.egress_seconds)
    if ends.extent is not None:
        # who is not there keeps idle clocks, as all do where there are no such rounds: a clock out
        # of the way misleads whoever compares clocks, and no round over a link that is down is NaN
        takes_part = (rounds > 0) & (jnp.arange(plan.ranks) < ends.extent.ranks)
        lane_free = jnp.where(takes_part, lane_free, ports.lane_free)
        ingress_free = jnp.where(takes_part, ingress_free, ports.ingress_free)
        tails = jnp.where(takes_part, tails, NEVER)
    ports = replace(ports, lane_free=lane_free, ingress_free=ingress_free)
    return (ports, tails, fabric_free), tallies


def _is_cut_straight(plan: Plan, inside: bool, params: Params) -> bool:
    """Whether all lanes are cut by weights of both ends and meet nothing between the ports."""
    shares = params.shares
    is_plain = shares is not None and shares.table is None and params.jitter is None
    return is_plain and plan.brief and not inside and plan.lanes == plan.phase.lanes


def _cut(plan: Plan, ends: Ends, state):
    """All rounds of such a phase; see `cut_rounds`."""
    (ports, _, fabric_free), (link_bytes, port_bytes) = state
    assert ends.shares is not None
    given = Given(
        lane_free=ports.lane_free,
        ingress_free=ports.ingress_free,
        latency=ends.egress_latency_s,
        egress=ends.egress_capacity,
        ingress=ends.ingress_capacity,
        whole=jnp.broadcast_to(ends.bytes, (1, plan.ranks)),
        source=ends.shares.source,
        destination=ends.shares.destination,
    )
    kind = Kind(plan.phase, plan.store_and_forward)
    lane_free, ingress_free, tails, used = cut_rounds(kind, given)
    ports = replace(ports, lane_free=lane_free, ingress_free=ingress_free)
    return (ports, tails, fabric_free), (link_bytes, port_bytes + used)


def _arrivals(plan: Plan, ports: Ports, arrived: jax.Array, ends: Ends) -> jax.Array:
    """When each lane's last chunk had arrived.

    A port's ends only grow, so where a lane has its port alone the last end and the latest tail
    of all rounds are enough (`brief`).
    """
    if not plan.brief:
        return arrived
    busy = jnp.asarray(plan.phase.rounds_of_lanes(ends.extent) > 0)
    busy = jnp.pad(busy, (0, plan.lanes - plan.phase.lanes))[:, None]
    busy = busy if ends.shares is None else busy & (arrived > NEVER)
    last = later(ports.ingress_free, arrived) + ends.ingress_latency_s
    return jnp.where(busy, last, NEVER)


def _add_port_bytes(network: Network, plan: Plan, ends: Ends, link_bytes, port_bytes):
    """Add what went through the ports; equal chunks are counted, unequal ones were summed."""
    phase = plan.phase
    prefix = "node " if phase.domain == "node" else ""
    if port_bytes is None:
        sends = jnp.asarray(phase.rounds_of_lanes(ends.extent), ends.bytes.dtype)
        sends = jnp.pad(sends, (0, plan.lanes - phase.lanes))
        total = multiple(sends[:, None], ends.bytes)
        port_bytes = jnp.broadcast_to(total, (2, plan.lanes, plan.ranks))
    for way, lanes in zip(("egress", "ingress"), port_bytes, strict=True):
        tier = network.tier(prefix + way)
        per_port = lanes.reshape(plan.per_port, plan.ports, plan.ranks).sum(axis=0)
        link_bytes = link_bytes.at[tier.first : tier.first + tier.count].add(per_port.reshape(-1))
    return link_bytes
