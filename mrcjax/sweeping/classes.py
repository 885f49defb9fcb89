"""Shape classes: numbers of ranks that share a program, where that is cheaper than compiling.

Laid into the arrays of the largest of a class (`mrcjax.larger`) its points run longer, each by
the ratio of the ranks; what is saved is a compilation per size.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from mrcjax.sweeping.group import Group, room_of

LAID = 1.25  # time of a send in larger arrays, of what it takes in its own, about


def classes(groups: Sequence[Group], workers: int) -> tuple[Group, ...]:
    """Join groups that together take less time than apart; the order is that of the first of each.

    workers: how many share the memory.
    """
    alike: dict[Hashable, list[Group]] = {}
    for number, group in enumerate(groups):
        is_known = group.kin is not None and group.seconds_each is not None
        alike.setdefault(group.kin if is_known else number, []).append(group)
    joined = []
    for members in alike.values():
        members = sorted(members, key=lambda group: group.ranks)
        joined += [_joined(part, workers) for part in _cut(members)]
    return tuple(joined)


def _cut(members: Sequence[Group]) -> list[Sequence[Group]]:
    """Cut groups, in the order of their ranks, so that compiling and running take least.

    The cheapest way to do the first groups, for each number of them, from those for fewer.
    """
    ranks = np.asarray([group.ranks[-1] for group in members], float)
    compile_s = np.asarray([group.compile_s for group in members])
    alone_s = np.asarray([len(group.points) * (group.seconds_each or 0.0) for group in members])
    per_rank = np.concatenate([[0.0], np.cumsum(alone_s / ranks)])
    least, starts = np.zeros(len(members) + 1), np.zeros(len(members), int)
    for last, most in enumerate(ranks):
        together = LAID * most * (per_rank[last + 1] - per_rank[: last + 1])
        together[last] = alone_s[last]
        total = least[: last + 1] + compile_s[last] + together
        starts[last] = np.argmin(total)
        least[last + 1] = total[starts[last]]
    parts: list[Sequence[Group]] = []
    end = len(members)
    while end:
        start = int(starts[end - 1])
        parts.insert(0, members[start:end])
        end = start
    return parts


def _joined(members: Sequence[Group], workers: int) -> Group:
    if len(members) == 1:
        return members[0]
    largest = members[-1]
    most = largest.ranks[-1]
    points = tuple(point for group in members for point in group.points)
    seconds = sum(
        LAID * most / group.ranks[-1] * len(group.points) * (group.seconds_each or 0.0)
        for group in members
    ) / len(points)
    sends = sum(len(group.points) * (group.sends or 0) for group in members) // len(points)
    return replace(
        largest,
        points=points,
        ids=tuple(id_ for group in members for id_ in group.ids),
        room=room_of(largest.bytes_each, seconds, len(points), workers),
        sends=sends,
        seconds_each=seconds,
        ranks=tuple(sorted({rank for group in members for rank in group.ranks})),
        larger=largest.example,
    )
