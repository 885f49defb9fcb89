"""`in_network`: switches reduce what their members send and multicast the result (SHARP, NVLS).

In one kind of switch every rank sends its buffer once and receives it once. Over nodes whose
switches reduce and a network whose switches do, there are three phases, as in `hierarchical`: the
node's switches reduce to slices, the network's reduce each slice over the nodes, the node's
multicast them.
"""

from dataclasses import dataclass, replace

import numpy as np

from mrcjax.collective.schedule import Phase
from mrcjax.collective.shards import Chunks, cut, cut_by
from mrcjax.network.links import Network
from mrcjax.network.reduction import Tree, fabric_tree, node_tree
from mrcjax.spec import Collective, SpecError


@dataclass(frozen=True)
class Level:
    """Switches of one kind: lanes of a rank on them, shares of the lanes (None = equal)."""

    name: str  # "node" | "network"
    lanes: int
    weights: np.ndarray | None


def in_network_phases(
    spec: Collective,
    network: Network,
    domain: str,
    levels: frozenset[str],
    owner: bool,
    ways: dict[str, Level],
) -> tuple[list[Phase], list[Tree], list[Chunks]]:
    """Phases, trees and sizes; a phase has two entries of sizes, the whole and the shards.

    domain: what the groups span, "node", "network" (one rank per node) or "mixed". levels: where
    switches reduce. Raises SpecError where they do not reach the group.
    """
    size = network.ranks if spec.group_size is None else spec.group_size
    group = np.arange(network.ranks) // (size * spec.group_stride) * spec.group_stride + (
        np.arange(network.ranks) % spec.group_stride
    )
    position = np.arange(network.ranks) // spec.group_stride % size
    if domain == "mixed" and levels == {"node", "network"}:
        _check_whole_nodes(network, size, spec.group_stride)
        return _over_nodes(spec, network, group, ways)
    level = _only_level(domain, levels, network)
    tree = _tree(level, network, group, ways)
    flow = "through_owner" if owner and level == "node" and spec.kind == "all_reduce" else spec.kind
    whole = _Buffer(0.0, float(spec.size), spec.element_bytes or 0)
    sizes = whole.sizes(size, position, spec.chunks, ways[level])
    name = spec.kind.replace("_", "-") + " in network"
    phase = Phase(
        name, level, ways[level].lanes, spec.chunks, (1, network.ranks, 1), tree=0, flow=flow
    )
    return [phase], [tree], list(sizes)


def _only_level(domain: str, levels: frozenset[str], network: Network) -> str:
    """The one kind of switch that a group goes through."""
    if domain == "node" and "node" in levels:
        return "node"
    if domain == "node" and not network.ports:
        raise _unreached("inside one domain", "node")
    if "network" not in levels:
        raise _unreached(
            "over several nodes" if network.node_size > 1 else "without nodes", "network"
        )
    if domain == "mixed" and network.rails == "apart":
        raise SpecError(
            "does not reach ranks on different rails, which only nodes join",
            where="collective.algorithm",
            value="in_network",
            remedy="set network.in_network = true, so that the switches inside nodes reduce too",
        )
    return "network"


def _unreached(what: str, level: str) -> SpecError:
    return SpecError(
        f"needs switches that reduce {'inside' if level == 'node' else 'between'} nodes for "
        f"groups {what}",
        where="collective.algorithm",
        value="in_network",
        remedy=f'set network.in_network = true or "{level}", or use another algorithm',
    )


def _check_whole_nodes(network: Network, size: int, stride: int) -> None:
    if stride != 1 or size % network.node_size or network.ranks % network.node_size:
        raise SpecError(
            f"over nodes and network needs groups of whole nodes of {network.node_size} ranks",
            where="collective.algorithm",
            value="in_network",
            remedy='set network.in_network = "network" to leave the switches inside nodes out',
        )


def _tree(level: str, network: Network, group: np.ndarray, ways: dict[str, Level]) -> Tree:
    make = node_tree if level == "node" else fabric_tree
    return make(network, np.unique(group, return_inverse=True)[1], ways[level].lanes)


