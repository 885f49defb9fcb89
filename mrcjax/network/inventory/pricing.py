"""Add up the parts of a network at catalogue watts and prices.

Every watt and dollar comes from the hardware catalogue. An optical cable has two ends, each a
share of a pluggable module in proportion to its rate.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mrcjax import hardware
from mrcjax.network.inventory.bill import Inventory
from mrcjax.spec import Network, SpecError
from mrcjax.units import format_rate

# Modules are counted as they are sold: twin-port 800G for switches, single-port 400G for NICs.
SWITCH_MODULE_BYTES_PER_S = 800e9 / 8
NIC_MODULE_BYTES_PER_S = 400e9 / 8


@dataclass(frozen=True)
class Fabric:
    """Planes of one link rate, built from one kind of switch."""

    rate_bytes_per_s: float
    planes: int
    part: hardware.Switch
    realisation: str
    switches_by_tier: dict[str, int]
    host_cables: int
    switch_cables_optical: int
    switch_cables_copper: int = 0

    @property
    def switches(self) -> int:
        return sum(self.switches_by_tier.values())

    @property
    def switch_link_ends(self) -> int:
        return self.host_cables + 2 * self.switch_cables_optical


def smallest_switch(spec: Network, radix: int, rate_bytes_per_s: float) -> hardware.Switch:
    """Return the switch the spec names, else the smallest with ``radix`` ports of this rate."""
    if spec.switch is not None:
        return named_switch(spec.switch, radix, rate_bytes_per_s)
    parts = hardware.switches().values()
    for part in parts:
        if part.radix(rate_bytes_per_s) >= radix:
            return part
    most = max(part.radix(rate_bytes_per_s) for part in parts)
    rate = format_rate(rate_bytes_per_s)
    raise SpecError(
        f"names no switch, and none of the catalogue has {radix} ports of {rate}",
        where="network.switch",
        remedy=f"use at most {most} ports of that rate, or a lower rate",
    )


def named_switch(name: str, radix: int, rate_bytes_per_s: float) -> hardware.Switch:
    """Return the switch of this name, refused where it has too few ports of this rate."""
    part = hardware.switch(name)
    ports = part.radix(rate_bytes_per_s)
    if ports < radix:
        raise SpecError(
            f"has {ports} ports of {format_rate(rate_bytes_per_s)}, but {radix} are needed",
            where="network.switch",
            value=name,
            remedy="name a larger switch, or leave switch out to have it chosen",
        )
    return part


def priced(spec: Network, fabrics: list[Fabric]) -> Inventory:
    """Add up fabrics, and the adapters for a rank's whole rate, at catalogue watts and prices."""
    optics = hardware.optics()
    rank_rate = math.fsum(spec.port_rates)
    nic = hardware.nic_for(rank_rate)
    copper = sum(f.switch_cables_copper for f in fabrics)
    # bytes/s of link ends, on either side
    nic_rate = math.fsum(f.host_cables * f.rate_bytes_per_s for f in fabrics)
    switch_rate = math.fsum(f.switch_link_ends * f.rate_bytes_per_s for f in fabrics)
    return Inventory(
        kind=spec.kind,
        ranks=spec.ranks,
        realisation=_in_words(fabrics),
        switches_by_tier=_summed(f.switches_by_tier for f in fabrics),
        switches_by_part=_summed({f.part.name: f.switches} for f in fabrics),
        host_cables=sum(f.host_cables for f in fabrics),
        switch_cables_copper=copper,
        switch_cables_optical=sum(f.switch_cables_optical for f in fabrics),
        nic_link_ends=sum(f.host_cables for f in fabrics),
        switch_link_ends=sum(f.switch_link_ends for f in fabrics),
        modules=switch_rate / SWITCH_MODULE_BYTES_PER_S + nic_rate / NIC_MODULE_BYTES_PER_S,
        nics=spec.ranks * _whole_nics(rank_rate),
        nic=nic.name,
        watts={
            "switches": math.fsum(f.switches * f.part.watts for f in fabrics),
            "modules": switch_rate * optics.switch_module_j_per_byte
            + nic_rate * optics.nic_module_j_per_byte
            + copper * optics.copper_watts,
            "nics": spec.ranks * nic.watts,
        },
        usd={
            "switches": math.fsum(f.switches * f.part.usd for f in fabrics),
            "optics_and_cables": (switch_rate + nic_rate) * optics.link_end_usd_per_byte_per_s
            + copper * optics.copper_usd,
            "nics": spec.ranks * nic.usd,
        },
    )


def _whole_nics(rate_bytes_per_s: float) -> int:
    """Return the adapters of one rank, of the part that ``hardware.nic_for`` scales."""
    rates = sorted(nic.rate_bytes_per_s for nic in hardware.nics().values())
    # the small shortfall keeps 8 x 100G in one 800G adapter whatever the rounding of the sum
    needed = rate_bytes_per_s * (1 - 1e-9)
    part = next((rate for rate in rates if rate >= needed), rates[-1])
    return math.ceil(needed / part)


def _in_words(fabrics: list[Fabric]) -> str:
    if len(fabrics) == 1:
        return fabrics[0].realisation
    return "; ".join(
        f"{f.planes} x {format_rate(f.rate_bytes_per_s)}: {f.realisation}" for f in fabrics
    )


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
