"""The engine's own time of a cut, exact and smooth over the ranks."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from mrcjax.case import Case
from mrcjax.engine import Shares, emulate
from mrcjax.tune.descent import Objective
from mrcjax.tune.surrogate import Cutting, smooth_max


def emulated_time(case: Case) -> Objective:
    """Time of a cut by rank on a case that is cut by weights already.

    Takes logarithms of weights: source and destination (rails, ranks), shards (ranks,). Smooth is
    the log-sum-exp of the ranks' finish times, at most temperature x ln(ranks) of it too large.
    """
    given = case.params.shares
    assert given is not None
    size_bytes = float(case.spec.collective.size)

    def objective(cutting: Cutting, temperature: jax.Array) -> tuple[jax.Array, jax.Array]:
        params = case.params
        if cutting.source is not None and cutting.destination is not None:
            source, destination = _weights(cutting.source), _weights(cutting.destination)
            params = replace(params, shares=Shares(source, destination, given.table))
        if cutting.shards is not None:
            weight = _weights(cutting.shards)
            params = replace(params, chunk_bytes=(size_bytes * (weight / weight.sum())[None],))
        times = emulate(params, case.network, case.schedule, config=case.config)
        width = temperature * jax.lax.stop_gradient(times.time_s)
        return smooth_max(times.finish_s, width), times.time_s

    return objective


def num_sends(case: Case) -> int:
    """Sends of one emulation: what a step costs."""
    return sum(p.rounds * p.lanes * case.network.ranks for p in case.schedule.phases)


def _weights(log: jax.Array) -> jax.Array:
    """Largest 1; only ratios matter."""
    return jnp.exp(log - jax.lax.stop_gradient(log.max(axis=0, keepdims=True)))


def ones(case: Case) -> Shares:
    """Equal weights of all lanes."""
    ones = jnp.ones((case.network.ports, case.network.ranks), case.params.late_s.dtype)
    return Shares(ones, ones)
