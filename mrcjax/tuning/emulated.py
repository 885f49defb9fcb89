"""The engine's own time of a cut, exact and smooth over the ranks."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from mrcjax.case import Case
from mrcjax.collective import Schedule
from mrcjax.engine import Config, Params, Shares, emulate
from mrcjax.network import Network
from mrcjax.pytree import pytree, static
from mrcjax.tuning.surrogate import Cutting, smooth_max


@pytree
class Emulated:
    """What an emulation is made of beside what is tuned."""

    params: Params
    network: Network
    schedule: Schedule
    size_bytes: jax.Array  # (), of one pipelined piece
    config: Config = static()


def emulated_of(case: Case) -> Emulated:
    """Collect the constants of a case that is cut by weights, equal ones if it has none."""
    params = case.params
    piece = float(case.spec.the_collective.size) / case.spec.the_collective.chunks
    size = jnp.asarray(piece, params.late_s.dtype)
    if params.shares is None:
        lanes, ranks = case.schedule.phases[0].lanes, case.network.ranks
        ones = jnp.ones((lanes, ranks), params.late_s.dtype)
        params = replace(params, shares=Shares(ones, ones), chunk_bytes=(size[None, None] / ranks,))
    return Emulated(params, case.network, case.schedule, size, case.config)


def emulated_time(
    emulated: Emulated, cutting: Cutting, temperature: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Smooth and exact time of a cut by rank.

    Takes logarithms of weights: source and destination (rails, ranks), shards (ranks,); the lanes
    of a rail have equal parts. Smooth is
    the log-sum-exp of the ranks' finish times, at most temperature x ln(ranks) of it too large.
    """
    params = emulated.params
    assert params.shares is not None
    if cutting.source is not None and cutting.destination is not None:
        per_rail = params.shares.source.shape[0] // cutting.source.shape[0]
        source, destination = (
            jnp.tile(_weights(log), (per_rail, 1)) for log in (cutting.source, cutting.destination)
        )
        params = replace(params, shares=Shares(source, destination, params.shares.table))
    if cutting.shards is not None:
        weight = _weights(cutting.shards)
        bytes_ = emulated.size_bytes * (weight / weight.sum())
        params = replace(params, chunk_bytes=(bytes_[None],))
    times = emulate(params, emulated.network, emulated.schedule, config=emulated.config)
    width = temperature * jax.lax.stop_gradient(times.time_s)
    return smooth_max(times.finish_s, width), times.time_s


def num_sends(case: Case) -> int:
    """Sends of one emulation: what a step costs."""
    return sum(p.rounds * p.lanes * case.network.ranks for p in case.schedule.phases)


def _weights(log: jax.Array) -> jax.Array:
    """Largest 1; only ratios matter."""
    return jnp.exp(log - jax.lax.stop_gradient(log.max(axis=0, keepdims=True)))
