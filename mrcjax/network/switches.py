"""Which cables end at each switch of a folded Clos or at each router of a dragonfly."""

import numpy as np

from mrcjax.network.clos import ClosFabric
from mrcjax.network.component import Cables, Components
from mrcjax.network.dragonfly import DragonflyFabric
from mrcjax.network.links import LinkTier, Wiring


def clos_switches(wiring: Wiring, fabric: ClosFabric) -> dict[str, Components]:
    """Leaves and what is above them, by level; spines and cores take cables of many trunks."""
    s = fabric.sizes
    network = wiring.network
    prefix = (lambda plane: f"plane {plane} ") if s.planes > 1 else lambda plane: ""
    leaves = s.planes * s.leaves
    found = {
        "leaf": Components(
            leaves,
            lambda i: f"{prefix(i // s.leaves)}leaf {i % s.leaves}",
            lambda i: _leaf(wiring, fabric, *divmod(i, s.leaves)),
        )
    }
    if not fabric.first:
        return found
    tops = s.spines if s.tiers == 2 else s.aggs

    def uplinks_to(top: int, plane: int, first: int, count: int) -> list[Cables]:
        """The cables of `count` leaves from `first` on that end at top switch `top`."""
        leaf = plane * s.leaves + np.arange(first, first + count)
        return _dealt(
            network.tier("leaf up"), network.tier("leaf down"), leaf, s.uplinks, tops, top
        )

    if not s.cores_per_agg:
        word = "spine" if s.tiers == 2 else "pod 0 aggregation"
        found[word.split()[-1]] = Components(
            s.planes * tops,
            lambda i: f"{prefix(i // tops)}{word} {i % tops}",
            lambda i: _concatenated(uplinks_to(i % tops, i // tops, 0, s.leaves)),
        )
        return found
    up, down = network.tier("aggregation up"), network.tier("aggregation down")
    is_trunk = fabric.load_balancing == "ideal"

    def aggregation(i: int) -> Cables:
        pod_at, agg = divmod(i, s.aggs)
        plane, pod = divmod(pod_at, s.pods)
        own = (
            (np.asarray([up.first, down.first]) + pod_at, np.full(2, s.agg_uplinks))
            if is_trunk
            else _block(up, down, i, s.agg_uplinks)
        )
        first = pod * s.leaves_per_pod
        below = uplinks_to(agg, plane, first, min(s.leaves_per_pod, s.leaves - first))
        return _concatenated([*below, own])

    def core(i: int) -> Cables:
        plane, rest = divmod(i, s.aggs * s.cores_per_agg)
        agg, number = divmod(rest, s.cores_per_agg)
        pods = plane * s.pods + np.arange(s.pods)
        if is_trunk:
            count = len(range(number, s.agg_uplinks, s.cores_per_agg))
            links = np.concatenate([up.first + pods, down.first + pods])
            return links, np.full(len(links), count)
        switches = pods * s.aggs + agg
        return _concatenated(_dealt(up, down, switches, s.agg_uplinks, s.cores_per_agg, number))

    cores = s.aggs * s.cores_per_agg
    pods = s.planes * s.pods
    found["aggregation"] = Components(
        pods * s.aggs,
        lambda i: (
            f"{prefix(i // s.aggs // s.pods)}pod {i // s.aggs % s.pods} aggregation {i % s.aggs}"
        ),
        aggregation,
    )
    found["core"] = Components(
        s.planes * cores, lambda i: f"{prefix(i // cores)}core {i % cores}", core
    )
    return found


def dragonfly_routers(wiring: Wiring, fabric: DragonflyFabric) -> Components:
    """Routers with their ports to ranks, their local cables and their global ones."""
    s = fabric.sizes

    def cables(i: int) -> Cables:
        hosts = np.flatnonzero(np.asarray(fabric.router_of_rank) == i)
        ports = [wiring.network.tier(way).first + hosts for way in ("egress", "ingress")]
        parts = [(links, np.ones(len(links), int)) for links in ports]
        return _concatenated([*parts, *_local(fabric, i), *_global(fabric, i)])

    return Components(
        s.groups * s.routers, lambda i: f"group {i // s.routers} router {i % s.routers}", cables
    )


def _local(fabric: DragonflyFabric, router: int) -> list[Cables]:
    """Cables between a router and the others of its group, both ways."""
    a = fabric.sizes.routers
    group = router // a * a
    others = np.setdiff1d(np.arange(group, group + a), router)
    one = np.ones(a - 1, int)
    if fabric.load_balancing == "ideal":
        ends = fabric.first[0], fabric.first[2]
        own = np.asarray([first + router for first in ends])
        return [(own, np.full(2, a - 1)), *((first + others, one) for first in ends)]
    out = fabric.first[0] + router * (a - 1) + np.arange(a - 1)
    place = router % a - (router % a > others % a)
    return [(out, one), (fabric.first[0] + others * (a - 1) + place, one)]


def _global(fabric: DragonflyFabric, router: int) -> list[Cables]:
    """Cables between a router and other groups, both ways."""
    s = fabric.sizes
    table, counts = np.asarray(fabric.port_of_cable), np.asarray(fabric.num_cables)
    group = router // s.routers
    links = []
    for offset in range(1, s.groups):
        exits = table[offset - 1, : counts[offset - 1]]
        mine = np.flatnonzero(exits // s.global_ports == router % s.routers)
        other, back = (group + offset) % s.groups, s.groups - offset
        if fabric.load_balancing == "ideal":
            pairs = group * (s.groups - 1) + offset - 1, other * (s.groups - 1) + back - 1
            links += [fabric.first[1] + pair for pair in pairs] * len(mine)
            continue
        ports = s.routers * s.global_ports
        links += list(fabric.first[1] + group * ports + exits[mine])
        links += list(fabric.first[1] + other * ports + table[back - 1, mine])
    found, times = np.unique(np.asarray(links, int), return_counts=True)
    return [(found, times)]


def _leaf(wiring: Wiring, fabric: ClosFabric, plane: int, leaf: int) -> Cables:
    """All links of a leaf: to its hosts and up."""
    s, network = fabric.sizes, wiring.network
    first = plane * fabric.ports_per_plane
    of_port = np.asarray(fabric.leaf_of_port)[first : first + fabric.ports_per_plane]
    hosts = np.flatnonzero(of_port.reshape(-1) == leaf) + first * network.ranks
    links = [network.tier(way).first + hosts for way in ("egress", "ingress")]
    if fabric.first:
        up, down = network.tier("leaf up"), network.tier("leaf down")
        per_leaf = up.count // (s.planes * s.leaves)
        links.append(_block(up, down, plane * s.leaves + leaf, per_leaf)[0])
    every = np.concatenate(links)
    return every, wiring.cables[every]


def _block(up: LinkTier, down: LinkTier, switch: int, per_switch: int) -> Cables:
    """The links of one switch in two tiers that list them switch by switch."""
    own = switch * per_switch + np.arange(per_switch)
    links = np.concatenate([up.first + own, down.first + own])
    return links, np.ones(len(links), int)


def _dealt(
    up: LinkTier, down: LinkTier, switches: np.ndarray, cables: int, tops: int, top: int
) -> list[Cables]:
    """Cables of some switches that end at `top`: those whose number is `top` modulo `tops`."""
    mine = np.arange(top, cables, tops)
    if up.sharing == "trunk":
        counts = np.full(len(switches), len(mine))
        return [(tier.first + switches, counts) for tier in (up, down)]
    links = (switches[:, None] * cables + mine).reshape(-1)
    return [(tier.first + links, np.ones(len(links), int)) for tier in (up, down)]


def _concatenated(parts: list[Cables]) -> Cables:
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
