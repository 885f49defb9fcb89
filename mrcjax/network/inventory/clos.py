"""What fat trees and the planes of MRC are built of."""

from mrcjax import hardware
from mrcjax.network import sizes
from mrcjax.network.clos import clos_sizes
from mrcjax.network.inventory.bill import Inventory
from mrcjax.network.inventory.pricing import Fabric, priced, smallest_switch
from mrcjax.spec import FatTree, MrcPlanes

# by the number of tiers that hold a switch: few ranks need no spine or core
TIER_WORDS = {1: "one-tier", 2: "two-tier", 3: "three-tier"}


def bill(spec: FatTree | MrcPlanes) -> Inventory:
    """List what a tree or its planes are built of."""
    return priced(spec, [_tree(spec)])


def _tree(spec: FatTree | MrcPlanes) -> Fabric:
    rate = spec.port_rates[0]
    clos = clos_sizes(spec)
    per = " per plane" if isinstance(spec, MrcPlanes) else ""
    words = f"{TIER_WORDS[len(clos.switches)]} Clos{per}"
    return clos_fabric(clos, rate, smallest_switch(spec, spec.radix, rate), words)


def clos_fabric(
    clos: sizes.ClosSizes, rate_bytes_per_s: float, part: hardware.Switch, words: str
) -> Fabric:
    """Count the planes of a Clos built of one part."""
    cables = clos.host_cables, clos.switch_cables
    return Fabric(rate_bytes_per_s, clos.planes, part, words, clos.switches, *cables)
