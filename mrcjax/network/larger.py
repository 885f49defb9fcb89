"""A network laid into a larger one of its kind: the same ways, over links of other numbers.

Links come in rows: of each port a link per rank, of each plane a link per cable. The smaller
network has the first links of each row of the larger one.
"""

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from mrcjax.network.clos import ClosFabric
from mrcjax.network.flat_rails import Crossbar
from mrcjax.network.links import LinkTier, Network


def kin(network: Network) -> Hashable | None:
    """What networks share of which any can be laid into a larger one; None = it goes into none."""
    fabric = network.fabric
    through_nodes = bool(network.reroute or network.rails)
    if through_nodes and network.ranks % network.node_size:
        return None  # who is missing in the last node would be looked for
    if type(fabric) is Crossbar:
        of_fabric: Hashable = "crossbar"
    elif isinstance(fabric, ClosFabric):
        of_fabric = fabric.kin
    else:
        return None
    node_size = "all" if network.node_size >= network.ranks else network.node_size
    tiers = tuple((tier.name, tier.sharing) for tier in network.tiers)
    ports = network.ports, network.node_ports
    ways = network.rails, network.reroute, network.lossy
    return network.kind, ports, node_size, tiers, ways, of_fabric


def laid_into(network: Network, larger: Network) -> tuple[Network, np.ndarray]:
    """Lay a network into a larger one of its kin.

    Returns it with the ranks and the links of the larger one, and where each link now is, (links,)
    int. What a rank that is not there would send, is not known.
    """
    fabric = network.fabric
    if isinstance(fabric, ClosFabric):
        assert isinstance(larger.fabric, ClosFabric)
        fabric = fabric.laid_into(larger.fabric)
    places = [
        there.first + _place_in_rows(here, there, _rows(network, here))
        for here, there in zip(network.tiers, larger.tiers, strict=True)
    ]
    laid = replace(larger, fabric=fabric)
    return laid, np.concatenate(places) if places else np.zeros(0, int)


def _rows(network: Network, tier: LinkTier) -> int:
    """Into how many equal rows the links of a tier fall."""
    if tier.name in ("egress", "ingress"):
        return network.ports
    if tier.name.startswith("node"):
        return network.node_ports
    assert isinstance(network.fabric, ClosFabric)
    return network.fabric.sizes.planes


def _place_in_rows(here: LinkTier, there: LinkTier, rows: int) -> np.ndarray:
    first = np.arange(rows)[:, None] * (there.count // rows)
    return (first + np.arange(here.count // rows)).reshape(-1)
