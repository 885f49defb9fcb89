"""What networks of equal switches are built of: Slim Fly, HyperX, Jellyfish."""

from mrcjax.network.hyperx import hyperx_sizes
from mrcjax.network.inventory.bill import Inventory
from mrcjax.network.inventory.pricing import Fabric, priced, smallest_switch
from mrcjax.network.jellyfish import jellyfish_sizes
from mrcjax.network.slim_fly import slim_fly_sizes
from mrcjax.network.switch_sizes import SwitchSizes
from mrcjax.spec import HyperX, Jellyfish, SlimFly


def slim_fly_bill(spec: SlimFly) -> Inventory:
    """List what a Slim Fly is built of."""
    return _bill(spec, slim_fly_sizes(spec), "Slim Fly")


def hyperx_bill(spec: HyperX) -> Inventory:
    """List what a HyperX is built of."""
    return _bill(spec, hyperx_sizes(spec), "HyperX")


def jellyfish_bill(spec: Jellyfish) -> Inventory:
    """List what a Jellyfish is built of."""
    return _bill(spec, jellyfish_sizes(spec), "Jellyfish")


def _bill(spec: SlimFly | HyperX | Jellyfish, size: SwitchSizes, word: str) -> Inventory:
    rate = spec.port_rates[0]
    fabric = Fabric(
        rate_bytes_per_s=rate,
        planes=1,
        part=smallest_switch(spec, size.radix, rate),
        realisation=f"{word} of {size.radix}-port switches",
        switches_by_tier=size.switches,
        host_cables=size.host_cables,
        # how far apart switches stand is not said: no cable is taken to be short enough for copper
        switch_cables_optical=size.switch_cables,
    )
    return priced(spec, [fabric])
