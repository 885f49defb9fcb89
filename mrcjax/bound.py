"""Lower bounds on the completion time, valid for any schedule of the collective.

Bandwidth: for a partition of the ranks, contract each part to one. An all-reduce over k parts moves
at least 2 (k - 1) S bytes between them (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69,
2009), and S must leave and enter each part. Partitions: ranks, nodes, leaves, pods, groups,
digits of direct wiring. Latency: some rank's data must reach every other. Bounds are combined by
max, never added.
"""

from dataclasses import dataclass

import numpy as np

from mrcjax.case import Case
from mrcjax.collective.shards import cut
from mrcjax.network.clos import ClosFabric
from mrcjax.network.dragonfly import DragonflyFabric
from mrcjax.network.flat_rails import digit_of_port
from mrcjax.spec import Collective


@dataclass(frozen=True)
class Cut:
    """A partition of the ranks with what can leave and enter each part.

    part: (ranks,) int. out, into: (parts,) bytes/s. What leaves one part enters others, so each
    sum alone bounds the whole traffic.
    """

    name: str
    part: np.ndarray
    out_bytes_per_s: np.ndarray
    into_bytes_per_s: np.ndarray


def lower_bounds(case: Case) -> dict[str, float]:
    """Name of each bound -> seconds; all hold for any schedule of the collective."""
    spec = case.spec.collective
    ranks = case.network.ranks
    late = np.asarray(case.params.late_s, np.float64)
    bounds = {"late": float(late.max())}
    size = ranks if spec.group_size is None else spec.group_size
    if size == 1:
        return bounds
    group = np.arange(ranks) // (size * spec.group_stride) * spec.group_stride + (
        np.arange(ranks) % spec.group_stride
    )
    shard = _shards(spec, ranks, size)
    capacity = np.asarray(case.params.capacity_bytes_per_s, np.float64)
    for each in cuts(case, capacity):
        whole, parts = _cut_bounds(spec.kind, float(spec.size), group, shard, each)
        bounds[f"{each.name} (all)"] = whole
        bounds[f"{each.name} (slowest)"] = parts
    bounds["latency"] = _latency(case, group, late)
    return bounds


def _shards(spec: Collective, ranks: int, size: int) -> np.ndarray:
    position = np.arange(ranks) // spec.group_stride % size
    return np.asarray(cut(0.0, float(spec.size), size, position, spec.element_bytes or 0)[1])


def cuts(case: Case, capacity: np.ndarray) -> list[Cut]:
    """The natural partitions of a network with the capacities across them."""
    network = case.network
    ranks = network.ranks
    everyone = np.arange(ranks)
    out = _per_rank(case, capacity, "egress")
    into = _per_rank_in(case, capacity)
    found = []
    nodes = everyone // network.node_size
    if network.node_size == 1:
        found.append(Cut("ports", everyone, out, into))
    else:
        inside = _per_rank(case, capacity, "node egress"), _per_rank(case, capacity, "node ingress")
        found.append(Cut("ports", everyone, out + inside[0], into + inside[1]))
        if nodes.max() > 0:
            found.append(Cut("nodes", nodes, np.bincount(nodes, out), np.bincount(nodes, into)))
    if network.wired:
        found.extend(_digit_cuts(case, capacity))
    elif isinstance(network.fabric, ClosFabric):
        found.extend(_clos_cuts(case, network.fabric, capacity))
    elif isinstance(network.fabric, DragonflyFabric):
        found.extend(_group_cut(case, network.fabric, capacity))
    return found


def _per_rank(case: Case, capacity: np.ndarray, name: str) -> np.ndarray:
    tier = case.network.tier(name)
    return capacity[tier.first : tier.first + tier.count].reshape(-1, case.network.ranks).sum(0)


def _per_rank_in(case: Case, capacity: np.ndarray) -> np.ndarray:
    if not case.network.wired:
        return _per_rank(case, capacity, "ingress")
    receiver = np.concatenate([r for r, _ in _wired_links(case)])
    tier = case.network.tier("egress")
    return np.bincount(receiver, capacity[: tier.count], case.network.ranks)


