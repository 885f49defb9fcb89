"""Phases whose links serve chunks in the order of arrival, whatever their round.

The usual rule keeps rounds in order on every link: cheap, and exact where a link sees one chunk
per round. Where many chunks of a round pile up on some links, chunks of later rounds that came
quicker wait behind them for nothing. Where sends need only their rank's own data, nothing feeds
back to when they begin: then a whole phase can be taken hop by hop, first come first served.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mrcjax.engine.sharing import queue

MOST_SENDS = 20_000_000  # of a phase; all are held in memory at once
PASSES = 1000  # of the fixed point; each settles at least the earliest open queue


def first_come(
    links: tuple[jax.Array, ...],
    together: tuple[tuple[int, ...], ...],
    heads: jax.Array,
    tails: jax.Array,
    sent: jax.Array,
    order: jax.Array,
    free: jax.Array,
    capacity: jax.Array,
    latency: jax.Array,
    store_and_forward: bool,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Take all sends of a phase through `links`, one entry per hop; the last is no part of a loop.

    links, heads, tails (behind the sender's port), sent (bytes), order (ties go to the smaller):
    (sends,). free, capacity, latency: (links + 1,), the last entry stands for "no link". `together`
    groups the hops before the last that share links, () = none do. Returns tails (sends,), free,
    and the bytes of the hops before the last on every link. Where hops share links there is no
    reverse-mode derivative.
    """

    def hop(at: tuple[jax.Array, jax.Array], what, link, key, free) -> Any:
        head, tail, free, work = queue(*at, what, link, key, free, capacity, latency)
        return (tail if store_and_forward else head, tail), free, work

    *inner, last = links
    at = (heads, tails)
    work = jnp.zeros_like(free)
    if together:
        at, free, work = _settle(hop, inner, together, at, sent, order, free)
    else:
        for link in inner:
            at, free, more = hop(at, sent, link, order, free)
            work = work + more
    at, free, _ = hop(at, sent, last, order, free)
    return at[1], free, work


def _settle(hop: Callable, inner: list[jax.Array], together, start, sent, order, free):
    """Repeat all hops, those that share links together, until no time changes.

    A chunk's place in a queue depends on earlier arrivals only, so each pass makes at least the
    earliest unsettled one final; most passes settle a whole front of them.
    """

    def once(outs):
        """All groups in turn; outs[h]: (head, tail) behind hop h, from this pass or the last."""
        outs, freed, work = list(outs), free, jnp.zeros_like(free)
        for group in together:
            into = [start if h == 0 else outs[h - 1] for h in group]
            at = tuple(jnp.concatenate(x) for x in zip(*into, strict=True))
            what, key = (jnp.tile(x, len(group)) for x in (sent, order))
            out, now_free, load = hop(
                at, what, jnp.concatenate([inner[h] for h in group]), key, free
            )
            freed, work = jnp.maximum(freed, now_free), work + load
            heads, tails = (jnp.split(x, len(group)) for x in out)
            for h, head, tail in zip(group, heads, tails, strict=True):
                outs[h] = (head, tail)
        return outs, freed, work

    def unsettled(carry):
        passes, before, now = carry
        changed = [
            (b != n).any() for b, n in zip(*map(jax.tree.leaves, (before, now)), strict=True)
        ]
        return jnp.any(jnp.stack(changed)) & (passes < PASSES)

    first = [start] * len(inner)
    carry = (jnp.zeros((), jnp.int32), first, once(first)[0])
    *_, settled = jax.lax.while_loop(unsettled, lambda c: (c[0] + 1, c[2], once(c[2])[0]), carry)
    outs, freed, work = once(settled)
    return outs[-1], freed, work
