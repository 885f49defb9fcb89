"""Dragonfly: groups of fully joined routers (Kim, Dally, Scott, Abts, ISCA 2008)."""

import jax.numpy as jnp
import numpy as np

from mrcjax.network import sizes
from mrcjax.network.cuts import Cut, at_links, splits_a_node
from mrcjax.network.dragonfly_routes import IDEAL_PATHS, DragonflyFabric
from mrcjax.network.links import TierBuilder, Wiring
from mrcjax.network.ports import positions, switched
from mrcjax.network.route import mix
from mrcjax.network.sizes import DragonflySizes
from mrcjax.spec import Dragonfly


def add_dragonfly(
    builder: TierBuilder,
    sizes: DragonflySizes,
    *,
    position_of_rank: np.ndarray,
    rate: float,
    latency_s: float,
    load_balancing: str,
    routing: str,
    paths: int,
    seed: int,
) -> DragonflyFabric:
    """Append local and global links to `builder` and return the fabric that routes over them.

    position_of_rank: (ranks,) int, place of a rank (router = place / hosts per router).
    """
    s = sizes
    routers = s.groups * s.routers
    table = _cable_table(s)
    counts = np.asarray(s.global_cables or (0,), np.int64)
    if load_balancing == "ideal":
        local_rate = max(s.routers - 1, 1) * rate
        first = (
            builder.add(
                "local out",
                routers,
                "trunk",
                local_rate,
                latency_s,
                _router_name(s, "local out"),
                cables=max(s.routers - 1, 1),
            ),
            builder.add(
                "global",
                s.groups * max(s.groups - 1, 1),
                "trunk",
                np.tile(np.maximum(counts, 1) * rate, s.groups),
                latency_s,
                lambda i: _pair_name(s, i),
                cables=np.tile(np.maximum(counts, 1), s.groups),
            ),
            builder.add(
                "local in",
                routers,
                "trunk",
                local_rate,
                latency_s,
                _router_name(s, "local in"),
                cables=max(s.routers - 1, 1),
            ),
        )
        if routing != "minimal" and s.routers > 1:
            whole = s.routers * (s.routers - 1) * rate
            through = builder.add(
                "local through",
                s.groups,
                "trunk",
                whole,
                latency_s,
                lambda i: f"group {i} local through trunk",
            )
            first = (*first, through)
    else:
        sharing = "spray" if load_balancing == "spray" else "cable"
        local = builder.add(
            "local",
            max(routers * (s.routers - 1), 1),
            sharing,
            rate,
            latency_s,
            lambda i: _local_name(s, i),
        )
        ports = s.routers * s.global_ports
        far = builder.add(
            "global", s.groups * ports, sharing, rate, latency_s, lambda i: _global_name(s, i)
        )
        first = (local, far, local)
    return DragonflyFabric(
        router_of_rank=jnp.asarray(position_of_rank // s.hosts, jnp.int32),
        port_of_cable=jnp.asarray(table, jnp.int32),
        num_cables=jnp.asarray(counts, jnp.int32),
        seed=mix(seed),
        sizes=sizes,
        load_balancing=load_balancing,
        routing=routing,
        paths=_num_paths(s, load_balancing, routing, paths),
        first=first,
        no_link=-1,  # known once all tiers are there; set by the caller
    )


def _num_paths(s: DragonflySizes, load_balancing: str, routing: str, paths: int) -> int:
    if load_balancing == "ideal" and routing != "minimal":
        return IDEAL_PATHS if routing == "ugal" else min(s.groups - 2, IDEAL_PATHS)
    return paths if load_balancing == "spray" else 1


def _cable_table(s: DragonflySizes) -> np.ndarray:
    """Global port of cable t to group offset o: ports are dealt to the offsets in turn.

    Dealing in turn spreads the parallel cables of a pair over the routers of a group.
    """
    if s.groups == 1:
        return np.zeros((1, 1), np.int64)
    table = np.zeros((s.groups - 1, max(max(s.global_cables), 1)), np.int64)
    port = 0
    for t in range(max(s.global_cables)):
        for o, count in enumerate(s.global_cables):
            if t < count:
                table[o, t] = port
                port += 1
    return table


def _router_name(s: DragonflySizes, what: str):
    return lambda i: f"group {i // s.routers} router {i % s.routers} {what} trunk"


def _pair_name(s: DragonflySizes, i: int) -> str:
    group, offset = divmod(i, max(s.groups - 1, 1))
    return f"group {group} to group {(group + offset + 1) % s.groups} global trunk"


def _local_name(s: DragonflySizes, i: int) -> str:
    router, other = divmod(i, max(s.routers - 1, 1))
    other += other >= router % s.routers
    return f"group {router // s.routers} router {router % s.routers} to router {other}"


def _global_name(s: DragonflySizes, i: int) -> str:
    group, port = divmod(i, s.routers * s.global_ports)
    router, nth = divmod(port, s.global_ports)
    return f"group {group} router {router} global port {nth}"


def build(spec: Dragonfly) -> Wiring:
    """Wire a dragonfly."""
    size = dragonfly_sizes(spec)

    def lay_out(builder: TierBuilder) -> tuple[DragonflyFabric, int]:
        fabric = add_dragonfly(
            builder,
            size,
            position_of_rank=positions(spec, 1)[0],
            rate=spec.port_rates[0] * spec.goodput,
            latency_s=float(spec.latency),
            load_balancing=spec.load_balancing,
            routing=spec.routing,
            paths=spec.paths,
            seed=spec.seed,
        )
        return fabric, size.host_cables + size.local_cables + size.switch_cables_global

    return switched(spec, "nic", lay_out, _cuts)


def dragonfly_graph(s: DragonflySizes) -> np.ndarray:
    """Cables between all routers, (routers, routers) int, group after group."""
    graph = np.kron(np.eye(s.groups, dtype=np.int64), 1 - np.eye(s.routers, dtype=np.int64))
    if s.groups == 1:
        return graph
    table, group = _cable_table(s) // s.global_ports, np.arange(s.groups)
    for offset, count in enumerate(s.global_cables, 1):
        far = (group + offset) % s.groups
        for t in range(count):
            own, other = table[offset - 1, t], table[s.groups - offset - 1, t]
            np.add.at(graph, (group * s.routers + own, far * s.routers + other), 1)
    return graph


def dragonfly_sizes(spec: Dragonfly) -> DragonflySizes:
    """Routers and cables of a dragonfly."""
    return sizes.dragonfly(
        where="network",
        ranks=spec.ranks,
        hosts=spec.hosts_per_router,
        routers=spec.routers_per_group,
        global_ports=spec.global_links_per_router,
        groups=spec.groups,
    )


def _cuts(wiring: Wiring) -> list[Cut]:
    """Groups, where no node spans two of them."""
    network = wiring.network
    fabric = network.fabric
    assert isinstance(fabric, DragonflyFabric)
    s = fabric.sizes
    part = np.asarray(fabric.router_of_rank) // s.routers
    if s.groups == 1 or splits_a_node(part, network.node_size):
        return []
    tier = network.tier("global")
    per_group = tier.count // s.groups
    group = np.repeat(np.arange(s.groups), per_group)
    if fabric.load_balancing == "ideal":
        target = (np.arange(s.groups)[:, None] + np.arange(1, s.groups)) % s.groups
    else:
        # unused ports lead nowhere; counting them only weakens the bound
        target = np.full((s.groups, per_group), -1)
        table, counts = np.asarray(fabric.port_of_cable), np.asarray(fabric.num_cables)
        for offset in range(1, s.groups):
            ports = table[offset - 1, : counts[offset - 1]]
            target[:, ports] = ((np.arange(s.groups) + offset) % s.groups)[:, None]
    out, into = {tier.first: group}, {tier.first: target.reshape(-1)}
    return [at_links("groups", part, network.num_links, out, into)]
