"""The event loop: sends drain at fair rates, computed afresh whenever one begins or ends.

The forward run keeps the time of each event, at which events each send begins and ends, and what it
waited for last: enough for `replay` to differentiate it, with no rates kept.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.engine.fluid.filling import Incidence, fair_rates, same
from mrcjax.engine.fluid.linear import linear
from mrcjax.engine.fluid.replay import (
    AFTER_DELIVERED,
    AFTER_GATE_LEFT,
    AFTER_LEFT,
    AT_EVENT,
    AT_LANE_START,
    NEVER,
    History,
    Numbers,
    Program,
    finish_adjoint,
    finish_tangent,
    put,
)
from mrcjax.pytree import pytree


@pytree
class _Lanes:
    """Where each lane stands, (lanes,) each.

    step: of its current send. begin: when that drains from, inf while unknown. drains: whether it
    does already. left: bytes. free, freed_by: when its previous send has left, and which that was.
    """

    step: jax.Array
    begin: jax.Array
    drains: jax.Array
    left: jax.Array
    free: jax.Array
    freed_by: jax.Array


@pytree
class _Gates:
    """Ends that counted so far, the latest of them, and whose it was, (gates + 1,) each.

    source: 2 * send, plus 1 if it counted when delivered. The last gate is always open.
    """

    count: jax.Array
    time: jax.Array
    source: jax.Array


@jax.custom_jvp
def drain(program: Program, numbers: Numbers, quantum: jax.Array) -> History:
    """Let every send drain. Differentiable in all of `numbers`, once, in both modes.

    quantum: () s; events up to this much after the first of them happen with the last of them.
    """
    sends, most = program.waits.shape[0], 2 * program.waits.shape[0]
    lanes, gates = program.lanes.shape[0], program.needs.shape[0]
    zero, dtype = jnp.zeros((), jnp.int32), numbers.size.dtype
    history = History(
        finish=jnp.full(sends, jnp.inf, dtype),
        begun=jnp.full(sends, NEVER, jnp.int32),
        ended=jnp.full(sends, NEVER, jnp.int32),
        cause=jnp.zeros(sends, jnp.int32),
        source=jnp.zeros(sends, jnp.int32),
        time=jnp.zeros(most + 1, dtype),
        decided=jnp.zeros(most + 1, jnp.int32),
        events=zero,
        passes=zero,
        shift=jnp.zeros((), dtype),
    )
    state = _Lanes(
        step=jnp.zeros(lanes, jnp.int32),
        begin=jnp.full(lanes, jnp.inf, dtype),
        drains=jnp.zeros(lanes, bool),
        left=jnp.zeros(lanes, dtype),
        free=numbers.lane_start,
        freed_by=jnp.full(lanes, -1, jnp.int32),
    )
    opened = _Gates(
        count=jnp.zeros(gates + 1, jnp.int32),
        time=jnp.full(gates + 1, -jnp.inf, dtype),
        source=jnp.zeros(gates + 1, jnp.int32),
    )
    state, history = _ready(program, numbers, state, opened, history, jnp.asarray(-jnp.inf, dtype))

    def goes_on(carry):
        return ~carry[3] & (carry[2].events < most)

    def advance(carry):
        return _advance(program, numbers, quantum, *carry[:3])

    carry = state, opened, history, jnp.zeros((), bool)
    return jax.lax.while_loop(goes_on, advance, carry)[2]


def _advance(
    program: Program,
    numbers: Numbers,
    quantum: jax.Array,
    state: _Lanes,
    opened: _Gates,
    history: History,
):
    """One event: who ends or begins, what opens, who may begin next at once.

    Returns the carry: lanes, gates, history, and whether nothing moves any more.
    """
    k = history.events
    now = history.time[jnp.maximum(k - 1, 0)]
    send, _ = program.send(state.step)
    pick, write = program.pick, program.put
    links = numbers.capacity.size
    incidence = Incidence(pick(program.link, send), pick(numbers.weight, send), links)
    limit = pick(numbers.limit, send)
    rate, passes = fair_rates(incidence, numbers.capacity, limit, state.drains)
    is_empty = state.left <= 0
    seconds = jnp.where(is_empty, 0.0, state.left / jnp.where(is_empty, 1.0, rate))
    end = jnp.where(state.drains, now + seconds, jnp.inf)
    begin = jnp.where(state.drains, jnp.inf, state.begin)
    moment = jnp.minimum(end, begin)
    first = jnp.min(moment)
    happens = first < jnp.inf
    last = first + quantum + same(end.dtype) * jnp.abs(first)
    now_on = happens & (moment <= last)
    ends, begins = now_on & state.drains, now_on & ~state.drains
    moment = jnp.where(now_on, moment, -jnp.inf)
    which = jnp.argmax(moment)
    time = jnp.where(happens, moment[which], now)
    drained = jnp.where(state.drains & ~ends, rate * (time - now), 0.0)
    state = replace(
        state,
        left=jnp.where(begins, pick(numbers.size, send), jnp.maximum(state.left - drained, 0.0)),
        drains=state.drains | begins,
    )
    decided = (2 * send[which] + ends[which]).astype(jnp.int32)
    late = jnp.max(jnp.where(now_on, time - moment, 0.0))
    history = replace(
        history,
        finish=write(history.finish, send, ends, end),
        begun=write(history.begun, send, begins, k),
        ended=write(history.ended, send, ends, k),
        time=history.time.at[k].set(time),
        decided=history.decided.at[k].set(decided),
        events=k + happens,
        passes=history.passes + passes,
        shift=jnp.maximum(history.shift, late),
    )
    opened = _feed(program, numbers, opened, send, ends, end)
    state = _Lanes(
        step=state.step + ends,
        begin=jnp.where(ends, jnp.inf, state.begin),
        drains=state.drains & ~ends,
        left=state.left,
        free=jnp.where(ends, end - program.pick(numbers.wait, send), state.free),
        freed_by=jnp.where(ends, send, state.freed_by),
    )
    state, history = _ready(program, numbers, state, opened, history, time)
    # a send that follows without a gap begins in the event in which its predecessor ends
    send, _ = program.send(state.step)
    at_once = happens & ~state.drains & (state.begin <= last)
    state = replace(
        state,
        drains=state.drains | at_once,
        left=jnp.where(at_once, pick(numbers.size, send), state.left),
    )
    history = replace(history, begun=write(history.begun, send, at_once, k))
    return state, opened, history, ~happens


def _feed(
    program: Program,
    numbers: Numbers,
    opened: _Gates,
    send: jax.Array,
    ends: jax.Array,
    end: jax.Array,
) -> _Gates:
    """Count the ends of this event at the gates that wait for them."""
    gates = program.needs.shape[0]
    gate = program.feeds[send]
    counts = ends[:, None] & (gate >= 0)
    delivered = program.feeds_delivered[send]
    gate = jnp.where(counts, gate, gates)
    time = end[:, None] - jnp.where(delivered, 0.0, program.pick(numbers.wait, send)[:, None])
    time = jnp.where(counts, time, -jnp.inf)
    latest = opened.time.at[gate].max(time)
    wins = counts & (time == latest[gate]) & (time > opened.time[gate])
    code = 2 * send[:, None] + delivered
    return _Gates(
        count=opened.count.at[gate].add(counts.astype(jnp.int32)),
        time=latest,
        source=put(opened.source, gate, wins, code),
    )


def _ready(
    program: Program,
    numbers: Numbers,
    state: _Lanes,
    opened: _Gates,
    history: History,
    now: jax.Array,
) -> tuple[_Lanes, History]:
    """Give every lane whose next send may start the time from which it drains, and its cause.

    That time is start + latency, but never before `now`: what it waits for is known when that has
    drained, which is later where the path of the next is shorter.
    """
    send, exists = program.send(state.step)
    gates = program.needs.shape[0]
    pick, write = program.pick, program.put
    waits = pick(program.waits, send)
    gate = jnp.where(waits >= 0, waits, gates)
    needs = jnp.append(program.needs, 0)[gate]
    new = exists & ~state.drains & (state.begin == jnp.inf) & (opened.count[gate] >= needs)
    by_gate = opened.time[gate] + pick(numbers.delay, send)
    start = jnp.maximum(state.free, by_gate)
    begin = jnp.maximum(start + program.pick(numbers.wait, send), now)
    source = opened.source[gate]
    lane = jnp.arange(send.shape[0], dtype=jnp.int32)
    gate_cause = jnp.where(source % 2 == 1, AFTER_DELIVERED, AFTER_GATE_LEFT)
    free_cause = jnp.where(state.freed_by >= 0, AFTER_LEFT, AT_LANE_START)
    free_source = jnp.where(state.freed_by >= 0, state.freed_by, lane)
    cause = jnp.where(by_gate > state.free, gate_cause, free_cause)
    source = jnp.where(by_gate > state.free, source // 2, free_source)
    held = now > (start + program.pick(numbers.wait, send)) * (1 + same(now.dtype))
    cause = jnp.where(held, AT_EVENT, cause)
    source = jnp.where(held, history.events - 1, source)
    history = replace(
        history,
        cause=write(history.cause, send, new, cause),
        source=write(history.source, send, new, source),
    )
    return replace(state, begin=jnp.where(new, begin, state.begin)), history


@drain.defjvp
def _drain_jvp(primals, tangents):
    program, numbers, quantum = primals
    history = drain(program, numbers, quantum)
    residual = program, numbers, history
    finish = linear(finish_tangent, finish_adjoint, residual, tangents[1])

    def still(leaf: jax.Array) -> Any:
        is_float = jnp.issubdtype(leaf.dtype, jnp.inexact)
        return jnp.zeros_like(leaf) if is_float else np.zeros(leaf.shape, jax.dtypes.float0)

    return history, replace(jax.tree.map(still, history), finish=finish)
