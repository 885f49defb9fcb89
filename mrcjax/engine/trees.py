"""Sends that switches reduce on the way up and multicast on the way down.

What a switch sends up is the sum of what comes up: its first byte leaves when the first byte of
every member is there, its last when the last of every member is. So the slowest or latest member
holds all. Down, every member gets a copy at the rate of its own link. Flows:

    all_reduce       the whole goes up every link and down every link
    reduce_scatter   the whole goes up, down go the shards of the ranks below
    all_gather       the shards of the ranks below go up, the whole comes down, one's own too
    through_owner    all_reduce as NVLS does it: the two above, one after the other in each piece,
                     so that the whole and a shard go each way

A gather's streams follow each other: a link works from the first byte on and is done no earlier
than its work and the latest shard, which may be early by late shards that come at once.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Schedule
from mrcjax.engine.maxplus import later, segment_max, segment_min
from mrcjax.engine.params import Config, Params
from mrcjax.engine.sharing import share
from mrcjax.engine.watching import SWITCH, Seen, Watch
from mrcjax.network.links import Network
from mrcjax.network.reduction import Tree

NEVER = -jnp.inf


def run_phase(
    params: Params,
    network: Network,
    schedule: Schedule,
    config: Config,
    phase: Phase,
    free: jax.Array,
    entry: jax.Array,
    watch: Watch | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, Seen | None]:
    """Emulate one phase, piece after piece.

    free: (links + 1,) when links are free. entry: (lanes, ranks) when the data is there. Returns
    free, arrivals and when the sends have left, both (lanes, ranks), the bytes put on every link
    (links + 1,), and what was seen of what is watched, piece by piece. Sizes are (pieces, lanes,
    ranks or 1), of the whole that a rank's tree sums and of the rank's shard of it.
    """
    tree = schedule.trees[phase.tree]
    dtype = params.capacity_bytes_per_s.dtype
    efficiency = params.in_network_efficiency
    capacity = params.capacity_bytes_per_s * (1.0 if efficiency is None else efficiency)
    numbers = (
        jnp.concatenate([capacity, jnp.ones((1,), dtype)]),
        jnp.concatenate([params.latency_s, jnp.zeros((1,), dtype)]),
    )
    begin = later(jnp.broadcast_to(params.late_s, entry.shape), entry)
    never = jnp.full(entry.shape, NEVER, dtype)
    step = partial(_piece, tree, phase, config, numbers, begin, watch)
    sizes = params.chunk_bytes[phase.sizes], params.chunk_bytes[phase.sizes + 1]
    state = (free, never, never, jnp.zeros_like(free))
    (free, arrived, left, sent), seen = jax.lax.scan(step, state, sizes)
    if seen is not None:
        seen = replace(seen, delivered_s=seen.delivered_s + params.endpoint_latency_s)
    return free, arrived + params.endpoint_latency_s, left, sent, seen


def _piece(tree: Tree, phase: Phase, config: Config, numbers: tuple, begin, watch, state, sizes):
    """One piece up and down every tree; a second time without bytes where an owner turns it."""
    free, arrived, left, sent = state
    head = tail = begin
    first = begin  # when the piece has left the rank
    whole, shard = sizes
    up, down = _bytes_of_levels(tree, phase.flow, whole, shard, begin.shape)
    of_rank = up[0]
    for again in range(2 if phase.flow == "through_owner" else 1):
        if again:
            up, down = (tuple(jnp.zeros_like(x) for x in way) for way in (up, down))
        gathers = phase.flow == "all_gather"
        for level, link in enumerate(tree.up):
            alone = tree.alone[level]
            head, tail, free, work, gone = _hop(alone, head, tail, up[level], link, free, numbers)
            head = tail if config.switching == "store_and_forward" else head
            sent = sent + work
            left = later(gone, left) if level == 0 else left
            first = gone if level == 0 and not again else first
            head, tail = _merge(tree, level, head, tail, gathers)
        for level in reversed(range(len(tree.down))):
            above = tree.parent[level]
            head, tail = (jnp.take_along_axis(x, above, axis=1) for x in (head, tail))
            link, alone = tree.down[level], tree.alone[level]
            head, tail, free, work, _ = _hop(alone, head, tail, down[level], link, free, numbers)
            head = tail if config.switching == "store_and_forward" else head
            sent = sent + work
    seen = None
    if watch is not None:
        work = sent - state[3]
        # behind the piece before, which is where the rank's port is free
        times = (later(begin, state[2]), first, tail)
        seen = _seen(watch, of_rank, times, work, free)
    return (free, later(tail, arrived), left, sent), seen


def _seen(watch: Watch, sent, times: tuple, work, free) -> Seen:
    """What a piece did to the watched ranks and links; its peers are switches."""
    shape = times[0].shape
    sent, begin, left, arrival = (
        jnp.broadcast_to(x, shape)[:, watch.ranks] for x in (sent, *times)
    )
    switch = jnp.full(sent.shape, SWITCH)
    at = watch.links
    return Seen(switch, switch, sent, begin, left, arrival, work[at], free[at])


def _bytes_of_levels(
    tree: Tree, flow: str, whole: jax.Array, shard: jax.Array, shape: tuple[int, int]
) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
    """Bytes up and down at every level, (lanes, entries) each."""
    lane = jnp.arange(shape[0])[:, None]
    below, every = [jnp.broadcast_to(shard, shape)], [jnp.broadcast_to(whole, shape)]
    for level, parent in enumerate(tree.parent[:-1]):
        none = jnp.zeros((shape[0], tree.entries[level + 1]), shard.dtype)
        below.append(none.at[lane, parent].add(below[-1]))
        equal = whole.shape[1] == 1
        every.append(
            jnp.broadcast_to(whole, none.shape) if equal else none.at[lane, parent].max(every[-1])
        )
    both = [a + b for a, b in zip(every, below, strict=True)]
    up, down = {
        "all_reduce": (every, every),
        "reduce_scatter": (every, below),
        "all_gather": (below, every),
        "through_owner": (both, both),
    }[flow]
    return tuple(up), tuple(down)


def _merge(tree: Tree, level: int, head: jax.Array, tail: jax.Array, gathers: bool):
    """Head and tail of what leaves each switch for what came up to it."""
    lanes, num = head.shape[0], tree.entries[level + 1]
    cell = tree.parent[level] + num * jnp.arange(lanes)[:, None]
    first = segment_min if gathers else segment_max
    head = first(head, cell, lanes * num).reshape(lanes, num)
    return head, segment_max(tail, cell, lanes * num).reshape(lanes, num)


def _hop(alone: bool, head, tail, bytes_, link, free, numbers: tuple):
    """One hop of all entries of a level; also when each has left the link before its latency.

    Streams of several trees share a link: whole buffers don't queue behind each other.
    """
    capacity, latency = numbers
    delay = latency[link]
    if alone:
        start = later(head, free[link])
        end = start + bytes_ / capacity[link]
        left = later(end, tail)
        crosses = link < free.shape[0] - 1
        head, left = jnp.where(crosses, start, head), jnp.where(crosses, left, tail)
        freed = free.at[link].set(jnp.where(crosses, end, free[-1]))
        work = jnp.zeros_like(free).at[link].add(bytes_)
        return head + delay, left + delay, freed, work, left
    heads, tails, sizes, links = (x.reshape(-1) for x in (head, tail, bytes_, link))
    head, tail, free, work = share(heads, tails, sizes, links, free, capacity, latency)
    head, tail = head.reshape(link.shape), tail.reshape(link.shape)
    return head, tail, free, work, tail - delay
