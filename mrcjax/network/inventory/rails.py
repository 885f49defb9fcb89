"""What flat rails are built of: crossbars, a Clos per rail, passive planes, or direct cables."""

import math
from collections import Counter

from mrcjax import hardware
from mrcjax.network import sizes
from mrcjax.network.inventory.bill import Inventory
from mrcjax.network.inventory.clos import TIER_WORDS, clos_fabric
from mrcjax.network.inventory.pricing import Fabric, named_switch, priced
from mrcjax.spec import FlatRails, SpecError
from mrcjax.units import format_rate


def bill(spec: FlatRails) -> Inventory:
    """List what flat rails are built of."""
    if spec.reach != "all":
        return _direct(spec, spec.reach)
    if spec.plane == "optical":
        return _passive(spec)
    # rails of equal rate are alike
    rails_of_rate = Counter(spec.port_rates)
    return priced(spec, [_rails(spec, rate, n) for rate, n in rails_of_rate.items()])


def _rails(spec: FlatRails, rate_bytes_per_s: float, rails: int) -> Fabric:
    """Build non-blocking planes: a crossbar where a switch has the ports, else a Clos."""
    rate = rate_bytes_per_s
    parts = _candidates(spec, rate)
    for part in parts:
        if part.radix(rate) >= spec.ranks:
            words = f"one {part.radix(rate)}-port crossbar per rail"
            return Fabric(rate, rails, part, words, {"crossbar": rails}, rails * spec.ranks, 0)
    # the largest radix keeps the tree lowest; of equal ones the smallest switch comes first
    best = max(parts, key=lambda part: part.radix(rate))
    radix = best.radix(rate)
    clos = _lowest_clos(spec, rails, radix)
    words = f"{TIER_WORDS[len(clos.switches)]} Clos per rail"
    if clos.tiers == 2:
        words += " (which is mrc_planes)"
    return clos_fabric(clos, rate, best, words)


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
        return [named_switch(spec.switch, 1, rate_bytes_per_s)]
    parts = [s for s in hardware.switches().values() if s.radix(rate_bytes_per_s) > 1]
    if not parts:
        raise SpecError(
            f"of {format_rate(rate_bytes_per_s)} is faster than any switch port of the catalogue",
            where="network.rail_rate",
            remedy='use more, slower rails, or plane = "optical" for a passive what-if',
        )
    return parts


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
