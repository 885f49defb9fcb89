"""Say what a network is: one frozen struct per kind, checked when it is made.

Sizes of the topology itself (does a tree of this radix hold so many ranks) are checked where
the network is built.
"""

from mrcjax.spec.network.base import Network
from mrcjax.spec.network.dragonfly import Dragonfly
from mrcjax.spec.network.fat_tree import FatTree
from mrcjax.spec.network.hyperx import HyperX
from mrcjax.spec.network.jellyfish import Jellyfish
from mrcjax.spec.network.rails import FlatRails, MrcPlanes
from mrcjax.spec.network.slim_fly import SlimFly

__all__ = [
    "NETWORK_KINDS",
    "AnyNetwork",
    "Dragonfly",
    "FatTree",
    "FlatRails",
    "HyperX",
    "Jellyfish",
    "MrcPlanes",
    "Network",
    "SlimFly",
]

AnyNetwork = FlatRails | MrcPlanes | FatTree | Dragonfly | SlimFly | HyperX | Jellyfish
# in the order in which a reader should meet them
NETWORK_KINDS: dict[str, type[Network]] = {
    "flat_rails": FlatRails,
    "mrc_planes": MrcPlanes,
    "fat_tree": FatTree,
    "dragonfly": Dragonfly,
    "slim_fly": SlimFly,
    "hyperx": HyperX,
    "jellyfish": Jellyfish,
}
