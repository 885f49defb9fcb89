"""The one loop of the engine: rounds in order, skipped where they repeat, checkpointed for grad."""

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any

import jax
import jax.numpy as jnp

from mrcjax.engine.maxplus import multiple

STRIDE = 64  # rounds that are looked at together
SAME = 1e-13  # relative to the clock: when two growths count as one common value

Step = Callable[[jax.Array, Any, Any], Any]


def run_rounds(
    step: Step, rounds: int | jax.Array, repeats: bool, state: Any, operands: Any
) -> Any:
    """Apply `step(round, state, operands)` for every round.

    state: (clocks, tallies): pytrees of arrays; clocks are times, tallies grow by what a round
    adds. `repeats` says that a round's map does not depend on its number: then, once every clock
    in use grew by one common value over a stride of rounds, the strides that are left do the same,
    and are added at once. Under differentiation all rounds run, as a scan in blocks of about the
    square root of their number whose inside is computed again in the reverse pass. Where the
    number of rounds is traced there is no reverse pass.
    """
    if isinstance(rounds, int):
        return _rounds_with_derivative(step, rounds, repeats, state, operands)
    return _plain_rounds(step, rounds, repeats, state, operands)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _rounds_with_derivative(
    step: Step, rounds: int, repeats: bool, state: Any, operands: Any
) -> Any:
    return _plain_rounds(step, rounds, repeats, state, operands)


def _plain_rounds(
    step: Step, rounds: int | jax.Array, repeats: bool, state: Any, operands: Any
) -> Any:
    is_short = isinstance(rounds, int) and rounds <= 2 * STRIDE
    if not repeats or is_short:
        return jax.lax.fori_loop(0, rounds, lambda k, s: step(k, s, operands), state)

    start = state[0]

    def unfinished(carry):
        return carry[0] < rounds

    def advance(carry):
        done, before = carry
        stride = jnp.minimum(STRIDE, rounds - done)
        after = jax.lax.fori_loop(done, done + stride, lambda k, s: step(k, s, operands), before)
        left = rounds - done - stride
        steady, growth = _common_growth(start, before[0], after[0])
        may_skip = steady & (stride == STRIDE) & (rounds > 2 * STRIDE)
        skips = jnp.where(may_skip, left // STRIDE, 0)

        def skip(old, new):
            return jnp.where((skips == 0) | (new == old), new, new + multiple(skips, growth))

        clocks = jax.tree.map(skip, before[0], after[0])
        tallies = jax.tree.map(
            lambda old, new: new + multiple(skips, new - old), before[1], after[1]
        )
        return done + stride + skips * STRIDE, (clocks, tallies)

    return jax.lax.while_loop(unfinished, advance, (jnp.zeros((), jnp.int32), state))[1]


@_rounds_with_derivative.defjvp
def _rounds_jvp(step, rounds, repeats, primals, tangents):
    del repeats
    state, operands = primals
    return jax.jvp(lambda s, o: _checkpointed(step, rounds, s, o), (state, operands), tangents)


def _common_growth(start: Any, old: Any, new: Any) -> tuple[jax.Array, jax.Array]:
    """Whether all clocks in use grew by one value, and that value.

    In use is what moved since `start`. With positive work all of that moves in each round; with
    chunks of no bytes the wave behind a late rank moves one rank a round, and that does not repeat.
    """
    leaves = [jax.tree.leaves(clocks) for clocks in (start, old, new)]
    grown = [jnp.where(n == o, 0.0, n - o) for _, o, n in zip(*leaves, strict=True)]
    growth = jnp.max(jnp.stack([jnp.max(g) for g in grown]))
    clock = jnp.max(jnp.stack([jnp.max(n) for n in leaves[2]]))
    within = [
        jnp.all((n == s) | ((n != o) & (jnp.abs(g - growth) <= SAME * clock)))
        for s, o, n, g in zip(*leaves, grown, strict=True)
    ]
    return jnp.all(jnp.stack(within)), growth


def _checkpointed(step: Step, rounds: int, state: Any, operands: Any) -> Any:
    """The same rounds as a scan whose memory for the reverse pass is about 2 sqrt(rounds)."""
    block = max(isqrt(rounds), 1)

    def plain(state, ks):
        return jax.lax.scan(lambda s, k: (step(k, s, operands), None), state, ks)[0], None

    full = rounds // block
    ks = jnp.arange(full * block).reshape(full, block)
    state, _ = jax.lax.scan(jax.checkpoint(plain, prevent_cse=False), state, ks)
    if full * block < rounds:
        state, _ = jax.checkpoint(plain, prevent_cse=False)(state, jnp.arange(full * block, rounds))
    return state
