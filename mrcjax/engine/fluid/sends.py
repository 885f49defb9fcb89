"""Whole schedules: sends in lanes, with gates that open when what they wait for has come."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.engine.fluid.checks import known
from mrcjax.engine.fluid.drain import drain
from mrcjax.engine.fluid.layout import (
    Layout,
    bytes_of_links,
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
class Sends:
    """The sends of a schedule and what each waits for.

    routes           (sends, paths, hops) int32  links of every path, padded with -1
    weights          (sends, paths)              share of the send on each path, 0 = unused
    size_bytes       (sends,)
    extra_latency_s  (sends,)                    added to the latency of the path
    lanes            (lanes, steps) int32        sends of each lane in order, padded with -1
    waits            (sends,) int32              gate that must have opened, -1 = none
    delay_s          (sends,)                    from the gate's opening to the start
    feeds            (sends, feeds) int32        gates that its end counts toward, -1 = none
    feeds_delivered  (sends, feeds) bool         whether it counts when delivered, or when left
    gate_needs       (gates,) int32              how many ends open each gate
    lane_start_s     (lanes,)                    when each lane may start
    """

    routes: jax.Array
    weights: jax.Array
    size_bytes: jax.Array
    extra_latency_s: jax.Array
    lanes: jax.Array
    waits: jax.Array
    delay_s: jax.Array
    feeds: jax.Array
    feeds_delivered: jax.Array
    gate_needs: jax.Array
    lane_start_s: jax.Array


@pytree
class SendTimes:
    """The result of `emulate_sends`.

    left_s       (sends,)  when the last byte has left, delivered_s less the send's latency
    delivered_s  (sends,)  when it has arrived; inf for a send that never starts or never ends
    link_bytes   (links,)  bytes carried, of the sends that arrive; a constant for differentiation
    events       () int32  times at which rates were computed afresh
    passes       () int32  of progressive filling, all events together
    merge_error_s  ()      bound of the error of any time by `quantum_s`, see `merge_error`
    """

    left_s: jax.Array
    delivered_s: jax.Array
    link_bytes: jax.Array
    events: jax.Array
    passes: jax.Array
    merge_error_s: jax.Array


def lay_out_sends(sends: Sends, links: int) -> Layout:
    """Sort out the routes of sends, once for many runs, outside of compiled code.

    Links that one lane alone takes need no filling, as its sends never meet: on a non-blocking
    plane that leaves the ingress ports, and in a ring nothing.
    """
    lanes = np.asarray(sends.lanes)
    routes = np.asarray(sends.routes)
    owner = np.zeros(routes.shape[0], np.int64)
    lane, _ = np.nonzero(lanes >= 0)
    owner[lanes[lanes >= 0]] = lane
    return lay_out(routes, links, owner)


def emulate_sends(
    sends: Sends,
    capacity_bytes_per_s: jax.Array,
    latency_s: jax.Array,
    *,
    quantum_s: Any = 0.0,
    layout: Layout | None = None,
) -> SendTimes:
    """When every send of a schedule has left and been delivered, links shared max-min fairly.

    A send starts when its lane has started, the lane's previous send has left, and its gate has
    opened (at the latest of the ends that it counts) and `delay_s` has passed. It waits out the
    latency of its longest path and `extra_latency_s`, then drains. It is delivered when it has
    drained, and has left one latency before: so the sends of a lane drain without a gap and pay the
    latency once. A drain never begins before what the send waited for has drained, which makes a
    difference only behind a send with a longer path. A send whose gate never opens is delivered at
    inf, and so is what comes after it.

    Pure: it may be compiled, batched and differentiated (once, in both modes, in all floats; the
    order of events is held fixed). An event costs work for every lane, not for every send.

    Args:
        sends: what to send.
        capacity_bytes_per_s: (links,), finite; 0 = down.
        latency_s: () or (links,), of each link.
        quantum_s: () events up to this much after the first of them are taken together.
        layout: of `lay_out_sends`, for routes that are traced; known ones are laid out here.
    """
    links = capacity_bytes_per_s.shape[0]
    if layout is None and known(sends.routes) and known(sends.lanes):
        layout = lay_out_sends(sends, links)
    elif layout is None:
        layout = lay_out_unknown(sends.routes, links)
    return _emulate(layout, sends, capacity_bytes_per_s, latency_s, quantum_s)


@jax.jit
def _emulate(
    layout: Layout, sends: Sends, capacity: jax.Array, latency: jax.Array, quantum: jax.Array
) -> SendTimes:
    links = capacity.shape[0]
    item_weight = item_weights(sends.routes, sends.weights)
    entry_weight = entry_weights(layout, item_weight, item_weight.size)
    link, weight, limit = spread(layout, entry_weight, capacity)
    per_link = jnp.broadcast_to(jnp.asarray(latency, capacity.dtype), (links,))
    wait = path_latency(sends.routes, sends.weights, per_link) + sends.extra_latency_s
    program = Program(
        link=link,
        lanes=sends.lanes,
        waits=sends.waits,
        feeds=sends.feeds,
        feeds_delivered=jnp.broadcast_to(sends.feeds_delivered, sends.feeds.shape),
        needs=sends.gate_needs,
    )
    numbers = Numbers(
        weight=weight,
        capacity=capacity[layout.links],
        limit=limit,
        size=sends.size_bytes,
        wait=wait,
        delay=sends.delay_s,
        lane_start=sends.lane_start_s,
    )
    quantum = jnp.asarray(quantum, capacity.dtype)
    history = drain(program, numbers, quantum)
    arrived = jnp.where(jnp.isfinite(history.finish), sends.size_bytes, 0.0)
    return SendTimes(
        left_s=history.finish - wait,
        delivered_s=history.finish,
        link_bytes=bytes_of_links(sends.routes, item_weight, arrived, links),
        events=history.events,
        passes=history.passes,
        merge_error_s=merge_error(program, numbers, history, quantum),
    )
