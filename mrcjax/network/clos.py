"""Folded Clos fabrics: the fat tree of two or three tiers, and the planes of MRC."""

from collections.abc import Hashable
from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.network import sizes
from mrcjax.network.cuts import Cut, at_links, splits_a_node
from mrcjax.network.links import TierBuilder, Wiring
from mrcjax.network.ports import positions, switched
from mrcjax.network.route import choose, materialise, mix, pair_hash
from mrcjax.network.sizes import ClosSizes
from mrcjax.pytree import pytree, static
from mrcjax.spec import FatTree, MrcPlanes

NEXT_WAY = 1 << 20  # far from the number of any lane
Ways = tuple[jax.Array, jax.Array, jax.Array, jax.Array]  # cable number of every hop


@pytree
class ClosFabric:
    """Routes through equal planes of a folded Clos.

    Cable j of a leaf's uplinks ends at spine j mod spines (three tiers: at aggregation switch
    j mod aggs of its pod), so that parallel cables are spread evenly. By "d_mod_k" the place of
    the receiver says which cable is taken (Zahavi, D-Mod-K routing, 2010): at a leaf number place
    mod uplinks, above it place // uplinks mod the uplinks there; cables of these numbers lead down.
    """

    together: ClassVar[tuple[tuple[int, ...], ...]] = ()

    leaf_of_port: jax.Array  # (ports, ranks) int32, leaf within the port's plane
    seed: jax.Array  # () uint32
    sizes: ClosSizes = static()
    ports_per_plane: int = static()
    load_balancing: str = static()  # "ideal" | "ecmp" | "spray" | "d_mod_k"
    paths: int = static()
    first: tuple[int, ...] = static()  # first link of: leaf up, [agg up, agg down,] leaf down
    no_link: int = static()
    place_of_port: jax.Array | None = None  # (ports, ranks) int32, in its plane; "d_mod_k" only

    def inner(
        self, src: jax.Array, dst: jax.Array, port: jax.Array, lane: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Links up and down the tree; see `Fabric.inner`."""
        plane = port // self.ports_per_plane
        leaf_src = self.leaf_of_port[port, src]
        leaf_dst = self.leaf_of_port[port, dst]
        if not self.first:
            return ()
        if self.load_balancing == "ideal":
            return self._trunks(plane, leaf_src, leaf_dst)
        if self.place_of_port is not None:
            # who asks again for a way that is up adds NEXT_WAY to the lane each time
            place = self.place_of_port[port, dst] + lane // NEXT_WAY
            return self._links(plane, leaf_src, leaf_dst, self._ways_by_place(place))
        pair = pair_hash(self.seed, src, dst, lane)
        if self.load_balancing == "spray":
            pair, plane = materialise(pair), jnp.broadcast_to(plane, src.shape)
            leaf_src, leaf_dst = materialise(leaf_src), materialise(leaf_dst)
            way = jnp.arange(self.paths, dtype=jnp.uint32).reshape(-1, *([1] * src.ndim))
            pair = pair_hash(pair, way)
        return self._links(plane, leaf_src, leaf_dst, self._ways_by_hash(pair))

    def crosses(self, src: jax.Array, dst: jax.Array, port: jax.Array) -> jax.Array:
        """Whether the two ports are on different leaves; see `Fabric.crosses`."""
        return self.leaf_of_port[port, src] != self.leaf_of_port[port, dst]

    @property
    def kin(self) -> Hashable:
        """What fabrics share of which any can be laid into a larger one; see `laid_into`."""
        s = self.sizes
        # of equal leaves and pods a larger network has no fewer
        below = (s.hosts_per_leaf, *((s.leaves_per_pod,) if s.cores_per_agg else ()))
        cables = (s.uplinks, s.aggs, s.agg_uplinks, s.cores_per_agg)
        cables = () if self.load_balancing == "ideal" else cables
        # where cables end, a hash must know, and in three tiers whoever goes on from there
        by_place = self.load_balancing == "d_mod_k" and not s.cores_per_agg
        cables = cables if by_place or not cables else (*cables, self._tops)
        ways = self.load_balancing, self.paths, s.planes, self.ports_per_plane
        return (*ways, len(self.first), below, cables)

    def laid_into(self, larger: "ClosFabric") -> "ClosFabric":
        """Give the same ways as links of a larger fabric, and of its arrays' shapes.

        Switches keep their numbers. Ports of ranks beyond its own are on the first leaf.
        """

        def widened(of_port: jax.Array | None) -> np.ndarray | None:
            if of_port is None:
                return None
            more = larger.leaf_of_port.shape[1] - of_port.shape[1]
            return np.pad(np.asarray(of_port), ((0, 0), (0, more)))

        return replace(
            larger,
            leaf_of_port=widened(self.leaf_of_port),
            place_of_port=widened(self.place_of_port),
            seed=self.seed,
        )

    def _trunks(self, plane: jax.Array, leaf_src: jax.Array, leaf_dst: jax.Array):
        s = self.sizes
        up = self.first[0] + plane * s.leaves + leaf_src
        down = self.first[-1] + plane * s.leaves + leaf_dst
        leaves_differ = leaf_src != leaf_dst
        ends = [jnp.where(leaves_differ, up, self.no_link)]
        if s.cores_per_agg:
            pod_src, pod_dst = leaf_src // s.leaves_per_pod, leaf_dst // s.leaves_per_pod
            pods_differ = pod_src != pod_dst
            ends.append(
                jnp.where(pods_differ, self.first[1] + plane * s.pods + pod_src, self.no_link)
            )
            ends.append(
                jnp.where(pods_differ, self.first[2] + plane * s.pods + pod_dst, self.no_link)
            )
        return (*ends, jnp.where(leaves_differ, down, self.no_link))

    def _ways_by_place(self, place: jax.Array) -> Ways:
        s = self.sizes
        cable = place % s.uplinks
        high = place // s.uplinks % max(s.agg_uplinks, 1)
        return cable, high, high, cable

    def _ways_by_hash(self, pair: jax.Array) -> Ways:
        s = self.sizes
        up = choose(pair, s.uplinks)
        top = up % self._tops
        down = top + self._tops * choose(pair_hash(pair, 1), _count(s.uplinks, self._tops, top))
        if not s.cores_per_agg:
            return up, up, down, down
        high_up = choose(pair_hash(pair, 2), s.agg_uplinks)
        core = high_up % s.cores_per_agg
        parallel = _count(s.agg_uplinks, s.cores_per_agg, core)
        high_down = core + s.cores_per_agg * choose(pair_hash(pair, 3), parallel)
        return up, high_up, high_down, down

    @property
    def _tops(self) -> int:
        """Switches that the uplinks of a leaf end at."""
        return self.sizes.spines if self.sizes.tiers == 2 else self.sizes.aggs

    def _links(self, plane, leaf_src: jax.Array, leaf_dst: jax.Array, ways: Ways):
        s = self.sizes
        up_cable, high_up, high_down, down_cable = ways
        top = up_cable % self._tops
        up = self.first[0] + (plane * s.leaves + leaf_src) * s.uplinks + up_cable
        down = self.first[-1] + (plane * s.leaves + leaf_dst) * s.uplinks + down_cable
        leaves_differ = leaf_src != leaf_dst
        hops = [jnp.where(leaves_differ, up, self.no_link)]
        if s.cores_per_agg:
            pod_src, pod_dst = leaf_src // s.leaves_per_pod, leaf_dst // s.leaves_per_pod
            pods_differ = pod_src != pod_dst
            for first, pod, cable in (
                (self.first[1], pod_src, high_up),
                (self.first[2], pod_dst, high_down),
            ):
                agg = (plane * s.pods + pod) * s.aggs + top
                link = first + agg * s.agg_uplinks + cable
                hops.append(jnp.where(pods_differ, link, self.no_link))
        return (*hops, jnp.where(leaves_differ, down, self.no_link))


def _count(cables: int, switches: int, switch: jax.Array) -> jax.Array:
    """How many of `cables` dealt round-robin to `switches` reach `switch`."""
    return (cables - 1 - switch) // switches + 1


def add_clos(
    builder: TierBuilder,
    sizes: ClosSizes,
    *,
    position_of_port: np.ndarray,
    ports_per_plane: int,
    rate_of_plane: np.ndarray,
    latency_s: float,
    load_balancing: str,
    paths: int,
    seed: int,
) -> ClosFabric:
    """Append the links between switches to `builder` and return the fabric that routes over them.

    position_of_port: (ports, ranks) int, place of a host port in its plane (leaf = place / hosts
    per leaf). rate_of_plane: (planes,) bytes/s of one cable.
    """
    tiers = _switch_tiers(sizes, load_balancing)
    first = []
    sharing = {"ideal": "trunk", "spray": "spray"}.get(load_balancing, "cable")
    for name, switches, cables, unit in tiers:
        trunk = load_balancing == "ideal"
        per_plane = switches * (1 if trunk else cables)
        capacity = np.repeat(rate_of_plane * (cables if trunk else 1), per_plane)
        first.append(
            builder.add(
                name,
                sizes.planes * per_plane,
                sharing,
                capacity,
                latency_s,
                _namer(name, unit, switches, cables, trunk, sizes.planes > 1),
                cables=cables if trunk else 1,
            )
        )
    return ClosFabric(
        leaf_of_port=jnp.asarray(position_of_port // sizes.hosts_per_leaf, jnp.int32),
        seed=mix(seed),
        sizes=sizes,
        ports_per_plane=ports_per_plane,
        load_balancing=load_balancing,
        paths=paths if load_balancing == "spray" else 1,
        first=tuple(first),
        no_link=-1,  # known once all tiers are there; set by the caller
        place_of_port=jnp.asarray(position_of_port, jnp.int32)
        if load_balancing == "d_mod_k"
        else None,
    )


def _switch_tiers(s: ClosSizes, load_balancing: str) -> list[tuple[str, int, int, str]]:
    """(tier name, switches per plane, cables of a switch, word for the switch), bottom up."""
    if s.leaves == 1:
        return []
    tiers = [("leaf up", s.leaves, s.uplinks, "leaf"), ("leaf down", s.leaves, s.uplinks, "leaf")]
    if s.cores_per_agg:
        # A trunk joins all aggregation switches of a pod; single cables belong to one of them.
        if load_balancing == "ideal":
            switches, cables, unit = s.pods, s.aggs * s.agg_uplinks, "pod"
        else:
            switches, cables, unit = s.pods * s.aggs, s.agg_uplinks, "aggregation"
        tiers[1:1] = [
            ("aggregation up", switches, cables, unit),
            ("aggregation down", switches, cables, unit),
        ]
    return tiers


def _namer(tier: str, unit: str, switches: int, cables: int, trunk: bool, planes: bool):
    direction = tier.split()[-1]

    def name(i: int) -> str:
        per_plane = switches * (1 if trunk else cables)
        plane, rest = divmod(i, per_plane)
        switch, cable = (rest, None) if trunk else divmod(rest, cables)
        words = f"{unit} {switch} {direction}"
        words += " trunk" if cable is None else f" cable {cable}"
        return f"plane {plane} {words}" if planes else words

    return name


def build(spec: FatTree | MrcPlanes) -> Wiring:
    """Wire a fat tree or the planes of MRC."""
    size = clos_sizes(spec)
    ports_per_plane = spec.ports // size.planes

    def lay_out(builder: TierBuilder) -> tuple[ClosFabric, int]:
        fabric = add_clos(
            builder,
            size,
            position_of_port=positions(spec, ports_per_plane),
            ports_per_plane=ports_per_plane,
            rate_of_plane=np.asarray(spec.port_rates[: size.planes]) * spec.goodput,
            latency_s=float(spec.latency),
            load_balancing=spec.load_balancing,
            paths=spec.paths,
            seed=spec.seed,
        )
        return fabric, size.host_cables + size.switch_cables

    return switched(spec, "plane" if isinstance(spec, MrcPlanes) else "nic", lay_out, _cuts)


def clos_sizes(spec: FatTree | MrcPlanes) -> ClosSizes:
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


def _cuts(wiring: Wiring) -> list[Cut]:
    """Leaves and pods, where all ports and the whole node of a rank are under one of them."""
    network = wiring.network
    fabric = network.fabric
    assert isinstance(fabric, ClosFabric)
    leaf = np.asarray(fabric.leaf_of_port)
    s = fabric.sizes
    if not fabric.first or (leaf != leaf[0]).any():
        return []
    levels = [("leaves", leaf[0], "leaf", s.leaves)]
    if s.cores_per_agg:
        levels.append(("pods", leaf[0] // s.leaves_per_pod, "aggregation", s.pods))
    found = []
    for name, part, tier, parts in levels:
        if splits_a_node(part, network.node_size):
            continue
        up, down = network.tier(f"{tier} up"), network.tier(f"{tier} down")
        part_of_link = np.tile(
            np.repeat(np.arange(parts), up.count // (s.planes * parts)), s.planes
        )
        blocks = {up.first: part_of_link}, {down.first: part_of_link}
        found.append(at_links(name, part, network.num_links, *blocks))
    return found
