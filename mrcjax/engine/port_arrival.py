"""Rounds of lanes that are bound to ports, served in the order of arrival; see `arrival`."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from mrcjax.engine.arrival import first_come
from mrcjax.engine.ends import Ends
from mrcjax.engine.fabric import NEVER, Inside, send_ends
from mrcjax.engine.maxplus import later, segment_max
from mrcjax.engine.params import Params
from mrcjax.engine.plan import Plan
from mrcjax.engine.port_round import Ports, leave, sends_of
from mrcjax.engine.sharing import queue


def all_at_once(params: Params, plan: Plan, ends: Ends, hops: Inside, state):
    """All rounds of a phase in the order of arrival; takes and gives what the rounds do."""
    (ports, arrived, fabric_free), (link_bytes, port_bytes) = state
    network, phase = hops.network, plan.phase
    rounds = jnp.arange(phase.rounds)
    ports, (heads, tails, sent, used) = jax.lax.scan(partial(_sent, plan, ends), ports, rounds)
    ends_of_sends = jax.vmap(partial(send_ends, network, hops.schedule, phase))(rounds)
    src, dst, port, lane = (x.reshape(-1) for x in ends_of_sends)
    heads, tails, sent = heads.reshape(-1), tails.reshape(-1), sent.reshape(-1)
    order = jnp.repeat(rounds, phase.lanes * plan.ranks) * plan.ranks + src

    tier = network.tier("ingress")
    at_ports = slice(tier.first, tier.first + tier.count)
    links = (*network.fabric.inner(src, dst, port, lane), tier.first + port * plan.ranks + dst)
    tails, free, work = first_come(
        tuple(jnp.where(heads > NEVER, link, network.no_link) for link in links),
        network.fabric.together,
        heads,
        tails,
        sent,
        order,
        fabric_free.at[at_ports].set(ports.ingress_free.reshape(-1)),
        hops.capacity,
        hops.latency.at[at_ports].add(params.endpoint_latency_s),
        plan.store_and_forward,
    )
    cell = jnp.where(heads > NEVER, lane * plan.ranks + dst, plan.lanes * plan.ranks)
    tails, reducer_free = _reduced(plan, ends, tails, sent, cell, order, ports.reducer_free)
    here = segment_max(tails, cell, plan.lanes * plan.ranks + 1)[:-1]
    ingress_free = free[at_ports].reshape(ports.ingress_free.shape)
    ports = replace(ports, ingress_free=ingress_free, reducer_free=reducer_free)
    if port_bytes is not None:
        port_bytes = port_bytes + used.sum(axis=0)
    arrived = later(arrived, here.reshape(plan.lanes, plan.ranks))
    return (ports, arrived, free), (link_bytes + work, port_bytes)


def _sent(plan: Plan, ends: Ends, ports: Ports, k: jax.Array):
    """A round out of the senders' ports: heads, tails and bytes of its sends, bytes of ports."""
    phase = plan.phase
    masked = replace(plan, masked=True)
    _, active, (out_bytes, in_bytes, seconds, _) = sends_of(masked, ends, k)
    _, left = leave(masked, ends, k, ports.lane_free, seconds, active, ports)
    head, tail, lane_free, egress_free = left
    ports = replace(ports, lane_free=lane_free, egress_free=egress_free)
    shape = (plan.lanes, plan.ranks)
    sent = jnp.broadcast_to(out_bytes, shape)
    used = jnp.stack([sent, jnp.broadcast_to(in_bytes, shape)])
    return ports, (head[: phase.lanes], tail[: phase.lanes], sent[: phase.lanes], used)


def _reduced(plan: Plan, ends: Ends, tails, sent, cell, order, reducer_free):
    """When all sends are reduced, first come first served by each lane's reducer."""
    if ends.reduction_bytes_per_s is None:
        return tails, reducer_free
    grid = (plan.lanes, plan.ranks)
    _, tails, free, _ = queue(
        tails,
        tails,
        sent,
        cell,
        order,
        jnp.append(reducer_free.reshape(-1), NEVER),
        jnp.append(jnp.broadcast_to(ends.reduction_bytes_per_s, grid).reshape(-1), 1.0),
        jnp.zeros((plan.lanes * plan.ranks + 1,), tails.dtype),
    )
    return tails, free[:-1].reshape(grid)
