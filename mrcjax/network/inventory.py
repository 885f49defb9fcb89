"""Turn the spec of a network into its bill of materials: switches, cables, modules, watts, dollars.

Every watt and dollar comes from the hardware catalogue. An optical cable has two ends, each a
share of a pluggable module in proportion to its rate. The scale-up fabric inside nodes
(NVSwitch) is the same for all networks and is left out; so are management and storage networks.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from mrcjax import hardware, network
from mrcjax.network import sizes
from mrcjax.spec import Dragonfly, FatTree, FlatRails, MrcPlanes, Network, SpecError
from mrcjax.units import format_rate

# Modules are counted as they are sold: twin-port 800G for switches, single-port 400G for NICs.
SWITCH_MODULE_BYTES_PER_S = 800e9 / 8
NIC_MODULE_BYTES_PER_S = 400e9 / 8

# by the number of tiers that hold a switch: few ranks need no spine or core
_TIER_WORDS = {1: "one-tier", 2: "two-tier", 3: "three-tier"}


@dataclass(frozen=True)
class Inventory:
    """What a network is built of, over all its planes.

    Attributes:
        kind: kind of the network, as in the spec.
        ranks: number of ranks.
        realisation: the hardware taken, in words.
        host_cables: cables with a rank at an end.
        nic_link_ends: optical link ends at ranks.
        switches_by_tier: number of switches, by "leaf", "spine", "router", ...
        switches_by_part: number of switches, by catalogue name.
        switch_cables_copper: passive copper cables between switches.
        switch_cables_optical: optical cables between switches.
        switch_link_ends: optical link ends at switches.
        modules: pluggable modules, one per 800 Gbit/s of ends at switches and one per
            400 Gbit/s of ends at ranks (ends that share a module count as shares).
        nics: network adapters, whole ones; 0 for direct wiring, where none is chosen.
        nic: adapters of one rank, in words; "" when none is counted.
        watts: power of "switches", "modules" (with copper cables) and "nics"; empty when the
            network is counted but not priced.
        usd: price of "switches", "optics_and_cables" and "nics"; empty likewise.
        notes: what a reader of the numbers must know, one sentence each.
    """

    kind: str
    ranks: int
    realisation: str
    host_cables: int
    nic_link_ends: int
    switches_by_tier: dict[str, int] = field(default_factory=dict)
    switches_by_part: dict[str, int] = field(default_factory=dict)
    switch_cables_copper: int = 0
    switch_cables_optical: int = 0
    switch_link_ends: int = 0
    modules: float = 0.0
    nics: int = 0
    nic: str = ""
    watts: dict[str, float] = field(default_factory=dict)
    usd: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def switches(self) -> int:
        """Switches in all."""
        return sum(self.switches_by_tier.values())

    @property
    def switch_cables(self) -> int:
        """Cables between switches, copper and optical."""
        return self.switch_cables_copper + self.switch_cables_optical

    @property
    def cables(self) -> int:
        """Cables in all."""
        return self.host_cables + self.switch_cables

    @property
    def link_ends(self) -> int:
        """Link ends, optical and copper; the inside of a passive plane has none."""
        return self.nic_link_ends + self.switch_link_ends + 2 * self.switch_cables_copper

    @property
    def watts_without_nics(self) -> float | None:
        """Power of switches and modules; None when not priced."""
        return _total(self.watts, ("switches", "modules"))

    @property
    def watts_with_nics(self) -> float | None:
        """Power of switches, modules and adapters; None when not priced."""
        return _total(self.watts, ("switches", "modules", "nics"))

    @property
    def usd_without_nics(self) -> float | None:
        """Price of switches, optics and cables; None when not priced."""
        return _total(self.usd, ("switches", "optics_and_cables"))

    @property
    def usd_with_nics(self) -> float | None:
        """Price of switches, optics, cables and adapters; None when not priced."""
        return _total(self.usd, ("switches", "optics_and_cables", "nics"))

    def rows(self) -> list[tuple[str, str]]:
        """Return label and text of each figure, in the order to print them; "-" is not priced."""
        tiers = " + ".join(f"{n:,} {tier}" for tier, n in self.switches_by_tier.items())
        parts = ", ".join(f"{n:,} x {part}" for part, n in self.switches_by_part.items())
        # what is not priced has no adapters and modules chosen
        modules = f"{round(self.modules):,}" if self.watts else "-"
        nics = f"{self.nics:,}" if self.watts else "-"
        if self.nic:
            nics += f" ({self.nic} per rank)"
        rows = [
            ("hardware", self.realisation),
            ("switches", f"{self.switches:,}" + (f" ({tiers})" if tiers else "")),
            ("switch parts", parts or "none"),
            ("host cables", f"{self.host_cables:,}"),
            ("switch cables, optical", f"{self.switch_cables_optical:,}"),
            ("switch cables, copper", f"{self.switch_cables_copper:,}"),
            ("link ends", f"{self.link_ends:,}"),
            ("modules", modules),
            ("NICs", nics),
        ]
        kw = [
            ("switches", self.watts.get("switches")),
            ("modules", self.watts.get("modules")),
            ("NICs", self.watts.get("nics")),
            ("total without NICs", self.watts_without_nics),
            ("total with NICs", self.watts_with_nics),
        ]
        musd = [
            ("switches", self.usd.get("switches")),
            ("optics and cables", self.usd.get("optics_and_cables")),
            ("NICs", self.usd.get("nics")),
            ("total without NICs", self.usd_without_nics),
            ("total with NICs", self.usd_with_nics),
        ]
        rows += [(f"{name}, kW", "-" if w is None else f"{w / 1e3:,.1f}") for name, w in kw]
        rows += [(f"{name}, M$", "-" if d is None else f"{d / 1e6:,.2f}") for name, d in musd]
        return rows + [("note", note) for note in self.notes]


def inventory(network_spec: Network) -> Inventory:
    """List what the network is built of.

    Raises SpecError where the ranks do not fit, or where no switch of the catalogue has the
    ports that the spec asks for.
    """
    if isinstance(network_spec, FlatRails):
        if network_spec.reach != "all":
            return _direct(network_spec, network_spec.reach)
        if network_spec.plane == "optical":
            return _passive(network_spec)
        # rails of equal rate are alike
        rails_of_rate = Counter(network_spec.port_rates)
        fabrics = [_rails(network_spec, rate, n) for rate, n in rails_of_rate.items()]
        return _priced(network_spec, fabrics)
    if isinstance(network_spec, FatTree | MrcPlanes):
        return _priced(network_spec, [_tree(network_spec)])
    if isinstance(network_spec, Dragonfly):
        return _priced(network_spec, [_dragonfly(network_spec)])
    raise TypeError(f"no inventory for {type(network_spec).__name__}")


@dataclass(frozen=True)
class _Fabric:
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


def _rails(spec: FlatRails, rate_bytes_per_s: float, rails: int) -> _Fabric:
    """Build non-blocking planes: a crossbar where a switch has the ports, else a Clos."""
    rate = rate_bytes_per_s
    parts = _candidates(spec, rate)
    for part in parts:
        if part.radix(rate) >= spec.ranks:
            words = f"one {part.radix(rate)}-port crossbar per rail"
            return _Fabric(rate, rails, part, words, {"crossbar": rails}, rails * spec.ranks, 0)
    # the largest radix keeps the tree lowest; of equal ones the smallest switch comes first
    best = max(parts, key=lambda part: part.radix(rate))
    radix = best.radix(rate)
    clos = _lowest_clos(spec, rails, radix)
    words = f"{_TIER_WORDS[len(clos.switches)]} Clos per rail"
    if clos.tiers == 2:
        words += " (which is mrc_planes)"
    return _clos_fabric(clos, rate, best, words)


def _lowest_clos(spec: FlatRails, rails: int, radix: int) -> sizes.ClosSizes:
    two_tier_ranks = radix * (radix // 2)
    three_tier_ranks = two_tier_ranks * (radix // 2)
    if spec.ranks > three_tier_ranks:
        raise SpecError(
            f"does not fit: three tiers of {radix}-port switches hold {three_tier_ranks} ranks "
            "per rail",
            where="network.ranks",
            value=spec.ranks,
            remedy='use more, slower rails, or plane = "optical" for a passive what-if',
        )
    return sizes.clos(
        where="network",
        ranks=spec.ranks,
        tiers=2 if spec.ranks <= two_tier_ranks else 3,
        planes=rails,
        ports_per_plane=1,
        radix=radix,
        oversubscription=(1.0, 1.0),
    )


def _candidates(spec: FlatRails, rate_bytes_per_s: float) -> list[hardware.Switch]:
    """Return the switches a rail may use, smallest first: the one named, else the catalogue."""
    if spec.switch is not None:
        return [_named_switch(spec.switch, 1, rate_bytes_per_s)]
    parts = [s for s in hardware.switches().values() if s.radix(rate_bytes_per_s) > 1]
    if not parts:
        raise SpecError(
            f"of {format_rate(rate_bytes_per_s)} is faster than any switch port of the catalogue",
            where="network.rail_rate",
            remedy='use more, slower rails, or plane = "optical" for a passive what-if',
        )
    return parts


def _tree(spec: FatTree | MrcPlanes) -> _Fabric:
    rate = spec.port_rates[0]
    clos = network.clos_sizes(spec)
    per = " per plane" if isinstance(spec, MrcPlanes) else ""
    words = f"{_TIER_WORDS[len(clos.switches)]} Clos{per}"
    return _clos_fabric(clos, rate, _switch(spec, spec.radix, rate), words)


def _clos_fabric(
    clos: sizes.ClosSizes, rate_bytes_per_s: float, part: hardware.Switch, words: str
) -> _Fabric:
    cables = clos.host_cables, clos.switch_cables
    return _Fabric(rate_bytes_per_s, clos.planes, part, words, clos.switches, *cables)


def _dragonfly(spec: Dragonfly) -> _Fabric:
    rate = spec.port_rates[0]
    size = network.dragonfly_sizes(spec)
    return _Fabric(
        rate_bytes_per_s=rate,
        planes=1,
        part=_switch(spec, size.radix, rate),
        realisation=f"dragonfly of {size.radix}-port routers, copper inside groups",
        switches_by_tier=size.switches,
        host_cables=size.host_cables,
        switch_cables_optical=size.switch_cables_global,
        # a group stands within a few metres: its cables are passive copper
        switch_cables_copper=size.local_cables,
    )


def _switch(spec: Network, radix: int, rate_bytes_per_s: float) -> hardware.Switch:
    """Return the switch the spec names, else the smallest with ``radix`` ports of this rate."""
    if spec.switch is not None:
        return _named_switch(spec.switch, radix, rate_bytes_per_s)
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


def _named_switch(name: str, radix: int, rate_bytes_per_s: float) -> hardware.Switch:
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


def _priced(spec: Network, fabrics: list[_Fabric]) -> Inventory:
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


def _passive(spec: FlatRails) -> Inventory:
    """List a plane without switches: one powered end per port, and nothing else draws power."""
    optics = hardware.optics()
    ports = spec.ranks * spec.ports
    rate = spec.ranks * math.fsum(spec.port_rates)
    watts = rate * optics.silicon_photonic_j_per_byte
    usd = rate * optics.link_end_usd_per_byte_per_s
    return Inventory(
        kind=spec.kind,
        ranks=spec.ranks,
        realisation="passive optical plane (what-if)",
        host_cables=ports,
        nic_link_ends=ports,
        watts={"switches": 0.0, "modules": watts, "nics": 0.0},
        usd={"switches": 0.0, "optics_and_cables": usd, "nics": 0.0},
        notes=(
            "no such plane is sold: the photonic end points draw the catalogue's energy per bit, "
            "cost what a pluggable link end does and take the place of modules and NICs",
        ),
    )


def _direct(spec: FlatRails, reach: str | tuple[int, ...]) -> Inventory:
    """Count the cables of direct wiring; a full mesh is one group of all ranks."""
    groups = reach if isinstance(reach, tuple) else (spec.ranks,)
    size = sizes.direct_wiring(where="network", ranks=spec.ranks, reach=groups)
    return Inventory(
        kind=spec.kind,
        ranks=spec.ranks,
        realisation=f"direct wiring, {size.ports} links per rank",
        host_cables=size.cables,
        nic_link_ends=2 * size.cables,
        notes=("the cables of direct wiring are counted, not priced",),
    )


def _whole_nics(rate_bytes_per_s: float) -> int:
    """Return the adapters of one rank, of the part that ``hardware.nic_for`` scales."""
    rates = sorted(nic.rate_bytes_per_s for nic in hardware.nics().values())
    # the small shortfall keeps 8 x 100G in one 800G adapter whatever the rounding of the sum
    needed = rate_bytes_per_s * (1 - 1e-9)
    part = next((rate for rate in rates if rate >= needed), rates[-1])
    return math.ceil(needed / part)


def _in_words(fabrics: list[_Fabric]) -> str:
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


def _total(shares: dict[str, float], names: tuple[str, ...]) -> float | None:
    return math.fsum(shares[name] for name in names) if shares else None
