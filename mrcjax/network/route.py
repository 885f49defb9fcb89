"""Seeded hashes that choose among parallel paths, evaluated inside the jitted loop."""

import jax
import jax.numpy as jnp


def pair_hash(seed: jax.Array, *parts: jax.Array | int) -> jax.Array:
    """Mix integer arrays into uniform uint32 (the finaliser of MurmurHash3 after each part)."""
    h = jnp.asarray(seed).astype(jnp.uint32)
    for part in parts:
        h = (h ^ jnp.asarray(part).astype(jnp.uint32)) * jnp.uint32(0x9E3779B1)
        h = (h ^ (h >> 16)) * jnp.uint32(0x85EBCA6B)
        h = (h ^ (h >> 13)) * jnp.uint32(0xC2B2AE35)
        h = h ^ (h >> 16)
    return h


def mix(seed: int) -> jax.Array:
    """Spread a seed over all bits: as it is, a small one would only swap ranks in `pair_hash`."""
    return pair_hash(jnp.zeros((), jnp.uint32), jnp.asarray(seed % 2**32, jnp.uint32))


def choose(h: jax.Array, count: jax.Array | int) -> jax.Array:
    """A number in 0..count-1 from a hash, count < 65,536.

    Scales the upper half of the hash instead of dividing: no machine divides integers in vectors.
    """
    return (((h >> 16) * jnp.asarray(count).astype(jnp.uint32)) >> 16).astype(jnp.int32)


def materialise(x: jax.Array) -> jax.Array:
    """x itself, computed once.

    XLA's CPU backend recomputes an array inside every loop that reads it, for each of its readers,
    however often it is broadcast there; it does not look through a scatter.
    """
    flat = x.reshape(-1)
    return (
        jnp.zeros_like(flat)
        .at[jnp.arange(flat.size)]
        .set(flat, unique_indices=True)
        .reshape(x.shape)
    )


def strata(h: jax.Array, way: jax.Array, ways: int) -> jax.Array:
    """One uint32 in each of `ways` equal parts of their range: of part `way`, shifted by a hash."""
    part = 2**32 // ways
    # at least `ways` from the start of a part: exact for `split` whatever 2^32 / ways leaves over
    low = jnp.uint32(min(ways, part - 1))
    width = jnp.uint32(part - min(ways, part - 1))
    shift = low + ((h >> 16) * (width >> 16)) + (((h & 0xFFFF) * (width >> 16)) >> 16)
    return way.astype(jnp.uint32) * jnp.uint32(part % 2**32) + shift


def split(place: jax.Array, count: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Which of `count` equal parts of the uint32s a number is in, and where in that part.

    The place in the part again fills the whole range, so that equal parts can be taken of equal
    parts. count < 65,536; 0 counts as 1.
    """
    parts = jnp.maximum(count, 1).astype(jnp.uint32)
    low = (place & 0xFFFF) * parts
    high = (place >> 16) * parts + (low >> 16)
    return (high >> 16).astype(jnp.int32), (high << 16) | (low & 0xFFFF)
