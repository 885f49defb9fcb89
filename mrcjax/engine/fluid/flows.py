"""Finish times of flows that start at given times and share links max-min fairly."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.engine.fluid.checks import check, known
from mrcjax.engine.fluid.drain import drain
from mrcjax.engine.fluid.layout import (
    Layout,
    bytes_of_links,
    default_weights,
    entry_weights,
    item_weights,
    lay_out,
    lay_out_unknown,
    path_latency,
    spread,
)
from mrcjax.engine.fluid.merging import merge_error
from mrcjax.engine.fluid.replay import Numbers, Program
from mrcjax.pytree import pytree


@pytree
class FlowTimes:
    """The result of `simulate_flows`.

    finish_s    (flows,)  when the last byte has arrived; inf for a flow that never ends
    link_bytes  (links,)  bytes carried, of the flows that end; a constant for differentiation
    events      () int32  times at which rates were computed afresh
    passes      () int32  of progressive filling, all events together
    merge_error_s  ()     bound of the error of any finish time by `quantum_s`, see `merge_error`
    """

    finish_s: jax.Array
    link_bytes: jax.Array
    events: jax.Array
    passes: jax.Array
    merge_error_s: jax.Array


def fluid_finish_times(
    routes: Any,
    capacity_bytes_per_s: Any,
    size_bytes: Any,
    start_s: Any = None,
    latency_s: Any = None,
    weights: Any = None,
    *,
    quantum_s: Any = 0.0,
) -> jax.Array:
    """When each of several flows has arrived if they share links max-min fairly, (flows,) s.

    A flow starts, waits out its latency, then drains at its fair rate, which changes whenever a
    flow begins or ends. Pure: it may be compiled, batched and differentiated (once, in capacities,
    sizes, starts, latencies and weights; the order of events is held fixed). Routes given as
    NumPy arrays or lists are sorted out beforehand and run faster than traced ones. Computes in the
    precision of those arguments that are JAX arrays; in float64 where none is, with NumPy arrays
    as results while JAX is in 32-bit mode.

    Args:
        routes: int (flows, hops), or (flows, paths, hops) for flows that are spread over several
            paths at once; link numbers in any order, -1 = no link. A flow without links takes no
            time beyond its latency.
        capacity_bytes_per_s: (links,), 0 = down: flows over it never end, their finish is inf.
        size_bytes: (flows,). A flow of 0 bytes finishes at start + latency.
        start_s: () or (flows,), default 0.
        latency_s: () or (links,) of each link: a flow waits for the sum over its path, the longest
            where there are several. Or (flows,), where that differs from (links,): of each flow.
        weights: (flows, paths) share of the flow on each path, default equal. A flow of rate x
            loads a link with x times the sum of its weights there.
        quantum_s: () events up to this much after the first of them are taken together.

    Raises:
        ValueError: for shapes that do not fit and, unless traced, values out of range.
    """
    return simulate_flows(
        routes,
        capacity_bytes_per_s,
        size_bytes,
        start_s,
        latency_s,
        weights,
        quantum_s=quantum_s,
    ).finish_s


def simulate_flows(
    routes: Any,
    capacity_bytes_per_s: Any,
    size_bytes: Any,
    start_s: Any = None,
    latency_s: Any = None,
    weights: Any = None,
    *,
    quantum_s: Any = 0.0,
) -> FlowTimes:
    """`fluid_finish_times` with what it took and what the links carried; same arguments."""
    numbers = {
        "capacity_bytes_per_s": capacity_bytes_per_s,
        "size_bytes": size_bytes,
        "start_s": 0.0 if start_s is None else start_s,
        "latency_s": 0.0 if latency_s is None else latency_s,
        "weights": weights,
        "quantum_s": quantum_s,
    }
    is_plain = not any(isinstance(x, jax.Array) for x in (routes, *numbers.values()))
    if is_plain and jnp.result_type(float) != jnp.float64:
        # outside of 64-bit mode JAX warns at every use of a 64-bit array of its own
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, _checked(routes, numbers))
    return _checked(routes, numbers)


def _checked(routes: Any, numbers: dict) -> FlowTimes:
    routes, numbers = check(routes, numbers)
    if routes.shape[0] == 0:
        finish, none = jnp.asarray(numbers["size_bytes"]), jnp.zeros((), jnp.int32)
        carried = jnp.zeros(numbers["capacity_bytes_per_s"].shape, finish.dtype)
        return FlowTimes(finish, carried, none, none, jnp.zeros((), finish.dtype))
    links = numbers["capacity_bytes_per_s"].shape[0]
    weights = numbers.pop("weights")
    if weights is None:
        weights = default_weights(routes, numbers["size_bytes"].dtype)
    elif known(weights):
        weights = np.asarray(weights)
    layout = lay_out(routes, links) if known(routes) else lay_out_unknown(routes, links)
    item_weight = item_weights(routes, weights)
    weight = entry_weights(layout, item_weight, item_weight.size)
    return _simulate(layout, routes, weights, item_weight, weight, numbers)


@jax.jit
def _simulate(
    layout: Layout,
    routes: jax.Array,
    weights: jax.Array,
    item_weight: jax.Array,
    entry_weight: jax.Array,
    numbers: dict,
) -> FlowTimes:
    capacity, size = numbers["capacity_bytes_per_s"], numbers["size_bytes"]
    flows, links = size.shape[0], capacity.shape[0]
    link, weight, limit = spread(layout, entry_weight, capacity)
    latency = numbers["latency_s"]
    if not (latency.shape == (flows,) and flows != links):
        latency = path_latency(routes, weights, jnp.broadcast_to(latency, (links,)))
    none = jnp.zeros((flows, 0), jnp.int32)
    program = Program(
        link=link,
        lanes=jnp.arange(flows, dtype=jnp.int32)[:, None],
        waits=jnp.full(flows, -1, jnp.int32),
        feeds=none,
        feeds_delivered=none.astype(bool),
        needs=jnp.zeros(0, jnp.int32),
        apart=True,
    )
    of_flows = Numbers(
        weight=weight,
        capacity=capacity[layout.links],
        limit=limit,
        size=size,
        wait=latency,
        delay=jnp.zeros_like(size),
        lane_start=jnp.broadcast_to(numbers["start_s"], (flows,)),
    )
    history = drain(program, of_flows, numbers["quantum_s"])
    arrived = jnp.where(jnp.isfinite(history.finish), size, 0.0)
    return FlowTimes(
        finish_s=history.finish,
        link_bytes=bytes_of_links(routes, item_weight, arrived, links),
        events=history.events,
        passes=history.passes,
        merge_error_s=merge_error(program, of_flows, history, numbers["quantum_s"]),
    )
