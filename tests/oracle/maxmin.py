"""Max-min fair flows and sends in exact fractions: one level per step, one event at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

NEVER = float("inf")
Paths = Sequence[tuple[Fraction, Sequence[int]]]


@dataclass(frozen=True)
class Flow:
    """One drain in a lane: it starts when the lane's previous has left and its gate has opened."""

    paths: Paths
    """(weight, links) of every path."""
    size: Fraction
    latency: Fraction = Fraction(0)
    """Of each send's own, beside the latency of the links of its longest path."""
    gate: int = -1
    delay: Fraction = Fraction(0)
    feeds: Sequence[tuple[int, bool]] = field(default=())
    """(gate, whether it counts when delivered rather than when left)."""


def loads_of(flow: Flow) -> dict[int, Fraction]:
    """Return what a flow of rate 1 puts on each link."""
    loads: dict[int, Fraction] = {}
    for weight, links in flow.paths:
        for link in links:
            if weight:
                loads[link] = loads.get(link, Fraction(0)) + weight
    return loads


def fair_rates(loads: Sequence[dict[int, Fraction]], capacity: Sequence[Fraction]) -> list:
    """Raise all rates together; where a link fills up, its flows stay; go on with the others."""
    rates: list = [NEVER if not load else None for load in loads]
    while None in rates:
        shares = {}
        for link, size in enumerate(capacity):
            rising = sum(
                load.get(link, 0) for load, x in zip(loads, rates, strict=True) if x is None
            )
            if rising:
                taken = sum(
                    load[link] * x
                    for load, x in zip(loads, rates, strict=True)
                    if x is not None and link in load
                )
                shares[link] = (size - taken) / rising
        level = min(shares.values())
        for i, load in enumerate(loads):
            if rates[i] is None and any(shares[link] == level for link in load):
                rates[i] = level
    return rates


@dataclass
class Lane:
    """Where a lane stands: its current send, when that drains from, and what is left of it."""

    queue: list[int]
    free: Fraction
    begin: Fraction | None = None
    left: Fraction | None = None


def emulate(
    flows: Sequence[Flow],
    lanes: Sequence[Sequence[int]],
    starts: Sequence[Fraction],
    capacity: Sequence[Fraction],
    latency: Sequence[Fraction],
    needs: Sequence[int] = (),
) -> tuple[list, list]:
    """Return left and delivered of every flow, exact fractions, NEVER for what never ends."""
    waits = [
        flow.latency
        + max((sum(latency[k] for k in links) for w, links in flow.paths if w), default=0)
        for flow in flows
    ]
    left: list = [NEVER] * len(flows)
    delivered: list = [NEVER] * len(flows)
    ends_at: list[list[Fraction]] = [[] for _ in needs]
    state = [Lane(list(queue), start) for queue, start in zip(lanes, starts, strict=True)]
    now = None
    while True:
        for lane in state:
            if lane.queue and lane.begin is None:
                flow = flows[lane.queue[0]]
                start = lane.free
                if flow.gate >= 0:
                    if len(ends_at[flow.gate]) < needs[flow.gate]:
                        continue
                    start = max([start, *(t + flow.delay for t in ends_at[flow.gate])])
                lane.begin = start + waits[lane.queue[0]]
                if now is not None:
                    lane.begin = max(lane.begin, now)
                lane.left = flow.size
        live = [lane for lane in state if lane.begin is not None]
        active = [lane for lane in live if now is not None and lane.begin <= now]
        rates = fair_rates([loads_of(flows[lane.queue[0]]) for lane in active], capacity)
        moments = [lane.begin for lane in live if now is None or lane.begin > now]
        ends = [
            now if x == NEVER or not lane.left else now + lane.left / x if x else NEVER
            for lane, x in zip(active, rates, strict=True)
        ]
        if not moments and all(end == NEVER for end in ends):
            return left, delivered
        then = min([*moments, *ends])
        for lane, x, end in zip(active, rates, ends, strict=True):
            if end > then:
                lane.left -= x * (then - now)
                continue
            send = lane.queue.pop(0)
            delivered[send], left[send] = then, then - waits[send]
            lane.free, lane.begin = left[send], None
            for gate, when_delivered in flows[send].feeds:
                ends_at[gate].append(delivered[send] if when_delivered else left[send])
        now = then


def finish_times(flows: Sequence[Flow], starts, capacity, latency) -> list:
    """Return when each of several independent flows has arrived."""
    lanes = [[i] for i in range(len(flows))]
    return emulate(flows, lanes, starts, capacity, latency)[1]
