"""The bill of materials of a network: what is counted, and how it is printed."""

import math
from dataclasses import dataclass, field


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
        scale_up_switches: switches inside scale-up domains, where the family is made of them.
        scale_up_part: their catalogue name.
        scale_up_watts: their power; no part of the totals, which compare what is between nodes.
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
    scale_up_switches: int = 0
    scale_up_part: str = ""
    scale_up_watts: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def switches(self) -> int:
        """Switches in all, those inside scale-up domains apart."""
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
        if self.scale_up_switches:
            words = f"{self.scale_up_switches:,} x {self.scale_up_part}"
            rows.insert(3, ("scale-up switches", words))
        kw = [
            ("switches", self.watts.get("switches")),
            ("modules", self.watts.get("modules")),
            ("NICs", self.watts.get("nics")),
            ("total without NICs", self.watts_without_nics),
            ("total with NICs", self.watts_with_nics),
        ]
        if self.scale_up_switches:
            kw.append(("scale-up switches", self.scale_up_watts))
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


def _total(shares: dict[str, float], names: tuple[str, ...]) -> float | None:
    return math.fsum(shares[name] for name in names) if shares else None
