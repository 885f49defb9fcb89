"""Times of sends when links serve chunks in arrival order: an event-driven cross-check of `chunk`.

Hops cost the same as in `chunk`, but a link serves heads as they come, whatever their round, and
the paths of a spray travel on their own. Ties are broken by (phase, round, rank, lane).
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence

from . import Send, Timing, is_needed, order_of, parts_of


def emulate(
    sends: Sequence[Send],
    ranks: int,
    capacity_bytes_per_s: Sequence[float],
    latency_s: Sequence[float],
    *,
    late_s: Sequence[float] | None = None,
    switching: str = "cut_through",
    endpoint_latency_s: float = 0.0,
    reduction_bytes_per_s: float = math.inf,
) -> Timing:
    """Time `sends` with links that are first-come first-served."""
    late = [float(late) for late in late_s] if late_s is not None else [0.0] * ranks
    parts = [parts_of(send) for send in sends]

    sends_of_lane: dict[tuple[int, int], list[int]] = defaultdict(list)
    arrivals_at: list[list[int]] = [[] for _ in range(ranks)]
    for index in sorted(range(len(sends)), key=lambda i: order_of(sends[i])):
        sends_of_lane[sends[index].src, sends[index].lane].append(index)
        arrivals_at[sends[index].dst].append(index)

    awaited_by: list[list[int]] = [[] for _ in sends]
    num_awaited = [0] * len(sends)
    for index, send in enumerate(sends):
        for other in arrivals_at[send.src]:
            if is_needed(send, sends[other]):
                awaited_by[other].append(index)
                num_awaited[index] += 1

    link_free = [0.0] * len(capacity_bytes_per_s)
    link_bytes = [0.0] * len(capacity_bytes_per_s)
    reducer_free: dict[tuple[int, int], float] = defaultdict(float)
    data_ready = [0.0] * len(sends)
    delivery = [math.nan] * len(sends)
    reduced = [math.nan] * len(sends)
    parts_to_leave = [len(p) for p in parts]
    parts_to_arrive = [len(p) for p in parts]
    left_s = [0.0] * len(sends)
    place_in_lane = dict.fromkeys(sends_of_lane, 0)
    lane_free = dict.fromkeys(sends_of_lane, 0.0)
    is_lane_busy = dict.fromkeys(sends_of_lane, False)
    heap: list[tuple[float, tuple[int, int], int, int, int, int, int, float]] = []

    def push(head: float, index: int, part: int, hop: int, tail: float) -> None:
        send = sends[index]
        heapq.heappush(heap, (head, order_of(send), send.src, send.lane, index, part, hop, tail))

    def start_lane(lane: tuple[int, int]) -> None:
        if is_lane_busy[lane] or place_in_lane[lane] == len(sends_of_lane[lane]):
            return
        index = sends_of_lane[lane][place_in_lane[lane]]
        if num_awaited[index]:
            return
        begin = max(late[lane[0]], lane_free[lane], data_ready[index])
        is_lane_busy[lane] = True
        for part, (_, path) in enumerate(parts[index]):
            if path:
                push(begin, index, part, 0, begin)
            else:
                leave(index, begin)
                push(begin + endpoint_latency_s, index, part, 0, begin + endpoint_latency_s)

    def leave(index: int, time: float) -> None:
        parts_to_leave[index] -= 1
        left_s[index] = max(left_s[index], time)
        if parts_to_leave[index] == 0:
            lane = (sends[index].src, sends[index].lane)
            lane_free[lane] = left_s[index]
            place_in_lane[lane] += 1
            is_lane_busy[lane] = False
            start_lane(lane)

    def arrive(index: int, time: float) -> None:
        parts_to_arrive[index] -= 1
        if parts_to_arrive[index]:
            return
        send = sends[index]
        delivery[index] = reduced[index] = time
        if send.op == "reduce":
            begin = max(time, reducer_free[send.dst, send.lane])
            reduced[index] = begin + send.bytes / reduction_bytes_per_s
            reducer_free[send.dst, send.lane] = reduced[index]
        for waiting in awaited_by[index]:
            num_awaited[waiting] -= 1
            data_ready[waiting] = max(data_ready[waiting], reduced[index])
            start_lane((sends[waiting].src, sends[waiting].lane))

    for lane in sends_of_lane:
        start_lane(lane)
    while heap:
        head, _, _, _, index, part, hop, tail = heapq.heappop(heap)
        weight, path = parts[index][part]
        if hop == len(path):
            arrive(index, head)
            continue
        link = path[hop]
        work_bytes = weight * sends[index].bytes
        start = max(head, link_free[link])
        link_free[link] = start + work_bytes / capacity_bytes_per_s[link]
        link_bytes[link] += work_bytes
        left = max(link_free[link], tail)
        next_tail = left + latency_s[link]
        next_head = next_tail if switching == "store_and_forward" else start + latency_s[link]
        if hop + 1 == len(path):
            next_head = next_tail = next_tail + endpoint_latency_s
        push(next_head, index, part, hop + 1, next_tail)
        if hop == 0:
            leave(index, left)

    if any(math.isnan(time) for time in delivery):
        stuck = next(i for i, time in enumerate(delivery) if math.isnan(time))
        raise RuntimeError(f"this send never arrived: {sends[stuck]}")
    finish = list(late)
    for index, send in enumerate(sends):
        finish[send.dst] = max(finish[send.dst], reduced[index])
        finish[send.src] = max(finish[send.src], left_s[index])
    return Timing(max(finish), finish, delivery, reduced, link_bytes, link_free)
