"""Engine `fluid` on a case: its schedule or traffic written out send by send, and the times back.

Lanes and waits are those of engine `chunk`; concurrent sends share links max-min fairly instead of
queueing behind each other.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.case import Case
from mrcjax.collective.detour import detoured, none_dealt
from mrcjax.collective.schedule import Phase, Route, Schedule, owners, peers
from mrcjax.collective.traffic import MOST_ITEMS, Flows, laid_out
from mrcjax.engine import Params, Sends, SendTimes, Times, emulate_sends
from mrcjax.engine.fluid.layout import Layout
from mrcjax.engine.plan import bound_to_ports
from mrcjax.network import Network
from mrcjax.spec import SpecError


@dataclass(frozen=True)
class Written:
    """Sends, and between which ranks each goes, (sends,) int."""

    sends: Sends
    src: np.ndarray
    dst: np.ndarray

    @property
    def num_sends(self) -> int:
        """How many there are."""
        return len(self.src)

    def times(self, found: SendTimes, params: Params) -> Times:
        """When ranks have finished: their sends have left, what they get has arrived."""
        finish = np.array(params.late_s, np.float64)
        np.maximum.at(finish, self.dst, np.asarray(found.delivered_s)[: self.num_sends])
        np.maximum.at(finish, self.src, np.asarray(found.left_s)[: self.num_sends])
        links = len(params.capacity_bytes_per_s)
        return Times(
            jnp.asarray(finish.max()), jnp.asarray(finish), jnp.asarray(self.link_bytes(links))
        )

    def link_bytes(self, links: int) -> np.ndarray:
        """Bytes that every link is to carry, (links,), also where they never arrive."""
        routes = np.asarray(self.sends.routes)
        sent = np.asarray(self.sends.weights) * np.asarray(self.sends.size_bytes)[:, None]
        sent = np.broadcast_to(sent[:, :, None], routes.shape)
        return np.bincount(routes[routes >= 0], sent[routes >= 0], links)


def fair(
    sends: Sends, layout: Layout, capacity: jax.Array, latency: jax.Array, quantum: jax.Array
) -> SendTimes:
    """`emulate_sends` with everything by place, to be compiled once per shape."""
    return emulate_sends(sends, capacity, latency, quantum_s=quantum, layout=layout)


def write_out(case: Case) -> Written:
    """Write the sends of a case out; raises SpecError where they are too many."""
    written = _of_schedule(case) if case.flows is None else _of_flows(case, case.flows)
    return written if written.num_sends else Written(_nothing(case), written.src, written.dst)


def _nothing(case: Case) -> Sends:
    """One send of nobody, without bytes or links: loops over no sends at all do not compile."""
    none = np.zeros(1)
    return _sends(
        case,
        routes=np.full((1, 1, 1), -1),
        weights=np.ones((1, 1)),
        size_bytes=none,
        lanes=np.zeros((1, 1)),
        waits=np.full(1, -1),
        delay_s=none,
        feeds=np.full((1, 1), -1),
        gates=0,
        lane_start_s=none,
    )


def _of_flows(case: Case, flows: Flows) -> Written:
    """Every flow in a lane of its own, behind a gate where it waits for others."""
    dtype = case.params.capacity_bytes_per_s.dtype
    num = len(flows.src)
    waiting, gate = np.unique(flows.after[:, 0], return_inverse=True)
    waits = np.full(num, -1, np.int32)
    waits[waiting] = np.arange(len(waiting))
    late = np.asarray(case.params.late_s, np.float64)
    sends = _sends(
        case,
        routes=flows.routes,
        weights=flows.weights,
        size_bytes=flows.size_bytes,
        lanes=np.arange(num, dtype=np.int32)[:, None],
        waits=waits,
        delay_s=flows.delay_s,
        feeds=_rows(num, flows.after[:, 1], gate.reshape(-1)),
        gates=len(waiting),
        lane_start_s=np.maximum(flows.start_s, late[flows.src]).astype(dtype),
    )
    return Written(sends, flows.src, flows.dst)


def _sends(case: Case, *, feeds: np.ndarray, gates: int, **arrays: np.ndarray) -> Sends:
    """Close the arrays: floats in the precision of the case, all ends count when delivered."""
    dtype = np.dtype(case.params.capacity_bytes_per_s.dtype)
    floats = ("weights", "size_bytes", "delay_s", "lane_start_s")
    num = len(arrays["waits"])
    every: dict[str, Any] = {
        name: x.astype(dtype if name in floats else np.int32) for name, x in arrays.items()
    }
    every |= {
        "extra_latency_s": np.full(num, case.params.endpoint_latency_s, dtype),
        "feeds": feeds.astype(np.int32),
        "feeds_delivered": np.ones(feeds.shape, bool),
        "gate_needs": np.bincount(feeds[feeds >= 0], minlength=gates).astype(np.int32),
    }
    return Sends(**every)


def _rows(rows: int, row: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Values by row, (rows, most of any row), filled up with -1."""
    order = np.argsort(row, kind="stable")
    row, value = row[order], value[order]
    count = np.bincount(row, minlength=rows)
    column = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    table = np.full((rows, max(count.max(initial=0), 1)), -1, np.int64)
    table[row, column] = value
    return table


