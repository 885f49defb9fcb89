"""Times of sends when links serve chunks in round order: the twin of the engine `chunk`.

Rounds are handled in order and, inside a round, hop 0 of every send before hop 1 of any. A link
serves what meets it at one hop index of one round in the order (head_in, rank, lane).
"""

import math
from collections import defaultdict
from collections.abc import Sequence

from . import Send, Timing, in_rounds, is_needed, parts_of

SWITCHING = ("cut_through", "store_and_forward")
RULES = ("fifo", "share")


def emulate(
    sends: Sequence[Send],
    ranks: int,
    capacity_bytes_per_s: Sequence[float],
    latency_s: Sequence[float],
    *,
    late_s: Sequence[float] | None = None,
    switching: str = "cut_through",
    rule: str | Sequence[str] = "fifo",
    endpoint_latency_s: float = 0.0,
    reduction_bytes_per_s: float = math.inf,
) -> Timing:
    """Time `sends` with links that keep round order; `rule` is one rule or one per link."""
    if switching not in SWITCHING:
        raise ValueError(f"switching must be one of {', '.join(SWITCHING)}, got {switching!r}")
    num_links = len(capacity_bytes_per_s)
    rule_of_link = [rule] * num_links if isinstance(rule, str) else list(rule)
    if set(rule_of_link) - set(RULES):
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {set(rule_of_link)}")
    late = [float(late) for late in late_s] if late_s is not None else [0.0] * ranks

    link_free = [0.0] * num_links
    link_bytes = [0.0] * num_links
    channel_free: dict[tuple[int, int], float] = defaultdict(float)
    reducer_free: dict[tuple[int, int], float] = defaultdict(float)
    arrivals_at: list[list[int]] = [[] for _ in range(ranks)]
    delivery = [math.nan] * len(sends)
    reduced = [math.nan] * len(sends)

    for indices in in_rounds(sends):
        head = {}
        tail = {}
        for index in indices:
            send = sends[index]
            data_ready = [
                reduced[other] for other in arrivals_at[send.src] if is_needed(send, sends[other])
            ]
            begin = max([late[send.src], channel_free[send.src, send.lane], *data_ready])
            head[index] = tail[index] = begin
            # Holds for a send without links; the first hop sets the real value.
            channel_free[send.src, send.lane] = begin

        num_hops = max(len(path) for index in indices for _, path in parts_of(sends[index]))
        for hop in range(num_hops):
            waiting_at = _work_at_hop(sends, indices, hop)
            head_out = defaultdict(list)
            tail_out = defaultdict(list)
            for link, bytes_of_send in waiting_at.items():
                capacity = capacity_bytes_per_s[link]
                queue = sorted(bytes_of_send, key=lambda i: (head[i], sends[i].src, sends[i].lane))
                is_shared = rule_of_link[link] == "share"
                if is_shared:
                    work = sum(bytes_of_send[index] / capacity for index in queue)
                    earliest = min(head[index] for index in queue)
                    link_free[link] = max(link_free[link], earliest) + work
                for index in queue:
                    start = head[index] if is_shared else max(head[index], link_free[link])
                    if not is_shared:
                        # The link is charged for its bytes and not held for a slower feeder.
                        link_free[link] = start + bytes_of_send[index] / capacity
                    left = max(link_free[link], tail[index])
                    link_bytes[link] += bytes_of_send[index]
                    head_out[index].append((start, latency_s[link]))
                    tail_out[index].append((left, latency_s[link]))
            for index in tail_out:
                send = sends[index]
                if hop == 0:
                    channel_free[send.src, send.lane] = max(left for left, _ in tail_out[index])
                # A sprayed send takes the latest of its links.
                tail[index] = max(left + latency for left, latency in tail_out[index])
                head[index] = max(start + latency for start, latency in head_out[index])
                if switching == "store_and_forward":
                    head[index] = tail[index]

        for index in indices:
            send = sends[index]
            delivery[index] = reduced[index] = tail[index] + endpoint_latency_s
            if send.op == "reduce":
                begin = max(delivery[index], reducer_free[send.dst, send.lane])
                reduced[index] = begin + send.bytes / reduction_bytes_per_s
                reducer_free[send.dst, send.lane] = reduced[index]
            arrivals_at[send.dst].append(index)

    finish = list(late)
    for index, send in enumerate(sends):
        finish[send.dst] = max(finish[send.dst], reduced[index])
    for (rank, _), left in channel_free.items():
        finish[rank] = max(finish[rank], left)
    return Timing(max(finish), finish, delivery, reduced, link_bytes, link_free)


def _work_at_hop(
    sends: Sequence[Send], indices: Sequence[int], hop: int
) -> dict[int, dict[int, float]]:
    """Return bytes[link][send] at one hop; paths of a spray that share a link are added."""
    work: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for index in indices:
        for weight, path in parts_of(sends[index]):
            if hop < len(path):
                work[path[hop]][index] += weight * sends[index].bytes
    return work
