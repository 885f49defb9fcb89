"""Turn the spec of a network into its bill of materials: switches, cables, modules, watts, dollars.

The scale-up fabric inside nodes (NVSwitch) is the same for all networks that hang on it and is
left out; so are management and storage networks.
"""

from collections.abc import Callable
from typing import Any

from mrcjax.network.inventory import clos, dragonfly, rails, switch_graph
from mrcjax.network.inventory.bill import Inventory
from mrcjax.spec import (
    Dragonfly,
    FatTree,
    FlatRails,
    HyperX,
    Jellyfish,
    MrcPlanes,
    Network,
    SlimFly,
)

__all__ = ["Inventory", "inventory"]

_BILL: dict[type, Callable[[Any], Inventory]] = {
    FlatRails: rails.bill,
    MrcPlanes: clos.bill,
    FatTree: clos.bill,
    Dragonfly: dragonfly.bill,
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