# ---- schedules


@dataclass(frozen=True)
class _Written:
    """One phase. send: (rounds, lanes, ranks) int, number of each send, -1 = idle.

    dst: (rounds, lanes, ranks) int. bytes: (sends,). routes: (sends, paths, hops). weights:
    (sends, paths).
    """

    phase: Phase
    send: np.ndarray
    dst: np.ndarray
    bytes: np.ndarray
    routes: np.ndarray
    weights: np.ndarray

    def arrivals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Send, round, lane and receiver of everything that is sent."""
        k, lane, src = np.nonzero(self.send >= 0)
        return self.send[k, lane, src], k, lane, self.dst[k, lane, src]


def _of_schedule(case: Case) -> Written:
    _refuse_too_many(case)
    written, count = [], 0
    for phase in case.schedule.phases:
        each = _of_phase(case, phase, count)
        count += len(each.bytes)
        written.append(each)
    src = [np.nonzero(w.send >= 0)[2] for w in written]
    dst = [w.arrivals()[3] for w in written]
    lanes, rank_of_lane = _lanes(case, written)
    waits, feeds, gates = _gates(case, written, count)
    late = np.asarray(case.params.late_s)
    routes, weights = _same_shape(written)
    sends = _sends(
        case,
        routes=routes,
        weights=weights,
        size_bytes=np.concatenate([w.bytes for w in written] or [np.zeros(0)]),
        lanes=lanes,
        waits=waits,
        delay_s=np.zeros(count),
        feeds=feeds,
        gates=gates,
        lane_start_s=late[rank_of_lane],
    )
    return Written(sends, *(np.concatenate(x or [np.zeros(0, int)]) for x in (src, dst)))


@partial(jax.jit, static_argnames="phase")
def _rounds(network: Network, phase: Phase, schedule: Schedule):
    """Receivers, who sends, owners and routes of all rounds, each with the rounds in front."""
    src = jnp.broadcast_to(jnp.arange(network.ranks), (phase.lanes, network.ranks))

    def one(dealt, k):
        dst, active = peers(phase, schedule, network, k)
        dst = jnp.broadcast_to(dst, src.shape)
        owner = dst if phase.table >= 0 else owners(phase, schedule, network, k)
        active = jnp.broadcast_to(active, src.shape)
        ways, dealt = detoured(network, phase, src, dst, active, dealt)
        return dealt, (dst, active, jnp.broadcast_to(owner, src.shape), ways)

    rounds = jnp.arange(phase.rounds)
    if network.reroute:  # where chunks go depends on where those before went
        return jax.lax.scan(one, none_dealt(network), rounds)[1]
    return jax.vmap(lambda k: one(none_dealt(network), k)[1])(rounds)


def _pattern(phase: Phase) -> Phase:
    """The phase without what makes no difference to who sends what to whom: less to compile."""
    return replace(phase, name="", domain="", after=-1, reduces=False, sizes=0)


def _told(case: Case) -> Network:
    """The network, told what is down where sends go around it."""
    if not case.network.reroute:
        return case.network
    return replace(case.network, up=jnp.append(case.params.capacity_bytes_per_s > 0, True))


def _refuse_too_many(case: Case) -> None:
    """Say how many sends there would be, from shapes alone."""
    sends = items = 0
    for phase in case.schedule.phases:
        found = jax.eval_shape(
            partial(_rounds, phase=_pattern(phase)), _told(case), schedule=case.schedule
        )
        hops = found[3].hops
        paths = max(hop.shape[1] if len(hop.shape) > 3 else 1 for hop in hops)
        number = phase.rounds * phase.lanes * case.network.ranks
        sends, items = sends + number, items + number * paths * len(hops)
    if items > MOST_ITEMS:
        raise SpecError(
            f"writes out every send: there would be {sends:,}, with {items:,} links of paths in "
            f"all, and the most is {MOST_ITEMS:,}",
            where="engine.kind",
            value="fluid",
            remedy='engine.kind = "chunk" takes it',
        )


def _of_phase(case: Case, phase: Phase, first: int) -> _Written:
    shape = (phase.rounds, phase.lanes, case.network.ranks)
    if phase.rounds == 0:
        none = np.zeros(shape, np.int64)
        return _Written(phase, none, none, np.zeros(0), np.zeros((0, 1, 1)), np.zeros((0, 1)))
    dst, active, owner, ways = _rounds(_told(case), _pattern(phase), case.schedule)
    dst, active, owner = (np.asarray(x) for x in (dst, active, owner))
    send = np.where(active, first + np.cumsum(active).reshape(shape) - 1, -1)
    sizes = np.asarray(case.params.chunk_bytes[phase.sizes])
    if phase.table < 0:
        lane = np.arange(phase.lanes)[None, :, None]
        sizes = sizes[lane, owner if sizes.shape[1] > 1 else np.zeros_like(owner)]
    links, shares = laid_out(_paths_first(ways), case.network.no_link, shape)
    routes, weights = np.moveaxis(links[:, active], 0, 1), shares[:, active].T
    return _Written(phase, send, dst, sizes[active], routes, weights)


def _paths_first(ways: Route) -> Route:
    """The rounds behind the paths."""
    hops = tuple(jnp.moveaxis(hop, 1, 0) if hop.ndim > 3 else hop for hop in ways.hops)
    return Route(hops, None if ways.shares is None else jnp.moveaxis(ways.shares, 1, 0))


def _same_shape(written: list[_Written]) -> tuple[np.ndarray, np.ndarray]:
    """Routes and weights of all phases in arrays of one shape."""
    paths = max((w.routes.shape[1] for w in written), default=1)
    hops = max((w.routes.shape[2] for w in written), default=1)
    routes = [np.full((0, paths, hops), -1)]
    weights = [np.zeros((0, paths))]
    for w in written:
        more = paths - w.routes.shape[1]
        wide = ((0, 0), (0, more), (0, hops - w.routes.shape[2]))
        routes.append(np.pad(w.routes, wide, constant_values=-1))
        weights.append(np.pad(w.weights, wide[:2]))
    return np.concatenate(routes), np.concatenate(weights)


def _lanes(case: Case, written: list[_Written]) -> tuple[np.ndarray, np.ndarray]:
    """Sends of every lane in program order, (lanes, steps), and the rank of each lane.

    Lanes inside a node are others than those between nodes, as in engine `chunk`.
    """
    ranks = case.network.ranks
    blocks: dict[str, list[np.ndarray]] = {}
    for w in written:
        bound = bound_to_ports(w.phase, case.network)
        where = w.phase.domain if bound else f"paths {w.phase.domain}"
        blocks.setdefault(where, []).append(np.moveaxis(w.send, 0, -1))
    rows = []
    for each in blocks.values():
        most = max(block.shape[0] for block in each)
        wide = [
            np.pad(b, ((0, most - b.shape[0]), (0, 0), (0, 0)), constant_values=-1) for b in each
        ]
        rows.append(np.concatenate(wide, axis=2).reshape(most * ranks, -1))
    steps = max((row.shape[1] for row in rows), default=1)
    rows = [np.pad(r, ((0, 0), (0, steps - r.shape[1])), constant_values=-1) for r in rows]
    lanes = np.concatenate(rows or [np.full((0, 1), -1)])
    idle_last = np.argsort(lanes < 0, axis=1, kind="stable")
    lanes = np.take_along_axis(lanes, idle_last, axis=1)
    rank = np.tile(np.arange(ranks), len(lanes) // ranks)
    used = lanes[:, 0] >= 0
    return lanes[used][:, : max((lanes >= 0).sum(axis=1).max(initial=1), 1)], rank[used]


def _gates(case: Case, written: list[_Written], count: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Gate that each send waits for, gates that it feeds, and how many gates there are."""
    waits = np.full(count, -1, np.int64)
    fed: list[tuple[np.ndarray, np.ndarray]] = []
    gates = 0
    for number, w in enumerate(written):
        if w.phase.rounds == 0:
            continue
        if w.phase.table >= 0:
            gate, feeds, used = _table_gates(w, case.schedule)
        else:
            gate, feeds, used = _phase_gates(written, number, case.network.ranks)
        fed += [(send, gates + place) for send, place in feeds]
        is_sent = w.send >= 0
        waits[w.send[is_sent]] = np.where(gate < 0, -1, gates + gate)[is_sent]
        gates += used
    send = np.concatenate([s for s, _ in fed] or [np.zeros(0, int)])
    gate = np.concatenate([g for _, g in fed] or [np.zeros(0, int)])
    kept, gate = np.unique(gate, return_inverse=True)
    numbers = np.full(gates + 1, -1)  # a gate that nothing feeds is open; the last is for -1
    numbers[kept] = np.arange(len(kept))
    return numbers[waits], _rows(count, send, gate.reshape(-1)), len(kept)


