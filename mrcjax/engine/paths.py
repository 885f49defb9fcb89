"""Rounds with any pattern and any path: the general path of engine `chunk`.

Sends that partly stay in a node, relays over direct wiring, rings in their own order and tables:
every hop looks its link up, and links are shared by sorting or by the `share` rule.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from mrcjax.collective.detour import Dealt, detoured, none_dealt
from mrcjax.collective.schedule import Phase, Route, Schedule, owners, peers, port_hops
from mrcjax.engine.ends import reducers
from mrcjax.engine.jitter import delays
from mrcjax.engine.loop import run_rounds
from mrcjax.engine.lossy import repeated
from mrcjax.engine.maxplus import later, latest, segment_max
from mrcjax.engine.params import Config, Params
from mrcjax.engine.plan import inner_rule, outer_rule
from mrcjax.engine.sharing import queue, share, single
from mrcjax.engine.watching import Seen, Watch, look, watched_rounds
from mrcjax.network.links import Network
from mrcjax.pytree import pytree

NEVER = -jnp.inf
MOST_UNROLLED = 4  # hops of one kind that are written out; a loop over more compiles faster


@pytree
class Lanes:
    """Clocks of the lanes and of all links between phases; seconds.

    lane_free     (lanes, ranks)   the lane's previous send has left
    link_free     (links + 1,)     each link; the last entry stands for "no link"
    reducer_free  (lanes, ranks)   the lane's reducer has done its last chunk
    """

    lane_free: jax.Array
    link_free: jax.Array
    reducer_free: jax.Array


@dataclass(frozen=True)
class PathPlan:
    """Static choices of one phase."""

    phase: Phase
    ports_rule: str  # of the first and the last hop
    inner_rule: str
    store_and_forward: bool


@pytree
class Operands:
    """Indices and numbers every round reads; `route` where all rounds use the same paths."""

    params: Params
    network: Network
    schedule: Schedule
    capacity: jax.Array  # (links + 1,)
    latency: jax.Array  # (links + 1,)
    kept: jax.Array | None  # (links + 1,) share of packets that a link delivers
    route: Route | None
    start: jax.Array  # (lanes, ranks) when lanes may first send in this phase
    reduction_bytes_per_s: jax.Array | None  # (lanes, ranks); see `reducers`


def run_phase(
    params: Params,
    network: Network,
    schedule: Schedule,
    config: Config,
    phase: Phase,
    lanes: Lanes,
    entry: jax.Array,
    watch: Watch | None = None,
) -> tuple[Lanes, jax.Array, jax.Array, Seen | None]:
    """Emulate one phase.

    entry: (lanes, ranks) when the data of the first sends is there. Returns the clocks, arrivals
    (lanes, ranks), -inf where a lane got nothing, the bytes put on every link (links + 1,), and
    what was seen of what is watched.
    """
    plan = PathPlan(
        phase,
        ports_rule=outer_rule(network, phase, config),
        inner_rule=inner_rule(network, phase, config),
        store_and_forward=config.switching == "store_and_forward",
    )
    fixed = phase.table < 0 and phase.offsets < 0 and phase.per_round == 0
    if phase.needs == "own" and phase.table < 0:
        lanes = Lanes(later(lanes.lane_free, entry), lanes.link_free, lanes.reducer_free)
        entry = jnp.full_like(entry, NEVER)
    dtype = params.capacity_bytes_per_s.dtype
    operands = Operands(
        params,
        network,
        schedule,
        jnp.concatenate([params.capacity_bytes_per_s, jnp.ones((1,), dtype)]),
        jnp.concatenate([params.latency_s, jnp.zeros((1,), dtype)]),
        None if params.loss is None else jnp.append(1.0 - params.loss, jnp.ones((1,), dtype)),
        _route(network, schedule, phase, *peers(phase, schedule, network, 0), none_dealt(network))[
            0
        ]
        if fixed
        else None,
        lanes.lane_free,
        reducers(params, phase, phase.lanes, network.ranks),
    )
    equal = params.chunk_bytes[phase.sizes].shape[1:] == (1,)
    # lanes whose lines differ in length fall idle one after another
    alike = len({line.size for line in phase.lines if line.size > 1}) <= 1
    repeats = config.fast_forward and fixed and alike and equal and dtype == jnp.float64
    repeats = repeats and params.jitter is None
    tallies = jnp.zeros_like(lanes.link_free), none_dealt(network)
    state, seen = ((lanes, entry), tallies), None
    if watch is None:
        extent = schedule.extent(phase)
        rounds = phase.rounds if extent is None else extent.rounds
        state = run_rounds(partial(_round, plan), rounds, repeats, state, operands)
    else:
        step = partial(_watched_round, plan, watch)
        state, seen = watched_rounds(step, phase.rounds, state, operands)
    (lanes, arrived), (link_bytes, _) = state
    return lanes, arrived, link_bytes, seen


def _route(
    network: Network,
    schedule: Schedule,
    phase: Phase,
    dst: jax.Array,
    active: jax.Array,
    dealt: Dealt,
) -> tuple[Route, Dealt]:
    src = jnp.broadcast_to(jnp.arange(network.ranks)[None, :], dst.shape)
    extent = schedule.extent(phase)
    size = None if extent is None else extent.size
    return detoured(network, phase, src, dst, active, dealt, size)


def _round(plan: PathPlan, k: jax.Array, state, operands: Operands):
    """One round of the clocks and tallies."""
    return _round_and_sends(plan, k, state, operands)[0]


def _watched_round(plan: PathPlan, watch: Watch, k: jax.Array, state, operands: Operands):
    """The same, and what it did to the watched ranks and links."""
    after, sends = _round_and_sends(plan, k, state, operands)
    (lanes, _), (link_bytes, _) = after
    about = (plan.phase, operands.schedule, operands.network)
    work = link_bytes - state[1][0]
    return after, look(watch, *about, k, sends, work, lanes.link_free)


def _round_and_sends(plan: PathPlan, k: jax.Array, state, operands: Operands):
    """One round: all hops of all sends, then the arrivals at the receivers.

    Also the bytes of its sends, when they may begin and have left, and when what each rank
    receives has arrived.
    """
    (lanes, arrived), (link_bytes, dealt) = state
    params, network, phase = operands.params, operands.network, plan.phase
    dst, active = peers(phase, operands.schedule, network, k)
    ways = operands.route
    if ways is None:
        ways, dealt = _route(network, operands.schedule, phase, dst, active, dealt)
    links = tuple(jnp.where(active, link, network.no_link) for link in ways.hops)
    sizes = params.chunk_bytes[phase.sizes]
    if phase.table >= 0:
        sizes = sizes[k]
    elif sizes.shape[1] > 1:
        owner = owners(phase, operands.schedule, network, k)
        sizes = jnp.take_along_axis(sizes, jnp.broadcast_to(owner, dst.shape), axis=1)
    sent = jnp.where(active, jnp.broadcast_to(sizes, dst.shape), 0.0)

    begin = later(lanes.lane_free, _data_ready(plan, operands.schedule, k, arrived))
    if ways.moved is not None:
        # handed over to other ports' queues at once: no send waits there for the one before
        begin = jnp.where(ways.moved, operands.start, begin)
    if params.jitter is not None:
        begin = begin + delays(params.jitter, k, network.ranks)
    begin = jnp.where(active, begin, NEVER)
    head = tail = begin
    free = lanes.link_free
    lane_free = lanes.lane_free
    shares = None if ways.shares is None else ways.shares.astype(sent.dtype)
    factors = repeated(operands.kept, params.window, links, shares)

    def cross(rule: str, moving, link: jax.Array, factor: jax.Array | None):
        head, tail, free, total = moving
        sends = (head, tail, sent, shares, factor)
        head, tail, free, work, left = _hop(rule, sends, link, free, operands)
        return (tail if plan.store_and_forward else head, tail, free, total + work), left

    moving = (head, tail, free, link_bytes)
    at_ranks = port_hops(network, len(links), ways.ports)
    relayed = network.relay is not None and network.node_size == 1
    is_loop = relayed and len(links) > MOST_UNROLLED
    for hop, link in enumerate(links[:1] if is_loop else links):
        rule = plan.ports_rule if hop in at_ranks else plan.inner_rule
        moving, left = cross(rule, moving, link, factors[hop])
        if hop == ways.ports - 1:
            lane_free = jnp.where(active, later(left, lane_free), lane_free)
    if is_loop:
        step = partial(cross, plan.ports_rule)
        lost = [factor for factor in factors[1:] if factor is not None]
        rest = jnp.stack(links[1:]), jnp.stack(lost) if lost else None
        moving = jax.lax.scan(lambda m, hop: (step(m, *hop)[0], None), moving, rest)[0]
    head, tail, free, link_bytes = moving
    arrival = tail + params.endpoint_latency_s
    lane = jnp.arange(phase.lanes)[:, None]
    cell = jnp.where(active, lane * network.ranks + dst, phase.lanes * network.ranks)
    num = phase.lanes * network.ranks + 1
    at_receiver = segment_max(arrival, cell, num)[:-1].reshape(dst.shape)
    reducer_free = lanes.reducer_free
    if operands.reduction_bytes_per_s is not None:
        got = jnp.zeros((num,), sent.dtype).at[cell].add(sent)[:-1].reshape(dst.shape)
        reduced = later(at_receiver, reducer_free) + got / operands.reduction_bytes_per_s
        at_receiver = jnp.where(at_receiver > NEVER, reduced, NEVER)
        reducer_free = later(reducer_free, at_receiver)
    arrived = later(at_receiver, arrived)
    after = (Lanes(lane_free, free, reducer_free), arrived), (link_bytes, dealt)
    return after, (sent, begin, lane_free, at_receiver)


def _data_ready(plan: PathPlan, schedule: Schedule, k: jax.Array, arrived: jax.Array) -> jax.Array:
    """When the data of each lane's send is there, (lanes, ranks)."""
    phase = plan.phase
    if phase.table >= 0:
        needs = schedule.tables[phase.table].needs[k]
        anything = latest(arrived)[None, :]
        return jnp.where(needs == 1, arrived, jnp.where(needs == 2, anything, NEVER))
    return arrived if phase.needs == "lane" else jnp.full_like(arrived, NEVER)


def _hop(rule: str, sends: tuple, link, free, operands: Operands):
    """One hop of all sends; also when each has left the link before its latency."""
    head, tail, sent, shares, factor = sends
    shape = head.shape
    several = link.ndim > head.ndim
    flat_link = link.reshape(*link.shape[: link.ndim - 2], -1)
    rank = jnp.broadcast_to(jnp.arange(shape[1]), shape).reshape(-1)
    if factor is not None and factor.ndim > sent.ndim:
        shares = factor * (1.0 / link.shape[0] if shares is None else shares)
    elif factor is not None:
        sent = sent * factor
    flat = (head.reshape(-1), tail.reshape(-1), sent.reshape(-1), flat_link)
    numbers = (free, operands.capacity, operands.latency)
    if several or rule == "share":
        parts = shares.reshape(shares.shape[0], -1) if several and shares is not None else None
        head, tail, free, work = share(*flat, *numbers, parts=parts)
    elif rule == "single":
        head, tail, free, work = single(*flat, *numbers)
    else:
        head, tail, free, work = queue(*flat, rank, *numbers)
    head, tail = head.reshape(shape), tail.reshape(shape)
    delay = operands.latency[link]
    left = tail - (latest(delay) if several else delay)
    return head, tail, free, work, left
