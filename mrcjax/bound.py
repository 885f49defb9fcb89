"""Lower bounds on the completion time, valid for any schedule of the collective.

Bandwidth: for a partition of the ranks, contract each part to one. An all-reduce over k parts moves
at least 2 (k - 1) S bytes between them (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69,
2009), and S must leave and enter each part. Partitions: ranks, nodes, leaves, pods, groups,
digits of direct wiring, slabs and halves of a grid. Where switches reduce and multicast only the
second holds. Hop volume: where ranks pass sends on, an all-to-all puts its bytes on every link of
the way. Latency: some rank's data must reach every other. Bounds are combined by max, never added.
"""

import numpy as np

from mrcjax.case import Case
from mrcjax.collective.shards import cut
from mrcjax.collective.traffic import Flows
from mrcjax.network import Network
from mrcjax.network.clos import ClosFabric
from mrcjax.network.cuts import Cut, splits_a_node
from mrcjax.network.graph import least_latency
from mrcjax.spec import Collective


def lower_bounds(case: Case) -> dict[str, float]:
    """Name of each bound -> seconds; all hold for any schedule of the collective.

    For traffic: for any way of sharing its links.
    """
    if case.flows is not None:
        return _traffic_bounds(case, case.flows)
    spec = case.spec.the_collective
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
        if _may_reduce(case, each):
            bounds[f"{each.name} (slowest, in-network reduction)"] = parts
        else:
            bounds[f"{each.name} (all)"] = whole
            bounds[f"{each.name} (slowest)"] = parts
    if spec.kind == "all_to_all" and size == ranks and case.network.node_size == 1:
        bounds |= _hop_volume(case.network, shard, capacity)
    bounds["latency"] = _latency(case, group, late)
    return bounds


def _may_reduce(case: Case, each: Cut) -> bool:
    """Whether switches may sum or copy what crosses a cut.

    Then 2 (k - 1) S for all parts together does not hold; S out of and into each part does.
    """
    if case.spec.the_collective.kind == "all_to_all":
        return False
    levels = case.spec.network.in_network_levels
    inside = "node" in levels and splits_a_node(each.part, case.network.node_size)
    return inside or "network" in levels


def _traffic_bounds(case: Case, flows: Flows) -> dict[str, float]:
    """Bytes across every cut over its capacity, and every flow alone behind those it waits for."""
    late = np.asarray(case.params.late_s, np.float64)
    bounds = {"late": float(late.max())}
    capacity = np.asarray(case.params.capacity_bytes_per_s, np.float64)
    for each in case.wiring.cuts():
        out_rate, into_rate = each.rates(capacity)
        src, dst = each.part[flows.src], each.part[flows.dst]
        crosses = src != dst
        size = flows.size_bytes[crosses]
        across = min(out_rate.sum(), into_rate.sum())
        bounds[f"{each.name} (all)"] = float(_seconds(size.sum(), across))
        bounds[f"{each.name} (slowest)"] = max(
            float(_seconds(np.bincount(part[crosses], size, each.parts), rate).max())
            for part, rate in ((src, out_rate), (dst, into_rate))
        )
    alone = alone_s(case, flows)
    done = np.maximum(flows.start_s, late[flows.src])
    firsts = flows.firsts()
    for flow in flows.order:
        if len(firsts[flow]):
            done[flow] = max(done[flow], done[firsts[flow]].max() + flows.delay_s[flow])
        done[flow] += alone[flow]
    bounds["flows alone"] = float(done.max(initial=0.0))
    return bounds


def alone_s(case: Case, flows: Flows) -> np.ndarray:
    """What every flow takes if nothing else is sent, (flows,): latency, then its bottleneck."""
    capacity = np.asarray(case.params.capacity_bytes_per_s, np.float64)
    latency = np.append(np.asarray(case.params.latency_s, np.float64), 0.0)
    links = capacity.size
    flow, path, hop = np.nonzero((flows.routes >= 0) & (flows.weights > 0)[:, :, None])
    link = flows.routes[flow, path, hop].astype(np.int64)
    pair, index = np.unique(flow * links + link, return_inverse=True)
    sent = (
        np.bincount(index.reshape(-1), flows.weights[flow, path]) * flows.size_bytes[pair // links]
    )
    work = np.zeros(len(flows.src))
    np.maximum.at(work, pair // links, _seconds(sent, capacity[pair % links]))
    far = np.where(flows.weights > 0, latency[flows.routes].sum(axis=2), 0.0).max(axis=1, initial=0)
    return far + float(case.params.endpoint_latency_s) + work


def _shards(spec: Collective, ranks: int, size: int) -> np.ndarray:
    if spec.shards is not None:
        weights = np.asarray(spec.shards, np.float64)
        return float(spec.size) * (weights / weights.sum())
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


def _hop_volume(network: Network, shard: np.ndarray, capacity: np.ndarray) -> dict[str, float]:
    """Bytes times links of the shortest way, over the capacity of all links.

    shard: (ranks,) bytes that each rank gets from every other.
    """
    relay = network.relay
    if relay is None:
        return {}
    ranks, stride = np.arange(network.ranks), 1
    hops = np.zeros(network.ranks)  # from all others to each rank, digit by digit
    for size in relay.digits:
        line = np.arange(size) * stride
        along = relay.distance(line[:, None], line[None, :]).sum(axis=0)
        hops += along[ranks // stride % size] * (network.ranks // size)
        stride *= size
    seconds = _seconds(np.asarray((shard * hops).sum()), np.asarray(capacity.sum()))
    return {"hop volume": float(seconds)}


def _seconds(bytes_: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """bytes / rate; 0 where nothing is sent, infinite where there is no way."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(bytes_ > 0, bytes_ / rate, 0.0)


def _latency(case: Case, group: np.ndarray, late: np.ndarray) -> float:
    """Late + the shortest way from that rank to the farthest of its group.

    A message leaves by one of the rank's links, enters by one of the other's, and crosses the
    leaves of both where they differ. Where ranks pass it on it crosses a link after another.
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
        if network.by_table:
            way = least_latency(case.wiring, start, latency)
        elif network.relay is not None:
            hops = network.relay.distance(np.asarray(start), np.arange(network.ranks))
            least = latency.min() if network.node_size == 1 else 0.0
            way = np.maximum(np.maximum(out[start], into), hops * least)
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
    if (leaf != leaf[0]).any() or splits_a_node(leaf[0], network.node_size):
        return none
    s = fabric.sizes

    def least(name: str) -> np.ndarray:
        tier = network.tier(name)
        links = latency[tier.first : tier.first + tier.count]
        return links.reshape(s.planes, s.leaves, -1).min(axis=(0, 2))

    return least("leaf up"), least("leaf down"), leaf[0]
