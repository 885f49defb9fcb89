"""Emulate a run again and keep its sends: of some ranks, and what some links carry when."""

from dataclasses import dataclass, replace
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.archive import AnyRun
from mrcjax.case import Case, build
from mrcjax.collective.schedule import Phase
from mrcjax.emulation import plain_schedule, precision
from mrcjax.engine import SendTimes, Times, Watch, emulate, lay_out_sends
from mrcjax.engine.plan import bound_to_ports, in_arrival_order
from mrcjax.fluid import Written, fair, write_out
from mrcjax.spec import SpecError
from mrcjax.tracing.sampling import sampled_links, sampled_ranks

T = TypeVar("T")

RANKS = 16  # that are looked at where nothing else is said
NODE_LANES = 1000  # lanes inside nodes are numbered from here
_AT_ONCE = 30_000_000  # sends and uses that are held in memory


@dataclass(frozen=True)
class Sends:
    """Sends of the sampled ranks, (sends,) each, by rank, lane and time.

    phase: index into the recording's phases, -1 of traffic. peer: rank, -2 = switches that reduce.
    owner: rank whose chunk it is, -1 = of many or unknown. begin_s: when the send may begin;
    left_s: when its last byte has left the rank; delivered_s: when it has arrived at the peer.
    """

    rank: np.ndarray
    lane: np.ndarray
    phase: np.ndarray
    round: np.ndarray
    peer: np.ndarray
    owner: np.ndarray
    bytes: np.ndarray
    begin_s: np.ndarray
    left_s: np.ndarray
    delivered_s: np.ndarray


@dataclass(frozen=True)
class Uses:
    """When sampled links are busy, (uses,) each, by link and time.

    share: part of the link's capacity in use; bytes are share x capacity x time.
    """

    link: np.ndarray
    phase: np.ndarray
    bytes: np.ndarray
    begin_s: np.ndarray
    end_s: np.ndarray
    share: np.ndarray


@dataclass(frozen=True)
class Recording:
    """What was seen of a run. ranks, links: sampled, the most telling first.

    is_serial: a link serves one chunk after another, so that its uses never overlap; else they are
    the mean rates of sends that share it.
    """

    run: AnyRun
    ranks: np.ndarray
    links: np.ndarray
    phases: tuple[str, ...]
    sends: Sends
    uses: Uses
    is_serial: bool


def record(run: AnyRun, *, ranks: int = RANKS) -> Recording:
    """Emulate a run again, from its spec, and keep the sends of some ranks and the use of links.

    Args:
        run: an outcome or an archived run; of several scenarios the first is recorded.
        ranks: how many ranks to look at: those that finish last and first, the late and slow
            ones of the spec, and others evenly.

    Raises:
        SpecError: for engines that have no single sends, and where `ranks` is no positive number.
    """
    if ranks < 1:
        raise SpecError("must be at least 1", where="ranks", value=ranks)
    spec = run.spec
    if spec.engine.aggregate:
        raise SpecError(
            "gives no single sends to trace",
            where="engine.aggregate",
            value=True,
            remedy='leave it out, or use engine.kind = "fluid" with fewer ranks',
        )
    with precision(spec.engine.precision):
        case = build(spec)
        slow = [each.rank for each in (*spec.faults.late, *spec.faults.slow)]
        chosen = sampled_ranks(np.asarray(run.finish_s), ranks, slow)
        links = sampled_links(case.network, np.asarray(run.link_bytes), chosen, run)
        if spec.engine.kind == "fluid":
            return _of_fluid(run, case, chosen, links)
        return _of_chunks(run, case, chosen, links)


# ---- engine chunk


