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
from mrcjax.engine.fabric import NEVER, Inside, cross, inner_links, inside_of, send_ends
from mrcjax.engine.jitter import Jitter, delays
from mrcjax.engine.loop import run_rounds
from mrcjax.engine.maxplus import later, move, segment_max
from mrcjax.engine.params import Config, Params, Shares
from mrcjax.engine.plan import Plan, in_arrival_order, inner_rule
from mrcjax.engine.sharing import queue, slots
from mrcjax.engine.spread import spread
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


@pytree
class Ends:
    """Numbers of the links at both ends of every lane, (lanes, ranks) each, and what is sent.

    seconds are bytes over capacity where all chunks of a lane are equal; else None and `owned`
    (lanes, ranks) holds the bytes of each owner's chunk.
    """

    egress_capacity: jax.Array
    egress_latency_s: jax.Array
    ingress_capacity: jax.Array
    ingress_latency_s: jax.Array  # with the endpoint's
    bytes: jax.Array  # (lanes, 1), or (lanes, ranks) by owner
    egress_seconds: jax.Array | None
    ingress_seconds: jax.Array | None
    reduction_bytes_per_s: jax.Array | None
    jitter: Jitter | None
    shares: Shares | None = None  # cut `bytes`, then (1, ranks) or (1, 1), over the lanes


def run_phase(
    params: Params,
    network: Network,
    schedule: Schedule,
    config: Config,
    phase: Phase,
    ports: Ports,
    fabric_free: jax.Array,
    entry: jax.Array,
) -> tuple[Ports, jax.Array, jax.Array, jax.Array]:
    """Emulate one phase.

    entry: (lanes, ranks) when the data of the first sends is there. Returns the ports' clocks,
    fabric_free (links + 1,), arrivals (lanes, ranks) with -inf for lanes that got nothing, and the
    bytes put on every link (links + 1,).
    """
    num_ports, ranks = ports.ingress_free.shape
    inside = phase.domain == "network" and len(inner_links(network, schedule, phase, 0)) > 0
    reduces = phase.reduces and params.reduction_bytes_per_s is not None
    plan = Plan(
        phase=phase,
        ports=num_ports,
        ranks=ranks,
        per_port=ports.lane_free.shape[0] // num_ports,
        rule=inner_rule(network, phase, config),
        store_and_forward=config.switching == "store_and_forward",
        # a weight of zero leaves a lane without its part of a send
        masked=ports.lane_free.shape[0] != phase.lanes or params.shares is not None,
        brief=ports.lane_free.shape[0] == num_ports
        and phase.needs == "own"
        and not reduces
        and not in_arrival_order(network, phase, config),
    )
    ends = _ends(params, network, plan)
    if not reduces:
        ends = Ends(**{**vars(ends), "reduction_bytes_per_s": None})
    equal = ends.egress_seconds is not None
    fixed = phase.per_round == 0
    hops = inside_of(params, network, schedule, phase, inside, fixed)
    dtype = params.capacity_bytes_per_s.dtype
    never = jnp.full((plan.lanes, ranks), NEVER, dtype)
    entry = jnp.concatenate([entry, never[phase.lanes :]]) if plan.masked else entry
    if phase.needs == "own":
        ports = Ports(**{**vars(ports), "lane_free": later(ports.lane_free, entry)})
    clocks = (ports, entry if phase.needs == "lane" else never, fabric_free)
    port_bytes = jnp.zeros((2, plan.lanes, ranks), dtype) if not equal else None
    state = (clocks, (jnp.zeros_like(fabric_free), port_bytes))
    repeats = config.fast_forward and fixed and equal and dtype == jnp.float64
    repeats = repeats and params.jitter is None
    # Idle lanes appear in the last rounds at most; with a fabric one loop for all rounds compiles
    # in half the time and the masks cost next to nothing.
    full = 0 if plan.masked else phase.num_full_rounds
    full = 0 if inside and full < phase.rounds else full
    if full and plan.brief and equal and not inside and params.jitter is None:
        state = _spread(plan, full, ends, state)
    elif full and not in_arrival_order(network, phase, config):
        state = run_rounds(partial(_round, plan, 0), full, repeats, state, (ends, hops))
    if in_arrival_order(network, phase, config):
        state = _all_at_once(params, plan, ends, hops, state)
    elif full < phase.rounds:
        masked = Plan(**{**vars(plan), "masked": True})
        step = partial(_round, masked, full)
        state = run_rounds(step, phase.rounds - full, repeats, state, (ends, hops))
    (ports, arrived, fabric_free), (link_bytes, port_bytes) = state
    arrivals = _arrivals(plan, ports, arrived, ends)
    link_bytes = _add_port_bytes(network, plan, ends, link_bytes, port_bytes)
    return ports, fabric_free, arrivals[: phase.lanes], link_bytes


