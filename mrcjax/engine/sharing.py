"""The link rules: when chunks that meet on a link in one round start and end.

Each rule takes head and tail arrival of every chunk and when its link is free, and gives head
and tail at the link's far end before its latency, and when the link is free again.
"""

import jax
import jax.numpy as jnp

from mrcjax.engine.maxplus import later, latest, segment_max, segment_min

SORT_BELOW = 4096  # sends per round; with more, a sort costs much more than the rest of a hop


def rule_of_many(sends: int, order: str) -> str:
    """Name the rule of links that any number of chunks may meet on: "sort" | "share"."""
    return "sort" if sends < SORT_BELOW or order == "exact" else "share"


def single(
    head: jax.Array,
    tail: jax.Array,
    bytes_: jax.Array,
    link: jax.Array,
    free: jax.Array,
    capacity: jax.Array,
    latency: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Serve at most one chunk per link: nothing to order. All (sends,); see `share`."""
    num = free.shape[0]
    crosses = link != num - 1
    start = later(head, free[link])
    end = start + bytes_ / capacity[link]
    delay = latency[link]
    used = jnp.where(crosses, link, num)
    freed = free.at[used].set(end, mode="drop")
    work = jnp.zeros_like(free).at[used].set(bytes_, mode="drop")
    head_out = jnp.where(crosses, start + delay, head)
    return head_out, jnp.where(crosses, later(end, tail) + delay, tail), freed, work


def slots(
    head: jax.Array, tail: jax.Array, seconds: jax.Array, free: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Serve m chunks per link in the order of their heads, by pairwise comparison.

    head, tail, seconds: (m, ...) with the chunks of a link in the first axis, ties served in
    index order; free: (...). Returns head, tail (m, ...) and free (...).
    """
    if head.shape[0] == 1:
        start = later(head[0], free)
        end = start + seconds[0]
        return start[None], later(end, tail[0])[None], end
    index = jnp.arange(head.shape[0]).reshape(-1, *([1] * free.ndim))
    one, other = index[:, None], index[None]
    first = (head[:, None] < head[None]) | ((head[:, None] == head[None]) & (one < other))
    ahead = jnp.where(first, seconds[:, None], 0.0).sum(axis=0)
    # The link worked without a break from some chunk up to this one, or since it was free.
    since = jnp.where(first | (one == other), (head - ahead)[:, None], -jnp.inf)
    end = later(jnp.broadcast_to(free, head.shape), latest(since)) + ahead + seconds
    return end - seconds, later(end, tail), later(latest(end), free)


def share(
    head: jax.Array,
    tail: jax.Array,
    bytes_: jax.Array,
    link: jax.Array,
    free: jax.Array,
    capacity: jax.Array,
    latency: jax.Array,
    even: jax.Array | bool = False,
    parts: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Let all chunks of a round share a link: every one ends when the link's work is done.

    head, tail, bytes_: (sends,); link: (sends,) or (paths, sends), chunks sprayed over `paths`
    links put an equal part on each; head and tail go on with the latest. free, capacity, latency:
    (links + 1,), the last entry stands for "no link", which is free since -inf. `even` may be set
    where all links that a chunk is sprayed over have one latency; it saves looking every one up.
    parts: (paths, sends) share of a chunk on each of its links; None = equal.
    Returns head and tail after the latency, free and the bytes put on each link.
    """
    num = free.shape[0]
    sprayed = link.ndim > head.ndim
    if parts is None:
        part = jnp.broadcast_to(bytes_ / link.shape[0] if sprayed else bytes_, link.shape)
    else:
        part = bytes_ * parts
    work = jnp.zeros((num,), part.dtype).at[link].add(part)
    first = segment_min(head, link, num)
    # "No link" stays free since ever and has no latency, so a skipped hop changes nothing.
    used = (first < jnp.inf).at[-1].set(False)
    done = jnp.where(used, later(free, jnp.where(used, first, 0.0)) + work / capacity, free)
    if not sprayed:
        delay = latency[link]
        return head + delay, later(tail, done[link]) + delay, done, work
    # max over paths of (max(tail, end) + latency), with the part that needs no look-up apart. A
    # path may skip the hop where others do not; "no link" is the last index.
    most = jax.lax.cond(
        even, lambda lat: lat[link.min(axis=0)], lambda lat: latest(lat[link]), latency
    )
    return head + most, later(tail + most, latest((done + latency)[link])), done, work


def queue(
    head: jax.Array,
    tail: jax.Array,
    bytes_: jax.Array,
    link: jax.Array,
    rank: jax.Array,
    free: jax.Array,
    capacity: jax.Array,
    latency: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Serve each link's chunks one by one in the order (head, rank): rule `sort`.

    All (sends,), the arguments in lane order; `free` etc. as in `share`. A max-plus scan over the
    sorted sends, cut where the link changes, gives all ends at once.
    """
    num = free.shape[0]
    none = num - 1
    seconds = bytes_ / capacity[link]
    index = jnp.arange(link.shape[0], dtype=jnp.int32)
    *_, order = jax.lax.sort(
        (link, jax.lax.stop_gradient(head), rank, index), num_keys=3, is_stable=True
    )
    sorted_link = link[order]
    first = jnp.concatenate([jnp.ones((1,), bool), sorted_link[1:] != sorted_link[:-1]])
    ready = jnp.where(first, later(head[order], free[sorted_link]), head[order])
    ahead = jnp.where(first, -jnp.inf, seconds[order])
    sorted_end = _queue_ends(ahead, ready + seconds[order])
    end = jnp.zeros_like(sorted_end).at[order].set(sorted_end)
    crosses = link != none
    freed = later(free, segment_max(jnp.where(crosses, end, -jnp.inf), link, num))
    work = jnp.zeros((num,), bytes_.dtype).at[link].add(bytes_)
    delay = latency[link]
    head_out = jnp.where(crosses, end - seconds + delay, head)
    tail_out = jnp.where(crosses, later(end, tail) + delay, tail)
    return head_out, tail_out, freed, work


def _queue_ends(seconds: jax.Array, alone: jax.Array) -> jax.Array:
    """End of every chunk of queues laid end to end, (sends,).

    end = max(end before + seconds, alone), with seconds = -inf at the head of a queue: a prefix
    scan over the maps x -> max(x + a, b) by doubling. A loop over the doublings instead of
    jax.lax.associative_scan compiles three to six times faster and runs no slower.
    """
    num = alone.shape[0]

    def double(step, maps):
        a, b = maps
        back = jnp.left_shift(1, step)

        def before(x, identity):
            padded = jnp.concatenate([jnp.full((num,), identity, x.dtype), x])
            return jax.lax.dynamic_slice(padded, (num - back,), (num,))

        return a + before(a, 0.0), later(before(b, -jnp.inf) + a, b)

    return jax.lax.fori_loop(0, (num - 1).bit_length(), double, (seconds, alone))[1]
