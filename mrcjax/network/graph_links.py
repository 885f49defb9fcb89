"""The links of a graph, read from its list of cables, and the cut that follows from them."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from mrcjax.network.cuts import Cut
from mrcjax.spec import Graph, rank_of


@dataclass(frozen=True)
class Links:
    """Every direction of every link, tier by tier.

    nodes: names, ranks first. tail, head: (links,) int, node at either end. capacity: bytes/s
    before goodput. name: of each link. cable: (links,) int, which row of the list it is of. up:
    (links,) bool, which of them routes may take; None = all.
    """

    nodes: tuple[str, ...]
    ranks: int
    tail: np.ndarray
    head: np.ndarray
    capacity: np.ndarray
    latency: np.ndarray
    name: tuple[str, ...]
    cable: np.ndarray
    up: np.ndarray | None = None


def links_of(spec: Graph) -> Links:
    """Read every direction of the links; a cable that is not directed makes two."""
    rows = spec.rows()
    switches = dict.fromkeys(end for row in rows for end in row.ends if rank_of(end) < 0)
    nodes = (*(f"rank {rank}" for rank in range(spec.ranks)), *switches)
    place = {name: number for number, name in enumerate(nodes)}
    ends, numbers, names = [], [], []
    for cable, row in enumerate(rows):
        one, other = row.ends
        rate, latency = float(spec.rate_of(row)), spec.latency_of(row)
        for way in ((one, other),) if row.directed else ((one, other), (other, one)):
            ends.append((place[way[0]], place[way[1]], cable))
            numbers.append((rate, latency))
            plain = f"{way[0]} to {way[1]}"
            if row.name is None:
                names.append(plain)
            else:
                names.append(row.name if row.directed else f"{row.name}: {plain}")
    tail, head, cable = np.array(ends).T
    capacity, latency = np.array(numbers).T
    is_from, is_to = tail < spec.ranks, head < spec.ranks
    tier = np.select([is_from & is_to, is_from, is_to], [0, 1, 2], 3)
    order = np.argsort(tier, kind="stable")
    return Links(
        nodes,
        spec.ranks,
        tail[order],
        head[order],
        capacity[order],
        latency[order],
        tuple(_numbered([names[i] for i in order])),
        cable[order],
    )


def _numbered(names: list[str]) -> list[str]:
    """Names with a number where several are alike: parallel links."""
    often, seen = Counter(names), Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} #{seen[name]}" if often[name] > 1 else name)
    return numbered


def cuts_of(links: Links) -> list[Cut]:
    """Ranks that hang on the same switches, with these switches, against all others."""
    nodes = len(links.nodes)
    at_rank = (links.tail < links.ranks) != (links.head < links.ranks)
    joined = sparse.coo_array(
        (np.ones(at_rank.sum()), (links.tail[at_rank], links.head[at_rank])), shape=(nodes, nodes)
    )
    _, part = csgraph.connected_components(joined, directed=False)
    of_rank = part[: links.ranks]
    names, of_rank = np.unique(of_rank, return_inverse=True)
    if len(names) in (1, links.ranks):
        return []
    # switches without a rank belong to no part
    number = np.full(part.max() + 1, -1)
    number[names] = np.arange(len(names))
    from_part, to_part = number[part[links.tail]], number[part[links.head]]
    inner = from_part == to_part
    out, into = np.where(inner, -1, from_part), np.where(inner, -1, to_part)
    return [Cut("leaves", of_rank.reshape(-1), out, into)]
