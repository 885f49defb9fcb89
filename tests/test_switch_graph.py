"""Slim Fly, HyperX and Jellyfish: the graphs, the routes over them, and the engine on them."""

import re
from collections import Counter
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import event
from runs import all_reduce, case_of, expand, times_of, toml, with_random_numbers, with_table
from scipy.sparse.csgraph import shortest_path
from test_engine_oracle import (
    ECMP,
    NODE,
    SPRAY,
    STORE,
    assert_equals_twin,
    assert_same,
    gather,
    marked,
    scatter,
)

from mrcjax.bound import lower_bounds
from mrcjax.emulation import run
from mrcjax.network import build
from mrcjax.network.galois import field, prime_power
from mrcjax.network.hyperx import coordinates, hyperx_graph
from mrcjax.network.jellyfish import random_graph
from mrcjax.network.route import split, strata
from mrcjax.network.slim_fly import mms_graph
from mrcjax.network.switch_graph import SwitchGraph
from mrcjax.spec import HyperX, Jellyfish, SlimFly, SpecError, load_spec, spec_from_dict


def slim_fly(ranks=50, **more):
    keys = {"kind": "slim_fly", "ranks": ranks, "q": 5, "hosts_per_switch": 1}
    return {**keys, "link_rate": "50 GB/s", **more}


def hyperx(ranks=12, **more):
    keys = {"kind": "hyperx", "ranks": ranks, "dims": [3, 2], "hosts_per_switch": 2}
    return {**keys, "link_rate": "50 GB/s", **more}


def jellyfish(ranks=12, **more):
    keys = {"kind": "jellyfish", "ranks": ranks, "switches": 8, "network_ports": 3}
    return {**keys, "hosts_per_switch": 2, "link_rate": "50 GB/s", **more}


def wired(keys):
    collective = {"kind": "all_reduce", "size": "1 MB"}
    return build(spec_from_dict({"network": keys, "collective": collective}).network)


# ---- fields and graphs


@pytest.mark.parametrize("q", [2, 3, 4, 5, 8, 9, 25, 27, 32])
def test_fields_obey_the_axioms(q):
    gf = field(q)
    everyone = np.arange(q)
    assert sorted(gf.powers) == list(range(1, q))
    np.testing.assert_array_equal(gf.plus[0], everyone)
    np.testing.assert_array_equal(gf.times[1], everyone)
    a, b, c = np.meshgrid(everyone, everyone, everyone, indexing="ij", sparse=True)
    for table in (gf.plus, gf.times):
        np.testing.assert_array_equal(table, table.T)
        np.testing.assert_array_equal(table[table[a, b], c], table[a, table[b, c]])
    np.testing.assert_array_equal(
        gf.times[a, gf.plus[b, c]], gf.plus[gf.times[a, b], gf.times[a, c]]
    )


def test_only_prime_powers_have_a_field():
    assert [q for q in range(1, 33) if prime_power(q)] == [
        2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="28 is no prime power"):
        field(28)


@pytest.mark.parametrize(
    ("q", "degree"), [(3, 5), (4, 6), (5, 7), (7, 11), (8, 12), (9, 13), (11, 17), (27, 41)]
)
def test_slim_fly_has_its_degree_and_diameter_2(q, degree):
    graph = mms_graph(q).astype(np.float32)
    assert graph.shape == (2 * q * q, 2 * q * q)
    assert set(np.unique(graph)) == {0, 1}
    np.testing.assert_array_equal(graph, graph.T)
    assert set(graph.sum(axis=1)) == {degree}
    assert not graph.diagonal().any()
    within_two = graph + graph @ graph + np.eye(len(graph))
    assert within_two.all()


def test_slim_fly_of_50_switches_is_the_hoffman_singleton_graph():
    """It meets the Moore bound: A^2 + A - 6 I is all ones, and no other graph does."""
    graph = mms_graph(5)
    np.testing.assert_array_equal(graph @ graph + graph - 6 * np.eye(50, dtype=int), 1)


@pytest.mark.parametrize(("dims", "cables"), [((4,), 1), ((3, 5), 2), ((2, 3, 4), 1), ((1, 3), 1)])
def test_hyperx_joins_what_differs_in_one_coordinate(dims, cables):
    graph = hyperx_graph(dims, cables)
    place = list(np.ndindex(dims[::-1]))
    for one, a in enumerate(place):
        for other, b in enumerate(place):
            off = sum(x != y for x, y in zip(a, b, strict=True))
            assert graph[one, other] == (cables if off == 1 else 0)