Feeds = list[tuple[np.ndarray, np.ndarray]]  # sends, and the gates that they feed


def _phase_gates(written: list[_Written], number: int, ranks: int) -> tuple[np.ndarray, Feeds, int]:
    """Gate of every send of a phase (rounds, lanes, ranks), what feeds them, how many they are.

    First come the gates behind which the phase's data is, one per (lane, rank), or per rank where
    all lanes wait for the same; then those of rounds that wait for the round before.
    """
    w = written[number]
    lanes, gate = w.phase.lanes, np.full(w.send.shape, -1)
    per_lane = w.phase.after_scope == "lane"
    feeds: Feeds = []
    is_fed = np.zeros((lanes if per_lane else 1, ranks), bool)
    for send, lane, dst in _entry_feeds(written, number, lanes if per_lane else 1):
        is_fed[lane, dst] = True
        feeds.append((send, lane * ranks + dst))
    gate[:] = np.where(is_fed, np.arange(is_fed.size).reshape(is_fed.shape), -1)
    if w.phase.needs != "lane":
        return gate, feeds, is_fed.size
    send, k, lane, dst = w.arrivals()
    again = k < w.phase.rounds - 1
    send, k, lane, dst = send[again], k[again], lane[again], dst[again]
    place = is_fed.size + (k * lanes + lane) * ranks + dst
    gate[k + 1, lane, dst] = place
    return gate, [*feeds, (send, place)], is_fed.size + (w.phase.rounds - 1) * lanes * ranks


