"""`hierarchical`: reduce-scatter in the node, all-reduce of each slice between nodes, all-gather.

With several chunks the phases of successive chunks overlap: inside a node the program order is
RS 0, RS 1, AG 0, RS 2, AG 1, ...; between nodes chunk after chunk. Ranks wait only for their data.
"""

from dataclasses import replace

import numpy as np

from mrcjax.collective.direct import direct_phase
from mrcjax.collective.ring import ring_phase
from mrcjax.collective.schedule import Phase
from mrcjax.collective.shards import Chunks, chunks, cut


def hierarchical_phases(
    *,
    ranks: int,
    node_size: int,
    lanes: int,
    between: str,
    size_bytes: float,
    element_bytes: int,
    pieces: int,
    node_lanes: int = 1,
    node_weights: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> tuple[list[Phase], list[Chunks]]:
    """Phases and chunk sizes of all chunks, in program order.

    node_lanes: lanes of a rank inside its node, one per plane; node_weights and weights: shares of
    the lanes inside nodes and between them, None = equal.
    """
    nodes = ranks // node_size
    local, node = np.arange(ranks) % node_size, np.arange(ranks) // node_size
    sizes: list[Chunks] = []
    programs = []
    for piece in range(pieces):
        start, size = cut(0.0, size_bytes, pieces, np.asarray(piece), element_bytes)
        slice_start, slice_size = cut(start, size, node_size, local, element_bytes)
        in_node = len(sizes)
        one = node_lanes == 1
        part = (start, size, node_size, local, node_lanes, element_bytes, one, node_weights)
        sizes.append(chunks(*part))
        part = (slice_start, slice_size, nodes, node, lanes, element_bytes, between == "direct")
        sizes.append(chunks(*part, weights))
        programs.append(
            _chunk_program(piece, nodes, node_size, lanes, between, in_node, pieces > 1, node_lanes)
        )
    return _interleave(programs), sizes


def _chunk_program(
    piece: int,
    nodes: int,
    node_size: int,
    lanes: int,
    between: str,
    in_node: int,
    numbered: bool,
    node_lanes: int,
) -> tuple[Phase, list[Phase], Phase]:
    """In-node reduce-scatter, the phases between nodes, in-node all-gather of one chunk."""
    suffix = f" {piece}" if numbered else ""
    inside = (nodes, node_size, 1)
    across = (1, nodes, node_size)
    common = {
        "lanes": node_lanes,
        "layout": inside,
        "stripe": node_lanes > 1,
        "domain": "node",
        "sizes": in_node,
    }
    scatter = direct_phase(f"node reduce-scatter{suffix}", gathers=False, reduces=True, **common)
    gather = direct_phase(f"node all-gather{suffix}", gathers=True, **common)
    middle = []
    for word, gathers in (("reduce-scatter", False), ("all-gather", True)):
        args = {
            "lanes": lanes,
            "layout": across,
            "gathers": gathers,
            "reduces": not gathers,
            "domain": "network",
            "sizes": in_node + 1,
        }
        name = f"{word} between nodes{suffix}"
        if between == "ring":
            middle.append(ring_phase(name, **args))
        else:
            middle.append(direct_phase(name, stripe=False, **args))
    if between == "ring":
        middle[1] = replace(middle[1], after_scope="lane")
    return scatter, middle, gather


def _interleave(programs: list[tuple[Phase, list[Phase], Phase]]) -> list[Phase]:
    """Program order of all chunks; `after` points at the phase whose arrivals are needed."""
    phases: list[Phase] = []
    scattered: dict[int, int] = {}
    for t in range(len(programs) + 1):
        if t < len(programs):
            scattered[t] = len(phases)
            phases.append(programs[t][0])
        if t >= 1:
            _, (first, second), gather = programs[t - 1]
            phases.append(replace(first, after=scattered[t - 1]))
            phases.append(replace(second, after=len(phases) - 1))
            phases.append(replace(gather, after=len(phases) - 1))
    return phases