def _round(plan: Plan, start: int, k: jax.Array, state, operands):
    """One round: out of the sender's port, through the fabric, into the receiver's port."""
    (ports, ready, fabric_free), (link_bytes, port_bytes) = state
    ends, hops = operands
    k = k + start
    phase = plan.phase
    lane = jnp.arange(plan.lanes)
    shift = phase.first + k * phase.per_round + lane * phase.per_lane
    active = ((lane < phase.lanes) & (shift < phase.layout[1]))[:, None]
    out_bytes, in_bytes, out_seconds, in_seconds = _work(plan, ends, k, shift, active)
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
        head, tail = move(head, shift, phase.layout), move(tail, shift, phase.layout)
        _, end, ingress_free = _into_port(plan, head, tail, in_seconds, ports.ingress_free)
    reducer_free = ports.reducer_free
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
    return (ports, ready, fabric_free), (link_bytes, port_bytes)


def _spread(plan: Plan, rounds: int, ends: Ends, state):
    """The first rounds of a phase in which nothing is met between the ports; see `spread`."""
    (ports, _, fabric_free), tallies = state
    assert ends.egress_seconds is not None
    assert ends.ingress_seconds is not None
    ingress_free, tails = spread(
        plan.phase,
        rounds,
        plan.store_and_forward,
        ports.lane_free,
        ports.ingress_free,
        ends.egress_seconds,
        ends.ingress_seconds,
        ends.egress_latency_s,
    )
    lane_free = ports.lane_free + rounds * ends.egress_seconds
    ports = Ports(lane_free, ports.egress_free, ingress_free, ports.reducer_free)
    return (ports, tails, fabric_free), tallies


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
        active = ((lane < phase.lanes) & (shift < phase.layout[1]))[:, None]
        out_bytes, in_bytes, seconds, _ = _work(masked, ends, k, shift, active)
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


def _work(plan: Plan, ends: Ends, k, shift, active):
    """Bytes and seconds of every lane's chunk, seen from the sender and from the receiver."""
    if ends.egress_seconds is not None and ends.ingress_seconds is not None:
        out_bytes = in_bytes = ends.bytes
        out_seconds, in_seconds = ends.egress_seconds, ends.ingress_seconds
    else:
        start, per_round, to_receiver = plan.phase.owner
        owner = start + k * per_round + jnp.zeros_like(shift)
        owner = owner + shift if to_receiver else owner
        if ends.shares is not None:
            return _shared_work(plan, ends, k, shift, owner, active)
        out_bytes = move(ends.bytes, -owner, plan.phase.layout)
        in_bytes = move(ends.bytes, shift - owner, plan.phase.layout)
        out_seconds = out_bytes / ends.egress_capacity
        in_seconds = in_bytes / ends.ingress_capacity
    if not plan.masked:
        return out_bytes, in_bytes, out_seconds, in_seconds
    return tuple(jnp.where(active, x, 0.0) for x in (out_bytes, in_bytes, out_seconds, in_seconds))


