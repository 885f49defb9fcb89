"""Lower bounds on the completion time, valid for any schedule of the collective.

Bandwidth: for a partition of the ranks, contract each part to one. An all-reduce over k parts moves
at least 2 (k - 1) S bytes between them (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69,
2009), and S must leave and enter each part. Partitions: ranks, nodes, leaves, pods, groups,
digits of direct wiring. Latency: some rank's data must reach every other. Bounds are combined by
max, never added.
"""

import numpy as np

from mrcjax.case import Case
from mrcjax.collective.shards import cut
from mrcjax.network.clos import ClosFabric
from mrcjax.network.cuts import Cut
from mrcjax.spec import Collective


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
    if case.params.loss is not None:  # a packet that gets lost has used its link
        capacity = capacity * (1.0 - np.asarray(case.params.loss, np.float64))
    for each in case.wiring.cuts():
        whole, parts = _cut_bounds(spec.kind, float(spec.size), group, shard, each, capacity)
        bounds[f"{each.name} (all)"] = whole
        bounds[f"{each.name} (slowest)"] = parts
    bounds["latency"] = _latency(case, group, late)
    return bounds


def _shards(spec: Collective, ranks: int, size: int) -> np.ndarray:
    position = np.arange(ranks) // spec.group_stride % size
    return np.asarray(cut(0.0, float(spec.size), size, position, spec.element_bytes or 0)[1])


def _cut_bounds(
    kind: str,
    size: float,
    group: np.ndarray,
    shard: np.ndarray,
    each: Cut,
    capacity: np.ndarray,
) -> tuple[float, float]:
    """Whole traffic over the whole capacity, and the slowest part on its own.

    The collective runs in every group at once; their traffic adds up on the links of a part.
    """
    parts = each.parts
    out_rate, into_rate = each.rates(capacity)
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
        _seconds(leaving, out_rate).max(),
        _seconds(entering, into_rate).max(),
    )
    across = min(out_rate.sum(), into_rate.sum())
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
    out = _nearest(case.wiring.sender, latency, network.ranks)
    into = _nearest(case.wiring.receiver, latency, network.ranks)
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


def _nearest(end: np.ndarray, latency: np.ndarray, ranks: int) -> np.ndarray:
    """Smallest latency among the links with each rank at that end, (ranks,)."""
    best = np.full(ranks, np.inf)
    np.minimum.at(best, end[end >= 0], latency[end >= 0])
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