def _of_chunks(run: AnyRun, case: Case, ranks: np.ndarray, links: np.ndarray) -> Recording:
    # delays by round count the phases that are emulated, which have no names
    is_plain = case.params.jitter is not None
    schedule = plain_schedule(case) if is_plain else case.schedule
    phases = schedule.phases
    for phase in phases:
        at_ports = bound_to_ports(phase, case.network)
        if at_ports and in_arrival_order(case.network, phase, case.config):
            raise SpecError(
                "serves all sends of a phase at once and cannot be traced",
                where="engine.order",
                value="arrival",
                remedy='use order = "auto", or engine.kind = "fluid"',
            )
    rounds = sum(phase.rounds for phase in phases)
    lanes = max((phase.lanes for phase in phases), default=1)
    while ranks.size > 1 and rounds * (lanes * ranks.size + links.size) > _AT_ONCE:
        ranks = ranks[: ranks.size // 2]
        links = links[: max(links.size // 2, 1)]
    watch = Watch(jnp.asarray(ranks), jnp.asarray(links))
    emulation = jax.jit(emulate, static_argnames="config")
    times = emulation(case.params, case.network, schedule, config=case.config, watch=watch)
    sends, uses = _seen(times, phases, ranks, links, run)
    if is_plain:
        sends = replace(sends, owner=np.full_like(sends.owner, -1))
    names = tuple(phase.name for phase in phases)
    return Recording(run, ranks, links, names, sends, uses, is_serial=True)


def _seen(
    times: Times, phases: tuple[Phase, ...], ranks: np.ndarray, links: np.ndarray, run: AnyRun
) -> tuple[Sends, Uses]:
    sends: list[Sends] = []
    uses: list[Uses] = []
    capacity = np.asarray(run.link_capacity_bytes_per_s)[links]
    for seen in times.seen:
        arrays = {key: np.asarray(x) for key, x in vars(seen).items() if key != "numbers"}
        for at, number in enumerate(seen.numbers):
            here = {key: x[at] for key, x in arrays.items()}
            is_node = phases[number].domain == "node"
            sends.append(_sends_of(here, number, ranks, NODE_LANES if is_node else 0))
            uses.append(_uses_of(here, number, links, capacity))
    return _by_time(sends), _merged(uses)


def _sends_of(seen: dict[str, np.ndarray], number: int, ranks: np.ndarray, lanes: int) -> Sends:
    """The sends of one phase; arrays of `seen` are (rounds, lanes, ranks)."""
    k, lane, rank = np.nonzero(seen["peer"] != -1)
    at = (k, lane, rank)
    return Sends(
        rank=ranks[rank],
        lane=lane + lanes,
        phase=np.full(k.shape, number),
        round=k,
        peer=seen["peer"][at],
        owner=np.maximum(seen["owner"][at], -1),
        bytes=seen["bytes"][at],
        begin_s=seen["begin_s"][at],
        left_s=seen["left_s"][at],
        delivered_s=seen["delivered_s"][at],
    )


def _uses_of(
    seen: dict[str, np.ndarray], number: int, links: np.ndarray, capacity: np.ndarray
) -> Uses:
    """When links are busy in one phase: as long as their bytes of a round need, up to its end."""
    k, link = np.nonzero(seen["link_bytes"] > 0)
    carried, end = seen["link_bytes"][k, link], seen["link_end_s"][k, link]
    return Uses(
        link=links[link],
        phase=np.full(k.shape, number),
        bytes=carried,
        begin_s=end - carried / capacity[link],
        end_s=end,
        share=np.ones(k.shape),
    )


def _by_time(parts: list[Sends]) -> Sends:
    whole = _joined(parts, Sends)
    order = np.lexsort((whole.begin_s, whole.lane, whole.rank))
    return Sends(**{key: x[order] for key, x in vars(whole).items()})


def _merged(parts: list[Uses]) -> Uses:
    """Busy times in order, those of one phase that follow each other without a gap as one."""
    whole = _joined(parts, Uses)
    order = np.lexsort((whole.begin_s, whole.link))
    whole = Uses(**{key: x[order] for key, x in vars(whole).items()})
    if not order.size:
        return whole
    gap = 1e-9 * (whole.end_s - whole.begin_s)[1:] + 1e-12 * whole.end_s[:-1]
    follows = (
        (whole.link[1:] == whole.link[:-1])
        & (whole.phase[1:] == whole.phase[:-1])
        & (whole.begin_s[1:] <= whole.end_s[:-1] + gap)
    )
    first = np.concatenate([[True], ~follows])
    start = np.flatnonzero(first)
    last = np.append(start[1:], order.size) - 1
    return Uses(
        link=whole.link[start],
        phase=whole.phase[start],
        bytes=np.add.reduceat(whole.bytes, start),
        begin_s=whole.begin_s[start],
        end_s=whole.end_s[last],
        share=whole.share[start],
    )


def _joined(parts: list[T], of: type[T]) -> T:
    """Arrays of several parts in one."""
    keys = [*of.__dataclass_fields__]  # pyright: ignore[reportAttributeAccessIssue]
    none = np.zeros(0)
    return of(**{k: np.concatenate([getattr(p, k) for p in parts] or [none]) for k in keys})


# ---- engine fluid


def _of_fluid(run: AnyRun, case: Case, ranks: np.ndarray, links: np.ndarray) -> Recording:
    written = write_out(case)
    params = case.params
    dtype = params.capacity_bytes_per_s.dtype
    layout = lay_out_sends(written.sends, case.network.num_links)
    quantum = jnp.asarray(float(case.spec.engine.quantum), dtype)
    found = jax.jit(fair)(
        written.sends, layout, params.capacity_bytes_per_s, params.latency_s, quantum
    )
    sends = _fluid_sends(case, written, found, ranks)
    uses = _fluid_uses(run, written, _begins(written, found), found, links)
    names = ("traffic",) if case.flows is not None else ("sends",)
    return Recording(run, ranks, links, names, sends, uses, is_serial=False)


def _begins(written: Written, found: SendTimes) -> np.ndarray:
    """When each send begins: its lane is free and what it waits for is there, (sends,)."""
    sends, num = written.sends, written.num_sends
    left, delivered = (np.asarray(x, np.float64) for x in (found.left_s, found.delivered_s))
    lanes = np.asarray(sends.lanes)
    begin = np.zeros(len(left))
    start = np.broadcast_to(np.asarray(sends.lane_start_s)[:, None], lanes.shape)
    before = np.where(lanes[:, :-1] >= 0, left[lanes[:, :-1]], 0.0)
    ready = np.concatenate([start[:, :1], np.maximum(before, start[:, 1:])], axis=1)
    begin[lanes[lanes >= 0]] = ready[lanes >= 0]
    gates = len(np.asarray(sends.gate_needs))
    if gates:
        opened = np.zeros(gates)
        feeds = np.asarray(sends.feeds)
        when = np.where(np.asarray(sends.feeds_delivered), delivered[:, None], left[:, None])
        np.maximum.at(opened, feeds[feeds >= 0], when[feeds >= 0])
        waits = np.asarray(sends.waits)
        waiting = waits >= 0
        opens = opened[waits[waiting]] + np.asarray(sends.delay_s)[waiting]
        begin[waiting] = np.maximum(begin[waiting], opens)
    return np.minimum(begin, left)[:num]


def _fluid_sends(case: Case, written: Written, found: SendTimes, ranks: np.ndarray) -> Sends:
    num = written.num_sends
    lane_of = np.zeros(len(np.asarray(found.left_s)), np.int64)
    step_of = np.zeros_like(lane_of)
    lanes = np.asarray(written.sends.lanes)
    row, step = np.nonzero(lanes >= 0)
    lane_of[lanes[row, step]], step_of[lanes[row, step]] = row, step
    kept = np.flatnonzero(np.isin(written.src, ranks))
    rank = written.src[kept]
    # lanes of a rank counted from 0, in the order in which they are written
    local = np.zeros(kept.size, np.int64)
    for each in np.unique(rank):
        mine = rank == each
        local[mine] = np.unique(lane_of[kept[mine]], return_inverse=True)[1]
    begin = _begins(written, found)
    is_traffic = case.flows is not None
    sends = Sends(
        rank=rank,
        lane=local,
        phase=np.zeros(kept.size, np.int64),
        round=np.zeros(kept.size, np.int64) if is_traffic else step_of[kept],
        peer=written.dst[kept],
        owner=np.full(kept.size, -1),
        bytes=np.asarray(written.sends.size_bytes, np.float64)[:num][kept],
        begin_s=begin[kept],
        left_s=np.asarray(found.left_s, np.float64)[:num][kept],
        delivered_s=np.asarray(found.delivered_s, np.float64)[:num][kept],
    )
    return _by_time([sends])


def _fluid_uses(
    run: AnyRun, written: Written, begin: np.ndarray, found: SendTimes, links: np.ndarray
) -> Uses:
    """Every send on every sampled link of its route, at its mean rate."""
    num = written.num_sends
    routes = np.asarray(written.sends.routes)[:num]
    send, path, hop = np.nonzero(np.isin(routes, links) & (routes >= 0))
    link = routes[send, path, hop]
    left = np.asarray(found.left_s, np.float64)[:num]
    part = np.asarray(written.sends.weights, np.float64)[send, path]
    carried = np.asarray(written.sends.size_bytes, np.float64)[send] * part
    seconds = left[send] - begin[send]
    capacity = np.asarray(run.link_capacity_bytes_per_s)[link]
    used = (carried > 0) & (seconds > 0)
    need = np.divide(carried, capacity, out=np.zeros_like(carried), where=used)
    uses = Uses(
        link=link,
        phase=np.zeros(link.size, np.int64),
        bytes=carried,
        begin_s=begin[send],
        end_s=left[send],
        share=np.divide(need, seconds, out=np.zeros_like(need), where=used),
    )
    order = np.lexsort((uses.begin_s, uses.link))
    order = order[used[order]]
    return Uses(**{key: x[order] for key, x in vars(uses).items()})


def without(recording: Recording, ranks: np.ndarray, links: np.ndarray) -> Recording:
    """The recording of fewer ranks and links."""
    sends, uses = recording.sends, recording.uses
    kept, used = np.isin(sends.rank, ranks), np.isin(uses.link, links)
    return replace(
        recording,
        ranks=ranks,
        links=links,
        sends=Sends(**{key: x[kept] for key, x in vars(sends).items()}),
        uses=Uses(**{key: x[used] for key, x in vars(uses).items()}),
    )
