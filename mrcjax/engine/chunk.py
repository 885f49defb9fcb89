"""Engine `chunk`: whole chunks on links, rounds in order, no barrier between ranks."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Schedule
from mrcjax.engine import jitter, paths, ports, trees
from mrcjax.engine.maxplus import later, latest
from mrcjax.engine.params import Config, Params, Times
from mrcjax.engine.plan import bound_to_ports
from mrcjax.engine.port_round import Ports
from mrcjax.engine.repeats import alike, rebased, repeated
from mrcjax.engine.watching import Seen, Watch, of_alike, of_periods, of_phase
from mrcjax.network.links import Network
from mrcjax.pytree import pytree

NEVER = -jnp.inf


DEFAULT = Config()


@pytree
class Moved:
    """What moves from phase to phase.

    clocks: of each set of lanes whose phases follow each other. links_free: (links + 1,) of the
    links that phases on the general path share; None before the first. finish (ranks,).
    link_bytes (links + 1,).
    """

    clocks: dict[str, Any]
    links_free: jax.Array | None
    finish: jax.Array
    link_bytes: jax.Array


def emulate(
    params: Params,
    network: Network,
    schedule: Schedule,
    *,
    config: Config = DEFAULT,
    watch: Watch | None = None,
) -> Times:
    """Time a schedule on a network.

    Pure; may be jitted (config static), vmapped, and differentiated in every float of `params`,
    forward and reverse. Ranks finish when their data has arrived and their sends have left; a
    rank that takes part in nothing finishes when it joins (params.late_s). With `watch` the result
    also holds every send of some ranks and the use of some links, round by round; then no round is
    skipped, and links that serve in the order of arrival are not known of.
    """
    params, network = _with_links_down(params, network)
    dtype = params.capacity_bytes_per_s.dtype
    links = jnp.zeros((network.num_links + 1,), dtype)
    moved = Moved({}, None, params.late_s, links)
    arrivals: list[jax.Array | None] = []
    advance = partial(_advance, params, network, schedule, config, watch)
    seen: list[Seen] = []
    whole = [(0, len(schedule.phases), 1)]  # under jitter each phase has numbers of its own
    for first, period, repeats in repeated(schedule.phases) if params.jitter is None else whole:
        phases = schedule.phases[first : first + period]
        moved = advance(phases, arrivals, moved, seen)
        if repeats == 1:
            continue

        phases = rebased(phases, first)

        def again(carry, _, phases=phases, period=period):
            moved, before = carry
            now, seen_now = list(before), []
            moved = advance(phases, now, moved, seen_now)
            return (moved, tuple(now[period:])), seen_now

        carry = (moved, tuple(arrivals[-period:]))
        (moved, last), more = jax.lax.scan(again, carry, length=repeats - 1)
        seen += [of_periods(each, first + period, period) for each in more]
        arrivals += [None] * (period * (repeats - 2)) + list(last)
    finish = moved.finish
    if schedule.extents:
        finish = jnp.where(jnp.arange(network.ranks) < schedule.extents[0].ranks, finish, NEVER)
    return Times(
        time_s=latest(finish),
        finish_s=finish,
        link_bytes=jax.lax.stop_gradient(moved.link_bytes[:-1]),
        seen=tuple(seen),
    )


def _advance(
    params: Params,
    network: Network,
    schedule: Schedule,
    config: Config,
    watch: Watch | None,
    phases: tuple[Phase, ...],
    arrivals: list,
    moved: Moved,
    seen: list,
) -> Moved:
    """Emulate phases in order; appends the arrivals of each to `arrivals`, which `after` counts.

    What was seen of what is watched is appended to `seen`.
    """
    clocks, links_free = dict(moved.clocks), moved.links_free
    finish, link_bytes = moved.finish, moved.link_bytes
    dtype = link_bytes.dtype
    runs = _runs_of_alike(phases, len(arrivals)) if params.jitter is None else None
    for phase, repeats in runs or [(p, 1) for p in phases]:
        here_params = replace(params, jitter=jitter.of_phase(params.jitter, len(arrivals)))
        entry = _entry(phase, arrivals, network.ranks, dtype)
        if phase.rounds == 0:
            arrivals.extend([entry] * repeats)
            continue
        is_bound = phase.tree >= 0 or bound_to_ports(phase, network)
        where = _links_of(phase, network)
        start = clocks[where] if where in clocks else _new_clocks(phase, network, params.late_s)
        if not is_bound and links_free is not None:
            start = replace(start, link_free=links_free)

        def once(carry, _, phase=phase, params=here_params):
            here, entry, finish, link_bytes = carry
            with jax.named_scope(phase.name.replace(" ", "_")):
                here, arrived, left, sent, looked = _emulate_phase(
                    params, network, schedule, config, phase, here, entry, watch
                )
            finish = later(later(latest(arrived), latest(left)), finish)
            # What a phase starts from is there too: data only the rank itself holds is not sent.
            arrived = later(arrived, entry)
            carry = (here, _scoped(phase, arrived), finish, link_bytes + sent)
            return carry, (arrived, looked)

        carry = (start, entry, finish, link_bytes)
        if repeats == 1:
            carry, (arrived, looked) = once(carry, None)
            seen += [] if looked is None else [of_phase(looked, len(arrivals))]
            arrivals.append(arrived)
        else:
            carry, (every, looked) = jax.lax.scan(once, carry, length=repeats)
            seen += [] if looked is None else [of_alike(looked, len(arrivals))]
            arrivals.extend(every)
        clocks[where], _, finish, link_bytes = carry
        links_free = links_free if is_bound else clocks[where].link_free
    return Moved(clocks, links_free, finish, link_bytes)


def _with_links_down(params: Params, network: Network) -> tuple[Params, Network]:
    """Tell the network which links are down, and let nothing be divided by zero for them.

    A send that has no way but a link that is down takes for ever.
    """
    if not network.reroute:
        return params, network
    capacity = params.capacity_bytes_per_s
    up = capacity > 0
    least = float(jnp.finfo(capacity.dtype).tiny) ** 0.5
    safe = jnp.where(up, capacity, least)
    return replace(params, capacity_bytes_per_s=safe), replace(network, up=jnp.append(up, True))


def _emulate_phase(params, network, schedule, config, phase, clocks, entry, watch):
    """Clocks, arrivals, when lanes are free, bytes on links after one phase, and what was seen."""
    inputs = (params, network, schedule, config, phase)
    if phase.tree >= 0:
        return trees.run_phase(*inputs, clocks, entry, watch)
    if bound_to_ports(phase, network):
        here, free = clocks
        here, free, arrived, sent, seen = ports.run_phase(*inputs, here, free, entry, watch)
        return (here, free), arrived, here.lane_free, sent, seen
    lanes, arrived, sent, seen = paths.run_phase(*inputs, clocks, entry, watch)
    return lanes, arrived, lanes.lane_free, sent, seen


def _links_of(phase: Phase, network: Network) -> str:
    """Name the set of clocks of a phase."""
    if phase.tree >= 0:
        return "trees"
    return phase.domain if bound_to_ports(phase, network) else f"paths {phase.domain}"


def _runs_of_alike(phases: tuple[Phase, ...], start: int) -> list[tuple[Phase, int]]:
    """Phases, with how many alike follow each other that each need the one before.

    These share one piece of code: the two halves of most all-reduces are alike. start: number of
    the first phase, as `after` counts.
    """
    runs: list[tuple[Phase, int]] = []
    for index, phase in enumerate(phases, start):
        follows = runs and phase.after == index - 1
        if follows and alike(phase, runs[-1][0]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((phase, 1))
    return runs


def _scoped(phase: Phase, arrived: jax.Array) -> jax.Array:
    """What a next phase of the same lanes may start from, (lanes, ranks)."""
    if phase.after_scope == "lane":
        return arrived
    return jnp.broadcast_to(latest(arrived), arrived.shape)


def _entry(phase: Phase, arrivals: list, ranks: int, dtype) -> jax.Array:
    """When the data of a phase's first sends is there, (lanes, ranks)."""
    shape = (phase.lanes, ranks)
    if phase.after < 0:
        return jnp.full(shape, NEVER, dtype)
    before = arrivals[phase.after]
    return before if phase.after_scope == "lane" else jnp.broadcast_to(latest(before), shape)


def _new_clocks(phase: Phase, network: Network, late_s: jax.Array) -> Any:
    """Clocks before the first phase: links free, lanes when their rank joins."""
    links = jnp.zeros((network.num_links + 1,), late_s.dtype).at[-1].set(NEVER)
    if phase.tree >= 0:
        return links
    if not bound_to_ports(phase, network):
        shape = (phase.lanes, network.ranks)
        reducers = jnp.zeros(shape, late_s.dtype)
        return paths.Lanes(jnp.broadcast_to(late_s, shape), links, reducers)
    num = network.node_ports if phase.domain == "node" else network.ports
    shape = (-(-phase.lanes // num) * num, network.ranks)
    idle = jnp.zeros((num, network.ranks), late_s.dtype)
    reducers = jnp.zeros(shape, late_s.dtype)
    return Ports(jnp.broadcast_to(late_s, shape), idle, idle, reducers), links
