"""Bisections against maximum flows between halves of the ranks, on graphs of one's own."""

import itertools

import numpy as np
import pytest
from oracle import graphs

from mrcjax.network.bisection import FORMULA_KINDS, array_cables, bisection, lindsey_cables
from mrcjax.network.jellyfish import random_graph
from mrcjax.network.slim_fly import mms_graph
from mrcjax.spec import (
    NETWORK_KINDS,
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
    RatesPerPort,
    SlimFly,
    SpecError,
    Torus,
    Wafer,
)
from mrcjax.units import BytesPerSecond

GB = 1e9
LINK = {"link_rate": BytesPerSecond(GB, "1 GB/s")}
PLANE = {"plane_rate": BytesPerSecond(GB, "1 GB/s")}


def hyperx(ranks, dims, hosts, **more):
    return HyperX(ranks=ranks, dims=dims, hosts_per_switch=hosts, **LINK, **more)


def dragonfly(ranks, p, a, h, g):
    keys = {"hosts_per_router": p, "routers_per_group": a, "global_links_per_router": h}
    return Dragonfly(ranks=ranks, groups=g, **keys, **LINK), graphs.dragonfly(ranks, p, a, h, g)


def jellyfish(ranks, switches, ports, hosts):
    keys = {"switches": switches, "network_ports": ports, "hosts_per_switch": hosts}
    matrix = random_graph(switches, ports, 0)
    return Jellyfish(ranks=ranks, **keys, **LINK), graphs.of_matrix(ranks, hosts, matrix)


def slim_fly(ranks, q, hosts):
    spec = SlimFly(ranks=ranks, q=q, hosts_per_switch=hosts, **LINK)
    return spec, graphs.of_matrix(ranks, hosts, mms_graph(q))


def rails(ranks, **more):
    return FlatRails(ranks=ranks, rail_rate=RatesPerPort((LINK["link_rate"],), False), **more)


def lattice(dims, wrap=True):
    """A torus or mesh, and the graph of its links."""
    rate = RatesPerPort((LINK["link_rate"],), False)
    spec = Torus(dims=dims, link_rate=rate) if wrap else Mesh(dims=dims, link_rate=rate)
    graph, points = graphs.Counter(), list(np.ndindex(dims[::-1]))
    number = {at: i for i, at in enumerate(points)}
    for at, d in itertools.product(points, range(len(dims))):
        size, axis = dims[d], len(dims) - 1 - d
        if size > 1 and (wrap or at[axis] < size - 1):
            on = (*at[:axis], (at[axis] + 1) % size, *at[axis + 1 :])
            graphs.join(graph, ("rank", number[at]), ("rank", number[on]))
    return spec, graph


