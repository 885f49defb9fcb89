"""Which ranks and links of a large run are looked at."""

import re
from collections.abc import Sequence

import numpy as np

from mrcjax.archive import AnyRun
from mrcjax.network.links import Network

LINKS = 16  # of a tier that has no links of its own for every rank
_OF_RANK = re.compile(r"rank (\d+) ")


def sampled_ranks(finish_s: np.ndarray, count: int, named: Sequence[int] = ()) -> np.ndarray:
    """Return ranks in the order of how telling they are: the last to finish, those named, others.

    The others are the first to finish and some evenly between. finish_s: (ranks,). At most `count`
    are returned.
    """
    num = finish_s.size
    even = np.linspace(0, num - 1, min(count, num)).round().astype(int)
    last, first = int(np.argmax(finish_s)), int(np.argmin(finish_s))
    order = [last, *named, first, *even.tolist(), *range(num)]
    return np.asarray(list(dict.fromkeys(order))[:count], np.int32)


def sampled_links(
    network: Network, link_bytes: np.ndarray, ranks: np.ndarray, run: AnyRun
) -> np.ndarray:
    """Return the used ports of some ranks, and of other tiers the busiest links and some evenly."""
    busy_s = np.divide(
        link_bytes,
        np.asarray(run.link_capacity_bytes_per_s),
        out=np.zeros_like(link_bytes),
        where=link_bytes > 0,
    )
    found: list[np.ndarray] = []
    for tier in network.tiers:
        at = np.arange(tier.first, tier.first + tier.count)
        used = at[link_bytes[at] > 0]
        if _is_of_ranks(tier.first, tier.count, ranks, network.ranks, run):
            place = {int(rank): number for number, rank in enumerate(ranks)}
            mine = used[np.isin((used - tier.first) % network.ranks, ranks)]
            key = [place[int(link - tier.first) % network.ranks] for link in mine]
            found.append(mine[np.argsort(key, kind="stable")])
        elif used.size:
            busiest = used[np.argsort(-busy_s[used], kind="stable")][: LINKS // 2]
            even = used[np.linspace(0, used.size - 1, min(LINKS, used.size)).round().astype(int)]
            found.append(np.asarray(list(dict.fromkeys([*busiest, *even]))[:LINKS]))
    return np.concatenate(found or [np.zeros(0)]).astype(np.int32)


def _is_of_ranks(first: int, count: int, ranks: np.ndarray, num: int, run: AnyRun) -> bool:
    """Whether a tier's links are laid out [port, rank], as their names tell."""
    if count == 0 or count % num:
        return False
    return all(rank_of_link(run.link_name(first + int(rank))) == rank for rank in ranks)


def rank_of_link(name: str) -> int | None:
    """Return the rank whose port a link is, by its name; None for one between switches."""
    match = _OF_RANK.match(name)
    return None if match is None else int(match[1])
