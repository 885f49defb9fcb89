"""Say what a network is: one frozen struct per kind, checked when it is made.

Sizes of the topology itself (does a tree of this radix hold so many ranks) are checked where
the network is built.
"""

from mrcjax.spec.network.base import Network
from mrcjax.spec.network.dgx import Dgx, NodeRails
from mrcjax.spec.network.dragonfly import Dragonfly
from mrcjax.spec.network.fat_tree import FatTree
from mrcjax.spec.network.graph import Graph, GraphLink, node_name, rank_of
from mrcjax.spec.network.hyperx import HyperX
from mrcjax.spec.network.jellyfish import Jellyfish
from mrcjax.spec.network.nvl import Nvl
from mrcjax.spec.network.rail_only import RailOnly
from mrcjax.spec.network.rails import FlatRails, MrcPlanes
from mrcjax.spec.network.slim_fly import SlimFly
from mrcjax.spec.network.torus import Grid, Mesh, Torus
from mrcjax.spec.network.wafer import Wafer

__all__ = [
    "NETWORK_KINDS",
    "AnyNetwork",
    "Dgx",
    "Dragonfly",
    "FatTree",
    "FlatRails",
    "Graph",
    "GraphLink",
    "Grid",
    "HyperX",
    "Jellyfish",
    "Mesh",
    "MrcPlanes",
    "Network",
    "NodeRails",
    "Nvl",
    "RailOnly",
    "SlimFly",
    "Torus",
    "Wafer",
    "node_name",
    "rank_of",
]

AnyNetwork = (
    FlatRails
    | MrcPlanes
    | FatTree
    | Dragonfly
    | SlimFly
    | HyperX
    | Jellyfish
    | Torus
    | Mesh
    | Dgx
    | RailOnly
    | Nvl
    | Wafer
    | Graph
)
# in the order in which a reader should meet them
NETWORK_KINDS: dict[str, type[Network]] = {
    "flat_rails": FlatRails,
    "mrc_planes": MrcPlanes,
    "fat_tree": FatTree,
    "dragonfly": Dragonfly,
    "torus": Torus,
    "mesh": Mesh,
    "dgx": Dgx,
    "rail_only": RailOnly,
    "nvl": Nvl,
    "wafer": Wafer,
    "graph": Graph,
    "slim_fly": SlimFly,
    "hyperx": HyperX,
    "jellyfish": Jellyfish,
}
