"""Tables of shortest paths over the links of a graph.

A route has as few links as there can be and, of those, as few ranks on the way. Where several
next links are as good, they form a next-hop group, as in a switch; nodes and destinations with
the same choice share the group.
"""

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from mrcjax.network.graph_links import Links


def unit_of(links: Links) -> int:
    """Cost of a link: more than all ranks that a route could pass."""
    return len(links.nodes) + 1


def costs_of(links: Links) -> np.ndarray:
    """Least cost from every node to every rank, (nodes, ranks); infinite where no way is."""
    nodes = len(links.nodes)
    # of parallel links one is enough: all cost the same
    usable = np.arange(len(links.tail)) if links.up is None else np.flatnonzero(links.up)
    pair, index = np.unique((links.head * nodes + links.tail)[usable], return_index=True)
    index = usable[index]
    backwards = sparse.csr_array(
        (_steps(links)[index], (pair // nodes, pair % nodes)), shape=(nodes, nodes)
    )
    return csgraph.dijkstra(backwards, indices=np.arange(links.ranks)).T


def groups_of(links: Links, cost: np.ndarray) -> tuple[np.ndarray, ...]:
    """Next-hop groups: group of each (node, rank), first entry, number of links, entries.

    (nodes, ranks), (groups,), (groups,) and (links of all groups,) int.
    """
    nodes, ranks = cost.shape
    out = np.argsort(links.tail, kind="stable")
    ends = np.cumsum(np.bincount(links.tail, minlength=nodes))
    group = np.zeros((nodes, ranks), np.int64)
    first, count, entries = [0], [0], []  # group 0 is the one without a link
    for node, each in enumerate(np.split(out, ends[:-1])):
        if not len(each):
            continue
        packed = np.packbits(_is_next(links, cost, each), axis=0)
        choices, which = np.unique(packed, axis=1, return_inverse=True)
        masks = np.unpackbits(choices, axis=0, count=len(each)).astype(bool)
        number = np.zeros(masks.shape[1], np.int64)
        for i, mask in enumerate(masks.T):
            if mask.any():
                number[i] = len(first)
                first.append(len(entries))
                count.append(int(mask.sum()))
                entries.extend(each[mask].tolist())
        group[node] = number[which.reshape(-1)]
    return group, np.array(first), np.array(count), np.array(entries or [0])


def num_paths_of(links: Links, cost: np.ndarray, hops: int) -> np.ndarray:
    """Number of shortest paths from every node to every rank, (nodes, ranks)."""
    nodes, ranks = cost.shape
    number = np.zeros((nodes, ranks), np.int64)
    number[np.arange(ranks), np.arange(ranks)] = 1
    distance = np.where(np.isfinite(cost), cost, 0) // unit_of(links)
    every = np.arange(len(links.tail))
    for length in range(1, hops + 1):
        for part in np.array_split(every, -(-len(every) * ranks // 2**22)):
            ways = _is_next(links, cost, part) & (distance[links.tail[part]] == length)
            np.add.at(number, links.tail[part], np.where(ways, number[links.head[part]], 0))
        # more are refused, and must not overflow before
        np.minimum(number, 2**31 - 1, out=number)
    return number


def _steps(links: Links) -> np.ndarray:
    """Cost of taking each link, (links,): a link, and a rank where it leaves one."""
    return unit_of(links) + (links.tail < links.ranks).astype(np.float64)


def _is_next(links: Links, cost: np.ndarray, out: np.ndarray | slice) -> np.ndarray:
    """Whether some links lie on a shortest path towards each rank, (links, ranks)."""
    here, there = cost[links.tail[out]], cost[links.head[out]]
    is_next = np.isfinite(there) & (there + _steps(links)[out][:, None] == here)
    return is_next if links.up is None else is_next & links.up[out][:, None]
