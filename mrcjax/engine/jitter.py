"""Random delays drawn inside the loop: per rank and round, from a hash of their place."""

import jax
import jax.numpy as jnp

from mrcjax.network.route import pair_hash
from mrcjax.pytree import pytree, static


@pytree
class Jitter:
    """Delay of a rank's sends in every round; a draw below zero counts as zero.

    mean_s, sigma_s: () mean and standard deviation (an exponential's is its mean). seed: () uint32.
    kind: "normal" | "exponential" | "log_normal". Numbers are traced: another scale or seed needs
    no new compilation.
    """

    mean_s: jax.Array
    sigma_s: jax.Array
    seed: jax.Array
    kind: str = static()


def of_phase(jitter: Jitter | None, number: int) -> Jitter | None:
    """The delays of one phase: those of different phases are independent."""
    if jitter is None:
        return None
    seed = pair_hash(jitter.seed, number)
    return Jitter(jitter.mean_s, jitter.sigma_s, seed, jitter.kind)


def delays(jitter: Jitter, round_: jax.Array | int, ranks: int) -> jax.Array:
    """What the sends of a round are late by, (ranks,) s."""
    h = pair_hash(jitter.seed, round_, jnp.arange(ranks))
    dtype = jitter.mean_s.dtype
    # the middle of one of 2^24 equal parts of 0..1: never 0 nor 1, exact in single precision too
    uniform = ((h >> 8).astype(dtype) + 0.5) * dtype.type(2.0**-24)
    return from_uniform(jitter.kind, uniform, jitter.mean_s, jitter.sigma_s)


def from_uniform(kind: str, uniform: jax.Array, mean: jax.Array, sigma: jax.Array) -> jax.Array:
    """Turn uniform numbers in 0..1 into delays of a distribution, the inverse of its CDF."""
    if kind == "exponential":
        return -jnp.log1p(-uniform) * mean
    normal = jax.scipy.special.ndtri(uniform)
    if kind == "normal":
        return jnp.maximum(mean + sigma * normal, 0.0)
    spread = jnp.log1p((sigma / mean) ** 2)  # variance of the logarithm
    return mean * jnp.exp(jnp.sqrt(spread) * normal - spread / 2)
