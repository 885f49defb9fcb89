"""Torus and mesh: who is joined to whom, which way sends go, and what is known about both."""

import itertools
import json
from collections import Counter
from pathlib import Path

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from runs import GB, all_reduce, case_of, flat, times_of, toml

from mrcjax.bound import lower_bounds
from mrcjax.collective import closed_form
from mrcjax.emulation import run
from mrcjax.network import build
from mrcjax.network.inventory import inventory
from mrcjax.network.torus import bisection_bytes_per_s, diameter, mean_hops
from mrcjax.spec import SpecError, example, load_spec

SIMGRID = Path(__file__).parents[2] / "shared" / "cases" / "simgrid"
GRIDS = [
    ((4, 4), True),
    ((2, 3, 4), True),
    ((5, 3), (True, False)),
    ((4, 2), (False, True)),
    ((3, 1, 2), False),
    ((7,), True),
]


def section(dims, wrap: bool | tuple = True, **more):
    keys = {"kind": "torus", "dims": list(dims), "link_rate": "100 GB/s", "latency": "1 us"}
    return {**keys, "wrap": list(wrap) if isinstance(wrap, tuple) else wrap, **more}


def spec_of(keys):
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    return load_spec(f'[network]\n{lines}\n[collective]\nkind = "all_reduce"\nsize = "1 MB"')


def run_of(network, collective, **engine):
    return run(load_spec(toml(network=network, collective=collective, engine=engine)))


def wiring_of(keys):
    return build(spec_of(keys).network)


