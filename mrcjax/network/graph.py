"""Any network from a list of links, routed by tables of shortest paths."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.network.flat_rails import Crossbar
from mrcjax.network.graph_links import Links, cuts_of, links_of
from mrcjax.network.links import Network, TierBuilder, Wiring
from mrcjax.network.route import choose, mix, pair_hash
from mrcjax.network.shortest_paths import costs_of, groups_of, num_paths_of, unit_of
from mrcjax.pytree import pytree, static
from mrcjax.spec import Graph, SpecError

MOST_ENTRIES = 2**27  # links or nodes x ranks, of the routing tables while they are made
MOST_HOPS = 64  # each is a step of the compiled program
MOST_PATHS = 64  # shortest paths of a pair with `ideal` balancing


@pytree
class GraphFabric(Crossbar):
    """Routes over the tables of one graph; nodes are ranks first, then switches.

    A rank's own cables are taken lane by lane, like rails: lane c leaves by choice c and, at the
    last switch, enters by choice c. In between `ecmp` takes one choice by hash, `spray` one for
    each of its paths; `ideal` spreads a send evenly over all shortest paths.
    """

    group: jax.Array  # (nodes, ranks) int32, next-hop group of a node towards a rank
    first: jax.Array  # (groups,) int32, place of its first link in `next_link`
    count: jax.Array  # (groups,) int32, links of a group; 0 at the destination and where no way is
    next_link: jax.Array  # (entries,) int32
    tail: jax.Array  # (links,) int32, node that a link leaves
    head: jax.Array  # (links,) int32, node that it enters
    num_paths: jax.Array  # (nodes, ranks) int32, shortest paths with `ideal`; else (1, 1)
    seed: jax.Array  # () uint32
    load_balancing: str = static()
    paths: int = static()  # that a send takes at once
    hops: int = static()  # most links of a route
    most: int = static()  # links of the largest group
    no_link: int = static()

    def path(
        self, src: jax.Array, dst: jax.Array, lane: jax.Array
    ) -> tuple[tuple[jax.Array, ...], jax.Array | None]:
        """Links and shares of sends src -> dst, integer arrays of one shape.

        Returns the link of every hop, of that shape or (paths, *shape), `no_link` behind the last
        one, and the shares (paths, *shape), None where they are equal.
        """
        if self.paths == 1:
            return self._walk(src, dst, lane, jnp.zeros((), jnp.int32)), None
        way = jnp.arange(self.paths, dtype=jnp.int32).reshape(-1, *([1] * src.ndim))
        links = self._walk(src, dst, lane, way)
        if self.load_balancing == "spray":
            return links, None
        number = self.num_paths[src, dst]
        unused = way >= number
        shares = jnp.where(unused, 0.0, 1.0 / jnp.maximum(number, 1))
        return tuple(jnp.where(unused, self.no_link, link) for link in links), shares

    def _walk(self, src, dst, lane, way) -> tuple[jax.Array, ...]:
        shape = jnp.broadcast_shapes(src.shape, way.shape)

        def hop(carry, number):
            here, rest = carry
            group = self.group[here, dst]
            count = self.count[group]
            first = self.first[group]
            if self.load_balancing == "ideal" and self.paths > 1:
                choice, rest = self._by_paths(first, count, dst, rest)
            else:
                own = (here == src) | (self.head[self.next_link[first]] == dst)
                hashed = choose(pair_hash(self.seed, src, dst, lane, way, number), count)
                choice = jnp.where(own, (lane + way) % jnp.maximum(count, 1), hashed)
            link = self.next_link[first + choice]
            link = jnp.where(count == 0, self.no_link, link)
            here = jnp.where(count == 0, here, self.head[jnp.minimum(link, self.no_link - 1)])
            return (here, rest), link

        start = (jnp.broadcast_to(src, shape), jnp.broadcast_to(way, shape))
        start = tuple(x.astype(jnp.int32) for x in start)
        _, links = jax.lax.scan(hop, start, jnp.arange(self.hops, dtype=jnp.int32))
        return tuple(links[h] for h in range(self.hops))

    def _by_paths(self, first, count, dst, rest):
        """The choice in which path number `rest` of the node lies, and its number from there."""

        def look(i, carry):
            choice, rest, is_found = carry
            link = self.next_link[jnp.minimum(first + i, self.next_link.size - 1)]
            behind = self.num_paths[self.head[link], dst]
            here = ~is_found & (i < count) & (rest < behind)
            choice = jnp.where(here, i, choice)
            is_found = is_found | here
            return choice, jnp.where(is_found | (i >= count), rest, rest - behind), is_found

        start = jnp.zeros_like(rest), rest, jnp.zeros(rest.shape, bool)
        choice, rest, _ = jax.lax.fori_loop(0, self.most, look, start)
        return choice, rest


def build(spec: Graph) -> Wiring:
    """Wire a graph and make its routing tables; raises SpecError for one too large."""
    links = links_of(spec)
    size = max(len(links.tail), len(links.nodes)) * links.ranks
    if size > MOST_ENTRIES:
        raise SpecError(
            f"has {len(links.tail):,} links, {len(links.nodes):,} nodes and {links.ranks:,} ranks: "
            f"routing tables take {size:,} entries, and the most is {MOST_ENTRIES:,}",
            where="network.file" if spec.file else "network.links",
            remedy="use fewer ranks, or a built-in network, whose routes need no tables",
        )
    fabric = _fabric(spec, links)
    sharing = "cable" if fabric.paths == 1 else "spray"
    builder = TierBuilder()
    is_from, is_to = links.tail < links.ranks, links.head < links.ranks
    for tier, inside in (
        ("rank to rank", is_from & is_to),
        ("from ranks", is_from & ~is_to),
        ("to ranks", ~is_from & is_to),
        ("between switches", ~is_from & ~is_to),
    ):
        at = np.flatnonzero(inside)
        if len(at):
            builder.add(
                tier,
                len(at),
                sharing,
                links.capacity[at] * spec.goodput,
                links.latency[at],
                lambda i, first=at[0]: links.name[first + i],
                sender=np.where(is_from[at], links.tail[at], -1),
                receiver=np.where(is_to[at], links.head[at], -1),
            )
    network = Network(
        fabric=fabric,
        kind=spec.kind,
        ranks=spec.ranks,
        ports=int(np.bincount(links.tail[is_from], minlength=1).max()) if is_from.any() else 1,
        node_size=1,
        tiers=tuple(builder.tiers),
        by_table=True,
    )
    return builder.wiring(network, len(spec.rows()), lambda wiring: cuts_of(links))


def avoid(spec: Graph, wiring: Wiring, up: np.ndarray) -> Wiring:
    """The same links with routes over those that are up alone; up: (links,) bool."""
    fabric = _fabric(spec, replace(links_of(spec), up=up))
    sharing = "cable" if fabric.paths == 1 else "spray"
    tiers = tuple(replace(tier, sharing=sharing) for tier in wiring.network.tiers)
    return replace(wiring, network=replace(wiring.network, fabric=fabric, tiers=tiers))


def _fabric(spec: Graph, links: Links) -> GraphFabric:
    """Distances, next-hop groups and, with `ideal`, numbers of paths."""
    cost = costs_of(links)
    nodes, ranks = cost.shape
    far = cost[:ranks][np.isfinite(cost[:ranks])]
    hops = int(far.max(initial=0)) // unit_of(links)
    group, first, count, entries = groups_of(links, cost)
    num_paths, paths = np.zeros((1, 1), np.int64), 1
    if spec.load_balancing == "spray" and count.max(initial=0) > 1:
        paths = spec.paths
    elif spec.load_balancing == "ideal":
        num_paths = num_paths_of(links, cost, hops)
        paths = max(int(num_paths[:ranks].max()), 1)
    return GraphFabric(
        group=jnp.asarray(group, jnp.int32),
        first=jnp.asarray(first, jnp.int32),
        count=jnp.asarray(count, jnp.int32),
        next_link=jnp.asarray(entries, jnp.int32),
        tail=jnp.asarray(links.tail, jnp.int32),
        head=jnp.asarray(links.head, jnp.int32),
        num_paths=jnp.asarray(num_paths, jnp.int32),
        seed=mix(spec.seed),
        load_balancing=spec.load_balancing,
        paths=paths,
        hops=max(hops, 1),
        most=int(count.max(initial=1)),
        no_link=len(links.tail),
    )


def refuse_unroutable(
    wiring: Wiring, src: np.ndarray, dst: np.ndarray, *, detours: bool = False
) -> None:
    """Raise SpecError where a graph has no way from one of `src` to the same of `dst`.

    Also where routes are too long, or with `ideal` too many, to be looked up at all. detours:
    whether routes avoid links that are down.
    """
    fabric = wiring.network.fabric
    if not isinstance(fabric, GraphFabric) or not len(src):
        return
    no_way = np.asarray(fabric.count)[np.asarray(fabric.group)[src, dst]] == 0
    lost = np.flatnonzero(no_way & (src != dst))
    if len(lost):
        one, other = int(src[lost[0]]), int(dst[lost[0]])
        more = f", nor between {len(lost) - 1:,} other pairs" if len(lost) > 1 else ""
        raise SpecError(
            f'the graph has no way from "rank {one}" to "rank {other}"{more}'
            + (" beside what is down" if detours else ""),
            remedy="add the links that are missing, or leave these ranks out",
        )
    if fabric.hops > MOST_HOPS:
        raise SpecError(
            f"the graph has two ranks that are {fabric.hops} links apart, and the most is "
            f"{MOST_HOPS}",
            remedy="compile times grow with the length of routes; shorten the longest",
        )
    if fabric.load_balancing == "ideal" and fabric.paths > MOST_PATHS:
        between = np.asarray(fabric.num_paths)[: wiring.network.ranks]
        one, other = np.unravel_index(np.argmax(between), between.shape)
        raise SpecError(
            f'spreads over all shortest paths, and from "rank {one}" to "rank {other}" there are '
            f"{fabric.paths:,}; the most is {MOST_PATHS}",
            where="network.load_balancing",
            value="ideal",
            remedy='use load_balancing = "spray" with for example paths = 16, or "ecmp"',
        )


def least_latency(wiring: Wiring, start: int, latency_s: np.ndarray) -> np.ndarray:
    """Least latency from a rank to every other over whatever path, (ranks,) s.

    latency_s: (links,). Infinite where there is no way.
    """
    fabric = wiring.network.fabric
    assert isinstance(fabric, GraphFabric)
    nodes = fabric.group.shape[0]
    tail, head = np.asarray(fabric.tail), np.asarray(fabric.head)
    least = np.full(nodes, np.inf)
    least[start] = 0.0
    for _ in range(nodes):
        before = least.copy()
        np.minimum.at(least, head, least[tail] + latency_s)
        if (before == least).all():
            break
    return least[: wiring.network.ranks]
