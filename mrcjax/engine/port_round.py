"""One round of lanes that are bound to ports.

Out of the senders' ports, through what lies between, into the receivers' ports.
"""

import jax
import jax.numpy as jnp

from mrcjax.engine.ends import Ends, active_of, moved, work_of
from mrcjax.engine.fabric import NEVER, cross
from mrcjax.engine.jitter import delays
from mrcjax.engine.maxplus import later
from mrcjax.engine.plan import Plan
from mrcjax.engine.sharing import slots
from mrcjax.engine.watching import Watch, look
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


def one_round(plan: Plan, start: int | jax.Array, k: jax.Array, state, operands):
    """One round of the clocks and tallies."""
    return _round_and_sends(plan, start, k, state, operands)[0]


def watched_round(plan: Plan, watch: Watch, k: jax.Array, state, operands):
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
    shift, active, (out_bytes, in_bytes, out_seconds, in_seconds) = sends_of(plan, ends, k)
    received = active
    if ends.shares is not None:  # a lane without weight sends nothing
        active, received = out_bytes > 0, in_bytes > 0

    begin = later(ports.lane_free, ready) if phase.needs == "lane" else ports.lane_free
    begin, left = leave(plan, ends, k, begin, out_seconds, active, ports)
    head, tail, lane_free, egress_free = left
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


def sends_of(plan: Plan, ends: Ends, k: jax.Array):
    """Shifts of the lanes in round k, (lanes,), which lanes send, and their work; see `work_of`."""
    phase = plan.phase
    shift = phase.first + k * phase.per_round + jnp.arange(plan.lanes) * phase.per_lane
    active = active_of(plan, ends, shift)
    return shift, active, work_of(plan, ends, k, shift, active)


def leave(plan: Plan, ends: Ends, k: jax.Array, begin, seconds, active, ports: Ports):
    """When sends begin; head and tail behind their ports, when lanes and ports are free again."""
    begin = begin if ends.jitter is None else begin + delays(ends.jitter, k, plan.ranks)
    with jax.named_scope("egress"):
        head, tail, egress_free = _into_port(plan, begin, begin, seconds, ports.egress_free)
    lane_free = jnp.where(active, tail, ports.lane_free) if plan.masked else tail
    head, tail = head + ends.egress_latency_s, tail + ends.egress_latency_s
    if plan.masked:
        head, tail = jnp.where(active, head, NEVER), jnp.where(active, tail, NEVER)
    return begin, (tail if plan.store_and_forward else head, tail, lane_free, egress_free)


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
