"""`ring`: one ring per channel (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009)."""

import numpy as np

from mrcjax.collective.schedule import Phase


def ring_phase(
    name: str, *, lanes: int, layout: tuple[int, int, int], gathers: bool, **kwargs
) -> Phase:
    """size - 1 rounds; each send needs the arrival of the round before on its lane.

    In the reduce-scatter position p sends the chunk of p - k - 1 in round k and ends with its own;
    in the all-gather the chunk of p - k.
    """
    return Phase(
        name,
        lanes=lanes,
        rounds=layout[1] - 1,
        layout=layout,
        first=1,
        needs="lane",
        owner=(0 if gathers else -1, -1, False),
        **kwargs,
    )


def node_order(ranks: int, node_size: int, lanes: int, ports: int) -> np.ndarray:
    """Rank at each position of every lane's ring over nodes, (lanes, ranks).

    With l = c // ports, lane c leaves node b by local rank (l - b - 1) mod node_size and enters the
    next node at the same local rank, so that the lanes of a node use different ports and stay on
    their rail. A partly filled last node of m ranks counts modulo m.
    """
    lane = np.arange(lanes)[:, None] // ports
    order = []
    for first in range(0, ranks, node_size):
        size = min(node_size, ranks - first)
        order.append(first + (lane - first // node_size + np.arange(size)) % size)
    return np.concatenate(order, axis=1)
