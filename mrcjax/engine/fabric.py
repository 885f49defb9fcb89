"""Hops between the ports: a round's sends through trunks, hashed cables and sprayed paths."""

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Schedule, peers
from mrcjax.engine.params import Params
from mrcjax.engine.plan import Plan
from mrcjax.engine.sharing import queue, share
from mrcjax.network.links import Network
from mrcjax.pytree import pytree, static

NEVER = -jnp.inf


@pytree
class Inside:
    """What the hops between the ports need: the fabric and the numbers of its links."""

    network: Network
    schedule: Schedule
    capacity: jax.Array  # (links + 1,)
    latency: jax.Array  # (links + 1,)
    even: jax.Array  # () bool, all links between the ports have one latency
    links: tuple[jax.Array, ...] | None  # of every inner hop, where all rounds use the same
    sends: jax.Array | None  # indices of the sends that cross the fabric, where known; padded
    enabled: bool = static()


def inside_of(
    params: Params, network: Network, schedule: Schedule, phase: Phase, inside: bool, fixed: bool
) -> Inside:
    """Look up what a phase needs of the fabric; `fixed`: all its rounds use the same links."""
    between = [t for t in network.tiers if t.sharing != "port"]
    latency = jnp.concatenate(
        [params.latency_s[t.first : t.first + t.count] for t in between] or [jnp.zeros((1,))]
    )
    links = sends = None
    if inside and fixed:
        ends = send_ends(network, schedule, phase, 0)
        if phase.crossing >= 0:
            crosses = network.fabric.crosses(*ends[:3])
            (sends,) = jnp.nonzero(crosses, size=phase.crossing, fill_value=crosses.size)
            ends = tuple(end.at[sends].get(mode="fill", fill_value=0) for end in ends)
        links = network.fabric.inner(*ends)
        if sends is not None:
            known = sends < phase.lanes * network.ranks
            links = tuple(jnp.where(known, link, network.no_link) for link in links)
    return Inside(
        network,
        schedule,
        _with_dummy(params.capacity_bytes_per_s, 1.0),
        _with_dummy(params.latency_s, 0.0),
        latency.max() == latency.min(),
        links,
        sends,
        enabled=inside,
    )


def cross(plan: Plan, hops: Inside, k, head, tail, sent, free):
    """All hops between the ports; of sends that cross none the times stay as they are."""
    shape = (plan.phase.lanes, plan.ranks)
    every = (head[: shape[0]].reshape(-1), tail[: shape[0]].reshape(-1))
    sent = sent[: shape[0]].reshape(-1)
    rank = jnp.tile(jnp.arange(plan.ranks), shape[0])
    links = hops.links
    if links is None:
        links = inner_links(hops.network, hops.schedule, plan.phase, k)
    if plan.masked and hops.sends is None:
        links = tuple(jnp.where(every[0] > NEVER, link, hops.network.no_link) for link in links)
    if hops.sends is None:
        head_now, tail_now = every
    else:
        at = hops.sends
        head_now, tail_now, sent, rank = (
            x.at[at].get(mode="fill", fill_value=0) for x in (*every, sent, rank)
        )
    total = jnp.zeros_like(free)
    for link in links:
        numbers = (free, hops.capacity, hops.latency)
        if plan.rule == "share":
            head_now, tail_now, free, work = share(
                head_now, tail_now, sent, link, *numbers, hops.even
            )
        else:
            head_now, tail_now, free, work = queue(head_now, tail_now, sent, link, rank, *numbers)
        if plan.store_and_forward:
            head_now = tail_now
        total = total + work
    if hops.sends is not None:
        head_now = every[0].at[hops.sends].set(head_now, mode="drop", unique_indices=True)
        tail_now = every[1].at[hops.sends].set(tail_now, mode="drop", unique_indices=True)
    head, tail = (
        jnp.concatenate([now.reshape(shape), old[shape[0] :]])
        for now, old in ((head_now, head), (tail_now, tail))
    )
    return head, tail, free, total


def inner_links(network: Network, schedule: Schedule, phase: Phase, k) -> tuple[jax.Array, ...]:
    """Links of the inner hops of a round's sends, each (sends,) or (paths, sends)."""
    return network.fabric.inner(*send_ends(network, schedule, phase, k))


def send_ends(network: Network, schedule: Schedule, phase: Phase, k) -> tuple[jax.Array, ...]:
    """Sender, receiver, port and lane of a round's sends, flat over (lanes, ranks)."""
    dst, _ = peers(phase, schedule, network, k)
    shape = (phase.lanes, network.ranks)
    src = jnp.broadcast_to(jnp.arange(network.ranks, dtype=jnp.int32), shape).reshape(-1)
    lane = jnp.arange(phase.lanes, dtype=jnp.int32)[:, None]
    lane = jnp.broadcast_to(lane, shape).reshape(-1)
    dst = jnp.broadcast_to(dst, shape).reshape(-1).astype(jnp.int32)
    return src, dst, lane % network.ports, lane


def _with_dummy(values: jax.Array, value: float) -> jax.Array:
    return jnp.concatenate([values, jnp.full((1,), value, values.dtype)])
