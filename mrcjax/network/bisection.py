"""How much can flow between two halves of the ranks, at the narrowest: formulas by family.

Links inside scale-up nodes are left out, but where there are no others. For a graph of switches a
half is a set X of switches; a rank whose switch is on the other side adds its port. So, with
hosts(X) ranks on X,

    bisection = min over X of [cables(X) x rate + |hosts(X) - N / 2| x port rate],

which no half of the ranks undercuts. One direction; N / 2 is rounded down.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrcjax.network.clos import clos_sizes
from mrcjax.network.dragonfly import dragonfly_graph, dragonfly_sizes
from mrcjax.network.hyperx import hyperx_graph, hyperx_sizes
from mrcjax.network.jellyfish import jellyfish_sizes, random_graph
from mrcjax.network.node_rails import bisection_bytes_per_s, rail_sizes
from mrcjax.network.slim_fly import mms_graph, slim_fly_sizes
from mrcjax.network.switch_graph import MOST_SWITCHES
from mrcjax.network.switch_sizes import SwitchSizes, check_slim_fly_exists
from mrcjax.network.wafer import levels
from mrcjax.spec import (
    AnyNetwork,
    Dgx,
    Dragonfly,
    FatTree,
    FlatRails,
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

MOST_FOR_SPECTRUM = 2048  # switches; eigenvalues of a larger graph take minutes


@dataclass(frozen=True)
class Bisection:
    """What flows between two halves of the ranks, one direction, bytes/s before goodput.

    No half has less than `at_least`, and some half has no more than `at_most`.
    """

    at_least: float
    at_most: float
    how: str

    @property
    def is_exact(self) -> bool:
        """Whether both are the same."""
        return math.isclose(self.at_least, self.at_most, rel_tol=1e-9)


def bisection(spec: AnyNetwork) -> Bisection:
    """The narrowest halving of a network; raises SpecError for a kind without a formula."""
    formula = _FORMULA.get(type(spec))
    if formula is None:
        raise SpecError(
            "has no formula for its bisection",
            where="network.kind",
            value=spec.kind,
            remedy=f"there is one for {', '.join(sorted(FORMULA_KINDS))}",
        )
    return formula(spec)


def _flat_rails(spec: FlatRails) -> Bisection:
    half = spec.ranks // 2
    if spec.reach == "all":
        rate = half * math.fsum(spec.port_rates)
        return Bisection(rate, rate, "non-blocking planes: the ports of half the ranks")
    reach = (spec.ranks,) if isinstance(spec.reach, str) else spec.reach
    slowest, fastest = min(spec.port_rates), max(spec.port_rates)
    cables = int(lindsey_cables(reach)[half])
    how = "sets of ranks that fill the largest groups first (Lindsey, 1964)"
    return Bisection(cables * slowest, cables * fastest, how)


def _clos(spec: FatTree | MrcPlanes) -> Bisection:
    """Sum over equal planes; leaves are taken in order, and upper switches to the better side."""
    s = clos_sizes(spec)
    hosts = np.minimum(s.hosts_per_leaf, s.host_ports - s.hosts_per_leaf * np.arange(s.leaves))
    half = spec.ranks // 2 * (spec.ports // s.planes)
    taken = np.arange(s.leaves + 1)
    if s.leaves == 1:
        cables = np.zeros(2, int)
    elif s.tiers == 2:
        cables = s.uplinks * np.minimum(taken, s.leaves - taken)
    else:
        pod = np.arange(s.pods)
        leaves = np.minimum(s.leaves_per_pod, s.leaves - s.leaves_per_pod * pod)
        mine = np.clip(taken[:, None] - s.leaves_per_pod * pod, 0, leaves)
        top = s.aggs * s.agg_uplinks if s.cores_per_agg else 0
        with_us, with_them = (leaves - mine) * s.uplinks, mine * s.uplinks
        cores_ours = np.minimum(with_us, with_them + top).sum(axis=1)
        cores_theirs = np.minimum(with_them, with_us + top).sum(axis=1)
        cables = np.minimum(cores_ours, cores_theirs)
    side = np.concatenate([[0], np.cumsum(hosts)])
    narrowest = int((cables + abs(side - half)).min())
    rate = narrowest * math.fsum(spec.port_rates[: s.planes])
    even = s.host_ports == s.leaves * s.hosts_per_leaf
    even = even and (s.tiers == 2 or s.leaves == s.pods * s.leaves_per_pod)
    how = "sets of whole leaves, in order"
    return Bisection(rate if even else 0.0, rate, how if even else f"{how}; some are not full")


def _graph(
    spec: AnyNetwork, hosts: int, graph: np.ndarray, order: np.ndarray | None, how: str
) -> Bisection:
    """Lower bound from the spectrum, upper bound from the switches in some order."""
    on_switch = np.clip(spec.ranks - hosts * np.arange(len(graph)), 0, hosts)
    half, rate = spec.ranks // 2, spec.port_rates[0]
    at_least, vector = 0.0, np.arange(len(graph), dtype=float)
    if 1 < len(graph) <= MOST_FOR_SPECTRUM:
        values, vectors = np.linalg.eigh(np.diag(graph.sum(axis=1)) - graph)
        vector = vectors[:, 1]
        if (on_switch == hosts).all():
            at_least = _spectral(float(values[1]), len(graph), hosts, half)
    orders = [np.arange(len(graph)), np.argsort(vector)] if order is None else [order]
    at_most = min(_in_order(graph, on_switch, each, half) for each in orders)
    return Bisection(min(at_least, at_most) * rate, at_most * rate, how)


def _spectral(connectivity: float, switches: int, hosts: int, half: int) -> float:
    """Least cables and ports between halves: m switches have connectivity m (n - m) / n cables.

    Fiedler, Czechoslovak Math. J. 23, 1973; 1e-9 less for the eigenvalue's rounding.
    """
    m = np.arange(switches + 1)
    cables = np.ceil(connectivity * m * (switches - m) / switches * (1 - 1e-9) - 1e-9)
    return float((cables + abs(hosts * m - half)).min())


def _in_order(graph: np.ndarray, hosts: np.ndarray, order: np.ndarray, half: int) -> float:
    """Fewest cables and ports of all sets of first switches in an order."""
    there = graph[np.ix_(order, order)]
    before = np.tril(there).sum(axis=1)
    cables = np.concatenate([[0], np.cumsum(there.sum(axis=1) - 2 * before)])
    side = np.concatenate([[0], np.cumsum(hosts[order])])
    return float((cables + abs(side - half)).min())


def lindsey_cables(sizes: tuple[int, ...]) -> np.ndarray:
    """Fewest cables around m points of a grid joined along its rows, for every m.

    Taking points in order, the largest dimension fastest, has most cables inside (Lindsey, Amer.
    Math. Monthly 71, 1964). Returns (points + 1,) int.
    """
    sizes = tuple(sorted(sizes, reverse=True))
    point, degree = np.arange(math.prod(sizes)), sum(size - 1 for size in sizes)
    before, stride = np.zeros_like(point), 1
    for size in sizes:
        # points of the same row that come earlier are those with a smaller digit
        before += point // stride % size
        stride *= size
    return np.concatenate([[0], np.cumsum(degree - 2 * before)])


def _hyperx(spec: HyperX) -> Bisection:
    s = hyperx_sizes(spec)
    how = "sets of switches that fill the largest dimension first (Lindsey, 1964)"
    if s.endpoints == spec.ranks:
        cables = spec.cables * lindsey_cables(spec.dims)
        side = s.hosts * np.arange(s.num_switches + 1)
        narrowest = float((cables + abs(side - spec.ranks // 2)).min()) * spec.port_rates[0]
        return Bisection(narrowest, narrowest, how)
    _refuse_too_many(s)
    graph = hyperx_graph(spec.dims, spec.cables)
    return _graph(spec, s.hosts, graph, None, "sets of switches in order; some are not full")


def _slim_fly(spec: SlimFly) -> Bisection:
    check_slim_fly_exists("network", spec.q)
    s = slim_fly_sizes(spec)
    _refuse_too_many(s)
    return _graph(spec, s.hosts, mms_graph(spec.q), None, SPECTRAL)


def _jellyfish(spec: Jellyfish) -> Bisection:
    s = jellyfish_sizes(spec)
    _refuse_too_many(s)
    graph = random_graph(spec.switches, spec.network_ports, spec.wiring_seed)
    return _graph(spec, s.hosts, graph, None, SPECTRAL)


def _dragonfly(spec: Dragonfly) -> Bisection:
    s = dragonfly_sizes(spec)
    if s.groups * s.routers > MOST_SWITCHES:
        at_most = _whole_groups(s.global_cables, s.groups, s.hosts * s.routers, spec.ranks)
        return Bisection(0.0, at_most * spec.port_rates[0], "sets of whole groups, in order")
    return _graph(spec, s.hosts, dragonfly_graph(s), None, SPECTRAL)


def _whole_groups(cables: tuple[int, ...], groups: int, hosts: int, ranks: int) -> float:
    """Fewest cables and ports of all sets of first groups."""
    offset = (np.arange(groups)[None, :] - np.arange(groups)[:, None]) % groups
    graph = np.asarray((0, *cables))[offset]
    on_group = np.clip(ranks - hosts * np.arange(groups), 0, hosts)
    return _in_order(graph, on_group, np.arange(groups), ranks // 2)


def _refuse_too_many(s: SwitchSizes) -> None:
    if s.num_switches > MOST_SWITCHES:
        raise SpecError(
            f"makes {s.num_switches:,} switches, too many for its bisection",
            where="network",
            remedy=f"use at most {MOST_SWITCHES:,}",
        )


def _grid(spec: Torus | Mesh) -> Bisection:
    """Below, what holds with the slowest rate everywhere; above, sets of ranks in order.

    Aroca and Fernandez Anta, Bisection (Band)Width of Product Networks, 2012 (arXiv:1202.6291).
    """
    sizes = sorted((size for size in spec.dims if size > 1), reverse=True)
    spans = [d for d, size in enumerate(spec.dims) if size > 1]
    if not spans:
        return Bisection(0.0, 0.0, "one rank")
    around = 2 if all(spec.wraps[d] for d in spans) else 1
    slowest = min(spec.rates[d] for d in spans)
    at_least = around * array_cables(sizes) * slowest
    at_most = min(_slabs(spec, d) for d in spans)
    how = "slabs across a dimension (Aroca and Fernandez Anta, arXiv:1202.6291)"
    return Bisection(min(at_least, at_most), at_most, how)


def array_cables(sizes: list[int]) -> int:
    """Fewest cables between halves of a grid without wrap; sizes fall. With wrap it is twice that.

    A set of slabs across the longest dimension; where that is odd half of the middle slab joins
    it, cut in the same way, down to the first dimension that is even.
    """
    cables = 0
    for d, size in enumerate(sizes):
        cables += math.prod(sizes[d + 1 :])
        if size % 2 == 0:
            break
    return cables


def _slabs(spec: Torus | Mesh, slowest: int) -> float:
    """Capacity around the first half of the ranks, counted with one dimension the slowest.

    Slab after slab of that dimension, and of the middle one slab after slab of the next longest.
    """
    others = sorted((d for d in range(len(spec.dims)) if d != slowest), key=lambda d: spec.dims[d])
    order = [slowest, *reversed(others)]  # slowest first
    inside = np.arange(spec.ranks).reshape([spec.dims[d] for d in order]) < spec.ranks // 2
    crossing = 0.0
    for axis, d in enumerate(order):
        line = np.moveaxis(inside, axis, 0)
        crossing += spec.rates[d] * int((line[1:] != line[:-1]).sum())
        if spec.wraps[d]:
            crossing += spec.rates[d] * int((line[0] != line[-1]).sum())
    return crossing


def _rails(spec: Dgx | RailOnly) -> Bisection:
    """Halves of whole nodes."""
    size = rail_sizes(spec)
    rate = bisection_bytes_per_s(spec) / spec.goodput
    is_even = spec.ranks % (2 * spec.node_size) == 0
    is_full = size.units == 1 or set(spec.oversubscriptions) == {1.0}
    return Bisection(rate if is_even and is_full else 0.0, rate, "halves of whole nodes, in order")


def _nvl(spec: Nvl) -> Bisection:
    if spec.ports:
        return _clos(spec)
    rate = spec.ranks // 2 * (spec.node_bytes_per_s or 0.0)
    return Bisection(rate, rate, "non-blocking planes: the ports of half the ranks")


def _wafer(spec: Wafer) -> Bisection:
    """The first half of the wafers; switches go to the better side. Tiles are a mesh."""
    if spec.mesh is not None:
        return _grid(spec.mesh)
    ours = (np.arange(spec.ranks) < spec.ranks // 2).astype(float)
    # links cut below each member of a level if it is on our side, or on theirs
    cut = np.stack([np.where(ours, 0.0, np.inf), np.where(ours, np.inf, 0.0)])
    for switches in levels(spec):
        best = np.minimum(cut, cut[::-1] + 1)
        best = np.pad(best, ((0, 0), (0, switches * spec.fan_out - best.shape[1])))
        cut = best.reshape(2, switches, spec.fan_out).sum(axis=2)
    rate, some = spec.link_bytes_per_s, float(spec.ranks > 1)
    return Bisection(some * rate, float(cut.min()) * rate, "what sums pass between halves")


SPECTRAL = "eigenvalues of the graph from below (Fiedler, 1973), sets of switches from above"
_FORMULA: dict[type, Callable[[Any], Bisection]] = {
    FlatRails: _flat_rails,
    MrcPlanes: _clos,
    FatTree: _clos,
    Dragonfly: _dragonfly,
    SlimFly: _slim_fly,
    HyperX: _hyperx,
    Jellyfish: _jellyfish,
    Torus: _grid,
    Mesh: _grid,
    Dgx: _rails,
    RailOnly: _rails,
    Nvl: _nvl,
    Wafer: _wafer,
}
FORMULA_KINDS = tuple(str(kind.__struct_config__.tag) for kind in _FORMULA)
