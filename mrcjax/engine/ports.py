"""Rounds whose lanes are bound to ports: the fast path of engine `chunk`.

Every lane sends to the rank `shift` positions on, so on each lane the receivers are a permutation
of the senders. The receiver's port is seen from the receiver: values move there by a rotation,
and no hop at either end needs a sort or a scatter.
"""

from functools import partial

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Schedule
from mrcjax.engine.arrival import first_come
from mrcjax.engine.cut import Given, Kind, cut_rounds
from mrcjax.engine.ends import Ends, active_of, ends_of, moved, work_of
from mrcjax.engine.fabric import NEVER, Inside, cross, inner_links, inside_of, send_ends
from mrcjax.engine.jitter import delays
from mrcjax.engine.loop import run_rounds
from mrcjax.engine.maxplus import later, multiple, segment_max
from mrcjax.engine.params import Config, Params
from mrcjax.engine.plan import Plan, in_arrival_order, inner_rule
from mrcjax.engine.sharing import queue, slots
from mrcjax.engine.spread import spread, spread_among
from mrcjax.engine.watching import Seen, Watch, look, watched_rounds
from mrcjax.network.links import Network
from mrcjax.pytree import pytree


@pytree
class Ports:
    """Clocks of one set of ports between phases; seconds.

    lane_free     (lanes, ranks)   the lane's previous send has left
    egress_free   (ports, ranks)   egress link, kept apart where several lanes share it
    ingress_free  (ports, ranks)   ingress link
    reducer_free  (lanes, ranks)   the lane's reducer has done its last chunk
    """

    lane_free: jax.Array
    egress_free: jax.Array
    ingress_free: jax.Array
    reducer_free: jax.Array


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
        ports = Ports(**{**vars(ports), "lane_free": later(ports.lane_free, entry)})
    clocks = (ports, entry if phase.needs == "lane" else never, fabric_free)
    port_bytes = jnp.zeros((2, plan.lanes, ranks), dtype) if not equal else None
    state = (clocks, (jnp.zeros_like(fabric_free), port_bytes))
    repeats = config.fast_forward and fixed and equal and dtype == jnp.float64
    repeats = repeats and params.jitter is None
    seen = None
    if watch is not None:
        masked = Plan(**{**vars(plan), "masked": True})
        step = partial(_watched_round, masked, watch)
        state, seen = watched_rounds(step, phase.rounds, state, (ends, hops))
    elif in_arrival_order(network, phase, config):
        state = _all_at_once(params, plan, ends, hops, state)
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
        state = run_rounds(partial(_round, plan, 0), full, repeats, state, (ends, hops))
    if full < phase.rounds:
        masked = Plan(**{**vars(plan), "masked": True})
        step = partial(_round, masked, full)
        state = run_rounds(step, phase.rounds - full, repeats, state, (ends, hops))
    return state


def _rounds_among(plan: Plan, repeats: bool, ends: Ends, hops: Inside, state):
    """The same of a phase that is there in part, whose rounds are a number like others."""
    phase, extent, first = plan.phase, ends.extent, 0
    assert extent is not None
    if plan.lanes == phase.lanes and _is_spread(plan, ends, hops):
        first = phase.rounds_of_lanes(extent)[-1]
        state = _spread(plan, first, ends, state)
    step = partial(_round, plan, first)
    return run_rounds(step, extent.rounds - first, repeats, state, (ends, hops))


def _is_spread(plan: Plan, ends: Ends, hops: Inside) -> bool:
    """Whether equal chunks meet nothing between the ports; see `spread`."""
    is_plain = ends.egress_seconds is not None and ends.jitter is None
    return plan.brief and is_plain and not hops.enabled


def _round(plan: Plan, start: int | jax.Array, k: jax.Array, state, operands):
    """One round of the clocks and tallies."""
    return _round_and_sends(plan, start, k, state, operands)[0]


