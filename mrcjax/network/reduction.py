"""Trees of switches that reduce what comes up and multicast what goes down.

A level's entries are the ranks (level 0) or the switches that got something from below; each has
one link up to its parent and one down from it. Arrays are [lanes, entries].
"""

import jax
import numpy as np

from mrcjax.network.clos import ClosFabric
from mrcjax.network.links import Network
from mrcjax.network.route import choose, pair_hash
from mrcjax.network.wafer import SwarmX
from mrcjax.pytree import pytree, static


@pytree
class Tree:
    """One tree per group and lane, `roots` of them in each lane.

    up, down: per level (lanes, entries) int, the link to and from the parent; `no_link` where a
    group needs no switch above this one. parent: per level (lanes, entries) int, entry of the next
    level; of the last level the number of the group. alone: per level, whether no two trees share
    a link of it.
    """

    up: tuple[jax.Array, ...]
    down: tuple[jax.Array, ...]
    parent: tuple[jax.Array, ...]
    alone: tuple[bool, ...] = static()
    roots: int = static()

    @property
    def entries(self) -> tuple[int, ...]:
        """Entries of every level, and of the roots above the last."""
        return (*(up.shape[1] for up in self.up), self.roots)


class _Levels:
    """Collects levels from the ranks upwards."""

    def __init__(self, no_link: int) -> None:
        self.no_link = no_link
        self.up: list[np.ndarray] = []
        self.down: list[np.ndarray] = []
        self.parent: list[np.ndarray] = []

    def add(self, up: np.ndarray, down: np.ndarray, parent: np.ndarray) -> None:
        self.up.append(up)
        self.down.append(down)
        self.parent.append(parent)

    def add_links(self, up: int, down: int, link: np.ndarray, parent: np.ndarray) -> None:
        """Add a level of switches from the first links of its tiers; link -1 is none."""
        ways = (np.where(link < 0, self.no_link, first + link) for first in (up, down))
        self.add(*ways, parent=parent)

    def tree(self, roots: int) -> Tree:
        alone = tuple(
            _all_differ(up[up != self.no_link]) and _all_differ(down[down != self.no_link])
            for up, down in zip(self.up, self.down, strict=True)
        )
        levels = (
            tuple(jax.numpy.asarray(level, jax.numpy.int32) for level in levels)
            for levels in (self.up, self.down, self.parent)
        )
        return Tree(*levels, alone=alone, roots=roots)


def _all_differ(values: np.ndarray) -> bool:
    return len(np.unique(values)) == values.size


def node_tree(network: Network, group: np.ndarray, lanes: int) -> Tree:
    """Trees of one switch, that of the node; group: (ranks,) int from 0, each inside one node."""
    lane = np.arange(lanes)[:, None] % network.node_ports * network.ranks
    rank = np.arange(network.ranks)
    levels = _Levels(network.no_link)
    levels.add(
        network.tier("node egress").first + lane + rank,
        network.tier("node ingress").first + lane + rank,
        np.broadcast_to(group, (lanes, network.ranks)),
    )
    return levels.tree(int(group.max()) + 1)


def clos_tree(network: Network, group: np.ndarray, lanes: int) -> Tree:
    """Trees over the switches between nodes: ranks, leaves, (pods,) and one top per group.

    Lane c is on port c mod ports. Where links are trunks the tops are taken as one; else every
    group and lane has one top, chosen by the seeded hash that chooses paths.
    """
    fabric = network.fabric
    assert isinstance(fabric, ClosFabric)
    ranks, roots = network.ranks, int(group.max()) + 1
    group = np.broadcast_to(group, (lanes, ranks))
    port = np.arange(lanes)[:, None] % network.ports
    rank = np.arange(ranks)
    out, into = (network.tier(way).first + port * ranks + rank for way in ("egress", "ingress"))
    levels = _Levels(network.no_link)
    if not fabric.first:
        levels.add(out, into, group)
        return levels.tree(roots)
    s = fabric.sizes
    plane = port // fabric.ports_per_plane
    leaf_of_port = np.asarray(fabric.leaf_of_port)
    leaf, leaf_key = _distinct(group * s.leaves + leaf_of_port[port[:, 0]])
    levels.add(out, into, leaf)
    leaf_group, leaf_id = _unpacked(leaf_key, s.leaves)
    pick = _Cables(fabric, leaf_group, np.arange(lanes)[:, None])
    link = pick.leaf_link(plane, leaf_id, leaf_group)
    link = _only_shared(link, leaf_group, leaf_key)
    if not s.cores_per_agg:
        levels.add_links(fabric.first[0], fabric.first[-1], link, leaf_group)
        return levels.tree(roots)
    pods = leaf_group * s.pods + leaf_id // s.leaves_per_pod
    pod, pod_key = _distinct(np.where(leaf_key < 0, -1, pods))
    levels.add_links(fabric.first[0], fabric.first[-1], link, pod)
    pod_group, pod_id = _unpacked(pod_key, s.pods)
    link = _only_shared(pick.pod_link(plane, pod_id, pod_group), pod_group, pod_key)
    levels.add_links(fabric.first[1], fabric.first[2], link, pod_group)
    return levels.tree(roots)


