"""What a torus or a mesh is built of: cables between neighbours."""

from mrcjax.network.inventory.bill import Inventory
from mrcjax.spec import Grid


def bill(spec: Grid) -> Inventory:
    """Count the cables of a grid."""
    lines = [
        (size, spec.ranks // size, wraps) for size, wraps in zip(spec.dims, spec.wraps, strict=True)
    ]
    cables = sum(count * (size if wraps else size - 1) for size, count, wraps in lines)
    words = " x ".join(map(str, spec.dims))
    return Inventory(
        kind=spec.kind,
        ranks=spec.ranks,
        realisation=f"direct wiring, {words} {spec.kind}",
        host_cables=cables,
        nic_link_ends=2 * cables,
        notes=("the cables of direct wiring are counted, not priced",),
    )
