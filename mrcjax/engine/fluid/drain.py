"""The event loop: flows drain at fair rates, computed afresh whenever one begins or ends.

Derivatives hold the order of events fixed: within it every time is a smooth function of the
numbers. The forward run keeps the time of each event and at which event each flow begins and ends,
no rates; a derivative goes through the events once more and fills each interval again.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.engine.fluid.filling import (
    Incidence,
    fair_rates,
    fill,
    rates_adjoint,
    rates_tangent,
    same,
)
from mrcjax.engine.fluid.linear import linear
from mrcjax.pytree import pytree

NEVER = 2**31 - 1
AT_ONCE = -1  # begins and ends outside the loop: nothing to drain, or no link to drain through


@pytree
class Drains:
    """What drains where, and from when.

    weight    (flows, entries)  load of each entry per unit of rate; 0 where there is no link
    capacity  (links,)          bytes/s
    limit     (flows,)          bytes/s, see `fair_rates`
    size      (flows,)          bytes
    begin     (flows,)          s
    """

    weight: jax.Array
    capacity: jax.Array
    limit: jax.Array
    size: jax.Array
    begin: jax.Array


@pytree
class History:
    """When everything happened. Event k ends interval k and begins interval k + 1.

    finish   (flows,)            s; inf for a flow that never ends
    begun    (flows,) int32      event at which the flow begins to drain; NEVER, AT_ONCE
    ended    (flows,) int32      event at which it ends; NEVER, AT_ONCE
    time     (2 flows + 1,)      s, of each event
    decided  (2 flows + 1,) int32   who set that time: 2 * flow, plus 1 if by its end
    events   () int32
    passes   () int32            of progressive filling, all events together
    """

    finish: jax.Array
    begun: jax.Array
    ended: jax.Array
    time: jax.Array
    decided: jax.Array
    events: jax.Array
    passes: jax.Array


@jax.custom_jvp
def drain(link: jax.Array, drains: Drains, quantum: jax.Array) -> History:
    """Let every flow drain. Differentiable in all of `drains`, once, in both modes.

    Args:
        link: (flows, entries) int32, see `Incidence`.
        drains: the numbers.
        quantum: () s; events up to this much after the first of them happen with the last of them.
    """
    incidence = Incidence(link, drains.weight)
    flows = drains.size.shape[0]
    has_link = jnp.any(link < drains.capacity.size, axis=1) | (drains.limit < jnp.inf)
    at_once = (drains.size <= 0) | ~has_link
    code = jnp.where(at_once, AT_ONCE, NEVER).astype(jnp.int32)
    zero = jnp.zeros((), jnp.int32)
    history = History(
        finish=jnp.where(at_once, drains.begin, jnp.inf),
        begun=code,
        ended=code,
        time=jnp.zeros(2 * flows + 1, drains.size.dtype),
        decided=jnp.zeros(2 * flows + 1, jnp.int32),
        events=zero,
        passes=zero,
    )

    def goes_on(carry):
        history, _, is_stuck = carry
        return ~is_stuck & jnp.any(history.ended == NEVER) & (history.events < 2 * flows)

    def advance(carry):
        return _advance(incidence, drains, quantum, *carry[:2])

    carry = history, drains.size, jnp.zeros((), bool)
    return jax.lax.while_loop(goes_on, advance, carry)[0]


def _advance(
    incidence: Incidence, drains: Drains, quantum: jax.Array, history: History, left: jax.Array
):
    """One event; returns the carry: history, bytes left, and whether nothing moves any more."""
    k, begin = history.events, drains.begin
    now = history.time[jnp.maximum(k - 1, 0)]
    waits = history.begun == NEVER
    active = ~waits & (history.ended == NEVER)
    rate, passes = fair_rates(incidence, drains.capacity, drains.limit, active)
    end = jnp.where(active, now + left / jnp.where(active, rate, 1.0), jnp.inf)
    start = jnp.where(waits, begin, jnp.inf)
    first = jnp.minimum(jnp.min(end), jnp.min(start))
    happens = first < jnp.inf
    last = first + quantum + same(left.dtype) * jnp.abs(first)
    ends, begins = happens & (end <= last), happens & (start <= last)
    moment = jnp.where(ends, end, jnp.where(begins, start, -jnp.inf))
    which = jnp.argmax(moment)
    time = jnp.where(happens, moment[which], now)
    drained = jnp.where(active, rate * (time - now), 0.0)
    after = History(
        finish=jnp.where(ends, end, history.finish),
        begun=jnp.where(begins, k, history.begun),
        ended=jnp.where(ends, k, history.ended),
        time=history.time.at[k].set(time),
        decided=history.decided.at[k].set((2 * which + ends[which]).astype(jnp.int32)),
        events=k + happens,
        passes=history.passes + passes,
    )
    return after, jnp.maximum(left - drained, 0.0), ~happens


@drain.defjvp
def _drain_jvp(primals, tangents):
    link, drains, quantum = primals
    history = drain(link, drains, quantum)
    finish = linear(_finish_tangent, _finish_adjoint, (link, drains, history), tangents[1])
    return history, _only_finish(history, finish)


def _only_finish(history: History, finish: jax.Array) -> Any:
    """Tangents of a history in which nothing but the finish times moves."""

    def still(leaf: jax.Array) -> Any:
        is_float = jnp.issubdtype(leaf.dtype, jnp.inexact)
        return jnp.zeros_like(leaf) if is_float else np.zeros(leaf.shape, jax.dtypes.float0)

    return replace(jax.tree.map(still, history), finish=finish)


def _interval(link: jax.Array, drains: Drains, history: History, k: jax.Array):
    """The filling after event k, who stays to the event after the next, who ends at the next."""
    active = (history.begun <= k) & (history.ended > k)
    incidence = Incidence(link, drains.weight)
    filling = fill(incidence, drains.capacity, drains.limit, active)
    ends = active & (history.ended == k + 1)
    return incidence, filling, active & ~ends, ends


def _finish_tangent(residual: Any, tangents: Drains) -> jax.Array:
    """Tangent of the finish times, events in order."""
    link, drains, history = residual
    time = history.time

    def advance(carry):
        k, now, left, finish = carry
        incidence, filling, stays, ends = _interval(link, drains, history, k)
        moved = tangents.capacity, tangents.limit, tangents.weight
        rate = rates_tangent(incidence, filling, *moved)
        seconds = jnp.where(ends, history.finish - time[k], time[k + 1] - time[k])
        owed = left - rate * seconds
        finish = jnp.where(ends, now + owed / jnp.where(ends, filling.rate, 1.0), finish)
        flow, by_end = history.decided[k + 1] // 2, history.decided[k + 1] % 2 == 1
        then = jnp.where(by_end, finish[flow], tangents.begin[flow])
        return k + 1, then, jnp.where(stays, owed - filling.rate * (then - now), left), finish

    begun_at_once = jnp.where(history.ended == AT_ONCE, tangents.begin, 0.0)
    first = tangents.begin[history.decided[0] // 2]
    carry = jnp.zeros((), jnp.int32), first, tangents.size, begun_at_once
    return jax.lax.while_loop(lambda c: c[0] < history.events - 1, advance, carry)[3]


def _finish_adjoint(residual: Any, finish: jax.Array) -> Drains:
    """Transpose of `_finish_tangent`: events from the last to the first."""
    link, drains, history = residual
    time, links = history.time, drains.capacity.size

    def advance(carry):
        k, then, finish, total = carry
        incidence, filling, stays, ends = _interval(link, drains, history, k)
        paid = jnp.sum(jnp.where(stays, filling.rate * total.size, 0.0))
        then = then - paid
        flow, by_end = history.decided[k + 1] // 2, history.decided[k + 1] % 2 == 1
        finish = finish.at[flow].add(jnp.where(by_end, then, 0.0))
        begin = total.begin.at[flow].add(jnp.where(by_end, 0.0, then))
        owed = jnp.where(ends, finish / jnp.where(ends, filling.rate, 1.0), total.size)
        seconds = jnp.where(ends, history.finish - time[k], time[k + 1] - time[k])
        rate = jnp.where(stays | ends, -owed * seconds, 0.0)
        capacity, limit, weight = rates_adjoint(incidence, filling, links, rate)
        now = paid + jnp.sum(jnp.where(ends, finish, 0.0))
        total = Drains(
            total.weight + weight, total.capacity + capacity, total.limit + limit, owed, begin
        )
        return k - 1, now, finish, total

    nothing = jax.tree.map(jnp.zeros_like, drains)
    carry = history.events - 2, jnp.zeros((), finish.dtype), finish, nothing
    _, first, finish, total = jax.lax.while_loop(lambda c: c[0] >= 0, advance, carry)
    begin = total.begin + jnp.where(history.ended == AT_ONCE, finish, 0.0)
    begin = begin.at[history.decided[0] // 2].add(jnp.where(history.events > 0, first, 0.0))
    return Drains(total.weight, total.capacity, total.limit, total.size, begin)
