"""SwarmX, a tree of switches over wafers with MemoryX above its top; or one wafer's tiles."""

from dataclasses import replace

import numpy as np

from mrcjax.network import torus
from mrcjax.network.flat_rails import Crossbar
from mrcjax.network.links import TierBuilder, Wiring
from mrcjax.network.ports import switched
from mrcjax.pytree import pytree, static
from mrcjax.spec import Wafer


@pytree
class SwarmX(Crossbar):
    """Level l has `switches[l]` switches; up[l] and down[l] are the first of their links.

    Member i of a level hangs on switch i // fan_out of the next; the last level is one switch,
    whose links lead to MemoryX.
    """

    switches: tuple[int, ...] = static()
    fan_out: int = static()
    up: tuple[int, ...] = static()
    down: tuple[int, ...] = static()


def levels(spec: Wafer) -> tuple[int, ...]:
    """Switches of every level, from the wafers upwards."""
    counts = [-(-spec.ranks // spec.fan_out)]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // spec.fan_out))
    return tuple(counts)


def build(spec: Wafer) -> Wiring:
    """Wire wafers to SwarmX, its switches to each other, and the top to MemoryX; or tiles."""
    if spec.mesh is not None:
        grid = torus.build(spec.mesh)
        return replace(grid, network=replace(grid.network, kind=spec.kind))
    counts = levels(spec)

    def lay_out(builder: TierBuilder) -> tuple[SwarmX, int]:
        first: dict[str, list[int]] = {"up": [], "down": []}
        for level, count in enumerate(counts):
            for way, links in first.items():
                links.append(
                    builder.add(
                        f"swarmx {level} {way}",
                        count,
                        "cable",
                        spec.link_bytes_per_s * spec.goodput,
                        spec.port_latencies[0],
                        lambda i, level=level, way=way: f"swarmx level {level} switch {i} {way}",
                    )
                )
        fabric = SwarmX(
            switches=counts,
            fan_out=spec.fan_out,
            up=tuple(first["up"]),
            down=tuple(first["down"]),
        )
        return fabric, spec.ranks + int(np.sum(counts))

    return switched(spec, "swarmx", lay_out, lambda wiring: ())
