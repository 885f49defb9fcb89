"""Gradient descent on whatever can be differentiated, a block of steps at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

Objective = Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]
BLOCK = 25  # steps between looks at the clock, the screen and the keyboard


@dataclass
class Descent:
    """Where a descent came: the best parameters by the exact objective, and the way there.

    smooth_s, exact_s: objective before each step; stopped: whether it was told to stop early.
    """

    best: Any
    best_s: float
    smooth_s: list[float] = field(default_factory=list)
    exact_s: list[float] = field(default_factory=list)
    stopped: bool = False


def annealed(first: float, last: float, steps: int) -> np.ndarray:
    """Temperatures from first to last in equal ratios, (steps,)."""
    return np.geomspace(first, last, steps)


def adam(learning_rate: float, steps: int) -> optax.GradientTransformation:
    """Adam whose step falls to a hundredth along half a cosine."""
    return optax.adam(optax.cosine_decay_schedule(learning_rate, steps, alpha=0.01))


def descend(
    objective: Objective,
    start: Any,
    temperatures: np.ndarray,
    optimiser: optax.GradientTransformation,
    *,
    on_block: Callable[[int, float], bool] = lambda done, best_s: True,
    block: int = BLOCK,
) -> Descent:
    """Follow the gradient of a smooth objective and keep the best point by the exact one.

    Args:
        objective: parameters and temperature -> smooth and exact time; differentiated in the
            parameters.
        start: a pytree of arrays.
        temperatures: (steps,) the smoothing of each step.
        optimiser: any of optax.
        on_block: called with the steps done and the best time so far; False stops.
        block: steps compiled together.
    """
    slope = jax.value_and_grad(objective, has_aux=True)

    def step(carry, temperature):
        here, state, best, best_s = carry
        (smooth, exact), gradient = slope(here, temperature)
        better = exact < best_s
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), here, best)
        best_s = jnp.minimum(exact, best_s)
        # the objective's scale is of no matter to Adam, and steps in units of the time are sane
        gradient = jax.tree.map(lambda g: g / exact, gradient)
        update, state = optimiser.update(gradient, state, here)
        return (optax.apply_updates(here, update), state, best, best_s), (smooth, exact)

    @jax.jit
    def run(carry, temperatures):
        return jax.lax.scan(step, carry, temperatures)

    carry = (start, optimiser.init(start), start, jnp.asarray(np.inf, temperatures.dtype))
    found = Descent(start, np.inf)
    for first in range(0, len(temperatures), block):
        carry, (smooth, exact) = run(carry, jnp.asarray(temperatures[first : first + block]))
        found.smooth_s += np.asarray(smooth).tolist()
        found.exact_s += np.asarray(exact).tolist()
        found.best, found.best_s = carry[2], float(carry[3])
        if not on_block(len(found.exact_s), found.best_s):
            found.stopped = True
            break
    last = float(jax.jit(objective)(carry[0], jnp.asarray(temperatures[-1]))[1])
    if last < found.best_s:
        found.best, found.best_s = carry[0], last
    return found
