"""What a dragonfly is built of."""

from mrcjax.network.dragonfly import dragonfly_sizes
from mrcjax.network.inventory.bill import Inventory
from mrcjax.network.inventory.pricing import Fabric, priced, smallest_switch
from mrcjax.spec import Dragonfly


def bill(spec: Dragonfly) -> Inventory:
    """List what a dragonfly is built of."""
    return priced(spec, [_routers(spec)])


def _routers(spec: Dragonfly) -> Fabric:
    rate = spec.port_rates[0]
    size = dragonfly_sizes(spec)
    return Fabric(
        rate_bytes_per_s=rate,
        planes=1,
        part=smallest_switch(spec, size.radix, rate),
        realisation=f"dragonfly of {size.radix}-port routers, copper inside groups",
        switches_by_tier=size.switches,
        host_cables=size.host_cables,
        switch_cables_optical=size.switch_cables_global,
        # a group stands within a few metres: its cables are passive copper
        switch_cables_copper=size.local_cables,
    )