def _watched_round(plan: Plan, watch: Watch, k: jax.Array, state, operands):
    """The same, and what it did to the watched ranks and links."""
    ends, hops = operands
    after, (begin, left, arrival, out_bytes, in_bytes) = _round_and_sends(
        plan, 0, k, state, operands
    )
    phase, network = plan.phase, hops.network
    (ports, _, free), (work, _) = after
    work = work - state[1][0]
    prefix = "node " if phase.domain == "node" else ""
    egress_free = left if plan.per_port == 1 else ports.egress_free
    for way, clock, lanes in (
        ("egress", egress_free, out_bytes),
        ("ingress", ports.ingress_free, in_bytes),
    ):
        tier = network.tier(prefix + way)
        at_ports = slice(tier.first, tier.first + tier.count)
        lanes = jnp.broadcast_to(lanes, left.shape).reshape(plan.per_port, plan.ports, plan.ranks)
        free = free.at[at_ports].set(clock.reshape(-1))
        work = work.at[at_ports].add(lanes.sum(axis=0).reshape(-1))
    sent, begin, arrival = (
        jnp.broadcast_to(x, left.shape)[: phase.lanes] for x in (out_bytes, begin, arrival)
    )
    sends = (sent, begin, left[: phase.lanes], arrival)
    return after, look(watch, phase, hops.schedule, network, k, sends, work, free)


def _round_and_sends(plan: Plan, start: int | jax.Array, k: jax.Array, state, operands):
    """One round: out of the sender's port, through the fabric, into the receiver's port.

    Also when its sends may begin, have left, and (unless the plan is brief) what each rank
    receives has arrived; and the bytes of sends, by sender and by receiver.
    """
    (ports, ready, fabric_free), (link_bytes, port_bytes) = state
    ends, hops = operands
    k = k + start
    phase = plan.phase
    shift = phase.first + k * phase.per_round + jnp.arange(plan.lanes) * phase.per_lane
    active = active_of(plan, ends, shift)
    out_bytes, in_bytes, out_seconds, in_seconds = work_of(plan, ends, k, shift, active)
    received = active
    if ends.shares is not None:  # a lane without weight sends nothing
        active, received = out_bytes > 0, in_bytes > 0

    begin = later(ports.lane_free, ready) if phase.needs == "lane" else ports.lane_free
    begin = begin if ends.jitter is None else begin + delays(ends.jitter, k, plan.ranks)
    head, tail, lane_free, egress_free = _leave(plan, ends, begin, out_seconds, active, ports)
    if hops.enabled:
        with jax.named_scope("fabric"):
            sent = jnp.broadcast_to(out_bytes, head.shape)
            head, tail, fabric_free, work = cross(plan, hops, k, head, tail, sent, fabric_free)
            link_bytes = link_bytes + work
    with jax.named_scope("ingress"):
        head, tail = moved(plan, ends, head, shift), moved(plan, ends, tail, shift)
        _, end, ingress_free = _into_port(plan, head, tail, in_seconds, ports.ingress_free)
    reducer_free, arrival = ports.reducer_free, tail
    if plan.brief:
        ready = later(ready, tail)
    else:
        arrival = end + ends.ingress_latency_s
        if ends.reduction_bytes_per_s is not None:
            arrival = later(arrival, reducer_free) + in_bytes / ends.reduction_bytes_per_s
            reducer_free = jnp.where(received, arrival, reducer_free) if plan.masked else arrival
        if phase.needs == "lane":
            ready = jnp.where(received, arrival, ready) if plan.masked else arrival
        else:
            arrival = arrival if ends.shares is None else jnp.where(received, arrival, NEVER)
            ready = later(ready, arrival)
    if port_bytes is not None:
        port_bytes = port_bytes + jnp.stack([out_bytes, in_bytes])
    ports = Ports(lane_free, egress_free, ingress_free, reducer_free)
    after = (ports, ready, fabric_free), (link_bytes, port_bytes)
    begin = jnp.where(active, begin, NEVER)
    return after, (begin, lane_free, arrival, out_bytes, in_bytes)


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
    ports = Ports(lane_free, ports.egress_free, ingress_free, ports.reducer_free)
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
    ports = Ports(lane_free, ports.egress_free, ingress_free, ports.reducer_free)
    return (ports, tails, fabric_free), (link_bytes, port_bytes + used)


def _leave(plan: Plan, ends: Ends, begin, seconds, active, ports: Ports):
    """Head and tail behind the sender's port, and when lane and port are free again."""
    with jax.named_scope("egress"):
        head, tail, egress_free = _into_port(plan, begin, begin, seconds, ports.egress_free)
    lane_free = jnp.where(active, tail, ports.lane_free) if plan.masked else tail
    head, tail = head + ends.egress_latency_s, tail + ends.egress_latency_s
    if plan.masked:
        head, tail = jnp.where(active, head, NEVER), jnp.where(active, tail, NEVER)
    return tail if plan.store_and_forward else head, tail, lane_free, egress_free


