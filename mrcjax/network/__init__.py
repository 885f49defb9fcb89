"""From a `[network]` section to links, their numbers, and the function that routes over them."""

from dataclasses import replace

import numpy as np

from mrcjax.network import sizes
from mrcjax.network.clos import add_clos
from mrcjax.network.dragonfly import add_dragonfly
from mrcjax.network.flat_rails import Crossbar, DirectWiring
from mrcjax.network.links import LinkTier, Network, TierBuilder, Wiring
from mrcjax.spec import AnyNetwork, Dragonfly, FatTree, FlatRails, MrcPlanes, SpecError

__all__ = ["LinkTier", "Network", "Wiring", "build", "clos_sizes", "dragonfly_sizes"]

MAX_LINKS = 2**31 - 2  # int32 indices, and one for no link


def build(spec: AnyNetwork) -> Wiring:
    """Lay out every link of the network; raises SpecError where the ranks do not fit."""
    if 2 * spec.ranks * spec.ports > MAX_LINKS:
        raise SpecError(
            f"with {spec.ports} ports each makes more than {MAX_LINKS:,} links",
            where="network.ranks",
            value=spec.ranks,
            remedy="use fewer ranks or fewer ports",
        )
    builder = TierBuilder()
    if isinstance(spec, FlatRails) and spec.reach != "all":
        reach = (spec.ranks,) if isinstance(spec.reach, str) else spec.reach
        return _build_direct_wiring(spec, reach, builder)
    _add_ports(spec, builder)
    _add_node_ports(spec, builder)
    if isinstance(spec, FlatRails):
        fabric, cables = Crossbar(), spec.ranks * spec.ports
    elif isinstance(spec, Dragonfly):
        size = dragonfly_sizes(spec)
        fabric = add_dragonfly(
            builder,
            size,
            position_of_rank=_positions(spec, 1)[0],
            rate=spec.port_rates[0] * spec.goodput,
            latency_s=float(spec.latency),
            load_balancing=spec.load_balancing,
            paths=spec.paths,
            seed=spec.seed,
        )
        cables = size.host_cables + size.local_cables + size.switch_cables_global
    else:
        size = clos_sizes(spec)
        fabric = add_clos(
            builder,
            size,
            position_of_port=_positions(spec, spec.ports // size.planes),
            ports_per_plane=spec.ports // size.planes,
            rate_of_plane=np.asarray(spec.port_rates[: size.planes]) * spec.goodput,
            latency_s=float(spec.latency),
            load_balancing=spec.load_balancing,
            paths=spec.paths,
            seed=spec.seed,
        )
        cables = size.host_cables + size.switch_cables
    if not isinstance(fabric, Crossbar):
        fabric = replace(fabric, no_link=builder.num_links)
    network = Network(
        fabric=fabric,
        kind=spec.kind,
        ranks=spec.ranks,
        ports=spec.ports,
        node_size=spec.node_size,
        tiers=tuple(builder.tiers),
    )
    if spec.node_size > 1:
        cables += spec.ranks
    return builder.wiring(network, cables)


def clos_sizes(spec: FatTree | MrcPlanes) -> sizes.ClosSizes:
    """Switches and cables of a fat tree or of the planes of MRC."""
    if isinstance(spec, MrcPlanes):
        return sizes.clos(
            where="network",
            ranks=spec.ranks,
            tiers=2,
            planes=spec.planes,
            ports_per_plane=1,
            radix=spec.radix,
            oversubscription=(1.0,),
        )
    return sizes.clos(
        where="network",
        ranks=spec.ranks,
        tiers=spec.tiers,
        planes=1,
        ports_per_plane=spec.nics,
        radix=spec.radix,
        oversubscription=spec.oversubscriptions,
    )


def dragonfly_sizes(spec: Dragonfly) -> sizes.DragonflySizes:
    """Routers and cables of a dragonfly."""
    return sizes.dragonfly(
        where="network",
        ranks=spec.ranks,
        hosts=spec.hosts_per_router,
        routers=spec.routers_per_group,
        global_ports=spec.global_links_per_router,
        groups=spec.groups,
    )


def _port_word(spec: AnyNetwork) -> str:
    return {"flat_rails": "rail", "mrc_planes": "plane"}.get(spec.kind, "nic")


def _add_ports(spec: AnyNetwork, builder: TierBuilder) -> None:
    ranks, word = spec.ranks, _port_word(spec)
    capacity = np.repeat(np.asarray(spec.port_rates) * spec.goodput, ranks)
    latency = np.repeat(np.asarray(spec.port_latencies), ranks)
    for way in ("egress", "ingress"):
        builder.add(
            way,
            spec.ports * ranks,
            "port",
            capacity,
            latency,
            lambda i, way=way: f"rank {i % ranks} {way} {word} {i // ranks}",
        )


def _add_node_ports(spec: AnyNetwork, builder: TierBuilder) -> None:
    """Scale-up ports; goodput belongs to the network's links only, `node_rate` is what it is."""
    rate = spec.node_bytes_per_s
    if spec.node_size == 1 or rate is None:
        return
    for way in ("egress", "ingress"):
        builder.add(
            f"node {way}",
            spec.ranks,
            "port",
            rate,
            float(spec.node_latency),
            lambda i, way=way: f"rank {i} node {way}",
        )


def _positions(spec: AnyNetwork, ports_per_plane: int) -> np.ndarray:
    """Place of every host port in its plane, (ports, ranks).

    "node": a node's ranks (and a rank's ports) side by side; "rail": all first ranks of the
    nodes, then all second ranks, so that a leaf holds one local index.
    """
    rank = np.arange(spec.ranks)
    nic = np.arange(ports_per_plane)[:, None]
    if spec.placement == "rail" and spec.node_size > 1:
        nodes = spec.ranks // spec.node_size
        local, node = rank % spec.node_size, rank // spec.node_size
        place = (nic * spec.node_size + local) * nodes + node
    else:
        place = rank * ports_per_plane + nic
    return np.tile(place, (spec.ports // ports_per_plane, 1))


def _build_direct_wiring(spec: FlatRails, reach: tuple[int, ...], builder: TierBuilder) -> Wiring:
    size = sizes.direct_wiring(where="network", ranks=spec.ranks, reach=reach)
    ranks = spec.ranks
    names = [f"digit {d} to +{o}" for d, g in enumerate(reach) for o in range(1, g)]
    builder.add(
        "egress",
        size.ports * ranks,
        "cable",
        np.repeat(np.asarray(spec.port_rates) * spec.goodput, ranks),
        np.repeat(np.asarray(spec.port_latencies), ranks),
        lambda i: f"rank {i % ranks} egress rail {i // ranks} ({names[i // ranks]})",
    )
    _add_node_ports(spec, builder)
    network = Network(
        fabric=DirectWiring(reach=reach, ranks=ranks),
        kind=spec.kind,
        ranks=ranks,
        ports=size.ports,
        node_size=spec.node_size,
        tiers=tuple(builder.tiers),
        wired=reach,
    )
    return builder.wiring(network, size.cables + (ranks if spec.node_size > 1 else 0))
