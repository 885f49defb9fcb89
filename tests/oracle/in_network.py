"""Times of a buffer that switches reduce and multicast, moved in many small pieces.

Every piece is stored and forwarded, and a link serves pieces in the order they come to it, so with
many pieces this tends to what a switch does that forwards bytes as they come. A tree is nested:
a rank is a number, a switch a `Switch` of members with the link up from each and down to each.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """What hangs below a switch: a rank or another switch, and the links between them."""

    what: "int | Switch"
    up: int
    down: int


@dataclass(frozen=True)
class Switch:
    """A switch that reduces; its members."""

    members: tuple[Member, ...]


def ranks_below(what: "int | Switch") -> list[int]:
    """Return the ranks under a member."""
    if isinstance(what, int):
        return [what]
    return [rank for member in what.members for rank in ranks_below(member.what)]


class Links:
    """First come first served links; `send` gives when a piece has arrived at the far end."""

    def __init__(self, capacity_bytes_per_s: Sequence[float], latency_s: Sequence[float]):
        self.capacity, self.latency = capacity_bytes_per_s, latency_s
        self.free = [0.0] * len(capacity_bytes_per_s)
        self.bytes = [0.0] * len(capacity_bytes_per_s)

    def send(self, link: int, ready_s: float, num_bytes: float) -> float:
        """Put a piece on a link."""
        self.free[link] = max(self.free[link], ready_s) + num_bytes / self.capacity[link]
        self.bytes[link] += num_bytes
        return self.free[link] + self.latency[link]


def reduced(tree: Switch, links: Links, size: float, pieces: int, late_s: Sequence[float]):
    """Reduce `size` bytes of every rank: when each piece is whole at the top."""

    def at_top(what: "int | Switch") -> float:
        if isinstance(what, int):
            return late_s[what]
        return max(
            links.send(member.up, at_top(member.what), size / pieces) for member in what.members
        )

    return [at_top(tree) for _ in range(pieces)]


def multicast(
    tree: Switch, links: Links, ready_s: Sequence[float], size: float
) -> dict[int, float]:
    """Send pieces from the top to every rank: when each rank has the last."""
    got: dict[int, float] = {}

    def down(what: "int | Switch", ready: float) -> None:
        if isinstance(what, int):
            got[what] = max(got.get(what, 0.0), ready)
            return
        for member in what.members:
            down(member.what, links.send(member.down, ready, size / len(ready_s)))

    for ready in ready_s:
        down(tree, ready)
    return got


def scattered(
    tree: Switch, links: Links, ready_s: Sequence[float], size: float
) -> dict[int, float]:
    """Send every rank its shard of each piece from the top: when each rank has the last."""
    got: dict[int, float] = {}
    shard = size / len(ready_s) / len(ranks_below(tree))

    def down(what: "int | Switch", ready: float) -> None:
        if isinstance(what, int):
            got[what] = max(got.get(what, 0.0), ready)
            return
        for member in what.members:
            below = len(ranks_below(member.what))
            down(member.what, links.send(member.down, ready, below * shard))

    for ready in ready_s:
        down(tree, ready)
    return got


def gathered(
    tree: Switch, links: Links, size: float, pieces: int, late_s: Sequence[float]
) -> dict[int, float]:
    """Send every rank's shard of `size` to the top and from there to all, own ones too."""
    ranks = ranks_below(tree)
    part = size / len(ranks) / pieces
    at_top: list[float] = []

    def up(what: "int | Switch") -> list[float]:
        if isinstance(what, int):
            return [late_s[what]] * pieces
        return [
            links.send(member.up, ready, part)
            for member in what.members
            for ready in sorted(up(member.what))
        ]

    at_top = sorted(up(tree))
    return multicast(tree, links, at_top, size)
