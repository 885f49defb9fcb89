"""From a `[network]` section to links, their numbers, and the function that routes over them."""

from collections.abc import Callable
from typing import Any

from mrcjax.network import (
    clos,
    dragonfly,
    flat_rails,
    graph,
    hyperx,
    jellyfish,
    node_rails,
    nvl,
    slim_fly,
    torus,
    wafer,
)
from mrcjax.network.clos import clos_sizes
from mrcjax.network.dragonfly import dragonfly_sizes
from mrcjax.network.graph import refuse_unroutable
from mrcjax.network.links import LinkTier, Network, Wiring
from mrcjax.spec import (
    AnyNetwork,
    Dgx,
    Dragonfly,
    FatTree,
    FlatRails,
    Graph,
    HyperX,
    Jellyfish,
    Mesh,
    MrcPlanes,
    Nvl,
    RailOnly,
    SlimFly,
    SpecError,
    Torus,
    Wafer,
)

__all__ = [
    "LinkTier",
    "Network",
    "Wiring",
    "build",
    "clos_sizes",
    "dragonfly_sizes",
    "refuse_unroutable",
]

MAX_LINKS = 2**31 - 2  # int32 indices, and one for no link

_BUILD: dict[type, Callable[[Any], Wiring]] = {
    FlatRails: flat_rails.build,
    MrcPlanes: clos.build,
    FatTree: clos.build,
    Dragonfly: dragonfly.build,
    Torus: torus.build,
    Mesh: torus.build,
    Dgx: node_rails.build,
    RailOnly: node_rails.build,
    Nvl: nvl.build,
    Wafer: wafer.build,
    Graph: graph.build,
    SlimFly: slim_fly.build,
    HyperX: hyperx.build,
    Jellyfish: jellyfish.build,
}


def build(spec: AnyNetwork) -> Wiring:
    """Lay out every link of the network; raises SpecError where the ranks do not fit."""
    if 2 * spec.ranks * spec.ports > MAX_LINKS:
        raise SpecError(
            f"with {spec.ports} ports each makes more than {MAX_LINKS:,} links",
            where="network.ranks",
            value=spec.ranks,
            remedy="use fewer ranks or fewer ports",
        )
    return _BUILD[type(spec)](spec)