def _wired_links(case: Case) -> list[tuple[np.ndarray, int]]:
    """Receiver of every link and its digit, one entry per port, (ranks,) each."""
    links, stride = [], 1
    everyone = np.arange(case.network.ranks)
    for digit, size in enumerate(case.network.wired):
        own = everyone // stride % size
        for offset in range(1, size):
            links.append((everyone + ((own + offset) % size - own) * stride, digit))
        stride *= size
    return links


def _digit_cuts(case: Case, capacity: np.ndarray) -> list[Cut]:
    """Ranks of equal digit d: only links of digit d join the parts."""
    network = case.network
    if network.node_size > 1:
        return []
    found, stride = [], 1
    digit = digit_of_port(network.wired)
    by_port = capacity[: network.tier("egress").count].reshape(-1, network.ranks)
    for d, size in enumerate(network.wired):
        part = np.arange(network.ranks) // stride % size
        rates = by_port[digit == d]
        receivers = [r for r, at in _wired_links(case) if at == d]
        out = np.bincount(part, rates.sum(0))
        into = sum(
            np.bincount(part[r], rate, size) for r, rate in zip(receivers, rates, strict=True)
        )
        found.append(Cut(f"digit {d}", part, out, np.asarray(into)))
        stride *= size
    return found


def _clos_cuts(case: Case, fabric: ClosFabric, capacity: np.ndarray) -> list[Cut]:
    """Leaves and pods, where all ports and the whole node of a rank are under one of them."""
    leaf = np.asarray(fabric.leaf_of_port)
    s = fabric.sizes
    if not fabric.first or (leaf != leaf[0]).any():
        return []
    found = []
    levels = [("leaves", leaf[0], "leaf up", "leaf down", s.leaves)]
    if s.cores_per_agg:
        levels.append(
            ("pods", leaf[0] // s.leaves_per_pod, "aggregation up", "aggregation down", s.pods)
        )
    for name, part, up, down, parts in levels:
        node = part.reshape(-1, case.network.node_size)
        if (node != node[:, :1]).any():
            continue
        out, into = (_per_switch(case, capacity, tier, s.planes, parts) for tier in (up, down))
        found.append(Cut(name, part, out, into))
    return found


def _per_switch(case: Case, capacity: np.ndarray, name: str, planes: int, parts: int) -> np.ndarray:
    """Capacity of a tier summed over planes and over the cables of each leaf or pod, (parts,)."""
    tier = case.network.tier(name)
    links = capacity[tier.first : tier.first + tier.count]
    return links.reshape(planes, parts, -1).sum(axis=(0, 2))


def _group_cut(case: Case, fabric: DragonflyFabric, capacity: np.ndarray) -> list[Cut]:
    s = fabric.sizes
    part = np.asarray(fabric.router_of_rank) // s.routers
    node = part.reshape(-1, case.network.node_size)
    if s.groups == 1 or (node != node[:, :1]).any():
        return []
    tier = case.network.tier("global")
    links = capacity[tier.first : tier.first + tier.count].reshape(s.groups, -1)
    out = links.sum(1)
    if fabric.load_balancing == "ideal":
        target = (np.arange(s.groups)[:, None] + np.arange(1, s.groups)) % s.groups
    else:
        # Unused ports lead nowhere; counting them only weakens the bound.
        target = np.full(links.shape, -1)
        table, counts = np.asarray(fabric.port_of_cable), np.asarray(fabric.num_cables)
        for offset in range(1, s.groups):
            ports = table[offset - 1, : counts[offset - 1]]
            target[:, ports] = ((np.arange(s.groups) + offset) % s.groups)[:, None]
    used = target >= 0
    into = np.bincount(target[used], links[used], s.groups)
    return [Cut("groups", part, out, into)]


def _cut_bounds(
    kind: str, size: float, group: np.ndarray, shard: np.ndarray, each: Cut
) -> tuple[float, float]:
    """Whole traffic over the whole capacity, and the slowest part on its own.

    The collective runs in every group at once; their traffic adds up on the links of a part.
    """
    parts = len(each.out_bytes_per_s)
    pair = group * parts + each.part
    pairs, index = np.unique(pair, return_inverse=True)
    members = np.bincount(index).astype(np.float64)
    owned = np.bincount(index, shard)
    of_group, of_part = pairs // parts, pairs % parts
    group_size = np.bincount(group)[of_group]
    split = members < group_size
    if kind == "all_reduce":
        out = into = np.where(split, size, 0.0)
    elif kind == "reduce_scatter":
        out, into = np.where(split, size - owned, 0.0), np.where(split, owned, 0.0)
    elif kind == "all_gather":
        out, into = np.where(split, owned, 0.0), np.where(split, size - owned, 0.0)
    else:
        out, into = members * (size - owned), (group_size - members) * owned
    factor = {"all_reduce": 2.0, "reduce_scatter": 1.0, "all_gather": 1.0}.get(kind)
    if factor is None:
        total = out.sum()
    else:
        num_parts = np.bincount(of_group)
        total = factor * size * np.maximum(num_parts - 1, 0).sum()
    leaving = np.bincount(of_part, out, parts)
    entering = np.bincount(of_part, into, parts)
    slowest = max(
        _seconds(leaving, each.out_bytes_per_s).max(),
        _seconds(entering, each.into_bytes_per_s).max(),
    )
    across = min(each.out_bytes_per_s.sum(), each.into_bytes_per_s.sum())
    return float(_seconds(np.asarray(total), np.asarray(across))), float(slowest)


def _seconds(bytes_: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """bytes / rate; 0 where nothing is sent, infinite where there is no way."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bytes_ > 0, bytes_ / rate, 0.0)


def _latency(case: Case, group: np.ndarray, late: np.ndarray) -> float:
    """Late + the shortest way from that rank to the farthest of its group.

    A message leaves by one of the rank's links, enters by one of the other's, and crosses the
    leaves of both where they differ; relays only add to that.
    """
    network = case.network
    latency = np.asarray(case.params.latency_s, np.float64)
    out, into = _nearest(case, latency, "egress"), _nearest(case, latency, "ingress")
    up, down, leaf = _leaf_latency(case, latency)
    worst = 0.0
    for start in {int(np.argmax(late)), int(np.argmax(out)), int(np.argmax(late + out)), 0}:
        others = (group == group[start]) & (np.arange(network.ranks) != start)
        crossing = np.where(leaf != leaf[start], up[leaf[start]] + down[leaf], 0.0)
        if network.wired:
            way = np.maximum(out[start], into)
        else:
            way = out[start] + into + crossing
        if others.any():
            worst = max(worst, float(late[start] + way[others].max()))
    return worst + float(case.params.endpoint_latency_s)


def _nearest(case: Case, latency: np.ndarray, way: str) -> np.ndarray:
    """Smallest latency among each rank's links out or in, (ranks,)."""
    network = case.network
    if network.wired and way == "ingress":
        best = np.full(network.ranks, np.inf)
        count = network.tier("egress").count
        for (receiver, _), row in zip(
            _wired_links(case), latency[:count].reshape(-1, network.ranks), strict=True
        ):
            best[receiver] = np.minimum(best[receiver], row)
    else:
        tier = network.tier(way)
        best = latency[tier.first : tier.first + tier.count].reshape(-1, network.ranks).min(0)
    if network.node_size > 1:
        tier = network.tier(f"node {way}")
        best = np.minimum(best, latency[tier.first : tier.first + tier.count])
    return best


def _leaf_latency(case: Case, latency: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Smallest latency up from and down to each leaf, and the leaf of each rank."""
    network, fabric = case.network, case.network.fabric
    none = np.zeros(1), np.zeros(1), np.zeros(network.ranks, int)
    if not isinstance(fabric, ClosFabric) or not fabric.first:
        return none
    leaf = np.asarray(fabric.leaf_of_port)
    node = leaf[0].reshape(-1, network.node_size)
    if (leaf != leaf[0]).any() or (node != node[:, :1]).any():
        return none
    s = fabric.sizes

    def least(name: str) -> np.ndarray:
        tier = network.tier(name)
        links = latency[tier.first : tier.first + tier.count]
        return links.reshape(s.planes, s.leaves, -1).min(axis=(0, 2))

    return least("leaf up"), least("leaf down"), leaf[0]
