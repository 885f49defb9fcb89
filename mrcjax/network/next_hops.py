"""Next hops of shortest paths between all pairs of switches."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NextHops:
    """The links of a graph of switches, and for every pair of switches the links to go on by.

    sender, receiver, nth, cables: (links,) int, the switches at either end, the number among
    parallel links, and the cables that the link stands for. Links choices[first_choice[s * n + t]]
    up to first_choice[s * n + t + 1] lead from switch s on a shortest way to t, of n switches.
    longest: most links between two switches that hold ranks.
    """

    sender: np.ndarray
    receiver: np.ndarray
    nth: np.ndarray
    cables: np.ndarray
    first_choice: np.ndarray
    choices: np.ndarray
    distance: np.ndarray  # (switches, switches) int
    longest: int

    def even_paths(self, most: int) -> int:
        """Fewest paths that can be dealt evenly to all shortest paths; `most` where more."""
        num = len(self.distance)
        needed = np.ones(num * num, np.int64)
        counts = np.diff(self.first_choice)
        target = np.repeat(np.arange(num * num) % num, counts)
        for hops in range(1, self.longest + 1):
            here = np.flatnonzero(self.distance.reshape(-1) == hops)
            after = needed[self.receiver[self.choices] * num + target]
            of_pair = np.lcm.reduceat(after, np.minimum(self.first_choice[:-1], len(after) - 1))
            # more than `most` stays more than `most`, and small enough to multiply
            needed[here] = np.minimum(counts[here] * of_pair[here], most + 1)
        values = np.unique(needed)
        return most if values[-1] > most else min(int(np.lcm.reduce(values)), most)


def next_hops(
    cables: np.ndarray,
    switch_of_rank: np.ndarray,
    *,
    trunks: bool,
    in_order: np.ndarray | None = None,
) -> NextHops:
    """Find all shortest paths.

    Args:
        cables: (switches, switches) int, symmetric, parallel cables between two.
        switch_of_rank: (ranks,) int.
        trunks: parallel cables are one link, chosen as often as the cables are many; else each
            is a link of its own.
        in_order: (switches, digits) int, coordinates to be corrected lowest first: of the shortest
            ways only that one is taken. None = all.

    All switches must be joined.
    """
    num = len(cables)
    distance = distances(cables > 0)
    sender, receiver, nth, width = _links(cables, trunks)
    # a trunk of many cables is a next hop as often as, relative to the others, it is wide
    weight = width // np.gcd.reduce(width) if trunks and len(width) else np.ones_like(width)
    starts = np.searchsorted(sender, np.arange(num + 1))
    counts, choices = [np.zeros(1, np.int64)], []
    for switch in range(num):
        links = np.repeat(
            np.arange(starts[switch], starts[switch + 1]),
            weight[starts[switch] : starts[switch + 1]],
        )
        far = receiver[links]
        good = distance[far] == distance[switch] - 1
        if in_order is not None:
            good &= _lowest_first(in_order, switch, far)
        target, which = np.nonzero(good.T)
        counts.append(np.bincount(target, minlength=num))
        choices.append(links[which])
    used = np.unique(switch_of_rank)
    return NextHops(
        sender,
        receiver,
        nth,
        width,
        np.cumsum(np.concatenate(counts)),
        np.concatenate(choices),
        distance,
        int(distance[np.ix_(used, used)].max()),
    )


def distances(joined: np.ndarray) -> np.ndarray:
    """Links on the shortest way between all pairs, (switches, switches) int; -1 = there is none."""
    num = len(joined)
    step = joined.astype(np.float32)
    distance = np.where(np.eye(num, dtype=bool), 0, -1).astype(np.int16)
    reached, length = np.eye(num, dtype=np.float32), 0
    while True:
        length += 1
        new = (reached @ step > 0) & (distance < 0)
        if not new.any():
            return distance
        distance[new] = length
        reached = new.astype(np.float32)


def _links(cables: np.ndarray, trunks: bool) -> tuple[np.ndarray, ...]:
    sender, receiver = np.nonzero(cables)
    width = cables[sender, receiver]
    if trunks:
        return sender, receiver, np.zeros_like(sender), width
    nth = np.arange(width.sum()) - np.repeat(np.cumsum(width) - width, width)
    ones = np.ones(len(nth), np.int64)
    return np.repeat(sender, width), np.repeat(receiver, width), nth, ones


def _lowest_first(digits: np.ndarray, switch: int, far: np.ndarray) -> np.ndarray:
    """Whether a step to `far` corrects the lowest digit that is off, (far, targets)."""
    off = digits != digits[switch]
    lowest = np.where(off.any(axis=1), off.argmax(axis=1), -1)
    corrected = (digits[far] != digits[switch]).argmax(axis=1)
    return corrected[:, None] == lowest[None, :]
