"""What joins wafers: the cables of every system, SwarmX and MemoryX; on one wafer nothing else."""

from dataclasses import replace

from mrcjax.network.inventory import torus
from mrcjax.network.inventory.bill import Inventory
from mrcjax.network.wafer import levels
from mrcjax.spec import Wafer


def bill(spec: Wafer) -> Inventory:
    """Count the switches of the tree and its links; a link is all the cables side by side."""
    if spec.mesh is not None:
        x, y = spec.mesh.dims
        return replace(
            torus.bill(spec.mesh),
            kind=spec.kind,
            realisation=f"one wafer, {x} x {y} coarse tiles",
            notes=("what joins tiles is on the wafer: bundles of wires, counted, not priced",),
        )
    counts = levels(spec)
    return Inventory(
        kind=spec.kind,
        ranks=spec.ranks,
        realisation=f"SwarmX tree of fan-out {spec.fan_out} with MemoryX above it",
        switches_by_tier={f"swarmx {level}": count for level, count in enumerate(counts)},
        switches_by_part={"swarmx": sum(counts)},
        host_cables=spec.ranks,
        nic_link_ends=spec.ranks,
        switch_link_ends=spec.ranks + 2 * sum(counts) - 1,
        switch_cables_optical=sum(counts),
        notes=(
            "SwarmX and MemoryX are counted, not priced; a cable stands for a system's whole link, "
            "and one of those between switches leads to MemoryX",
        ),
    )
