"""Say what a network is: one frozen struct per kind, checked when it is made.

Sizes of the topology itself (does a tree of this radix hold so many ranks) are checked where
the network is built.
"""

from mrcjax.spec.network.base import Network
from mrcjax.spec.network.dgx import Dgx, NodeRails
from mrcjax.spec.network.dragonfly import Dragonfly
from mrcjax.spec.network.fat_tree import FatTree
from mrcjax.spec.network.nvl import Nvl
from mrcjax.spec.network.rail_only import RailOnly
from mrcjax.spec.network.rails import FlatRails, MrcPlanes
from mrcjax.spec.network.wafer import Wafer

__all__ = [
    "NETWORK_KINDS",
    "AnyNetwork",
    "Dgx",
    "Dragonfly",
    "FatTree",
    "FlatRails",
    "MrcPlanes",
    "Network",
    "NodeRails",
    "Nvl",
    "RailOnly",
    "Wafer",
]

AnyNetwork = FlatRails | MrcPlanes | FatTree | Dragonfly | Dgx | RailOnly | Nvl | Wafer
# in the order in which a reader should meet them
NETWORK_KINDS: dict[str, type[Network]] = {
    "flat_rails": FlatRails,
    "mrc_planes": MrcPlanes,
    "fat_tree": FatTree,
    "dragonfly": Dragonfly,
    "dgx": Dgx,
    "rail_only": RailOnly,
    "nvl": Nvl,
    "wafer": Wafer,
}
