"""The links at both ends of the lanes that are bound to ports, and the work of their chunks."""

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Extent, Phase
from mrcjax.engine.jitter import Jitter
from mrcjax.engine.maxplus import move
from mrcjax.engine.params import Params, Shares
from mrcjax.engine.plan import Plan
from mrcjax.network.links import Network
from mrcjax.pytree import pytree


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
    reduction_bytes_per_s: jax.Array | None  # None where nothing is reduced, or at once
    jitter: Jitter | None
    shares: Shares | None = None  # cut `bytes`, then (1, ranks) or (1, 1), over the lanes
    extent: Extent | None = None  # how much of the phase is there; None = all of it


def ends_of(params: Params, network: Network, plan: Plan, extent: Extent | None) -> Ends:
    """Look up the links of a phase's lanes and what is sent."""
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
        reduction_bytes_per_s=reducers(params, plan.phase, plan.lanes, plan.ranks),
        jitter=params.jitter,
        shares=shares,
        extent=extent,
    )


def reducers(params: Params, phase: Phase, lanes: int, ranks: int) -> jax.Array | None:
    """Rate of the reducer of every lane in a phase, (lanes, ranks); None = infinite."""
    rate = params.reduction_bytes_per_s
    if rate is None or not phase.reduces:
        return None
    # XLA must not see that it is one number many times over: it would multiply by its reciprocal,
    # in some programs and not in others, and runs that are one would differ in the last bit
    return jax.lax.optimization_barrier(jnp.broadcast_to(rate, (lanes, ranks)))


def moved(plan: Plan, ends: Ends, x: jax.Array, shift: jax.Array) -> jax.Array:
    """Values of senders at their receivers, `shift` (lanes,) positions on; see `move`."""
    size = None if ends.extent is None else ends.extent.size
    return move(x, shift, plan.phase.layout, size)


def active_of(plan: Plan, ends: Ends, shift: jax.Array) -> jax.Array:
    """Which sends of a round there are, (lanes, 1), or (lanes, ranks) where not all ranks are."""
    lane, extent = jnp.arange(plan.lanes), ends.extent
    size = plan.phase.layout[1] if extent is None else extent.size
    active = ((lane < plan.phase.lanes) & (shift < size))[:, None]
    return active if extent is None else active & (jnp.arange(plan.ranks) < extent.ranks)


def work_of(plan: Plan, ends: Ends, k, shift, active):
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
        out_bytes = moved(plan, ends, ends.bytes, -owner)
        in_bytes = moved(plan, ends, ends.bytes, shift - owner)
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
