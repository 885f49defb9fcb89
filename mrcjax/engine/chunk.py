"""Engine `chunk`: whole chunks on links, rounds in order, no barrier between ranks."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Schedule
from mrcjax.engine import paths, ports
from mrcjax.engine.maxplus import later, latest
from mrcjax.engine.params import Config, Params, Times
from mrcjax.engine.plan import bound_to_ports
from mrcjax.network.links import Network

NEVER = -jnp.inf


DEFAULT = Config()


def emulate(
    params: Params, network: Network, schedule: Schedule, *, config: Config = DEFAULT
) -> Times:
    """Time a schedule on a network.

    Pure; may be jitted (config static), vmapped, and differentiated in every float of `params`,
    forward and reverse. Ranks finish when their data has arrived and their sends have left; a
    rank that takes part in nothing finishes when it joins (params.late_s).
    """
    dtype = params.capacity_bytes_per_s.dtype
    link_bytes = jnp.zeros((network.num_links + 1,), dtype)
    finish = params.late_s
    clocks: dict[str, Any] = {}  # of each set of links whose phases follow each other
    arrivals: list[jax.Array] = []
    for group, repeats in _groups(schedule.phases):
        phase = group[0]
        where = phase.domain if bound_to_ports(phase, network) else "paths"
        if len(group) > 1:
            inputs = (params, network, schedule, config)
            before = (clocks[where], arrivals[group[1].after], finish, link_bytes)
            after, every = _interleaved(inputs, group, repeats, before)
            clocks[where], _, finish, link_bytes = after
            arrivals.extend(arrived for pair in zip(*every, strict=True) for arrived in pair)
            continue
        entry = _entry(phase, arrivals, network.ranks, dtype)
        if phase.rounds == 0:
            arrivals.extend([entry] * repeats)
            continue
        start = clocks[where] if where in clocks else _new_clocks(phase, network, params.late_s)

        def once(carry, _, phase=phase):
            here, entry, finish, link_bytes = carry
            with jax.named_scope(phase.name.replace(" ", "_")):
                here, arrived, left, sent = _emulate_phase(
                    params, network, schedule, config, phase, here, entry
                )
            finish = later(later(latest(arrived), latest(left)), finish)
            # What a phase starts from is there too: data only the rank itself holds is not sent.
            arrived = later(arrived, entry)
            carry = (here, _scoped(phase, arrived), finish, link_bytes + sent)
            return carry, arrived

        carry = (start, entry, finish, link_bytes)
        if repeats == 1:
            carry, arrived = once(carry, None)
            arrivals.append(arrived)
        else:
            carry, every = jax.lax.scan(once, carry, length=repeats)
            arrivals.extend(every)
        clocks[where], _, finish, link_bytes = carry
    return Times(
        time_s=latest(finish),
        finish_s=finish,
        link_bytes=jax.lax.stop_gradient(link_bytes[:-1]),
    )


def _emulate_phase(params, network, schedule, config, phase, clocks, entry):
    """Clocks, arrivals, when lanes are free, and bytes on links after one phase."""
    inputs = (params, network, schedule, config, phase)
    if bound_to_ports(phase, network):
        here, fabric_free = clocks
        here, fabric_free, arrived, sent = ports.run_phase(*inputs, here, fabric_free, entry)
        return (here, fabric_free), arrived, here.lane_free, sent
    lanes, arrived, sent = paths.run_phase(*inputs, clocks, entry)
    return lanes, arrived, lanes.lane_free, sent


def _interleaved(inputs: tuple, group: tuple[Phase, ...], repeats: int, carry: Any) -> Any:
    """Pairs of phases: the first starts on its own data, the second on what the last pair's got.

    carry: clocks, arrivals of the phase that the next second one needs, finish, bytes on links.
    Returns the carry and the arrivals of both phases of every pair, (repeats, lanes, ranks) each.
    """
    params, network, schedule, config = inputs

    def once(carry, _):
        here, awaited, finish, link_bytes = carry
        found = []
        for phase, before in zip(group, (None, awaited), strict=True):
            own = _entry(replace(phase, after=-1), [], network.ranks, params.late_s.dtype)
            entry = own if before is None else _scoped(phase, before)
            with jax.named_scope(phase.name.replace(" ", "_")):
                here, arrived, left, sent = _emulate_phase(
                    params, network, schedule, config, phase, here, entry
                )
            finish = later(later(latest(arrived), latest(left)), finish)
            link_bytes = link_bytes + sent
            found.append(later(arrived, entry))
        return (here, found[0], finish, link_bytes), tuple(found)

    return jax.lax.scan(once, carry, length=repeats)


def _groups(phases: tuple[Phase, ...]) -> list[tuple[tuple[Phase, ...], int]]:
    """Phases with how many alike follow each other that each need the one before, and such pairs.

    These share one piece of code: the two halves of most all-reduces are alike, and pipelined
    pieces repeat a pair, the reduce-scatter of one with the all-gather of the one before.
    """
    groups: list[tuple[tuple[Phase, ...], int]] = []
    index = 0
    while index < len(phases):
        pairs = _num_pairs(phases, index)
        if pairs > 1:
            groups.append((phases[index : index + 2], pairs))
            index += 2 * pairs
            continue
        phase = phases[index]
        follows = bool(groups) and len(groups[-1][0]) == 1 and phase.after == index - 1
        if follows and _plain(phase) == _plain(groups[-1][0][0]):
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append(((phase,), 1))
        index += 1
    return groups


def _num_pairs(phases: tuple[Phase, ...], index: int) -> int:
    """Pairs from here on: own data, then what the first of the pair before (or `index` - 1) got."""
    count = 0
    while index + 2 * count + 1 < len(phases):
        at = index + 2 * count
        first, second = phases[at : at + 2]
        is_pair = first.after < 0 and second.after == (at - 2 if count else at - 1) >= 0
        is_alike = _plain(first) == _plain(phases[index])
        is_alike = is_alike and _plain(second) == _plain(phases[index + 1])
        is_of_a_kind = first.rounds and second.rounds and first.domain == second.domain
        if not (is_pair and is_alike and is_of_a_kind):
            break
        count += 1
    return count


def _plain(phase: Phase) -> Phase:
    return replace(phase, name="", after=-1)


def _scoped(phase: Phase, arrived: jax.Array) -> jax.Array:
    """What a next phase of the same lanes may start from, (lanes, ranks)."""
    if phase.after_scope == "lane":
        return arrived
    return jnp.broadcast_to(latest(arrived), arrived.shape)


def _entry(phase: Phase, arrivals: list[jax.Array], ranks: int, dtype) -> jax.Array:
    """When the data of a phase's first sends is there, (lanes, ranks)."""
    shape = (phase.lanes, ranks)
    if phase.after < 0:
        return jnp.full(shape, NEVER, dtype)
    before = arrivals[phase.after]
    return before if phase.after_scope == "lane" else jnp.broadcast_to(latest(before), shape)


def _new_clocks(phase: Phase, network: Network, late_s: jax.Array) -> Any:
    """Clocks before the first phase: links free, lanes when their rank joins."""
    links = jnp.zeros((network.num_links + 1,), late_s.dtype).at[-1].set(NEVER)
    if not bound_to_ports(phase, network):
        shape = (phase.lanes, network.ranks)
        reducers = jnp.zeros(shape, late_s.dtype)
        return paths.Lanes(jnp.broadcast_to(late_s, shape), links, reducers)
    num = 1 if phase.domain == "node" else network.ports
    shape = (-(-phase.lanes // num) * num, network.ranks)
    idle = jnp.zeros((num, network.ranks), late_s.dtype)
    reducers = jnp.zeros(shape, late_s.dtype)
    return ports.Ports(jnp.broadcast_to(late_s, shape), idle, idle, reducers), links
