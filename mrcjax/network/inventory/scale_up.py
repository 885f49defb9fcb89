"""What networks of GPU nodes are built of: rails over DGX nodes, and NVLink domains."""

from dataclasses import replace

from mrcjax import hardware
from mrcjax.network import nvl
from mrcjax.network.inventory import clos
from mrcjax.network.inventory.bill import Inventory
from mrcjax.network.inventory.clos import TIER_WORDS
from mrcjax.network.inventory.pricing import Fabric, priced, smallest_switch
from mrcjax.network.node_rails import rail_sizes
from mrcjax.spec import NodeRails, Nvl

SERVERS = "scale-up switches are counted and not priced: they come with the servers"


def rails_bill(spec: NodeRails) -> Inventory:
    """List the leaves of every rail, what joins them, and the switches inside the nodes."""
    rate = spec.port_rates[0]
    size = rail_sizes(spec)
    part = smallest_switch(spec, spec.radix, rate)
    tree = f"{TIER_WORDS[len(size.switches)]} Clos"
    words = f"rail-optimised {tree}" if spec.joined else f"{tree} per rail, rails apart"
    fabric = Fabric(rate, size.trees, part, words, size.switches, spec.ranks, size.switch_cables)
    return _with_domains(priced(spec, [fabric]), spec, spec.nodes, spec.node_size)


def nvl_bill(spec: Nvl) -> Inventory:
    """List the scale-up switches of every domain and the tree between domains."""
    domain = min(spec.node_size, spec.ranks)
    if spec.ports:
        bill = clos.bill(spec)
    else:
        bill = Inventory(
            kind=spec.kind,
            ranks=spec.ranks,
            realisation="one scale-up domain",
            host_cables=0,
            nic_link_ends=0,
            watts={"switches": 0.0, "modules": 0.0, "nics": 0.0},
            usd={"switches": 0.0, "optics_and_cables": 0.0, "nics": 0.0},
        )
    bill = _with_domains(bill, spec, spec.nodes, domain)
    tiers = spec.domain_tiers
    if tiers == 1:
        return bill
    what_if = (
        f"no domain of {domain} ranks is sold: each of its planes is taken as a non-blocking tree "
        f"of {tiers} tiers of such switches"
    )
    return replace(bill, notes=(*bill.notes, what_if))


def _with_domains(bill: Inventory, spec: NodeRails | Nvl, domains: int, ranks: int) -> Inventory:
    """Add the scale-up switches; a partly filled domain has all of its own."""
    part = hardware.scale_up_switch(spec.scale_up_switch)
    count = domains * nvl.domain_switches(ranks, part)
    return replace(
        bill,
        scale_up_switches=count,
        scale_up_part=part.name,
        scale_up_watts=count * part.watts,
        notes=(*bill.notes, SERVERS),
    )
