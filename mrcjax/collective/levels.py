"""`hierarchical` over a list of dimensions: reduce-scatter inner to outer, all-gather back.

Rank = x0 + d0 x1 + d0 d1 x2 + ... With several chunks their phases overlap: chunk after chunk
enters each stage while the one before is in the next. What shares ports takes turns in program
order, older chunks first; dimensions with ports of their own work side by side. A
reduce-scatter is the first half and an all-gather the second: which shard a rank owns then follows
from its digits, innermost first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mrcjax.collective.direct import direct_phase
from mrcjax.collective.ring import ring_phase
from mrcjax.collective.schedule import Line, Phase
from mrcjax.collective.shards import Chunks, chunks, cut
from mrcjax.network.links import Network, Relay
from mrcjax.spec import SpecError


@dataclass(frozen=True)
class Level:
    """One dimension: the ranks that it joins and how.

    layout: see `Phase`. lines: of each lane where the dimension has ports of its own, with the
    links of the longest way between its ranks (`ring_hops` between neighbours).
    """

    algorithm: str  # "ring" | "direct"
    layout: tuple[int, int, int]
    domain: str
    lanes: int
    lines: tuple[Line, ...] = ()
    hops: int | None = None
    ring_hops: int | None = None

    @property
    def whole(self) -> bool:
        """Whether a shard goes over one lane."""
        return self.algorithm == "direct" or bool(self.lines)


def level_phases(
    levels: Sequence[Level],
    ranks: int,
    size_bytes: float,
    element_bytes: int,
    pieces: int,
    kind: str = "all_reduce",
) -> tuple[list[Phase], list[Chunks]]:
    """Phases of all chunks in program order, and their chunk sizes."""
    count = len(levels)
    # (dimension, whether it gathers)
    scatters = [(dimension, False) for dimension in range(count)]
    gathers = [(dimension, True) for dimension in reversed(range(count))]
    stages = {
        "all_reduce": scatters + gathers,
        "reduce_scatter": scatters,
        "all_gather": gathers,
    }[kind]
    phases: list[Phase] = []
    place: dict[tuple[int, int], int] = {}  # (piece, stage) -> number of the phase
    for wave in range(pieces + len(stages) - 1):
        for stage in reversed(range(len(stages))):
            piece = wave - stage
            if not 0 <= piece < pieces:
                continue
            suffix = f" {piece}" if pieces > 1 else ""
            dimension, is_gather = stages[stage]
            phase = _phase(levels, dimension, is_gather, suffix)
            after = place[piece, stage - 1] if stage else -1
            place[piece, stage] = len(phases)
            is_turn = stage > 0 and dimension == stages[stage - 1][0]
            scope = "lane" if is_turn and levels[-1].algorithm == "ring" else "rank"
            sizes = piece * count + dimension
            phases.append(replace(phase, after=after, after_scope=scope, sizes=sizes))
    return phases, _shards(levels, ranks, size_bytes, element_bytes, pieces)


def _phase(levels: Sequence[Level], dimension: int, gathers: bool, suffix: str) -> Phase:
    level = levels[dimension]
    word = "all-gather" if gathers else "reduce-scatter"
    args = {
        "lanes": level.lanes,
        "layout": level.layout,
        "domain": level.domain,
        "gathers": gathers,
        "reduces": not gathers,
    }
    name = f"{word} dimension {dimension}{suffix}"
    if level.algorithm == "ring":
        phase = ring_phase(name, **args)
        return replace(phase, lines=level.lines, hops=level.ring_hops)
    phase = direct_phase(name, stripe=False, **args)
    if level.lines:
        rounds = level.layout[1] - 1
        phase = replace(phase, rounds=rounds, per_round=1, per_lane=0, lines=level.lines)
    return replace(phase, hops=level.hops)


def _shards(
    levels: Sequence[Level], ranks: int, size_bytes: float, element_bytes: int, pieces: int
) -> list[Chunks]:
    found = []
    for piece in range(pieces):
        start, size = cut(0.0, size_bytes, pieces, np.full(ranks, piece), element_bytes)
        for level in levels:
            _, parts, stride = level.layout
            position = np.arange(ranks) // stride % parts
            cuts = (parts, position, level.lanes, element_bytes, level.whole)
            found.append(chunks(start, size, *cuts))
            start, size = cut(start, size, parts, position, element_bytes)
    return found


def levels_of(
    network: Network,
    dimensions: Sequence[int],
    algorithms: Sequence[str],
    first_stride: int,
    channels: int | None,
) -> list[Level]:
    """Lay the dimensions out on the network, inner to outer.

    Along the dimensions of a grid each has its own lane and ports; else ranks that are
    `first_stride` times the product of the inner dimensions apart meet over all ports. Raises
    SpecError where a dimension lies partly in nodes.
    """
    relay, levels, stride = network.relay, [], first_stride
    spans: tuple[int, ...] = ()
    if relay is not None and network.node_size == 1 and first_stride == 1:
        spans = tuple(size for size in relay.digits if size > 1)
    own = spans == tuple(size for size in dimensions if size > 1)
    lane = 0
    for size, algorithm in zip(dimensions, algorithms, strict=True):
        layout = (network.ranks // (size * stride), size, stride)
        if relay is not None and own:
            lines = [Line(1, 1)] * len(spans)
            if size > 1:
                lines[lane] = Line(size, stride)
                lane += 1
            levels.append(_on_own_ports(relay, algorithm, layout, tuple(lines)))
        else:
            domain = _domain(size, stride, network)
            lanes = 1 if domain == "node" else channels or (1 if relay else network.ports)
            levels.append(Level(algorithm, layout, domain, lanes))
        stride *= size
    return levels


def _on_own_ports(
    relay: Relay, algorithm: str, layout: tuple[int, int, int], lines: tuple[Line, ...]
) -> Level:
    _, size, stride = layout
    at = np.arange(size) * stride
    hops = int(relay.distance(at[:, None], at[None, :]).max())
    to_next = int(relay.distance(at, np.roll(at, -1)).max())
    return Level(algorithm, layout, "network", len(lines), lines, hops, to_next)


def _domain(size: int, stride: int, network: Network) -> str:
    """Which links a dimension uses: "node" | "network"."""
    if size == 1 or network.node_size == 1 or stride % network.node_size == 0:
        return "network"
    if network.node_size % (size * stride) == 0:
        return "node"
    raise SpecError(
        f"has a dimension of {size} ranks, {stride} apart, that lies partly in nodes of "
        f"{network.node_size}",
        where="collective.dimensions",
        remedy="let the inner dimensions fill a node",
    )