def _entry_feeds(
    written: list[_Written], number: int, lanes: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Sends of earlier phases that a phase's data is made of: send, lane and rank they count for.

    What a phase starts from counts for the phases after it too: its own data need not be sent.
    """
    same_lane = True
    while (before := written[number].phase.after) >= 0:
        same_lane &= written[number].phase.after_scope == "lane"
        number = before
        send, _, lane, dst = written[number].arrivals()
        if same_lane:
            yield send, lane, dst
        else:
            for every in range(lanes):
                yield send, np.full(len(send), every), dst


def _table_gates(w: _Written, schedule: Schedule) -> tuple[np.ndarray, Feeds, int]:
    """The same for a table: a send waits for what came in earlier rounds, see `Table`."""
    needs = np.asarray(schedule.tables[w.phase.table].needs)
    send, k, lane, dst = w.arrivals()
    gate, feeds = np.full(w.send.shape, -1), []
    for number, (turn, own, rank) in enumerate(np.argwhere((needs > 0) & (w.send >= 0))):
        counts = (k < turn) & (dst == rank) & ((needs[turn, own, rank] == 2) | (lane == own))
        feeds.append((send[counts], np.full(counts.sum(), number)))
        gate[turn, own, rank] = number
    return gate, feeds, len(feeds)
