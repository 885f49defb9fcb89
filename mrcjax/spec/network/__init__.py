"""Say what a network is: one frozen struct per kind, checked when it is made.

Sizes of the topology itself (does a tree of this radix hold so many ranks) are checked where
the network is built.
"""

from mrcjax.spec.network.base import Network
from mrcjax.spec.network.dragonfly import Dragonfly
from mrcjax.spec.network.fat_tree import FatTree
from mrcjax.spec.network.graph import Graph, GraphLink, node_name, rank_of
from mrcjax.spec.network.rails import FlatRails, MrcPlanes

__all__ = [
    "NETWORK_KINDS",
    "AnyNetwork",
    "Dragonfly",
    "FatTree",
    "FlatRails",
    "Graph",
    "GraphLink",
    "MrcPlanes",
    "Network",
    "node_name",
    "rank_of",
]

AnyNetwork = FlatRails | MrcPlanes | FatTree | Dragonfly | Graph
# in the order in which a reader should meet them
NETWORK_KINDS: dict[str, type[Network]] = {
    "flat_rails": FlatRails,
    "mrc_planes": MrcPlanes,
    "fat_tree": FatTree,
    "dragonfly": Dragonfly,
    "graph": Graph,
}
