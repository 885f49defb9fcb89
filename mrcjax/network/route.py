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