def rail_trees(nodes, node_size, down, up, spines):
    """A tree per rail over the ranks of each local index; nothing inside nodes."""
    graph = graphs.Counter()
    for rank in range(nodes * node_size):
        node, rail = divmod(rank, node_size)
        graphs.join(graph, ("rank", rank), ("leaf", rail, node // down))
    for rail, leaf, cable in itertools.product(
        range(node_size), range(-(-nodes // down)), range(up)
    ):
        graphs.join(graph, ("leaf", rail, leaf), ("spine", rail, cable % spines))
    return graph


CROSSBARS = graphs.Counter()
for rank, rail in itertools.product(range(9), range(3)):
    graphs.join(CROSSBARS, ("rank", rank), ("plane", rail))

# name -> spec and its graph; a cable carries 1 GB/s
EXACT = {
    "two tiers": (FatTree(ranks=16, radix=8, **LINK), graphs.two_tiers(16, 4, 4, 2)),
    "three leaves": (FatTree(ranks=12, radix=8, **LINK), graphs.two_tiers(12, 4, 4, 2)),
    "oversubscribed": (
        FatTree(ranks=24, radix=8, oversubscription=3.0, **LINK),
        graphs.two_tiers(24, 6, 2, 1),
    ),
    "three tiers": (
        FatTree(ranks=16, radix=4, tiers=3, **LINK),
        graphs.three_tiers(16, 2, 2, 2, 4, 2, 2),
    ),
    # 6 ports are 3 down and 3 up, above that 4 down and 2 up
    "oversubscribed above": (
        FatTree(ranks=36, radix=6, tiers=3, oversubscription=(1.0, 2.0), **LINK),
        graphs.three_tiers(36, 3, 3, 4, 3, 2, 1),
    ),
    "planes": (MrcPlanes(ranks=16, planes=2, radix=8, **PLANE), graphs.two_tiers(16, 4, 4, 2, 2)),
    "crossbars": (rails(9, rails=3), CROSSBARS),
    "direct wiring": (rails(12, reach=(4, 3)), graphs.direct((4, 3))),
    "full mesh": (rails(7, reach="direct", rails=6), graphs.direct((7,))),
    "hyperx": (hyperx(24, (4, 3), 2), graphs.grid(24, 2, (4, 3))),
    "hyperx of few cables": (hyperx(32, (4, 2), 4), graphs.grid(32, 4, (4, 2))),
    "hyperx of many cables": (hyperx(24, (3, 2), 4, cables=2), graphs.grid(24, 4, (3, 2), 2)),
}
GRIDS = {
    f"{'torus' if wrap else 'mesh'} {dims}": lattice(dims, wrap)
    for wrap in (True, False)
    for dims in ((4, 3), (3, 3), (2, 5), (6, 2), (2, 2, 3), (7,), (5, 1, 2), (4, 4))
}
BOUNDED = {
    "dragonfly": dragonfly(72, 2, 4, 2, 9),
    "dragonfly of three groups": dragonfly(24, 4, 2, 1, 3),
    "dragonfly, some places empty": dragonfly(60, 2, 4, 2, 9),
    "slim fly": slim_fly(100, 5, 2),
    "slim fly of many ranks": slim_fly(300, 5, 6),
    "jellyfish": jellyfish(32, 16, 4, 2),
    "jellyfish of many ranks": jellyfish(96, 16, 4, 6),
    "hyperx, some places empty": (hyperx(20, (4, 3), 2), graphs.grid(20, 2, (4, 3))),
    "two tiers, a leaf half empty": (
        FatTree(ranks=14, radix=8, **LINK),
        graphs.two_tiers(14, 4, 4, 2),
    ),
}


def halves(ranks, seed=0):
    """Halves in order, by turns, and at random: in blocks of some ranks, as on switches."""
    rng = np.random.default_rng(seed)
    yield np.arange(ranks // 2)
    yield np.arange(0, ranks - 1, 2)
    for block in (1, 2, 3, 4, 6) * 4:
        order = np.argsort(rng.permutation(-(-ranks // block))[np.arange(ranks) // block])
        yield order[: ranks // 2]


@pytest.mark.parametrize("name", [*EXACT, *GRIDS, *BOUNDED])
def test_no_half_lets_less_through(name):
    spec, graph = {**EXACT, **GRIDS, **BOUNDED}[name]
    found = bisection(spec)
    for half in halves(spec.ranks):
        assert graphs.flow(graph, set(half.tolist())) * GB >= found.at_least * (1 - 1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_exact_formulas_are_reached(name):
    """Some half lets no more through."""
    spec, graph = EXACT[name]
    found = bisection(spec)
    assert found.is_exact
    flows = (graphs.flow(graph, set(half.tolist())) for half in halves(spec.ranks))
    assert min(flows) * GB == pytest.approx(found.at_most, rel=1e-9)


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_enclose_something(name):
    spec, graph = BOUNDED[name]
    found = bisection(spec)
    assert 0 <= found.at_least <= found.at_most <= spec.ranks // 2 * GB
    full = spec.ranks % 2 == 0 and "empty" not in name
    assert (found.at_least > 0) == full


@pytest.mark.parametrize("name", [n for n in BOUNDED if n.startswith(("dragon", "slim", "jelly"))])
def test_some_half_lets_no_more_through_than_the_upper_bound(name):
    """Ranks in the order of their switches, or of the eigenvector that parts these best."""
    spec, graph = BOUNDED[name]
    switches = sorted({v for pair in graph for v in pair if v[0] != "rank"}, key=lambda v: v[1])
    place = {v: i for i, v in enumerate(switches)}
    matrix = np.zeros((len(place),) * 2)
    for (one, other), cables in graph.items():
        if one in place and other in place:
            matrix[place[one], place[other]] = cables
    vector = np.linalg.eigh(np.diag(matrix.sum(axis=1)) - matrix)[1][:, 1]
    own = np.array(
        [place[next(b for a, b in graph if a == ("rank", r))] for r in range(spec.ranks)]
    )
    orders = np.arange(spec.ranks), np.argsort(vector[own], kind="stable")
    flows = [graphs.flow(graph, set(order[: spec.ranks // 2].tolist())) for order in orders]
    assert min(flows) * GB <= bisection(spec).at_most * (1 + 1e-9)


@pytest.mark.parametrize("sizes", [(6,), (3, 2), (3, 3), (2, 2, 2), (4, 2)])
def test_lindseys_sets_are_best_of_all(sizes):
    points = list(np.ndindex(sizes))
    joined = {
        (i, j)
        for (i, a), (j, b) in itertools.combinations(enumerate(points), 2)
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    }
    fewest = lindsey_cables(sizes)
    for m in range(len(points) + 1):
        cuts = (
            sum((i in chosen) != (j in chosen) for i, j in joined)
            for chosen in map(set, itertools.combinations(range(len(points)), m))
        )
        assert min(cuts) == fewest[m]


@pytest.mark.parametrize("k", [4, 8, 64])
def test_full_trees_pass_what_half_the_ranks_send(k):
    for tiers, ranks in ((2, k * k // 2), (3, k**3 // 4)):
        found = bisection(FatTree(ranks=ranks, radix=k, tiers=tiers, **LINK))
        assert found.is_exact
        assert found.at_most == ranks / 2 * GB


@pytest.mark.parametrize("name", GRIDS)
def test_no_half_of_a_grid_is_narrower(name):
    """All halves, by counting cables."""
    spec, graph = GRIDS[name]
    ends = np.array([(a[1], b[1], n) for (a, b), n in graph.items()]).T
    chosen = list(itertools.combinations(range(spec.ranks), spec.ranks // 2))
    ours = np.zeros((len(chosen), spec.ranks), bool)
    ours[np.arange(len(chosen))[:, None], chosen] = True
    cables = ((ours[:, ends[0]] & ~ours[:, ends[1]]) * ends[2]).sum(axis=1).min()
    assert bisection(spec).at_most == bisection(spec).at_least == cables * GB


def test_grids_by_hand():
    assert array_cables([24, 16, 16]) == 256
    assert array_cables([3, 3]) == 3 + 1
    rates = RatesPerPort([BytesPerSecond(x * GB, f"{x} GB/s") for x in (1, 5)])
    found = bisection(Torus(dims=(4, 8), link_rate=rates))
    # across the slow dimension 2 x 8 cables of 1 GB/s, across the fast one 2 x 4 of 5 GB/s
    assert (found.at_least, found.at_most) == (8 * GB, 16 * GB)


def by_nodes(spec):
    """Halves of whole nodes."""
    nodes, size = spec.nodes, spec.node_size
    for chosen in itertools.combinations(range(nodes), nodes // 2):
        yield {node * size + local for node in chosen for local in range(size)}


NODES = {
    "rails": (RailOnly(ranks=16, node_size=2, radix=4, node="nvlink4", **LINK), (8, 2, 2, 2, 4)),
    "rails of one leaf": (RailOnly(ranks=12, node_size=3, radix=8, **LINK), (4, 3, 4, 4, 1)),
    "rails 3:1": (
        Dgx(ranks=16, node_size=2, radix=8, spine="rail", oversubscription=3.0, **LINK),
        (8, 2, 6, 2, 1),
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_rails_against_flows_between_halves_of_nodes(name):
    spec, (nodes, size, down, up, spines) = NODES[name]
    found, graph = bisection(spec), rail_trees(nodes, size, down, up, spines)
    flows = [graphs.flow(graph, half) * GB for half in by_nodes(spec)]
    assert found.at_least <= min(flows)
    if found.is_exact:
        assert min(flows) == found.at_most


def test_domains_pass_the_ports_of_half_the_ranks():
    found = bisection(Nvl(ranks=72))
    assert found.at_least == found.at_most == 36 * 900 * GB
    several = Nvl(ranks=16, node_size=4, radix=8, **LINK)
    assert bisection(several) == bisection(FatTree(ranks=16, radix=8, **LINK))


@pytest.mark.parametrize(("ranks", "cables"), [(1, 0), (2, 1), (4, 2), (8, 1), (12, 3), (16, 2)])
def test_wafers_pass_what_the_tree_does(ranks, cables):
    """12: one whole switch of the three and half of the next."""
    found = bisection(Wafer(ranks=ranks, **LINK))
    assert found.at_most == cables * GB
    assert found.at_least == min(cables, 1) * GB


def test_every_kind_has_a_formula_or_says_so():
    class Unknown(FlatRails, frozen=True, tag="unknown"):
        pass

    with pytest.raises(SpecError, match=r"network\.kind has no formula.*\"unknown\".*hyperx"):
        bisection(Unknown(ranks=4, rails=1, rail_rate=RatesPerPort((LINK["link_rate"],), False)))
    assert set(FORMULA_KINDS) == set(NETWORK_KINDS) - {"graph"}
