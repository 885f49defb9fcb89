"""Gradient descent on whatever can be differentiated, a block of steps at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

# constants, parameters, temperature -> smooth and exact time
Objective = Callable[[Any, Any, jax.Array], tuple[jax.Array, jax.Array]]
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


@cache
def adam(learning_rate: float, steps: int, done: int = 0) -> optax.GradientTransformation:
    """Adam whose step falls to a hundredth along half a cosine, of which `done` lie behind."""
    falling = optax.cosine_decay_schedule(learning_rate, steps, alpha=0.01)
    return optax.adam(lambda count: falling(count + done))


def descend(
    objective: Objective,
    constants: Any,
    start: Any,
    temperatures: np.ndarray,
    optimiser: optax.GradientTransformation,
    *,
    on_block: Callable[[int, float], bool] = lambda done, best_s: True,
    block: int = BLOCK,
) -> Descent:
    """Follow the gradient of a smooth objective and keep the best point by the exact one.

    The same objective and optimiser with other numbers of the same shapes are not compiled again.

    Args:
        objective: constants, parameters and temperature -> smooth and exact time; differentiated
            in the parameters.
        constants: a pytree.
        start: a pytree of arrays, the parameters.
        temperatures: (steps,) the smoothing of each step.
        optimiser: any of optax.
        on_block: called with the steps done and the best time so far; False stops.
        block: steps compiled together.
    """
    run = _compiled(objective, optimiser)
    best_s = jnp.asarray(np.inf, jnp.result_type(*jax.tree.leaves(start)))
    carry = (start, optimiser.init(start), start, best_s)
    found = Descent(start, np.inf)
    for first in range(0, len(temperatures), block):
        these = jnp.asarray(temperatures[first : first + block], best_s.dtype)
        carry, (smooth, exact) = run(constants, carry, these)
        found.smooth_s += np.asarray(smooth).tolist()
        found.exact_s += np.asarray(exact).tolist()
        found.best, found.best_s = carry[2], float(carry[3])
        if not on_block(len(found.exact_s), found.best_s):
            found.stopped = True
            break
    return found


@cache
def _compiled(objective: Objective, optimiser: optax.GradientTransformation):
    """Steps down an objective, each at a temperature of its own."""
    slope = jax.value_and_grad(objective, argnums=1, has_aux=True)

    def step(constants, carry, temperature):
        here, state, best, best_s = carry
        (smooth, exact), gradient = slope(constants, here, temperature)
        better = exact < best_s
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), here, best)
        best_s = jnp.minimum(exact, best_s)
        # in units of the time, so that the optimiser's small constants mean the same everywhere
        gradient = jax.tree.map(lambda g: g / exact, gradient)
        update, state = optimiser.update(gradient, state, here)
        return (optax.apply_updates(here, update), state, best, best_s), (smooth, exact)

    @jax.jit
    def run(constants, carry, temperatures):
        return jax.lax.scan(lambda c, t: step(constants, c, t), carry, temperatures)

    return run