def _all_at_once(params: Params, plan: Plan, ends: Ends, hops: Inside, state):
    """All rounds of a phase in the order of arrival; takes and gives what the rounds do."""
    (ports, arrived, fabric_free), (link_bytes, port_bytes) = state
    network, phase = hops.network, plan.phase
    masked = Plan(**{**vars(plan), "masked": True})
    lane = jnp.arange(plan.lanes)

    def leave(ports: Ports, k):
        shift = phase.first + k * phase.per_round + lane * phase.per_lane
        active = active_of(masked, ends, shift)
        out_bytes, in_bytes, seconds, _ = work_of(masked, ends, k, shift, active)
        begin = ports.lane_free
        begin = begin if ends.jitter is None else begin + delays(ends.jitter, k, plan.ranks)
        head, tail, lane_free, egress_free = _leave(masked, ends, begin, seconds, active, ports)
        ports = Ports(lane_free, egress_free, ports.ingress_free, ports.reducer_free)
        shape = (plan.lanes, plan.ranks)
        sent = jnp.broadcast_to(out_bytes, shape)
        used = jnp.stack([sent, jnp.broadcast_to(in_bytes, shape)])
        return ports, (head[: phase.lanes], tail[: phase.lanes], sent[: phase.lanes], used)

    rounds = jnp.arange(phase.rounds)
    ports, (heads, tails, sent, used) = jax.lax.scan(leave, ports, rounds)
    ends_of_sends = jax.vmap(partial(send_ends, network, hops.schedule, phase))(rounds)
    src, dst, port, lane_of_send = (x.reshape(-1) for x in ends_of_sends)
    heads, tails, sent = heads.reshape(-1), tails.reshape(-1), sent.reshape(-1)
    tier = network.tier("ingress")
    entry = tier.first + port * plan.ranks + dst
    links = (*network.fabric.inner(src, dst, port, lane_of_send), entry)
    links = tuple(jnp.where(heads > NEVER, link, network.no_link) for link in links)
    at_ports = slice(tier.first, tier.first + tier.count)
    free = fabric_free.at[at_ports].set(ports.ingress_free.reshape(-1))
    latency = hops.latency.at[at_ports].add(params.endpoint_latency_s)
    order = jnp.repeat(rounds, phase.lanes * plan.ranks) * plan.ranks + src
    tails, free, work = first_come(
        links,
        network.fabric.together,
        heads,
        tails,
        sent,
        order,
        free,
        hops.capacity,
        latency,
        plan.store_and_forward,
    )
    num = plan.lanes * plan.ranks
    cell = jnp.where(heads > NEVER, lane_of_send * plan.ranks + dst, num)
    reducer_free = ports.reducer_free
    if ends.reduction_bytes_per_s is not None:
        grid = (plan.lanes, plan.ranks)
        _, tails, reducer_free, _ = queue(
            tails,
            tails,
            sent,
            cell,
            order,
            jnp.append(reducer_free.reshape(-1), NEVER),
            jnp.append(jnp.broadcast_to(ends.reduction_bytes_per_s, grid).reshape(-1), 1.0),
            jnp.zeros((num + 1,), tails.dtype),
        )
        reducer_free = reducer_free[:-1].reshape(plan.lanes, plan.ranks)
    here = segment_max(tails, cell, num + 1)[:-1].reshape(plan.lanes, plan.ranks)
    ports = Ports(
        ports.lane_free,
        ports.egress_free,
        free[at_ports].reshape(ports.ingress_free.shape),
        reducer_free,
    )
    if port_bytes is not None:
        port_bytes = port_bytes + used.sum(axis=0)
    return (ports, later(arrived, here), free), (link_bytes + work, port_bytes)


def _into_port(plan: Plan, head, tail, seconds, free):
    """Serve the lanes of each port in the order of their heads; free: (ports, ranks).

    At the sender `head` is when a send may begin; a lane that has its port alone began after its
    previous send left, so the port is free by then.
    """
    if plan.per_port == 1:
        if head is tail:
            return head, head + seconds, free
        end = later(head, free) + seconds
        return head, end if plan.brief else later(end, tail), end
    grid = (plan.per_port, plan.ports, plan.ranks)
    seconds = jnp.broadcast_to(seconds, head.shape).reshape(grid)
    first, last, free = slots(head.reshape(grid), tail.reshape(grid), seconds, free)
    return first.reshape(head.shape), last.reshape(head.shape), free


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