@pytest.mark.parametrize(
    ("switches", "degree"), [(2, 1), (4, 3), (5, 2), (9, 4), (20, 19), (40, 6)]
)
def test_jellyfish_is_regular_simple_and_connected(switches, degree):
    for seed in range(3):
        graph = random_graph(switches, degree, seed)
        assert set(np.unique(graph)) <= {0, 1}
        np.testing.assert_array_equal(graph, graph.T)
        assert not graph.diagonal().any()
        assert set(graph.sum(axis=1)) == {degree}
        assert np.isfinite(shortest_path(graph)).all()


def test_jellyfish_follows_its_seed():
    same = [random_graph(40, 6, seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(same[0], same[1])
    assert (same[0] != same[2]).any()


def test_jellyfish_takes_all_edges_alike():
    """Of 8 switches of degree 3 a pair is joined in 3/7 of the graphs."""
    mean = np.mean([random_graph(8, 3, seed) for seed in range(700)], axis=0)
    pairs = mean[np.triu_indices(8, 1)]
    # connected ones only, and samples: five standard deviations of a share of 700
    assert abs(pairs - 3 / 7).max() < 5 * (3 / 7 * 4 / 7 / 700) ** 0.5


# ---- routes


def routes_of(wiring):
    """Switches that every path of every pair visits, (paths, ranks, ranks) lists via links."""
    fabric = wiring.network.fabric
    assert isinstance(fabric, SwitchGraph)
    ranks = wiring.network.ranks
    src, dst = (x.reshape(-1) for x in np.meshgrid(np.arange(ranks), np.arange(ranks)))
    zero = np.zeros_like(src)
    hops = jax.jit(fabric.inner)(*(jnp.asarray(x) for x in (src, dst, zero, zero)))
    return src, dst, [np.atleast_2d(np.asarray(hop)) for hop in hops]


NETWORKS = {
    "slim fly": slim_fly(),
    "slim fly, some places empty": slim_fly(61, hosts_per_switch=2),
    "slim fly of q = 4": slim_fly(32, q=4),
    "hyperx": hyperx(),
    "hyperx of three dimensions": hyperx(24, dims=[2, 3, 4], hosts_per_switch=1),
    "hyperx with parallel cables": hyperx(cables=3),
    "hyperx in order": hyperx(24, dims=[4, 3, 2], hosts_per_switch=1, routing="dimension_order"),
    "jellyfish": jellyfish(),
    "jellyfish filled": jellyfish(16),
}


@pytest.mark.parametrize("balancing", [{}, ECMP, SPRAY], ids=["ideal", "ecmp", "spray"])
@pytest.mark.parametrize("name", NETWORKS)
def test_routes_are_shortest_ways(name, balancing):
    wiring = wired({**NETWORKS[name], **balancing})
    network, fabric = wiring.network, wiring.network.fabric
    src, dst, hops = routes_of(wiring)
    switch = np.asarray(fabric.switch_of_rank)
    names = [wiring.link_name(i).split() for i in range(network.num_links)]
    first = network.tier("switch").first
    ends = np.array([[int(n[1]), int(n[4])] for n in names[first:]])
    joined = np.zeros((fabric.num_switches,) * 2)
    joined[tuple(ends.T)] = 1
    length = shortest_path(joined, unweighted=True)
    assert fabric.hops == length[np.ix_(np.unique(switch), np.unique(switch))].max()
    here, taken = np.broadcast_to(switch[src], (fabric.paths, len(src))).copy(), 0
    for hop in hops:
        moves = hop != network.no_link
        start, end = ends[np.where(moves, hop - first, 0)].transpose(2, 0, 1)
        assert (start[moves] == here[moves]).all()
        here = np.where(moves, end, here)
        taken = taken + moves
    assert (here == switch[dst]).all()
    assert (taken == length[switch[src], switch[dst]]).all()
    assert (np.asarray(fabric.crosses(src, dst, src)) == (switch[src] != switch[dst])).all()


def evenly(joined, distance, here, there):
    """Part of the traffic on each link where every switch deals it to its next hops evenly."""
    found, parts = Counter(), {here: Fraction(1)}
    while set(parts) != {there}:
        after = Counter()
        for switch, part in parts.items():
            good = {
                n: joined[switch, n]
                for n in np.flatnonzero(joined[switch])
                if distance[n, there] == distance[switch, there] - 1
            }
            for n, width in good.items():
                found[switch, n] += part * Fraction(int(width), int(sum(good.values())))
                after[n] += part * Fraction(int(width), int(sum(good.values())))
        parts = after
    return found


@pytest.mark.parametrize("name", ["hyperx of three dimensions", "slim fly of q = 4", "jellyfish"])
def test_ideal_deals_evenly(name):
    """Exactly where the paths divide, else each way gets its part to within one path."""
    wiring = wired(NETWORKS[name])
    fabric = wiring.network.fabric
    src, dst, hops = routes_of(wiring)
    switch = np.asarray(fabric.switch_of_rank)
    first = wiring.network.tier("switch").first
    names = [wiring.link_name(i).split() for i in range(wiring.network.num_links)]
    ends = [(int(n[1]), int(n[4])) for n in names[first:]]
    joined = np.zeros((fabric.num_switches,) * 2, int)
    for end in ends:
        joined[end] = 1
    distance = shortest_path(joined, unweighted=True)
    for number in range(0, len(src), 5):
        used = Counter(
            ends[link - first]
            for hop in hops
            for link in hop[:, number].tolist()
            if link != wiring.network.no_link
        )
        wanted = evenly(joined, distance, switch[src[number]], switch[dst[number]])
        assert set(used) <= set(wanted)
        for link, part in wanted.items():
            assert abs(used[link] - part * fabric.paths) < 1
            if fabric.paths % part.denominator == 0:
                assert used[link] == part * fabric.paths


def test_a_split_of_strata_is_exact():
    """24 strata dealt to 2 x 3 x 4 equal parts of parts: one each, whatever the hash."""
    rng = np.random.default_rng(0)
    hashes = np.concatenate([[0, 2**32 - 1], rng.integers(0, 2**32, 50)]).astype(np.uint32)
    place = strata(jnp.asarray(hashes), jnp.arange(24)[:, None], 24)
    parts = []
    for count in (2, 3, 4):
        nth, place = split(place, jnp.asarray(count))
        parts.append(np.asarray(nth))
    for each in zip(*(p.T for p in parts), strict=True):
        assert len(set(zip(*(p.tolist() for p in each), strict=True))) == 24


def test_dimension_order_corrects_the_first_dimension_first():
    wiring = wired(NETWORKS["hyperx in order"])
    assert wiring.network.fabric.paths == 1
    place = coordinates((4, 3, 2))
    src, dst, hops = routes_of(wiring)
    first = wiring.network.tier("switch").first
    ends = [wiring.link_name(i).split() for i in range(first, wiring.network.num_links)]
    dimension = [int((place[int(e[1])] != place[int(e[4])]).argmax()) for e in ends]
    for number in range(len(src)):
        taken = [int(hop[0, number]) for hop in hops if hop[0, number] != wiring.network.no_link]
        off = np.flatnonzero(place[src[number]] != place[dst[number]])
        assert [dimension[link - first] for link in taken] == off.tolist()


def test_parallel_cables_are_one_trunk_or_many_cables():
    trunks, cables = wired(hyperx(cables=3)), wired(hyperx(cables=3, **ECMP))
    assert trunks.network.tier("switch").count * 3 == cables.network.tier("switch").count
    assert trunks.num_cables == cables.num_cables == 12 + 6 * 3 * 3 // 2
    assert trunks.capacity_bytes_per_s[-1] == 3 * cables.capacity_bytes_per_s[-1] == 150e9
    assert cables.link_name(cables.network.num_links - 1) == "switch 5 to switch 4 cable 2"


# ---- the engine


CASES = {
    "slim fly trunks": (slim_fly(12, q=3), scatter()),
    "slim fly ecmp": (slim_fly(12, q=3, **ECMP), scatter()),
    "hyperx trunks": (hyperx(), gather("ring")),
    "hyperx spray": (hyperx(cables=2, **SPRAY), scatter()),
    "hyperx store and forward": (hyperx(**ECMP), scatter(), STORE),
    "jellyfish trunks": (jellyfish(), scatter()),
    "jellyfish ecmp": (jellyfish(**ECMP), gather()),
    "jellyfish nodes": (jellyfish(hosts_per_switch=4, **NODE), all_reduce("hierarchical")),
    "arrival": (hyperx(**ECMP), scatter(), {"order": "arrival"}),
}
LONG = ("slim fly trunks", "hyperx spray", "hyperx store and forward", "jellyfish ecmp")


@pytest.mark.parametrize("name", marked([n for n in CASES if n != "arrival"], LONG))
def test_engine_equals_the_twin(name):
    case = case_of(*CASES[name])
    for seed in range(2):
        assert_equals_twin(case, with_random_numbers(case, seed))


@pytest.mark.slow
def test_slim_fly_of_50_switches_equals_the_twin():
    case = case_of(slim_fly(), scatter("ring"))
    assert_equals_twin(case, with_random_numbers(case, 0))


def test_order_of_arrival_equals_the_event_driven_twin():
    case = case_of(*CASES["arrival"])
    params = with_random_numbers(case, 0)
    expanded = expand(case, params)
    assert_same(times_of(case, params), expanded, expanded.by(event))


def test_bounds_of_switches_and_dimensions():
    """6 x 2 ranks of 50 GB/s: two ranks share the 3 cables of a switch, two rows the others."""
    found = lower_bounds(case_of(hyperx(), all_reduce("direct", "1 GB")))
    assert found["ports (all)"] == pytest.approx(2 * 11 / 12 / 50, rel=1e-12)
    # 6 switches of 2 + 1 cables
    assert found["switches (all)"] == pytest.approx(2 * 5 / (18 * 50), rel=1e-12)
    assert found["switches (slowest)"] == pytest.approx(1 / (3 * 50), rel=1e-12)
    # three columns with 2 x 2 cables out of each, two rows with 3
    assert found["dimension 0 (all)"] == pytest.approx(2 * 2 / (12 * 50), rel=1e-12)
    assert found["dimension 1 (slowest)"] == pytest.approx(1 / (3 * 50), rel=1e-12)


def test_a_thin_cut_binds_and_no_result_is_below_it():
    keys = hyperx(16, dims=[2], hosts_per_switch=8, latency="0 s")
    collective = {"kind": "all_to_all", "size": "1 GB"}
    case = case_of(keys, collective)
    found = lower_bounds(case)
    # 8 ranks send half their buffers over one cable
    assert max(found, key=lambda name: found[name]).startswith(("switches", "dimension"))
    assert max(found.values()) == pytest.approx(8 * 0.5 / 50, rel=1e-12)
    assert float(times_of(case).time_s) >= max(found.values()) * (1 - 1e-12)


@pytest.mark.parametrize("make", [slim_fly, hyperx, jellyfish])
@pytest.mark.parametrize("ranks", [1, 3, 11])
def test_odd_numbers_of_ranks(make, ranks):
    case = case_of(make(ranks), all_reduce("direct"))
    time_s = float(times_of(case).time_s)
    assert np.isfinite(time_s)
    assert time_s >= 2 * (ranks - 1) / ranks * 100e6 / 50e9
    assert (time_s > 0) == (ranks > 1)


@pytest.mark.parametrize("make", [slim_fly, hyperx, jellyfish])
def test_a_partly_filled_node(make):
    nodes = {"node_size": 4, "node_rate": "450 GB/s", "hosts_per_switch": 4}
    case = case_of(make(10, **nodes), all_reduce("direct"))
    bounds = lower_bounds(case)
    # the last of three nodes has two ranks; nodes fill switches, so both make the same cut
    assert bounds["nodes (slowest)"] == pytest.approx(100e6 / (2 * 50e9), rel=1e-12)
    assert float(times_of(case).time_s) >= max(bounds.values())


def test_a_trunk_that_is_down_is_refused_where_paths_are_dealt():
    keys, faults = (
        hyperx(),
        'links = [{ match = "switch 0 to *", down = true }]\nreroute = "spread"',
    )
    text = toml(network=keys, collective=all_reduce("ring"), faults=faults)
    with pytest.raises(SpecError, match="a hyperx like this goes around nothing"):
        run(load_spec(text), brief=True)


def test_one_switch_alone():
    case = case_of(hyperx(3, dims=[1, 1], hosts_per_switch=3), all_reduce("direct"))
    # two path latencies of two links, and twice two thirds of the buffer
    assert float(times_of(case).time_s) == pytest.approx(4 / 3 * 2e-3 + 2e-6, rel=1e-9)
    assert case.wiring.num_cables == 3


def test_a_message_takes_every_link_on_its_way():
    """On the Hoffman-Singleton graph: 1 or 2 links between switches, and one at either end."""
    plain = case_of(slim_fly(latency="1 us"), all_reduce("direct"))
    near = int(np.flatnonzero(mms_graph(5)[0])[0])
    far = int(np.flatnonzero(mms_graph(5)[0] + np.eye(50)[0] == 0)[0])
    for dst, links in ((near, 3), (far, 4)):
        peer = np.full((1, 50, 1), -1)
        peer[0, 0, 0] = dst
        case, params = with_table(plain, peer, 50e6)
        assert float(times_of(case, params).time_s) == pytest.approx(1e-3 + links * 1e-6, rel=1e-9)


def test_full_permutation_between_neighbours_fills_one_link_each():
    """Two switches of a row, both full: all traffic meets on the one cable between them."""
    plain = case_of(hyperx(4, dims=[2], latency="0 s"), all_reduce("direct"))
    peer = np.array([2, 3, 0, 1]).reshape(1, 4, 1)
    case, params = with_table(plain, peer, 50e6)
    assert float(times_of(case, params).time_s) == pytest.approx(2e-3, rel=1e-9)


def test_graphs_of_one_shape_share_compiled_code():
    shapes = set()
    for seed in range(3):
        fabric = wired(jellyfish(wiring_seed=seed, **ECMP)).network.fabric
        shapes.add((fabric.choices.shape, fabric.far_end.shape, fabric.first_choice.shape))
    assert len(shapes) == 1


# ---- refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: slim_fly(q=28), r"network\.q is no prime power.*28; use q = 27 or q = 29"),
        (lambda: slim_fly(q=6), r"network\.q.*got 6; use q = 5 or q = 7"),
        (lambda: slim_fly(q=2), r"network\.q.*got 2; use q = 3"),
        (lambda: slim_fly(101, hosts_per_switch=2), r"network\.ranks.*at most 100 ranks.*101"),
        (lambda: slim_fly(8, q=47), r"network makes 4,418 switches.*4,096"),
        (lambda: hyperx(13), r"network\.ranks.*at most 12 ranks.*13"),
        (lambda: hyperx(dims=[]), r"network\.dims must not be an empty list"),
        (lambda: hyperx(dims=[128, 128]), r"network makes 16,384 switches"),
        (lambda: hyperx(dims=[2**20, 2**20]), r"network makes 1,099,511,627,776 switches"),
        (lambda: jellyfish(17), r"network\.ranks.*at most 16 ranks.*17"),
        (lambda: jellyfish(switches=7), r"network\.network_ports leaves a port over.*3"),
        (lambda: jellyfish(switches=3), r"network\.network_ports must be below.*at most 2"),
        (lambda: jellyfish(network_ports=1), r"network\.network_ports cannot join.*at least 2"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(SpecError, match=message):
        wired(make())


def test_a_jellyfish_in_pieces_is_refused(monkeypatch):
    monkeypatch.setattr("mrcjax.network.jellyfish.ATTEMPTS", 1)
    message = r"network\.network_ports gave no connected graph.*at least 3"
    errors = []
    for seed in range(12):
        try:
            assert np.isfinite(shortest_path(random_graph(12, 2, seed))).all()
        except SpecError as error:
            errors.append(str(error))
    assert 0 < len(errors) < 12
    assert all(re.match(message, error) for error in errors)


def test_python_specs_are_checked_too():
    for kind, keys in (
        (SlimFly, {"q": 28}),
        (HyperX, {"dims": (2, 2), "hosts_per_switch": 1}),
        (Jellyfish, {"switches": 8, "network_ports": 3, "hosts_per_switch": 1}),
    ):
        with pytest.raises(SpecError):
            build(kind(ranks=1000, link="ethernet_400g", **keys))
