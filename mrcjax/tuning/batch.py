"""Many scenarios at once: one cut, a time in each, and what is made of them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.case import Case, numbers
from mrcjax.pytree import pytree, static
from mrcjax.tuning.classes import Ports
from mrcjax.tuning.emulated import Emulated, emulated_of, emulated_time
from mrcjax.tuning.surrogate import Cutting, Load, port_bytes, smooth_max, time_of_bytes

DEFAULT = "p95"
PERCENTILE = 95.0
SPREAD = 5.0  # ranks of sorted scenarios that a percentile is smoothed over, per temperature


@pytree
class Loads:
    """The surrogate's constants of many scenarios: `load`'s own rates are the least of all."""

    load: Load
    egress: jax.Array  # (scenarios, classes, rails)
    ingress: jax.Array
    egress_start_s: jax.Array
    ingress_start_s: jax.Array
    objective: str = static(default=DEFAULT)


@pytree
class EmulatedBatch:
    """What the emulations of many scenarios are made of beside what is tuned."""

    emulated: Emulated
    index: jax.Array  # (ranks,) class of each, of which a cut has one column
    drawn: dict[str, jax.Array]  # entries of Params, with a leading axis of scenarios
    objective: str = static(default=DEFAULT)


def loads_of(load: Load, ports: Ports, objective: str) -> Loads:
    """Collect the constants."""
    each = {key: jnp.asarray(value) for key, value in vars(ports).items()}
    return Loads(load=load, objective=objective, **each)


def batch_of(case: Case, index: np.ndarray, objective: str) -> EmulatedBatch:
    """Draw all scenarios of a case that is cut by weights."""
    dtype = case.params.capacity_bytes_per_s.dtype
    drawn = [numbers(case.draws, s, dtype) for s in range(case.spec.faults.scenarios)]
    varying = ("capacity_bytes_per_s", "latency_s")
    stacked = {key: jnp.stack([each[key] for each in drawn]) for key in varying}
    return EmulatedBatch(emulated_of(case), jnp.asarray(index), stacked, objective)


def loads_time(
    loads: Loads, cutting: Cutting, temperature: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Smooth and exact objective of a cut by loads; the bytes are the same in all scenarios."""
    bytes_ = port_bytes(loads.load, cutting)

    def one(egress, ingress, egress_start_s, ingress_start_s):
        here = replace(
            loads.load,
            egress=egress,
            ingress=ingress,
            egress_start_s=egress_start_s,
            ingress_start_s=ingress_start_s,
        )
        return time_of_bytes(here, bytes_, temperature)

    times = jax.vmap(one)(loads.egress, loads.ingress, loads.egress_start_s, loads.ingress_start_s)
    return smooth_value(loads.objective, *times, temperature)


def batch_time(
    batch: EmulatedBatch, cutting: Cutting, temperature: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Smooth and exact objective of a cut on the engine: a column of weights for each class."""
    cutting = jax.tree.map(lambda weights: weights[..., batch.index], cutting)

    def one(drawn):
        here = replace(batch.emulated, params=replace(batch.emulated.params, **drawn))
        return emulated_time(here, cutting, temperature)

    return smooth_value(batch.objective, *jax.vmap(one)(batch.drawn), temperature)


def value_of(objective: str, times_s: np.ndarray) -> float:
    """Mean, 95th percentile (between the nearest two, as NumPy does it) or largest; seconds."""
    if objective == "mean":
        return float(np.mean(times_s))
    if objective == "worst":
        return float(np.max(times_s))
    if not np.isfinite(times_s).all():  # between an infinite one and itself lies no number
        times_s = np.minimum(times_s, np.finfo(np.float64).max)
        value = float(np.percentile(times_s, PERCENTILE))
        return value if value < 1e300 else float("inf")
    return float(np.percentile(times_s, PERCENTILE))


def smooth_value(
    objective: str, smooth_s: jax.Array, exact_s: jax.Array, temperature: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The same, smooth and exact, of the smooth and exact times of the scenarios, (scenarios,).

    The percentile is smoothed over its neighbours among the sorted times by a bell that narrows
    with the temperature: an L-estimator (Huber, Robust Statistics, 1981, ch. 3).
    """
    if objective == "mean":
        return smooth_s.mean(), exact_s.mean()
    if objective == "worst":
        width = temperature * jax.lax.stop_gradient(exact_s.max())
        return smooth_max(smooth_s, width), exact_s.max()
    count = exact_s.shape[0]
    away = (jnp.arange(count) - PERCENTILE / 100.0 * (count - 1)) / count
    weight = jax.nn.softmax(-0.5 * (away / (SPREAD * temperature)) ** 2)
    return (weight * jnp.sort(smooth_s)).sum(), jnp.percentile(exact_s, PERCENTILE)
