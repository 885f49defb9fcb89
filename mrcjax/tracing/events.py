"""A recording as trace events, the JSON that Perfetto and chrome://tracing open.

Format: "Trace Event Format" (Google, 2016): complete events "X" with ts and dur in microseconds,
counters "C", instants "i", metadata "M". A process is a rank, with a thread per channel and per
port; links between switches are threads of a process per tier.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from mrcjax.archive import AnyRun
from mrcjax.tracing.recording import NODE_LANES, Recording
from mrcjax.tracing.sampling import rank_of_link

_US = 1e6
_FIRST_LINK, _FIRST_TIER = 10_000, 10_000_000  # thread of a link; process of a tier
_PARALLEL = 100_000  # to the thread of a channel whose sends overlap, once for each more at a time

Event = dict[str, Any]


def trace_events(recording: Recording) -> Iterator[Event]:
    """Yield the events of a recording: names first, then sends, links, and when ranks finish."""
    yield from _names(recording)
    yield from _sends(recording)
    yield from _links(recording)
    finish_s = np.asarray(recording.run.finish_s)
    for rank in np.sort(recording.ranks).tolist():
        yield {
            "ph": "i",
            "s": "p",
            "name": "finished",
            "pid": rank,
            "tid": 0,
            "ts": _us(finish_s[rank]),
        }


def count_events(recording: Recording) -> tuple[int, int]:
    """Return how many events the sends and the uses of links will be."""
    uses = len(recording.uses.link)
    return len(recording.sends.rank), uses if recording.is_serial else 2 * uses


def _us(seconds: Any) -> float:
    # a millionth of a microsecond is finer than any clock here
    return round(float(seconds) * _US, 6)


def _dur(begin_s: float, end_s: float) -> float:
    """Duration such that ts + dur is the rounded end: events that meet do not overlap."""
    return max(round(_us(end_s) - _us(begin_s), 6), 0.0)


def _names(recording: Recording) -> Iterator[Event]:
    for rank in np.sort(recording.ranks).tolist():
        yield _named("process_name", rank, 0, f"rank {rank}")
        yield {"ph": "M", "name": "process_sort_index", "pid": rank, "args": {"sort_index": rank}}
    threads = _threads(recording)
    sends = recording.sends
    for rank, lane, thread in sorted(
        set(zip(sends.rank.tolist(), sends.lane.tolist(), threads.tolist(), strict=True))
    ):
        name = f"channel {lane}" if lane < NODE_LANES else f"node channel {lane - NODE_LANES}"
        also = thread // _PARALLEL
        yield _named("thread_name", rank, thread, name + (f", also ({also})" if also else ""))
    if recording.is_serial:
        known = set(recording.ranks.tolist())
        for link in recording.links.tolist():
            pid, name = _process_of(recording.run, link)
            if pid not in known:
                known.add(pid)
                yield _named("process_name", pid, 0, _name_of_process(recording.run, pid))
            yield _named("thread_name", pid, _FIRST_LINK + link, name)
    else:
        for number in sorted({_tier_of(recording.run, link) for link in recording.links.tolist()}):
            pid = _FIRST_TIER + number
            yield _named("process_name", pid, 0, _name_of_process(recording.run, pid))


def _named(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _process_of(run: AnyRun, link: int) -> tuple[int, str]:
    """Process of a link, and its name there: its rank where it is a port, else its tier."""
    name = run.link_name(link)
    rank = rank_of_link(name)
    if rank is not None:
        return rank, name.removeprefix(f"rank {rank} ")
    return _FIRST_TIER + _tier_of(run, link), name


def _name_of_process(run: AnyRun, pid: int) -> str:
    return f"links: {run.tiers[pid - _FIRST_TIER].name}" if pid >= _FIRST_TIER else f"rank {pid}"


def _tier_of(run: AnyRun, link: int) -> int:
    for number, tier in enumerate(run.tiers):
        if tier.first <= link < tier.first + tier.count:
            return number
    raise IndexError(link)


def _threads(recording: Recording) -> np.ndarray:
    """Thread of every send: its channel, or one beside it while an earlier send still goes on."""
    sends = recording.sends
    threads = sends.lane.astype(np.int64)
    busy: dict[tuple[int, int], list[float]] = {}
    for at, (rank, lane) in enumerate(zip(sends.rank.tolist(), threads.tolist(), strict=True)):
        ends = busy.setdefault((rank, lane), [])
        begin, end = _us(sends.begin_s[at]), _us(sends.left_s[at])
        also = next((n for n, last in enumerate(ends) if last <= begin), len(ends))
        if also == len(ends):
            ends.append(end)
        ends[also] = end
        threads[at] = lane + also * _PARALLEL
    return threads


def _sends(recording: Recording) -> Iterator[Event]:
    sends, threads = recording.sends, _threads(recording)
    for at in range(len(sends.rank)):
        peer, owner = int(sends.peer[at]), int(sends.owner[at])
        phase = recording.phases[int(sends.phase[at])]
        args: dict[str, Any] = {
            "phase": phase,
            "round": int(sends.round[at]),
            "peer": peer if peer >= 0 else "switches",
            "bytes": float(sends.bytes[at]),
            "delivered_us": _us(sends.delivered_s[at]),
        }
        if owner >= 0:
            args["shard"] = owner
        yield {
            "ph": "X",
            "cat": "send",
            "name": f"to rank {peer}" if peer >= 0 else "to switches",
            "pid": int(sends.rank[at]),
            "tid": int(threads[at]),
            "ts": _us(sends.begin_s[at]),
            "dur": _dur(sends.begin_s[at], sends.left_s[at]),
            "args": args,
        }


def _links(recording: Recording) -> Iterator[Event]:
    run, uses = recording.run, recording.uses
    if not recording.is_serial:
        yield from _counters(recording)
        return
    places = {link: _process_of(run, link)[0] for link in recording.links.tolist()}
    for at in range(len(uses.link)):
        link = int(uses.link[at])
        yield {
            "ph": "X",
            "cat": "link",
            "name": "busy",
            "pid": places[link],
            "tid": _FIRST_LINK + link,
            "ts": _us(uses.begin_s[at]),
            "dur": _dur(uses.begin_s[at], uses.end_s[at]),
            "args": {
                "link": run.link_name(link),
                "phase": recording.phases[int(uses.phase[at])],
                "bytes": float(uses.bytes[at]),
            },
        }


def _counters(recording: Recording) -> Iterator[Event]:
    """Share of each link in use, whenever it changes: the mean rates of the sends that cross it."""
    run, uses = recording.run, recording.uses
    for link in recording.links.tolist():
        mine = uses.link == link
        times = np.concatenate([uses.begin_s[mine], uses.end_s[mine]])
        steps = np.concatenate([uses.share[mine], -uses.share[mine]])
        times, at = np.unique(times, return_inverse=True)
        level = np.cumsum(np.bincount(at.reshape(-1), steps)) if times.size else steps
        for time, share in zip(times.tolist(), level.tolist(), strict=True):
            yield {
                "ph": "C",
                "cat": "link",
                "name": run.link_name(link),
                "pid": _FIRST_TIER + _tier_of(run, link),
                "ts": _us(time),
                "args": {"share": round(max(share, 0.0), 9)},
            }