def _shared_work(plan: Plan, ends: Ends, k, shift, owner, active):
    """The same where weights cut every send over the lanes; no work for a lane without weight."""
    shares, layout = ends.shares, plan.phase.layout
    assert shares is not None
    weight = shares.source * move(shares.destination, -shift, layout)
    if shares.table is not None:
        weight = weight * shares.table[k]
    whole = jnp.broadcast_to(ends.bytes, weight.shape)
    out_bytes = move(whole, -owner, layout) * (weight / weight.sum(axis=0))
    out_bytes = jnp.where(active, out_bytes, 0.0)
    in_bytes = move(out_bytes, shift, layout)

    def seconds(sent, capacity):
        # a link that is down may go unused, and 0 / 0 has no derivative
        return jnp.where(sent > 0, sent / jnp.where(sent > 0, capacity, 1.0), 0.0)

    out_seconds = seconds(out_bytes, ends.egress_capacity)
    return out_bytes, in_bytes, out_seconds, seconds(in_bytes, ends.ingress_capacity)


def _ends(params: Params, network: Network, plan: Plan) -> Ends:
    prefix = "node " if plan.phase.domain == "node" else ""

    def per_lane(values: jax.Array, way: str) -> jax.Array:
        tier = network.tier(prefix + way)
        grid = values[tier.first : tier.first + tier.count].reshape(plan.ports, plan.ranks)
        return jnp.tile(grid, (plan.per_port, 1))

    bytes_ = params.chunk_bytes[plan.phase.sizes]
    shares = params.shares
    if shares is None and bytes_.shape[0] < plan.lanes:
        bytes_ = jnp.concatenate(
            [bytes_, jnp.zeros((plan.lanes - bytes_.shape[0], bytes_.shape[1]), bytes_.dtype)]
        )
    out_capacity = per_lane(params.capacity_bytes_per_s, "egress")
    in_capacity = per_lane(params.capacity_bytes_per_s, "ingress")
    equal = bytes_.shape[1] == 1 and shares is None
    return Ends(
        egress_capacity=out_capacity,
        egress_latency_s=per_lane(params.latency_s, "egress"),
        ingress_capacity=in_capacity,
        ingress_latency_s=per_lane(params.latency_s, "ingress") + params.endpoint_latency_s,
        bytes=bytes_,
        egress_seconds=bytes_ / out_capacity if equal else None,
        ingress_seconds=bytes_ / in_capacity if equal else None,
        reduction_bytes_per_s=params.reduction_bytes_per_s,
        jitter=params.jitter,
        shares=shares,
    )


def _arrivals(plan: Plan, ports: Ports, arrived: jax.Array, ends: Ends) -> jax.Array:
    """When each lane's last chunk had arrived.

    A port's ends only grow, so where a lane has its port alone the last end and the latest tail
    of all rounds are enough (`brief`).
    """
    if not plan.brief:
        return arrived
    busy = jnp.asarray([c < plan.phase.num_active_lanes(0) for c in range(plan.lanes)])[:, None]
    busy = busy if ends.shares is None else busy & (arrived > NEVER)
    last = later(ports.ingress_free, arrived) + ends.ingress_latency_s
    return jnp.where(busy & (jnp.arange(plan.lanes) < plan.phase.lanes)[:, None], last, NEVER)


def _add_port_bytes(network: Network, plan: Plan, ends: Ends, link_bytes, port_bytes):
    """Add what went through the ports; equal chunks are counted, unequal ones were summed."""
    phase = plan.phase
    prefix = "node " if phase.domain == "node" else ""
    if port_bytes is None:
        sends = [0] * plan.lanes
        for c in range(phase.lanes):
            room = phase.layout[1] - 1 - phase.first - c * phase.per_lane
            if room >= 0:
                steps = room // phase.per_round + 1 if phase.per_round else phase.rounds
                sends[c] = min(steps, phase.rounds)
        total = jnp.asarray(sends, ends.bytes.dtype)[:, None] * ends.bytes
        port_bytes = jnp.broadcast_to(total, (2, plan.lanes, plan.ranks))
    for way, lanes in zip(("egress", "ingress"), port_bytes, strict=True):
        tier = network.tier(prefix + way)
        per_port = lanes.reshape(plan.per_port, plan.ports, plan.ranks).sum(axis=0)
        link_bytes = link_bytes.at[tier.first : tier.first + tier.count].add(per_port.reshape(-1))
    return link_bytes