def graph_of(wiring):
    """Write the links out as a graph, parallel ones as their summed capacity."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(wiring.network.ranks))
    for a, b, rate in zip(wiring.sender, wiring.receiver, wiring.capacity_bytes_per_s, strict=True):
        before = graph.get_edge_data(int(a), int(b), {"capacity": 0.0})["capacity"]
        graph.add_edge(int(a), int(b), capacity=before + float(rate))
    return graph


def ways(wiring, src, dst):
    """Return the links of every send, path by path: (paths, sends, hops), -1 = none."""
    relay, none = wiring.network.relay, wiring.network.num_links
    src, dst = (jnp.asarray(x)[None, :] for x in (src, dst))
    hops = relay.way(src, dst)
    links = np.stack([np.asarray(hop).reshape(-1, src.size) for hop in hops], axis=-1)
    return np.where(links == none, -1, links)


# ---- links


@pytest.mark.parametrize(("dims", "wrap"), GRIDS)
def test_neighbours_are_joined_both_ways(dims, wrap):
    wiring = wiring_of(section(dims, wrap))
    wraps = wrap if isinstance(wrap, tuple) else (wrap,) * len(dims)
    expected = Counter()
    for at in itertools.product(*(range(size) for size in dims)):
        for d, size in enumerate(dims):
            for step in (1, -1):
                to = list(at)
                to[d] += step
                if size == 1 or (not wraps[d] and not 0 <= to[d] < size):
                    continue
                to[d] %= size
                pair = (np.ravel_multi_index(x, dims, order="F") for x in (at, to))
                expected[tuple(int(x) for x in pair)] += 1
    ends = zip(wiring.sender.tolist(), wiring.receiver.tolist(), strict=True)
    assert Counter(ends) == expected
    assert 2 * wiring.num_cables == wiring.network.num_links == sum(expected.values())


def test_two_ranks_round_a_dimension_have_two_cables_or_one():
    two, one = (wiring_of(section((2, 3), double=double)) for double in (True, False))
    assert two.network.num_links == 6 * 4
    assert one.network.num_links == 6 * 3
    assert one.num_cables == 3 + 6


def test_rate_and_latency_per_dimension():
    keys = section((2, 3), link_rate=["100 GB/s", "50 GB/s"], latency=["1 us", "2 us"])
    wiring = wiring_of({**keys, "goodput": 0.5})
    names = [wiring.link_name(i) for i in range(wiring.network.num_links)]
    for name, rate, latency in zip(
        names, wiring.capacity_bytes_per_s, wiring.latency_s, strict=True
    ):
        is_first = "dimension 0" in name
        assert (rate, latency) == ((50e9, 1e-6) if is_first else (25e9, 2e-6))
    assert names[0] == "rank 0 egress dimension 0 up"
    assert len(set(names)) == len(names)


def test_mesh_is_a_torus_without_wrap():
    keys = section((4, 3), False)
    mesh = wiring_of({k: v for k, v in {**keys, "kind": "mesh"}.items() if k != "wrap"})
    torus = wiring_of(keys)
    assert mesh.network.kind == "mesh"
    np.testing.assert_array_equal(mesh.sender, torus.sender)
    np.testing.assert_array_equal(mesh.receiver, torus.receiver)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dims": []}, ("network.dims", "empty")),
        ({"dims": [0, 2]}, ("network.dims", "1")),
        ({"dims": [65536, 65536]}, ("network.dims", "ranks")),
        ({"ranks": 17}, ("network.ranks", "16")),
        ({"wrap": [True]}, ("network.wrap", "2 dimensions")),
        ({"link_rate": ["1 GB/s"]}, ("network.link_rate", "2 dimensions")),
        ({"latency": ["1 us"] * 3}, ("network.latency", "2 dimensions")),
        ({"node_size": 4, "node_rate": "1 GB/s"}, ("network.node_size", "torus")),
        ({"channels": 2}, ("network.channels", "torus")),
        ({"ties": "left"}, ("network.ties", "split")),
        ({"link": "ici_v5p"}, ("network.link", "keep one")),
        ({"rails": 3}, ("network.rails", "flat_rails")),
    ],
)
def test_impossible_grids_are_refused(change, words):
    with pytest.raises(SpecError) as error:
        wiring_of({**section((4, 4)), **change})
    for word in words:
        assert word in str(error.value)


def test_ranks_may_be_left_out_or_must_match():
    assert spec_of(section((4, 4))).network.ranks == 16
    assert spec_of(section((4, 4), ranks=16)).network.ranks == 16


# ---- ways


@pytest.mark.parametrize(("dims", "wrap"), GRIDS)
@pytest.mark.parametrize("ties", ["split", "up"])
def test_ways_are_shortest_in_dimension_order_and_end_at_the_receiver(dims, wrap, ties):
    wiring = wiring_of(section(dims, wrap, ties=ties))
    ranks = wiring.network.ranks
    src, dst = (x.reshape(-1) for x in np.mgrid[:ranks, :ranks])
    lengths = dict(nx.all_pairs_shortest_path_length(graph_of(wiring)))
    distance = wiring.network.relay.distance(src, dst)
    for paths in ways(wiring, src, dst):
        for a, b, links, hops in zip(src, dst, paths, distance, strict=True):
            links = links[links >= 0]
            assert len(links) == lengths[a][b] == hops
            at, order = a, []
            for link in links:
                assert wiring.sender[link] == at
                at = wiring.receiver[link]
                order.append(wiring.link_name(link).split()[4])
            assert at == b
            assert order == sorted(order)


def test_a_tie_takes_both_ways_round():
    wiring = wiring_of(section((4,)))
    up, down = ways(wiring, [0, 1], [2, 0])
    assert [wiring.link_name(i) for i in up[0]] == [
        f"rank {r} egress dimension 0 up" for r in (0, 1)
    ]
    assert [wiring.link_name(i) for i in down[0]] == [
        f"rank {r} egress dimension 0 down" for r in (0, 3)
    ]
    np.testing.assert_array_equal(up[1], down[1])


@pytest.mark.parametrize("dims", [(4, 6), (5, 2), (8,)])
def test_ties_up_is_simgrids_rule(dims):
    """Written out from the rule: up if t in (m, m + d/2], or from above the middle round to t."""
    wiring = wiring_of(section(dims, ties="up"))
    ranks = int(np.prod(dims))
    src, dst = (x.reshape(-1) for x in np.mgrid[:ranks, :ranks])
    (paths,) = ways(wiring, src, dst)
    for a, b, links in zip(src.tolist(), dst.tolist(), paths, strict=True):
        steps, stride = [], 1
        for d, size in enumerate(dims):
            m, t = a // stride % size, b // stride % size
            half, stride = size // 2, stride * size
            up = (t > m and t <= m + half) or (m > half and (m + half) % size >= t)
            hops = (t - m) % size if up else (m - t) % size
            steps += [f"{d} {'up' if up else 'down'}"] * hops
        names = [wiring.link_name(i).split("dimension ")[1] for i in links if i >= 0]
        assert names == steps


@pytest.mark.skipif(not SIMGRID.exists(), reason="the reference cases are not here")
@pytest.mark.parametrize("name", ["nn", "perm", "shift"])
def test_ties_up_takes_the_ways_of_simgrid(name):
    case = json.loads((SIMGRID / f"S4-torus-4x4x4-{name}.json").read_text())
    wiring = wiring_of(section((4, 4, 4), ties="up"))
    flows = [f for f in case["flows"] if f["src"] != f["dst"]]
    (paths,) = ways(wiring, [f["src"] for f in flows], [f["dst"] for f in flows])
    for flow, links in zip(flows, paths, strict=True):
        ends = [(int(wiring.sender[i]), int(wiring.receiver[i])) for i in links if i >= 0]
        at, walked = flow["src"], []
        for link in flow["route"]:
            a, b = (int(x) for x in case["link_names"][link].split("_")[3:6:2])
            walked.append((at, b if at == a else a))
            at = walked[-1][1]
        assert ends == walked


# ---- direct: offsets dealt to ports


@pytest.mark.parametrize("dims", [(4, 4), (2, 3, 4), (5, 3), (8, 8, 8), (6, 1, 2)])
def test_offsets_are_dealt_to_the_port_of_their_first_hop(dims):
    wiring = wiring_of(section(dims))
    table = wiring.network.relay.deal()
    assert sorted(table[table > 0]) == list(range(1, int(np.prod(dims))))
    for lane, offsets in enumerate(table.T):
        offsets = offsets[offsets > 0]
        if not len(offsets):
            continue
        first = ways(wiring, np.zeros(len(offsets), int), offsets)[..., 0]
        names = [[wiring.link_name(i) for i in path] for path in first]
        port = wiring.link_name(int(wiring.network.relay.firsts[lane])).split("egress ")[1]
        assert all(any(name.endswith(port) for name in pair) for pair in zip(*names, strict=True))
    busy = (table > 0).sum(axis=0)
    for up, down in zip(busy[::2], busy[1::2], strict=True):
        assert abs(int(up) - int(down)) <= 1


@pytest.mark.parametrize(
    ("dims", "more", "most"),
    [((4, 4, 4), {}, 1.05), ((5, 7), {}, 1.1), ((4, 6), {"kind": "mesh"}, 1.6)],
)
def test_all_to_all_comes_near_its_bound(dims, more, most):
    keys = section(dims)
    if more:
        del keys["wrap"]
    case = case_of({**keys, **more}, {"kind": "all_to_all", "size": "1 GB"})
    bound = max(lower_bounds(case).values())
    time = float(times_of(case).time_s)
    assert bound <= time <= most * bound


def test_all_to_all_loads_all_links_of_a_dimension_alike():
    case = case_of(section((4, 6)), {"kind": "all_to_all", "size": "1 GB"})
    load = np.asarray(times_of(case).link_bytes).reshape(2, 2, 24)
    np.testing.assert_allclose(load[0], 1e9 * 4 / 8, rtol=1e-12)
    np.testing.assert_allclose(load[1], 1e9 * 6 / 8, rtol=1e-12)


# ---- rings and dimensions in turn

LATE = 'late = [{ rank = 1, by = "3 ms" }]'


@pytest.mark.parametrize("dims", [(3, 3), (5,), (1, 4, 4), (2, 2)])
def test_rings_take_their_closed_form_on_equal_dimensions(dims):
    case = case_of(section(dims), all_reduce("rings", "1 GB"))
    times = times_of(case)
    expected = closed_form.grid_rings_s(dims, 1e9, 100 * GB, 1e-6)
    np.testing.assert_allclose(times.finish_s, expected, rtol=1e-9)
    load = np.asarray(times.link_bytes)
    np.testing.assert_allclose(load, load[0], rtol=1e-12)


def test_rings_on_unequal_dimensions_come_near_their_bound():
    case = case_of(section((3, 6)), all_reduce("rings", "1 GB"))
    bound = max(lower_bounds(case).values())
    time = float(times_of(case).time_s)
    assert bound < closed_form.grid_rings_s((3, 6), 1e9, 100 * GB, 1e-6) < time < 1.2 * bound


def test_a_late_rank_delays_rings_by_its_lateness():
    keys = (section((3, 3)), all_reduce("rings", "1 GB"), {})
    usual, late = (float(times_of(case_of(*keys, faults)).time_s) for faults in ({}, LATE))
    assert late == pytest.approx(usual + 3e-3, rel=1e-9)


@pytest.mark.parametrize("dims", [(2, 8), (8, 2), (3, 1, 5), (2, 3, 4)])
@pytest.mark.parametrize("network", ["torus", "flat_rails"])
def test_dimensions_in_turn_take_their_closed_form(dims, network):
    ranks, path_s = int(np.prod(dims)), 1e-6
    keys = section(dims, link_rate="200 GB/s")
    if network == "flat_rails":
        keys = flat(ranks, 2, "100 GB/s", "500 ns")
    many = all_reduce("hierarchical", "1 GB", between="ring", dimensions=list(dims))
    numbers = (1e9, (200 * GB,) * len(dims), (path_s,) * len(dims))
    expected = closed_form.levels_s(dims, *numbers)
    assert float(times_of(case_of(keys, many)).time_s) == pytest.approx(expected, rel=1e-9)


def test_dimensions_differ_in_rate_latency_and_algorithm():
    keys = section((4, 3), link_rate=["100 GB/s", "50 GB/s"], latency=["1 us", "3 us"])
    case = case_of(keys, all_reduce("hierarchical", "1 GB", between="ring"))
    numbers = ((100 * GB, 50 * GB), (1e-6, 3e-6))
    expected = closed_form.levels_s((4, 3), 1e9, *numbers)
    assert float(times_of(case).time_s) == pytest.approx(expected, rel=1e-9)
    rails = flat(12, 1, "100 GB/s", "500 ns")
    mixed = {"dimensions": [4, 3], "between": ["ring", "direct"]}
    case = case_of(rails, all_reduce("hierarchical", "1 GB", **mixed))
    numbers = ((100 * GB,) * 2, (1e-6,) * 2, ("ring", "direct"))
    expected = closed_form.levels_s((4, 3), 1e9, *numbers)
    assert float(times_of(case).time_s) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("dims", "chunks", "expected_s"),
    [((2, 8), 1, 9.375e-3), ((8, 2), 1, 9.375e-3), ((2, 8), 32, 5e-3), ((8, 2), 32, 8.75e-3)],
)
def test_order_of_dimensions_matters_once_they_overlap(dims, chunks, expected_s):
    keys = section(dims, link_rate="200 GB/s", latency="0 s")
    text = all_reduce("hierarchical", "1 GB", between="ring", chunks=chunks)
    outcome = run_of(keys, text)
    assert outcome.time_s == pytest.approx(expected_s, rel=1e-9 if chunks == 1 else 0.02)


# ---- properties


@pytest.mark.parametrize(("dims", "wrap"), GRIDS)
def test_mean_hops_and_diameter_are_those_of_the_graph(dims, wrap):
    spec = spec_of(section(dims, wrap)).network
    graph = graph_of(wiring_of(section(dims, wrap)))
    lengths = [hops for _, row in nx.all_pairs_shortest_path_length(graph) for hops in row.values()]
    assert mean_hops(spec.dims, spec.wraps) == pytest.approx(np.mean(lengths), rel=1e-12)
    assert diameter(spec.dims, spec.wraps) == max(lengths)


def test_mean_hops_of_even_rings_is_a_quarter_of_their_sizes():
    assert mean_hops((16, 32, 32), (True,) * 3) == 20
    assert diameter((16, 32, 32), (True,) * 3) == 40


@pytest.mark.parametrize(("dims", "wrap"), [((4, 4), True), ((2, 4), True), ((4, 2), False)])
def test_no_halving_of_the_ranks_is_narrower_than_the_bisection(dims, wrap):
    keys = section(dims, wrap, goodput=0.5)
    wiring, bisection = wiring_of(keys), bisection_bytes_per_s(spec_of(keys).network)
    ranks = wiring.network.ranks
    halves = itertools.combinations(range(1, ranks), ranks // 2)
    inside = np.zeros((len(list(halves)), ranks), bool)
    for row, half in zip(inside, itertools.combinations(range(1, ranks), ranks // 2), strict=True):
        row[list(half)] = True
    crosses = inside[:, wiring.sender] & ~inside[:, wiring.receiver]
    assert (crosses @ wiring.capacity_bytes_per_s).min() == pytest.approx(bisection, rel=1e-12)


@pytest.mark.parametrize(("dims", "wrap"), [((4, 4, 2), True), ((3, 6), (False, True))])
def test_maximum_flow_between_the_halves_is_the_bisection(dims, wrap):
    keys = section(dims, wrap)
    wiring, spec = wiring_of(keys), spec_of(keys).network
    graph = graph_of(wiring)
    flows = []
    for d, size in enumerate(dims):
        if size % 2:
            continue
        joined = graph.copy()
        stride = int(np.prod(dims[:d]))
        for rank in range(spec.ranks):
            if rank // stride % size < size // 2:
                joined.add_edge("from", rank)
            else:
                joined.add_edge(rank, "to")
        flows.append(nx.maximum_flow_value(joined, "from", "to"))
    assert min(flows) == pytest.approx(bisection_bytes_per_s(spec), rel=1e-9)


# ---- presets and inventory


def test_tpu_v5p():
    spec = load_spec(example("tpu_v5p"))
    assert spec.network.ranks == 1024
    assert spec.network.port_rates == (100 * GB,) * 6
    assert spec.network.cautions == ()
    pod = load_spec(example("tpu_v5p"), set="network.dims=[16, 20, 28]").network
    assert pod.ranks == 8960
    (caution,) = pod.cautions
    assert "6,144" in caution
    assert load_spec(example("tpu_v5p"), set="network.dims=[16, 16, 24]").network.cautions == ()
    with pytest.raises(SpecError, match="8,960"):
        load_spec(example("tpu_v5p"), set="network.dims=[16, 20, 29]")


def test_inventory_counts_cables():
    bill = inventory(spec_of(section((16, 32, 32))).network)
    assert bill.cables == 49152
    assert bill.switches == 0
    assert bill.usd == {}
