"""A recording in a file that Perfetto opens, not larger than asked for."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mrcjax.spec import SpecError
from mrcjax.tracing.events import count_events, trace_events
from mrcjax.tracing.recording import Recording, Sends, Uses, without

EVENTS = 200_000  # of a trace where nothing else is said: some 40 MB


@dataclass(frozen=True)
class Written:
    """What a trace holds and what it leaves out, in words; events without names and ends."""

    events: int
    left_out: tuple[str, ...]


def write_trace(path: Path, recording: Recording, *, command: str, events: int = EVENTS) -> Written:
    """Write a trace of at most so many events of sends and links, whole or not at all.

    Of too many, links and ranks are left out, the least telling first, and in the end what comes
    last in time. The file says so too, under "otherData".

    Raises:
        SpecError: the file cannot be written.
    """
    fitting, left_out = _fitted(recording, events)
    run = recording.run
    about = {
        "made_by": command,
        "collective": run.collective,
        "algorithm": run.algorithm,
        "network": run.kind,
        "ranks": run.ranks,
        "engine": run.engine,
        "time_us": run.time_s * 1e6,
        "sampled_ranks": np.sort(fitting.ranks).tolist(),
        "links": "busy with one chunk after another"
        if fitting.is_serial
        else "share of the capacity in use, by the mean rate of every send over its time",
        "left_out": list(left_out),
        "spec": getattr(run, "spec_text", None) or _text_of(run),
    }
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("w", encoding="utf-8") as stream:
            stream.write('{"displayTimeUnit": "ns",\n"otherData": ')
            json.dump(about, stream, ensure_ascii=False)
            stream.write(',\n"traceEvents": [\n')
            separator = ""
            for event in trace_events(fitting):
                stream.write(separator + json.dumps(event, ensure_ascii=False))
                separator = ",\n"
            stream.write("\n]}\n")
        draft.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        draft.unlink(missing_ok=True)
    return Written(sum(count_events(fitting)), left_out)


def _text_of(run: Any) -> str:
    from mrcjax.spec import spec_to_toml

    return spec_to_toml(run.spec)


def _fitted(recording: Recording, events: int) -> tuple[Recording, tuple[str, ...]]:
    """The most telling part of a recording that fits, and what it leaves out."""
    said = []
    total = recording.run.ranks
    sends, uses = recording.sends, recording.uses
    per_use = 1 if recording.is_serial else 2
    of_rank = {
        int(r): int(n) for r, n in zip(*np.unique(sends.rank, return_counts=True), strict=True)
    }
    of_link = {
        int(k): int(n) * per_use
        for k, n in zip(*np.unique(uses.link, return_counts=True), strict=True)
    }
    ranks = _first_fitting(
        recording.ranks, of_rank, events - min(sum(of_link.values()), events // 2)
    )
    room = events - sum(of_rank.get(int(rank), 0) for rank in ranks)
    links = _first_fitting(recording.links, of_link, room)
    fitting = without(recording, ranks, links)
    if ranks.size < total:
        said.append(f"{total - ranks.size:,} of {total:,} ranks are left out")
    if links.size < recording.links.size:
        more = recording.links.size - links.size
        said.append(f"{more:,} of {recording.links.size:,} sampled links are left out")
    fitting, cut = _cut(fitting, events)
    return fitting, (*said, *cut)


def _first_fitting(order: np.ndarray, count: dict[int, int], room: int) -> np.ndarray:
    """The first entries whose counts add up to no more than there is room for; at least one."""
    sizes = np.cumsum([count.get(int(each), 0) for each in order])
    return order[: max(int(np.searchsorted(sizes, room, side="right")), 1)]


def _cut(recording: Recording, events: int) -> tuple[Recording, list[str]]:
    """Leave out what begins last where one rank and one link alone are too much."""
    num_sends, num_uses = count_events(recording)
    if num_sends + num_uses <= events:
        return recording, []
    begins = np.sort(np.concatenate([recording.sends.begin_s, recording.uses.begin_s]))
    scale = begins.size / (num_sends + num_uses)
    until = begins[min(int(events * scale), begins.size - 1)]
    early, used = recording.sends.begin_s < until, recording.uses.begin_s < until
    kept = Recording(
        recording.run,
        recording.ranks,
        recording.links,
        recording.phases,
        Sends(**{key: x[early] for key, x in vars(recording.sends).items()}),
        Uses(**{key: x[used] for key, x in vars(recording.uses).items()}),
        recording.is_serial,
    )
    return kept, [f"what begins after {until * 1e6:.6g} us is left out"]


def _unwritable(path: Path, error: OSError) -> SpecError:
    reason = (error.strerror or "unknown").lower()
    return SpecError(f"{path} cannot be written ({reason})", remedy="name another file")
