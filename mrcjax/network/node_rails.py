"""Rail-optimised networks of GPU nodes: DGX with a spine, and rails alone.

Leaves hold one rail each: local index l of up to `down` nodes, a unit. With a shared spine the
leaves of a unit stand side by side in one tree; else every rail is a tree of its own.
"""

from dataclasses import dataclass, replace

import numpy as np

from mrcjax.network import sizes
from mrcjax.network.clos import ClosFabric, add_clos
from mrcjax.network.cuts import Cut, at_links
from mrcjax.network.links import TierBuilder, Wiring
from mrcjax.network.ports import switched
from mrcjax.network.sizes import ClosSizes
from mrcjax.spec import Dgx, NodeRails, RailOnly, SpecError


@dataclass(frozen=True)
class RailSizes:
    """Leaves of `node_size` rails; `tree` is what one of its `trees` trees is built of.

    leaves_per_rail counts places for leaves: with trees of three tiers whole pods.
    """

    tree: ClosSizes
    trees: int
    node_size: int
    units: int
    leaves_per_rail: int

    @property
    def switches(self) -> dict[str, int]:
        """Switches between nodes by tier, over all trees."""
        return {tier: self.trees * count for tier, count in self.tree.switches.items()}

    @property
    def switch_cables(self) -> int:
        """Cables between switches, over all trees."""
        return self.trees * self.tree.switch_cables

    def leaf(self, local: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Number of the leaf of local index `local` in `unit`."""
        if self.trees == 1:
            return unit * self.node_size + local
        return local * self.leaves_per_rail + unit

    def unit_of_leaf(self) -> np.ndarray:
        """Unit of every leaf, (leaves,) int; the last one also of leaves that hold nobody."""
        if self.trees == 1:
            return np.arange(self.units * self.node_size) // self.node_size
        place = np.arange(self.node_size * self.leaves_per_rail) % self.leaves_per_rail
        return np.minimum(place, self.units - 1)


def rail_sizes(spec: NodeRails) -> RailSizes:
    """Switches and cables between nodes; raises SpecError where the tree cannot hold the nodes."""
    down, _ = sizes.split(spec.radix, spec.oversubscriptions[0], "network")
    units = -(-spec.nodes // down)
    m = spec.node_size
    if spec.joined:
        _check_joined(spec, units, down)
        tree, trees = _tree(spec, units * m * down), 1
        return RailSizes(tree, trees, m, units, units)
    try:
        tree = _tree(spec, spec.nodes)
    except SpecError:
        raise _too_many(spec, _most_hosts(spec, down)) from None
    pods = tree.tiers == 3 and tree.pods > 1
    return RailSizes(tree, m, m, units, tree.pods * tree.leaves_per_pod if pods else tree.leaves)


def _tree(spec: NodeRails, ports: int) -> ClosSizes:
    return sizes.clos(
        where="network",
        ranks=ports,
        tiers=spec.tiers,
        planes=1,
        ports_per_plane=1,
        radix=spec.radix,
        oversubscription=spec.oversubscriptions,
    )


def _most_hosts(spec: NodeRails, down: int) -> int:
    """Hosts that the largest tree of this radix holds."""
    if spec.tiers == 2:
        return spec.radix * down
    return spec.radix * down * sizes.split(spec.radix, spec.oversubscriptions[1], "network")[0]


def _check_joined(spec: NodeRails, units: int, down: int) -> None:
    units_held = _most_hosts(spec, down) // down // spec.node_size
    if units > units_held:
        raise _too_many(spec, units_held * down)


def _too_many(spec: NodeRails, nodes: int) -> SpecError:
    own = 'kind = "rail_only" or spine = "rail" (a tree per rail), ' if spec.joined else ""
    return SpecError(
        f"does not fit: {spec.tiers} tiers of {spec.radix}-port switches hold at most {nodes} "
        f"nodes of {spec.node_size} ranks",
        where="network.ranks",
        value=spec.ranks,
        remedy=f"use ranks <= {nodes * spec.node_size}, {own}a larger radix"
        + (" or tiers = 3" if spec.tiers == 2 else ""),
    )


def build(spec: Dgx | RailOnly) -> Wiring:
    """Wire DGX nodes, or rails alone."""
    size = rail_sizes(spec)
    tree = size.tree
    rank = np.arange(spec.ranks)
    local, node = rank % size.node_size, rank // size.node_size
    leaf = size.leaf(local, node // tree.hosts_per_leaf)
    # One plane of all leaves: no send leaves its rail's tree, and only cables are numbered.
    joined = tree
    if tree.switch_cables:
        ports = len(size.unit_of_leaf()) * tree.hosts_per_leaf
        joined = replace(tree, host_ports=ports, pods=tree.pods * size.trees)

    def lay_out(builder: TierBuilder) -> tuple[ClosFabric, int]:
        fabric = add_clos(
            builder,
            joined,
            position_of_port=(leaf * tree.hosts_per_leaf)[None],
            ports_per_plane=1,
            rate_of_plane=np.asarray(spec.port_rates) * spec.goodput,
            latency_s=float(spec.latency),
            load_balancing=spec.load_balancing,
            paths=spec.paths,
            seed=spec.seed,
        )
        return fabric, spec.ranks + size.switch_cables

    def cuts(wiring: Wiring) -> list[Cut]:
        return _unit_cuts(wiring, size, node // tree.hosts_per_leaf)

    rails = ("joined" if spec.joined else "apart") if spec.relayed else ""
    return switched(spec, "nic", lay_out, cuts, rails=rails)


def _unit_cuts(wiring: Wiring, size: RailSizes, unit: np.ndarray) -> list[Cut]:
    """Units: what leaves the nodes on one set of leaves goes up from those leaves."""
    network = wiring.network
    assert isinstance(network.fabric, ClosFabric)
    if size.units == 1 or not network.fabric.first:
        return []
    up, down = network.tier("leaf up"), network.tier("leaf down")
    of_leaf = size.unit_of_leaf()
    of_link = np.repeat(of_leaf, up.count // len(of_leaf))
    return [at_links("units", unit, network.num_links, {up.first: of_link}, {down.first: of_link})]


def bisection_bytes_per_s(spec: NodeRails) -> float:
    """What one half of the nodes can send to the other, bytes/s in one direction.

    Ports of half the ranks, or the uplinks of half the leaves; (N / 2) b / oversubscription where
    units are full and more than one.
    """
    size = rail_sizes(spec)
    rate = spec.port_rates[0] * spec.goodput
    half = spec.ranks / 2
    if size.units == 1:
        return half * rate
    used = size.units * size.node_size
    above = 1.0
    if size.tree.tiers == 3 and size.tree.cores_per_agg:
        above = spec.oversubscriptions[1]
    return min(half, used / 2 * size.tree.uplinks / above) * rate
