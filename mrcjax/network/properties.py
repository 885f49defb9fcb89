"""What a network is like: its size, the narrowest halving, and the longest way through it."""

from dataclasses import dataclass
from typing import Any

from mrcjax.network.bisection import FORMULA_KINDS, Bisection, bisection
from mrcjax.network.clos import clos_sizes
from mrcjax.network.graph import GraphFabric
from mrcjax.network.inventory import Inventory
from mrcjax.network.links import Wiring
from mrcjax.network.node_rails import rail_sizes
from mrcjax.network.switch_graph import SwitchGraph
from mrcjax.network.torus import GridFabric, mean_hops
from mrcjax.network.wafer import levels
from mrcjax.spec import (
    AnyNetwork,
    Dragonfly,
    FatTree,
    FlatRails,
    MrcPlanes,
    NodeRails,
    Nvl,
    Wafer,
)


@dataclass(frozen=True)
class NetworkProperties:
    """What `mrcjax show network` prints, with the bill of materials.

    links: physical ones, one direction each. tiers: (name, emulated links, slowest and fastest
    of them in bytes/s). bisection: None where the kind has no formula. most_switches: on the
    longest of the ways that packets take; None where ranks pass packets on, or may in a
    graph. most_links: of the longest way; None where the number of switches says it. mean_links:
    over all pairs of a grid, a rank with itself included. injection_bytes_per_s: of a rank, one
    direction, before goodput; inside its node where it has no other port.
    """

    kind: str
    ranks: int
    nodes: int
    links: int
    tiers: tuple[tuple[str, int, float, float], ...]
    injection_bytes_per_s: float
    bisection: Bisection | None
    most_switches: int | None
    inventory: Inventory
    most_links: int | None = None
    mean_links: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; None where there is no figure."""
        narrow, bill = self.bisection, self.inventory
        return {
            "schema": 1,
            "kind": self.kind,
            "ranks": self.ranks,
            "nodes": self.nodes,
            "switches": dict(bill.switches_by_tier),
            "links": self.links,
            "tiers": [
                {"name": n, "links": c, "slowest_bytes_per_s": low, "fastest_bytes_per_s": high}
                for n, c, low, high in self.tiers
            ],
            "injection_bytes_per_s": self.injection_bytes_per_s,
            "bisection_bytes_per_s": None
            if narrow is None
            else {"at_least": narrow.at_least, "at_most": narrow.at_most, "how": narrow.how},
            "most_switches": self.most_switches,
            "most_links": self.most_links,
            "mean_links": self.mean_links,
            "watts": bill.watts_with_nics,
            "usd": bill.usd_with_nics,
        }


def properties(spec: AnyNetwork, wiring: Wiring, inventory: Inventory) -> NetworkProperties:
    """Describe a built network; raises SpecError where its bisection cannot be worked out."""
    tiers = []
    for tier in wiring.network.tiers:
        rates = wiring.capacity_bytes_per_s[tier.first : tier.first + tier.count]
        tiers.append((tier.name, tier.count, float(rates.min()), float(rates.max())))
    fabric = wiring.network.fabric
    is_grid = isinstance(fabric, GridFabric)
    return NetworkProperties(
        kind=spec.kind,
        ranks=spec.ranks,
        nodes=spec.nodes,
        links=wiring.num_physical_links,
        tiers=tuple(tiers),
        injection_bytes_per_s=sum(spec.port_rates) or spec.node_bytes_per_s or 0.0,
        bisection=bisection(spec) if spec.kind in FORMULA_KINDS else None,
        most_switches=_most_switches(spec, wiring, inventory),
        inventory=inventory,
        most_links=fabric.diameter
        if is_grid
        else fabric.hops
        if isinstance(fabric, GraphFabric)
        else None,
        mean_links=mean_hops(fabric.dims, fabric.wraps) if is_grid else None,
    )


def _most_switches(spec: AnyNetwork, wiring: Wiring, inventory: Inventory) -> int | None:
    fabric = wiring.network.fabric
    if isinstance(fabric, SwitchGraph):
        return fabric.hops + 1
    if isinstance(spec, Nvl):
        between = 2 * len(clos_sizes(spec).switches) - 1 if spec.ports else 0
        return max(between, 2 * spec.domain_tiers - 1)
    if isinstance(spec, NodeRails):
        # what changes rails passes the switches of a node first
        between = 2 * len(rail_sizes(spec).switches) - 1
        return between + spec.relayed if spec.nodes > 1 else 1
    if isinstance(spec, Wafer) and spec.tiles is None:
        return 2 * len(levels(spec)) - 1
    if isinstance(spec, FatTree | MrcPlanes | FlatRails):
        # up to the top tier and down again; direct wiring and passive planes have no switch
        return max(2 * len(inventory.switches_by_tier) - 1, 0)
    if isinstance(spec, Dragonfly):
        in_group = min(spec.routers_per_group, 2)
        groups = 1 if spec.groups == 1 else 2 if spec.routing == "minimal" else 3
        return groups * in_group
    return None
