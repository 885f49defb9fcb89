"""How far off the times can be where events are merged."""

import jax
import jax.numpy as jnp

from mrcjax.engine.fluid.replay import History, Numbers, Program


def merge_error(
    program: Program, numbers: Numbers, history: History, quantum: jax.Array
) -> jax.Array:
    """Bound () s of the error of any finite time by merged events; 0 where none was merged.

    Coarse, as max-min rates are not monotone: a flow that ends a little later may slow down
    another for long. But whatever is active, a flow's rate lies between `least`, its share of each
    link divided among all flows that ever use it, and `most`, each link to itself. So with and
    without merging its drain takes from size / most to size / least, from a begin that differs by
    at most the largest shift of an event. For flows that wait for nothing that is the error;
    for sends it adds up along what they wait for, along all of them at worst.
    """
    capacity = jnp.append(numbers.capacity, jnp.inf)[program.link]
    total = jnp.zeros(numbers.capacity.size + 1, capacity.dtype)
    total = total.at[program.link].add(numbers.weight)[program.link]
    is_on = numbers.weight > 0
    shared = jnp.where(is_on, capacity / jnp.where(is_on, total, 1.0), jnp.inf)
    alone = jnp.where(is_on, capacity / jnp.where(is_on, numbers.weight, 1.0), jnp.inf)
    least = jnp.minimum(jnp.min(shared, axis=1), numbers.limit)
    most = jnp.minimum(jnp.min(alone, axis=1), numbers.limit)
    drains = jnp.isfinite(history.finish) & (numbers.size > 0) & (least > 0)
    inverse = jnp.where(drains, 1.0 / jnp.where(drains, least, 1.0), 0.0)
    slack = numbers.size * (inverse - jnp.where(drains, 1.0 / jnp.where(drains, most, 1.0), 0.0))
    shift = history.shift
    error = jnp.max(slack) + shift if program.apart else jnp.sum(slack + shift)
    return jax.lax.stop_gradient(jnp.where((quantum > 0) & (shift > 0), error, 0.0))
