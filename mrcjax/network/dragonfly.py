"""Dragonfly with minimal routing (Kim, Dally, Scott, Abts, ISCA 2008)."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.network import sizes
from mrcjax.network.cuts import Cut, at_links, splits_a_node
from mrcjax.network.links import TierBuilder, Wiring
from mrcjax.network.ports import positions, switched
from mrcjax.network.route import choose, mix, pair_hash
from mrcjax.network.sizes import DragonflySizes
from mrcjax.pytree import pytree, static
from mrcjax.spec import Dragonfly


@pytree
class DragonflyFabric:
    """Minimal routes: local link to a gateway, global cable, local link to the target's router.

    With `ideal` balancing the local links of a router act as one trunk (out and in), and the
    parallel cables of a pair of groups as another; else one cable of the pair is taken by hash.
    """

    together: ClassVar[tuple[tuple[int, ...], ...]] = ((0, 2), (1,))

    router_of_rank: jax.Array  # (ranks,) int32
    port_of_cable: jax.Array  # (groups - 1, most cables) int32, global port of cable t to offset o
    num_cables: jax.Array  # (groups - 1,) int32, parallel cables to offset o
    seed: jax.Array  # () uint32
    sizes: DragonflySizes = static()
    load_balancing: str = static()
    paths: int = static()
    first: tuple[int, int, int] = static()  # first link of: local (out), global, local in
    no_link: int = static()

    def inner(
        self, src: jax.Array, dst: jax.Array, port: jax.Array, lane: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Local, global, local; see `Fabric.inner`."""
        s = self.sizes
        from_router, to_router = self.router_of_rank[src], self.router_of_rank[dst]
        from_group, to_group = from_router // s.routers, to_router // s.routers
        local = from_group == to_group
        offset = (to_group - from_group) % s.groups
        if self.load_balancing == "ideal":
            out = jnp.where(from_router != to_router, self.first[0] + from_router, self.no_link)
            across = self.first[1] + from_group * (s.groups - 1) + offset - 1
            into = self.first[2] + to_router
            return (
                out,
                jnp.where(local, self.no_link, across),
                jnp.where(local, self.no_link, into),
            )
        if self.load_balancing == "spray":
            way = jnp.arange(self.paths).reshape(-1, *([1] * src.ndim))
        else:
            way = jnp.zeros((), jnp.int32)
        pair = pair_hash(self.seed, src, dst, lane, way)
        row = jnp.maximum(offset - 1, 0)
        cable = choose(pair, jnp.maximum(self.num_cables[row], 1))
        exit_port = self.port_of_cable[row, cable]
        entry_port = self.port_of_cable[jnp.maximum(s.groups - offset - 1, 0), cable]
        gateway = jnp.where(local, to_router, from_group * s.routers + exit_port // s.global_ports)
        arrival = to_group * s.routers + entry_port // s.global_ports
        ports = s.routers * s.global_ports
        across = jnp.where(local, self.no_link, self.first[1] + from_group * ports + exit_port)
        last = jnp.where(local, self.no_link, self._local(arrival, to_router))
        return self._local(from_router, gateway), across, last

    def crosses(self, src: jax.Array, dst: jax.Array, port: jax.Array) -> jax.Array:
        """Whether the two ranks are on different routers; see `Fabric.crosses`."""
        del port
        return self.router_of_rank[src] != self.router_of_rank[dst]

    def _local(self, router: jax.Array, other: jax.Array) -> jax.Array:
        """The link between two routers of one group; none from a router to itself."""
        a = self.sizes.routers
        mine, theirs = router % a, other % a
        link = self.first[0] + router * (a - 1) + theirs - (theirs > mine)
        return jnp.where(router == other, self.no_link, link)


def add_dragonfly(
    builder: TierBuilder,
    sizes: DragonflySizes,
    *,
    position_of_rank: np.ndarray,
    rate: float,
    latency_s: float,
    load_balancing: str,
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
                "local out", routers, "trunk", local_rate, latency_s, _router_name(s, "local out")
            ),
            builder.add(
                "global",
                s.groups * max(s.groups - 1, 1),
                "trunk",
                np.tile(np.maximum(counts, 1) * rate, s.groups),
                latency_s,
                lambda i: _pair_name(s, i),
            ),
            builder.add(
                "local in", routers, "trunk", local_rate, latency_s, _router_name(s, "local in")
            ),
        )
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
        paths=paths if load_balancing == "spray" else 1,
        first=first,
        no_link=-1,  # known once all tiers are there; set by the caller
    )


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
            paths=spec.paths,
            seed=spec.seed,
        )
        return fabric, size.host_cables + size.local_cables + size.switch_cables_global

    return switched(spec, "nic", lay_out, _cuts)


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
