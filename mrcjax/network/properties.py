"""What a network is like: its size, the narrowest halving, and the longest way through it."""

from dataclasses import dataclass
from typing import Any

from mrcjax.network.bisection import FORMULA_KINDS, Bisection, bisection
from mrcjax.network.inventory import Inventory
from mrcjax.network.links import Wiring
from mrcjax.network.switch_graph import SwitchGraph
from mrcjax.spec import AnyNetwork, Dragonfly, FatTree, FlatRails, MrcPlanes


@dataclass(frozen=True)
class NetworkProperties:
    """What `mrcjax show network` prints, with the bill of materials.

    links: physical ones, one direction each. tiers: (name, emulated links, slowest and fastest
    of them in bytes/s). bisection: None where the kind has no formula. most_switches: on the
    longest of the ways that packets take; None where it is not known. injection_bytes_per_s: of a
    rank, one direction, before goodput.
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
            "watts": bill.watts_with_nics,
            "usd": bill.usd_with_nics,
        }


def properties(spec: AnyNetwork, wiring: Wiring, inventory: Inventory) -> NetworkProperties:
    """Describe a built network; raises SpecError where its bisection cannot be worked out."""
    tiers = []
    for tier in wiring.network.tiers:
        rates = wiring.capacity_bytes_per_s[tier.first : tier.first + tier.count]
        tiers.append((tier.name, tier.count, float(rates.min()), float(rates.max())))
    return NetworkProperties(
        kind=spec.kind,
        ranks=spec.ranks,
        nodes=spec.ranks // spec.node_size,
        links=wiring.num_physical_links,
        tiers=tuple(tiers),
        injection_bytes_per_s=sum(spec.port_rates),
        bisection=bisection(spec) if spec.kind in FORMULA_KINDS else None,
        most_switches=_most_switches(spec, wiring, inventory),
        inventory=inventory,
    )


def _most_switches(spec: AnyNetwork, wiring: Wiring, inventory: Inventory) -> int | None:
    fabric = wiring.network.fabric
    if isinstance(fabric, SwitchGraph):
        return fabric.hops + 1
    if isinstance(spec, FatTree | MrcPlanes | FlatRails):
        # up to the top tier and down again; direct wiring and passive planes have no switch
        return max(2 * len(inventory.switches_by_tier) - 1, 0)
    if isinstance(spec, Dragonfly):
        in_group = min(spec.routers_per_group, 2)
        groups = 1 if spec.groups == 1 else 2 if spec.routing == "minimal" else 3
        return groups * in_group
    return None
