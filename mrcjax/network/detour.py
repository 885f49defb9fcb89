"""Detours of a dragonfly through a third group: which sends take one, and through which group.

Valiant, Brebner, STOC 1981; Kim, Dally, Scott, Abts, ISCA 2008, sections 4.1 and 4.2 (UGAL).
"""

import jax
import jax.numpy as jnp

from mrcjax.network.route import choose, pair_hash

HALVINGS = 40  # of the interval of the level; more than the digits of a float32


def minimal_part(
    from_group: jax.Array, to_group: jax.Array, cables: jax.Array, groups: int
) -> jax.Array:
    """Part of each send to go by the cables of its own pair of groups, float32 of their shape.

    What UGAL settles at if it knew all loads: the sends of one call, taken as equal, fill the
    cables of their pair up to a level; the rest goes over two other cables. The level is the
    lowest at which the room below it, on all cables together, takes the rest twice. It is static
    and optimistic: queues left by earlier rounds, unequal chunks and where in the network the room
    is do not count.

    from_group, to_group: any shape. cables: (groups - 1,) int, parallel cables by group offset.
    """
    offset = (to_group - from_group) % groups
    row = from_group * (groups - 1) + jnp.maximum(offset - 1, 0)
    one = jnp.where(offset > 0, 1.0, 0.0).astype(jnp.float32)
    sends = jnp.zeros((groups * (groups - 1),), jnp.float32).at[row].add(one)
    width = jnp.tile(cables.astype(jnp.float32), groups)

    def halve(_, bounds):
        low, high = bounds
        level = (low + high) / 2
        direct = jnp.minimum(sends, level * width)
        enough = (level * width - direct).sum() >= 2 * (sends - direct).sum()
        return jnp.where(enough, low, level), jnp.where(enough, level, high)

    start = jnp.zeros((), jnp.float32), (sends / width).max()
    level = jax.lax.fori_loop(0, HALVINGS, halve, start)[1]
    return jnp.minimum(1.0, level * width[row] / jnp.maximum(sends[row], 1.0))


def even_detours(
    pair: jax.Array, part: jax.Array, paths: int, others: int
) -> tuple[jax.Array, jax.Array]:
    """Whether each path of a send takes a detour and the number of its group among `others`.

    `part` of the paths, up or down to a whole one by hash, are direct, the rest are dealt evenly
    to the groups, starting at a random one. pair: hash of each send. Returns (paths, *shape) both.
    """
    way = jnp.arange(paths, dtype=jnp.int32).reshape(-1, *([1] * pair.ndim))
    direct = jnp.floor(part * paths + _uniform(pair_hash(pair, 2))).astype(jnp.int32)
    dealt = (2 * (way - direct) + 1) * others // (2 * jnp.maximum(paths - direct, 1))
    return way >= direct, (dealt + choose(pair_hash(pair, 3), others)) % others


def random_detours(pair: jax.Array, part: jax.Array, others: int) -> tuple[jax.Array, jax.Array]:
    """The same by hash of each send or path alone; of the shape of `pair`."""
    return _uniform(pair_hash(pair, 2)) >= part, choose(pair_hash(pair, 3), others)


def _uniform(h: jax.Array) -> jax.Array:
    """A float32 in [0, 1) from a hash."""
    return (h >> 8).astype(jnp.float32) / 2**24
