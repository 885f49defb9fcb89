"""Equal chunks from ports of their own straight to others: the rounds with the shortest derivative.

Where every lane has its port alone, needs only its rank's own data and meets nothing between the
ports, round k begins at lane_free + k * seconds, and a receiving port is done at

    end = max over k of (head of round k + the work of rounds k and later),

so one round decides each port's end: the last that found it idle. Remembering its number in the
forward pass is all that differentiation needs; nothing is kept per round.
"""

from functools import partial

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase
from mrcjax.engine.maxplus import move, multiple

TOGETHER = 4  # rounds in one pass


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def spread(
    phase: Phase,
    rounds: int,
    store_and_forward: bool,
    lane_free: jax.Array,
    ingress_free: jax.Array,
    out_seconds: jax.Array,
    in_seconds: jax.Array,
    latency: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Ends of the receiving ports and the latest tails after the first `rounds` rounds.

    All (lanes, ranks), seconds: when lanes and receiving ports are free, what a chunk takes on
    the sender's and the receiver's link, and the sender's link latency. In these rounds every
    lane sends.
    """
    sent = _Sent(phase, store_and_forward, lane_free + latency, out_seconds)
    # some rounds in one pass over the arrays, which are larger than the nearest cache
    unroll = min(TOGETHER, rounds)
    return jax.lax.fori_loop(
        0, rounds, partial(_one, sent, in_seconds), _start(ingress_free), unroll=unroll
    )


def spread_among(
    size: jax.Array,
    phase: Phase,
    rounds: jax.Array,
    store_and_forward: bool,
    lane_free: jax.Array,
    ingress_free: jax.Array,
    out_seconds: jax.Array,
    in_seconds: jax.Array,
    latency: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The same where only the first `size` () positions of a group are there, without reverse mode.

    What comes out for the others means nothing.
    """
    sent = _Sent(phase, store_and_forward, lane_free + latency, out_seconds, size)
    one = partial(_one, sent, in_seconds)

    def some(i, state):
        for k in range(TOGETHER):
            state = one(i * TOGETHER + k, state)
        return state

    state = jax.lax.fori_loop(0, rounds // TOGETHER, some, _start(ingress_free))
    return jax.lax.fori_loop(rounds // TOGETHER * TOGETHER, rounds, one, state)


def _start(ingress_free: jax.Array) -> tuple[jax.Array, jax.Array]:
    return ingress_free, jnp.full_like(ingress_free, -jnp.inf)


def _one(sent: "_Sent", in_seconds: jax.Array, k, state):
    head, tail = sent.heads_and_tails(k)
    return jnp.maximum(head, state[0]) + in_seconds, jnp.maximum(tail, state[1])


@spread.defjvp
def _spread_jvp(phase, rounds, store_and_forward, primals, tangents):
    lane_free, ingress_free, out_seconds, in_seconds, latency = primals
    lane_t, ingress_t, out_t, in_t, latency_t = tangents
    every = _Sent(phase, store_and_forward, lane_free + latency, out_seconds)
    dtype = lane_free.dtype

    def one(k, state):
        end, latest, idle_at, latest_at = state
        head, tail = every.heads_and_tails(k)
        now = jnp.asarray(k, dtype)
        return (
            jnp.maximum(head, end) + in_seconds,
            jnp.maximum(tail, latest),
            jnp.where(head >= end, now, idle_at),
            jnp.where(tail > latest, now, latest_at),
        )

    never = jnp.full_like(ingress_free, -1.0)
    start = (ingress_free, jnp.full_like(ingress_free, -jnp.inf), never, never)
    unroll = min(TOGETHER, rounds)
    end, latest, idle_at, latest_at = jax.lax.fori_loop(0, rounds, one, start, unroll=unroll)

    def sent(at, extra):
        """Tangent of the head (extra = 0) or tail (1) of the deciding round, at the receiver."""
        source = _source(phase, at)
        value = lane_t + latency_t
        base = jnp.take_along_axis(value, source, axis=1)
        return base + (at + extra) * jnp.take_along_axis(out_t, source, axis=1)

    work_left = rounds - jnp.maximum(idle_at, 0.0)
    head_t = sent(jnp.maximum(idle_at, 0.0), float(store_and_forward))
    end_t = jnp.where(idle_at >= 0, head_t, ingress_t) + work_left * in_t
    return (end, latest), (end_t, sent(jnp.maximum(latest_at, 0.0), 1.0))


class _Sent:
    """Chunks behind their first link as the receivers see them, round by round.

    What the first round brings to each receiver is worked out once and laid behind itself: a later
    round is the same, farther on by a distance that all lanes share, one slice.
    """

    def __init__(
        self,
        phase: Phase,
        store_and_forward: bool,
        begin: jax.Array,
        out_seconds: jax.Array,
        size: jax.Array | None = None,
    ):
        self.phase, self.store_and_forward = phase, store_and_forward
        self.shape, self.size = begin.shape, phase.layout[1] if size is None else size
        self.begin, self.seconds = self._twice(begin), self._twice(out_seconds)

    def _twice(self, x: jax.Array) -> jax.Array:
        blocks, width, stride = self.phase.layout
        size = None if isinstance(self.size, int) else self.size
        x = jnp.broadcast_to(x, self.shape)
        first = move(x, self.phase.shift(0), self.phase.layout, size)
        grid = first.reshape(-1, blocks, width, stride)
        twice = jnp.concatenate([grid, grid], axis=2)
        return twice if size is None else twice[:, :, jnp.arange(2 * width) % size]

    def heads_and_tails(self, k) -> tuple[jax.Array, jax.Array]:
        """Head and tail of every chunk of round k behind its first link, at the receivers."""
        width = self.phase.layout[1]
        start = (-k * self.phase.per_round) % self.size
        begin, seconds = (
            jax.lax.dynamic_slice_in_dim(x, start, width, axis=2).reshape(self.shape)
            for x in (self.begin, self.seconds)
        )
        head = begin + multiple(k, seconds)
        tail = head + seconds
        return (tail if self.store_and_forward else head), tail


def _source(phase: Phase, round_: jax.Array) -> jax.Array:
    """Rank that sends to each rank in a round that differs per (lane, rank), (lanes, ranks)."""
    _, size, stride = phase.layout
    lane = jnp.arange(round_.shape[0])[:, None]
    rank = jnp.arange(round_.shape[1])[None, :]
    shift = phase.first + round_.astype(rank.dtype) * phase.per_round + lane * phase.per_lane
    position = rank // stride % size
    return rank + ((position - shift) % size - position) * stride
