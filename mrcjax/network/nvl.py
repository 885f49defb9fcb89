"""Scale-up domains on planes of NVSwitch, several of them joined by a fat tree."""

from mrcjax import hardware
from mrcjax.network import clos, sizes
from mrcjax.network.flat_rails import Crossbar
from mrcjax.network.links import Wiring
from mrcjax.network.ports import switched
from mrcjax.spec import Nvl


def build(spec: Nvl) -> Wiring:
    """Wire one domain, or domains and the tree between them."""
    if spec.ports:
        return clos.build(spec)
    return switched(spec, "nic", lambda builder: (Crossbar(), 0), lambda wiring: ())


def domain_switches(ranks: int, part: hardware.ScaleUpSwitch) -> int:
    """Scale-up switches of one domain: its planes, each one switch or a non-blocking tree."""
    if ranks <= part.radix:
        return part.planes
    tiers = 2 if ranks <= part.radix**2 // 2 else 3
    tree = sizes.clos(
        where="network",
        ranks=ranks,
        tiers=tiers,
        planes=part.planes,
        ports_per_plane=1,
        radix=part.radix,
        oversubscription=(1.0, 1.0),
    )
    return sum(tree.switches.values())


def bisection_bytes_per_s(spec: Nvl) -> float:
    """What half of the ranks can send to the other, bytes/s in one direction.

    One domain: ranks / 2 at the scale-up rate. Several: the halves are whole domains, joined by
    the tree alone; ranks / 2 at the adapters' rate over the oversubscription that is crossed.
    """
    if not spec.ports:
        return spec.ranks / 2 * (spec.node_bytes_per_s or 0.0)
    size = clos.clos_sizes(spec)
    above = 1.0
    if size.leaves > 1:
        above = spec.oversubscriptions[0]
        above *= spec.oversubscriptions[1] if size.cores_per_agg else 1.0
    return spec.ranks / 2 * spec.port_rates[0] * spec.nics * spec.goodput / above