@dataclass(frozen=True)
class _Buffer:
    """A range of bytes, one or one per rank, cut in pieces, lanes and shards."""

    start: np.ndarray | float
    size: np.ndarray | float
    element: int

    def sizes(
        self, parts: int, position: np.ndarray, pieces: int, way: Level
    ) -> tuple[Chunks, Chunks]:
        """The whole and each position's shard of it, (pieces, lanes, ranks), or 1 for ranks."""
        start, size = cut(
            np.broadcast_to(self.start, position.shape),
            np.broadcast_to(self.size, position.shape),
            pieces,
            np.arange(pieces)[:, None],
            self.element,
        )
        start = np.broadcast_to(start, size.shape)
        shards = cut(start, size, parts, position, self.element)
        return self._over_lanes(start, size, way), self._over_lanes(*shards, way)

    def _over_lanes(self, start: np.ndarray, size: np.ndarray, way: Level) -> Chunks:
        weights = np.ones(way.lanes) if way.weights is None else way.weights
        parts = [cut_by(*piece, weights, self.element) for piece in zip(start, size, strict=True)]
        starts, sizes = (np.stack(part) for part in zip(*parts, strict=True))
        if (sizes == sizes[..., :1]).all():
            sizes = sizes[..., :1]
        return Chunks(starts, sizes)


def _over_nodes(
    spec: Collective,
    network: Network,
    group: np.ndarray,
    ways: dict[str, Level],
) -> tuple[list[Phase], list[Tree], list[Chunks]]:
    """Reduce in the node, over the nodes for each slice, multicast in the node."""
    m = network.node_size
    rank = np.arange(network.ranks)
    nodes = int(np.bincount(group)[0]) // m
    local, place = rank % m, rank // m % nodes
    trees = [
        _tree("node", network, rank // m, ways),
        _tree("network", network, group * m + local, ways),
    ]
    sizes: list[Chunks] = []
    programs = []
    for piece in range(spec.chunks):
        element = spec.element_bytes or 0
        start, size = cut(0.0, float(spec.size), spec.chunks, np.asarray(piece), element)
        slices = cut(start, size, m, local, element)
        first = len(sizes)
        sizes += _Buffer(start, size, element).sizes(m, local, 1, ways["node"])
        sizes += _Buffer(*slices, element).sizes(nodes, place, 1, ways["network"])
        programs.append(_program(spec, network, piece, first, ways))
    return _in_order(programs), trees, sizes


def _program(
    spec: Collective, network: Network, piece: int, first: int, ways: dict[str, Level]
) -> list[Phase]:
    """The phases of one piece, each for what the one before gave."""
    suffix = f" {piece}" if spec.chunks > 1 else ""

    def phase(words: str, level: str, flow: str) -> Phase:
        tree = 0 if level == "node" else 1
        return Phase(
            words + suffix,
            level,
            ways[level].lanes,
            1,
            (1, network.ranks, 1),
            sizes=first + 2 * tree,
            tree=tree,
            flow=flow,
        )

    scatter = phase("node reduce-scatter in network", "node", "reduce_scatter")
    words = f"{spec.kind.replace('_', '-')} between nodes in network"
    across = phase(words, "network", spec.kind)
    gather = phase("node all-gather in network", "node", "all_gather")
    return {
        "all_reduce": [scatter, across, gather],
        "reduce_scatter": [scatter, across],
        "all_gather": [across, gather],
    }[spec.kind]


def _in_order(programs: list[list[Phase]]) -> list[Phase]:
    """Program order: the first phase of a piece goes before the others of the piece before."""
    phases: list[Phase] = []
    waiting = -1
    for piece in range(len(programs) + 1):
        before, rest = waiting, programs[piece - 1][1:] if piece else []
        if piece < len(programs):
            waiting = len(phases)
            phases.append(programs[piece][0])
        for phase in rest:
            phases.append(replace(phase, after=before))
            before = len(phases) - 1
    return phases
