"""Derivatives of the event loop: the events once more, forward for tangents, back for cotangents.

With the order of events held fixed every time is a smooth function of the numbers. Each send has
tangents of its own for its begin and its end; at an event in between, at which its rate changes, it
takes the tangent of the event's time, which is that of whoever decided it.
"""

from typing import Any

import jax
import jax.numpy as jnp

from mrcjax.engine.fluid.filling import Incidence, fill, rates_adjoint, rates_tangent
from mrcjax.pytree import pytree, static

NEVER = 2**31 - 1

# why a send begins when it does; `source` is a lane, a send or an event
AT_LANE_START, AFTER_LEFT, AFTER_GATE_LEFT, AFTER_DELIVERED, AT_EVENT = range(5)


@pytree
class Program:
    """What drains where and after what: indices only.

    link             (sends, entries) int32  see `Incidence`
    lanes            (lanes, steps) int32    sends of each lane in order, -1 = no more
    waits            (sends,) int32          gate that must have opened, -1 = none
    feeds            (sends, feeds) int32    gates that its end counts toward, -1 = none
    feeds_delivered  (sends, feeds) bool     whether it counts when delivered, or when left
    needs            (gates,) int32          ends that open each gate
    apart            every lane has one send, that of its own number: spares gathers and scatters
    """

    link: jax.Array
    lanes: jax.Array
    waits: jax.Array
    feeds: jax.Array
    feeds_delivered: jax.Array
    needs: jax.Array
    apart: bool = static(default=False)

    def send(self, step: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Current send of each lane, (lanes,), 0 where there is none, and whether there is one."""
        steps = self.lanes.shape[1]
        if self.apart:
            return self.lanes[:, 0], step == 0
        inside = jnp.clip(step, 0, steps - 1)[:, None]
        send = jnp.take_along_axis(self.lanes, inside, axis=1)[:, 0]
        exists = (send >= 0) & (step >= 0) & (step < steps)
        return jnp.where(exists, send, 0), exists

    def pick(self, array: jax.Array, send: jax.Array) -> jax.Array:
        """`array` (sends, ...) at the send of each lane."""
        return array if self.apart else array[send]

    def put(
        self, array: jax.Array, send: jax.Array, where: jax.Array, value: jax.Array
    ) -> jax.Array:
        """`array` (sends,) with `value` at the send of each lane, only `where`."""
        if self.apart:
            return jnp.where(where, value, array)
        return put(array, send, where, value)


def put(array: jax.Array, place: jax.Array, where: jax.Array, value: jax.Array) -> jax.Array:
    """`array` with `value` at `place`, only `where`."""
    place = jnp.where(where, place, array.shape[0])
    return array.at[place].set(jnp.broadcast_to(value, place.shape), mode="drop")


@pytree
class Numbers:
    """Everything that can be differentiated.

    weight      (sends, entries)  load of each entry per unit of rate; 0 where there is no link
    capacity    (links,)          bytes/s
    limit       (sends,)          bytes/s, see `fair_rates`
    size        (sends,)          bytes
    wait        (sends,)          s, latency between start and drain
    delay       (sends,)          s, from the gate's opening to the start
    lane_start  (lanes,)          s
    """

    weight: jax.Array
    capacity: jax.Array
    limit: jax.Array
    size: jax.Array
    wait: jax.Array
    delay: jax.Array
    lane_start: jax.Array


@pytree
class History:
    """When everything happened. Interval k lies between events k and k + 1.

    finish   (sends,)            s, end of the drain; inf for a send that never ends
    begun    (sends,) int32      event at which it begins to drain, or NEVER
    ended    (sends,) int32      event at which it ends, or NEVER
    cause    (sends,) int32      why it began then
    source   (sends,) int32      and after which lane, send or event
    time     (2 sends + 1,)      s, of each event
    decided  (2 sends + 1,) int32  who set that time: 2 * send, plus 1 if by its end
    events   () int32
    passes   () int32            of progressive filling, all events together
    shift    () s                most that an event came after a begin or end that belongs to it
    """

    finish: jax.Array
    begun: jax.Array
    ended: jax.Array
    cause: jax.Array
    source: jax.Array
    time: jax.Array
    decided: jax.Array
    events: jax.Array
    passes: jax.Array
    shift: jax.Array


def _interval(residual: Any, step: jax.Array, k: jax.Array):
    """Interval k: each lane's send, the filling, who stays beyond it, who ends with it."""
    program, numbers, history = residual
    send, exists = program.send(step)
    begun, ended = program.pick(history.begun, send), program.pick(history.ended, send)
    active = exists & (begun <= k) & (ended > k)
    links, pick = numbers.capacity.size, program.pick
    incidence = Incidence(pick(program.link, send), pick(numbers.weight, send), links)
    filling = fill(incidence, numbers.capacity, pick(numbers.limit, send), active)
    ends = active & (ended == k + 1)
    until = jnp.where(ends, history.finish[send], history.time[k + 1])
    return send, incidence, filling, active & ~ends, ends, until - history.time[k]


def _begin_tangent(
    history: History, tangents: Numbers, send: jax.Array, finish: jax.Array, time: jax.Array
) -> jax.Array:
    """Tangents of when sends begin; send: (any,)."""
    cause, source = history.cause[send], history.source[send]
    start = tangents.lane_start[jnp.where(cause == AT_LANE_START, source, 0)]
    before = jnp.where(_follows(cause), source, 0)
    ended = finish[before] - jnp.where(cause == AFTER_DELIVERED, 0.0, tangents.wait[before])
    ended = ended + jnp.where(cause == AFTER_LEFT, 0.0, tangents.delay[send])
    begin = jnp.where(cause == AT_LANE_START, start, ended) + tangents.wait[send]
    held = time[jnp.where(cause == AT_EVENT, source, 0)]
    return jnp.where(cause == AT_EVENT, held, begin)


def _begin_adjoint(
    history: History, total: Numbers, send: jax.Array, finish: jax.Array, time: jax.Array, ct: Any
) -> tuple[Numbers, jax.Array, jax.Array]:
    """Transpose of `_begin_tangent`: `total`, `finish` and `time` with ct (any,) added."""
    cause, source = history.cause[send], history.source[send]
    at_start, held, follows = cause == AT_LANE_START, cause == AT_EVENT, _follows(cause)
    before = jnp.where(follows, source, 0)
    after = jnp.where(follows, ct, 0.0)
    waited = total.wait.at[send].add(jnp.where(held, 0.0, ct))
    waited = waited.at[before].add(jnp.where(cause == AFTER_DELIVERED, 0.0, -after))
    lane = jnp.where(at_start, source, 0)
    total = Numbers(
        total.weight,
        total.capacity,
        total.limit,
        total.size,
        waited,
        total.delay.at[send].add(jnp.where(cause == AFTER_LEFT, 0.0, after)),
        total.lane_start.at[lane].add(jnp.where(at_start, ct, 0.0)),
    )
    time = time.at[jnp.where(held, source, 0)].add(jnp.where(held, ct, 0.0))
    return total, finish.at[before].add(after), time


def _follows(cause: jax.Array) -> jax.Array:
    return (cause != AT_LANE_START) & (cause != AT_EVENT)


def finish_tangent(residual: Any, tangents: Numbers) -> jax.Array:
    """Tangent of the finish times, events in order."""
    program, _, history = residual

    def advance(carry):
        k, step, since, left, finish, time = carry
        send, incidence, filling, stays, ends, seconds = _interval(residual, step, k)
        fresh = history.begun[send] == k
        since = jnp.where(fresh, _begin_tangent(history, tangents, send, finish, time), since)
        left = jnp.where(fresh, tangents.size[send], left)
        moved = tangents.capacity, tangents.limit[send], tangents.weight[send]
        owed = left - rates_tangent(incidence, filling, *moved) * seconds
        own = since + owed * _inverse(filling.rate, ends)
        finish = finish.at[jnp.where(ends, send, finish.size)].set(own, mode="drop")
        who, by_end = history.decided[k + 1] // 2, history.decided[k + 1] % 2 == 1
        begin = _begin_tangent(history, tangents, who, finish, time)
        then = jnp.where(by_end, finish[who], begin)
        left = jnp.where(stays, owed - jnp.where(stays, filling.rate, 0.0) * (then - since), left)
        return (
            k + 1,
            step + ends,
            jnp.full_like(since, then),
            left,
            finish,
            time.at[k + 1].set(then),
        )

    finish = jnp.zeros_like(history.finish)
    time = jnp.zeros_like(history.time)
    first = _begin_tangent(history, tangents, history.decided[0] // 2, finish, time)
    nothing = jnp.zeros_like(tangents.lane_start)
    step = jnp.zeros(program.lanes.shape[0], jnp.int32)
    carry = jnp.zeros((), jnp.int32), step, nothing, nothing, finish, time.at[0].set(first)
    return jax.lax.while_loop(lambda c: c[0] < history.events - 1, advance, carry)[4]


def finish_adjoint(residual: Any, finish: jax.Array) -> Numbers:
    """Transpose of `finish_tangent`: events from the last to the first."""
    program, numbers, history = residual

    def advance(carry):
        k, step, since, left, finish, time, total = carry
        before, had = program.send(step - 1)
        step = step - (had & (program.pick(history.ended, before) == k + 1))
        send, incidence, filling, stays, ends, seconds = _interval(residual, step, k)
        rate = jnp.where(stays, filling.rate, 0.0)
        then = time[k + 1] + jnp.sum(jnp.where(stays, since - rate * left, 0.0))
        who, by_end = history.decided[k + 1] // 2, history.decided[k + 1] % 2 == 1
        finish = finish.at[who].add(jnp.where(by_end, then, 0.0))
        begin = jnp.where(by_end, 0.0, then)
        total, finish, time = _begin_adjoint(history, total, who, finish, time, begin)
        ended = jnp.where(ends, finish[send], 0.0)
        left = jnp.where(ends, ended * _inverse(filling.rate, ends), jnp.where(stays, left, 0.0))
        since = jnp.where(ends, ended, rate * left)
        slower = jnp.where(stays | ends, -left * seconds, 0.0)
        parts = rates_adjoint(incidence, filling, slower)
        fresh = (stays | ends) & (history.begun[send] == k)
        total = Numbers(
            total.weight.at[send].add(parts[2]),
            total.capacity + parts[0],
            total.limit.at[send].add(parts[1]),
            total.size.at[send].add(jnp.where(fresh, left, 0.0)),
            total.wait,
            total.delay,
            total.lane_start,
        )
        begin = jnp.where(fresh, since, 0.0)
        total, finish, time = _begin_adjoint(history, total, send, finish, time, begin)
        since, left = jnp.where(fresh, 0.0, since), jnp.where(fresh, 0.0, left)
        return k - 1, step, since, left, finish, time, total

    nothing = jnp.zeros_like(numbers.lane_start)
    is_done = (program.lanes >= 0) & (history.ended[program.lanes] != NEVER)
    step = jnp.sum(is_done, axis=1).astype(jnp.int32)
    total = jax.tree.map(jnp.zeros_like, numbers)
    time = jnp.zeros_like(history.time)
    carry = history.events - 2, step, nothing, nothing, finish, time, total
    carry = jax.lax.while_loop(lambda c: c[0] >= 0, advance, carry)
    _, _, _, _, finish, time, total = carry
    who = history.decided[0] // 2
    return _begin_adjoint(history, total, who, finish, time, time[0])[0]


def _inverse(rate: jax.Array, where: jax.Array) -> jax.Array:
    """1 / rate where asked for; 0 where nothing drains, or at once."""
    usable = where & (rate > 0)
    return jnp.where(usable, 1.0 / jnp.where(usable, rate, 1.0), 0.0)
