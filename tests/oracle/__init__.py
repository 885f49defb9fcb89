"""Slow, obvious twins of the engines: the `Send` they share and what a send waits for.

Nothing here is vectorised and nothing is imported from mrcjax, so that agreement means something.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[int, ...]
Spray = tuple[tuple[float, Path], ...]
Piece = tuple[int, ...]

NEEDS = ("nothing", "channel", "rank", "phase")


@dataclass(frozen=True)
class Send:
    """One chunk from rank to rank.

    Order is (phase, round); a lane, which is one (src, lane), has at most one send per round.
    """

    phase: int
    round: int
    src: int
    lane: int
    dst: int
    pieces: tuple[Piece, ...] = ()
    """(first element, count), or (origin rank, first element, count) in an all-to-all relay."""
    op: str = "copy"
    """What the receiver does with it: "reduce" (add) or "copy" (overwrite)."""
    bytes: float = 0.0
    path: Path | Spray = ()
    """Link ids in order, or several (weight, link ids) whose weights sum to 1."""
    needs: str = "nothing"
    """What must have arrived at `src` first, see `is_needed`."""


def order_of(send: Any) -> tuple[int, int]:
    """Return (phase, round), the order in which sends are handled."""
    return (send.phase, send.round)


def is_needed(send: Any, arrival: Any) -> bool:
    """Say whether `send` waits until `arrival` has been delivered and reduced.

    "nothing": the data is the rank's own. "channel": what came to this rank on this lane in
    earlier rounds. "rank": what came to this rank on any lane in earlier rounds. "phase": what
    came to this rank on any lane in earlier phases. An object without `needs` means "rank".
    """
    needs = getattr(send, "needs", "rank")
    if needs not in NEEDS:
        raise ValueError(f"needs must be one of {', '.join(NEEDS)}, got {needs!r}")
    if needs == "nothing" or arrival.dst != send.src:
        return False
    if needs == "phase":
        return arrival.phase < send.phase
    is_same_lane = needs == "rank" or arrival.lane == send.lane
    return is_same_lane and order_of(arrival) < order_of(send)


def parts_of(send: Send) -> Spray:
    """Return the route as (weight, link ids) pairs, one pair if the send is not sprayed."""
    links: list[int] = []
    parts: list[tuple[float, Path]] = []
    for step in send.path:
        if isinstance(step, Sequence):
            weight, path = step
            parts.append((weight, tuple(path)))
        else:
            links.append(int(step))
    if not parts:
        return ((1.0, tuple(links)),)
    if links or abs(sum(weight for weight, _ in parts) - 1.0) > 1e-9:
        raise ValueError(f"weights of a spray must sum to 1, got path {send.path}")
    return tuple(parts)


def in_rounds(sends: Sequence[Send]) -> Iterable[list[int]]:
    """Yield the indices of the sends of each round, rounds in order."""
    indices_of_round: dict[tuple[int, int], list[int]] = {}
    seen = set()
    for index, send in enumerate(sends):
        key = (send.phase, send.round, send.src, send.lane)
        if key in seen:
            raise ValueError(f"two sends of one lane in one round: (phase, round, src, lane) {key}")
        seen.add(key)
        indices_of_round.setdefault(order_of(send), []).append(index)
    for order in sorted(indices_of_round):
        yield indices_of_round[order]


@dataclass(frozen=True)
class Timing:
    """What both timing oracles return."""

    completion_s: float
    finish_s: list[float]
    """Per rank: the last arrival has been reduced, its own sends have left, it is not late."""
    delivery_s: list[float]
    """Per send, in the order given: its tail has arrived, endpoint latency included."""
    reduced_s: list[float]
    """Per send: the receiver has reduced it; equals `delivery_s` where nothing is reduced."""
    link_bytes: list[float]
    link_free_s: list[float]
    """Per link: when it has served its last chunk."""