class _Cables:
    """Which cable of a switch leads to the top of each group's tree."""

    def __init__(self, fabric: ClosFabric, group: np.ndarray, lane: np.ndarray) -> None:
        self.fabric, self.lane = fabric, lane
        s = fabric.sizes
        self.tops = s.spines if s.tiers == 2 else s.aggs

    def leaf_link(self, plane: np.ndarray, leaf: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Number of the link of a leaf to its top, within its tier."""
        s = self.fabric.sizes
        switch = plane * s.leaves + leaf
        if self.fabric.load_balancing == "ideal":
            return switch
        top = self._top(group)
        return switch * s.uplinks + self._cable(top, self.tops, s.uplinks, leaf)

    def pod_link(self, plane: np.ndarray, pod: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Number of the link of a pod's aggregation switch to its core, within its tier."""
        s = self.fabric.sizes
        if self.fabric.load_balancing == "ideal":
            return plane * s.pods + pod
        switch = (plane * s.pods + pod) * s.aggs + self._top(group)
        core = np.asarray(choose(self._hash(group, 1), s.cores_per_agg))
        return switch * s.agg_uplinks + self._cable(core, s.cores_per_agg, s.agg_uplinks, pod)

    def _top(self, group: np.ndarray) -> np.ndarray:
        return np.asarray(choose(self._hash(group, 0), self.tops))

    def _hash(self, group: np.ndarray, what: np.ndarray | int) -> jax.Array:
        return pair_hash(
            self.fabric.seed, *(jax.numpy.asarray(x) for x in (group, self.lane, what))
        )

    def _cable(self, top: np.ndarray, tops: int, cables: int, switch: np.ndarray) -> np.ndarray:
        """One of the parallel cables of a switch to `top`: numbers top, top + tops, ..."""
        parallel = (cables - 1 - top) // tops + 1
        return top + tops * np.asarray(choose(self._hash(switch, 2), jax.numpy.asarray(parallel)))


def swarmx_tree(network: Network, group: np.ndarray, lanes: int) -> Tree:
    """The tree over all wafers, with MemoryX as its root; group is one, a lane the only port's."""
    fabric = network.fabric
    assert isinstance(fabric, SwarmX)
    assert lanes == 1
    assert not group.any()
    levels = _Levels(network.no_link)
    for level, count in enumerate((network.ranks, *fabric.switches)):
        member = np.arange(count)[None]
        above = member // fabric.fan_out if level < len(fabric.switches) else 0 * member
        if level == 0:
            ends = (network.tier(way).first + member for way in ("egress", "ingress"))
            levels.add(*ends, parent=above)
        else:
            levels.add_links(fabric.up[level - 1], fabric.down[level - 1], member, above)
    return levels.tree(1)


def fabric_tree(network: Network, group: np.ndarray, lanes: int) -> Tree:
    """Trees over the switches between nodes, by what kind they are; group: (ranks,) int from 0."""
    make = swarmx_tree if isinstance(network.fabric, SwarmX) else clos_tree
    return make(network, group, lanes)


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place of each key among the different ones of its lane, and those, padded with -1."""
    rows = [np.unique(row[row >= 0]) for row in keys]
    most = max(len(row) for row in rows)
    distinct = np.full((len(rows), most), -1)
    index = np.zeros(keys.shape, int)
    for lane, row in enumerate(rows):
        distinct[lane, : len(row)] = row
        index[lane] = np.searchsorted(row, np.maximum(keys[lane], 0))
    return np.minimum(index, most - 1), distinct


def _unpacked(key: np.ndarray, parts: int) -> tuple[np.ndarray, np.ndarray]:
    group, part = np.divmod(np.maximum(key, 0), parts)
    return group, part


def _only_shared(link: np.ndarray, group: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The links of switches whose group has another switch of that level; -1: the rest."""
    needed = np.zeros(key.shape, bool)
    for lane in range(len(key)):
        members = np.bincount(group[lane][key[lane] >= 0], minlength=int(group.max()) + 1)
        needed[lane] = members[group[lane]] > 1
    return np.where(needed & (key >= 0), link, -1)
