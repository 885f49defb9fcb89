"""Turn the spec of a network into its bill of materials: switches, cables, modules, watts, dollars.

The scale-up fabric inside nodes (NVSwitch) is counted in the families that are made of it (dgx,
rail_only, nvl) and left out of the others and of all totals; management and storage networks are
left out.
"""

from collections.abc import Callable
from typing import Any

from mrcjax.network.inventory import (
    clos,
    dragonfly,
    graph,
    rails,
    scale_up,
    switch_graph,
    torus,
    wafer,
)
from mrcjax.network.inventory.bill import Inventory
from mrcjax.spec import (
    Dgx,
    Dragonfly,
    FatTree,
    FlatRails,
    Graph,
    HyperX,
    Jellyfish,
    Mesh,
    MrcPlanes,
    Network,
    Nvl,
    RailOnly,
    SlimFly,
    Torus,
    Wafer,
)

__all__ = ["Inventory", "inventory"]

_BILL: dict[type, Callable[[Any], Inventory]] = {
    FlatRails: rails.bill,
    MrcPlanes: clos.bill,
    FatTree: clos.bill,
    Dragonfly: dragonfly.bill,
    Torus: torus.bill,
    Mesh: torus.bill,
    Dgx: scale_up.rails_bill,
    RailOnly: scale_up.rails_bill,
    Nvl: scale_up.nvl_bill,
    Wafer: wafer.bill,
    Graph: graph.bill,
    SlimFly: switch_graph.slim_fly_bill,
    HyperX: switch_graph.hyperx_bill,
    Jellyfish: switch_graph.jellyfish_bill,
}


def inventory(network_spec: Network) -> Inventory:
    """List what the network is built of.

    Raises SpecError where the ranks do not fit, or where no switch of the catalogue has the
    ports that the spec asks for.
    """
    return _BILL[type(network_spec)](network_spec)
