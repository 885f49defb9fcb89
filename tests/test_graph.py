"""Networks from a list of links: read from files, wired, routed, and timed by engine `chunk`."""

import itertools
import json

import jax.numpy as jnp
import networkx
import numpy as np
import pytest
from runs import all_reduce, case_of, flat, times_of

import mrcjax
from mrcjax.bound import lower_bounds
from mrcjax.network import build
from mrcjax.network.inventory import inventory
from mrcjax.spec import Graph, GraphLink, SpecError, load_spec, spec_to_toml
from mrcjax.units import BytesPerSecond, Seconds

RATE, LATENCY = "50 GB/s", "500 ns"


def link(one, other, **more) -> dict:
    return {"from": str(one), "to": str(other), **more}


def graph(links: list[dict], **more) -> dict:
    """Return the keys of a graph whose links have one rate unless they say otherwise."""
    return {"kind": "graph", "link_rate": RATE, "latency": LATENCY, **more, "links": links}


def star(ranks: int, rails: int = 1) -> list[dict]:
    return [link(r, f"plane {p}") for p in range(rails) for r in range(ranks)]


def case(network: dict, *sections):
    links = ", ".join(
        "{" + ", ".join(f"{k} = {json.dumps(v)}" for k, v in row.items()) + "}"
        for row in network["links"]
    )
    lines = [f"{k} = {json.dumps(v)}" for k, v in network.items() if k != "links"]
    return case_of("\n".join([*lines, f"links = [{links}]"]), *sections)  # type: ignore[arg-type]


def time_of(network: dict, *sections) -> float:
    made = case(network, *sections) if network["kind"] == "graph" else case_of(network, *sections)
    return float(times_of(made).time_s)


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
@pytest.mark.parametrize(("ranks", "rails"), [(7, 1), (5, 3)])
def test_a_star_per_rail_is_flat_rails(algorithm, ranks, rails):
    """Also with a cable to each rail: lanes must keep to theirs."""
    found = time_of(graph(star(ranks, rails), load_balancing="ecmp"), all_reduce(algorithm))
    expected = time_of(flat(ranks, rails), all_reduce(algorithm))
    assert found == pytest.approx(expected, rel=1e-12)


def test_ideal_takes_all_rails_of_a_rank_at_once():
    """Two ranks on four rails: the one shard goes over all of them, and nothing waits."""
    found = time_of(graph(star(2, 4), load_balancing="ideal"), all_reduce("direct"))
    assert found == pytest.approx(2 * (50e6 / 200e9 + 1e-6), rel=1e-12)


@pytest.mark.parametrize("ranks", [2, 5])
def test_ranks_joined_directly_are_direct_wiring(ranks):
    mesh = [link(a, b) for a, b in itertools.combinations(range(ranks), 2)]
    wired = flat(ranks, ranks - 1, reach="direct")
    assert time_of(graph(mesh), all_reduce("direct")) == pytest.approx(
        time_of(wired, all_reduce("direct")), rel=1e-12
    )


def test_parallel_cables_of_a_rank_are_kept_apart_and_all_used():
    """Four cables to one switch carry four lanes, as four rails do."""
    cables = [link(r, "switch") for r in range(5) for _ in range(4)]
    found = case(graph(cables, load_balancing="ecmp"), all_reduce("direct"))
    assert found.network.ports == 4
    assert found.wiring.link_name(0) == "rank 0 to switch #1"
    expected = time_of(flat(5, 4), all_reduce("direct"))
    assert float(times_of(found).time_s) == pytest.approx(expected, rel=1e-12)


def test_slow_and_far_link_counts():
    """A ring of three ranks over a star, one of whose cables is slower and longer."""
    links = [link(0, "s"), link(1, "s"), link(2, "s", rate="10 GB/s", latency="3 us")]
    shard, slow, lat = 100e6 / 3, 10e9, 4 * 500e-9
    # the slow rank sends and receives 4 shards; in between its neighbours wait
    found = time_of(graph(links), all_reduce("ring"))
    assert found > 4 * shard / slow + lat
    assert found == pytest.approx(4 * shard / slow, rel=0.01)


def test_links_are_full_duplex_unless_directed():
    one_way = [link(0, 1, directed=True), link(1, 2, directed=True), link(2, 0, directed=True)]
    made = case(graph(one_way), all_reduce("ring"))
    assert made.wiring.num_physical_links == 3
    assert case(graph([link(0, 1)]), all_reduce("ring")).wiring.num_physical_links == 2
    # 2 (n - 1) (S / n / B + latency): every step is one link
    expected = 4 * (100e6 / 3 / 50e9 + 500e-9)
    assert float(times_of(made).time_s) == pytest.approx(expected, rel=1e-12)


def routes_of(fabric, pairs: np.ndarray, lanes: int = 1):
    src, dst = (jnp.broadcast_to(jnp.asarray(x), (lanes, len(x))) for x in pairs.T)
    links, shares = fabric.path(src, dst, jnp.broadcast_to(jnp.arange(lanes)[:, None], src.shape))
    stacked = np.stack([np.asarray(x).reshape(-1, lanes, len(pairs)) for x in links], axis=-1)
    if shares is None:
        shares = np.full(stacked.shape[:-1], 1 / len(stacked))
    return stacked, np.asarray(shares)


def random_graph(seed: int):
    """Return a connected graph with parallel links, and its spec keys."""
    rng = np.random.default_rng(seed)
    plain = networkx.gnm_random_graph(11, 20, seed=seed)
    parts = [sorted(c) for c in networkx.connected_components(plain)]
    plain.add_edges_from((parts[0][0], part[0]) for part in parts[1:])
    names = [str(n) if n < 6 else f"s{n}" for n in range(11)]
    edges = [(a, b) for a, b in plain.edges for _ in range(rng.integers(1, 3))]
    return plain, [link(names[a], names[b]) for a, b in edges], edges


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("balancing", ["ecmp", "spray", "ideal"])
def test_routes_are_shortest_paths_that_hang_together(seed, balancing):
    plain, links, edges = random_graph(seed)
    more = {"paths": 5} if balancing == "spray" else {}
    made = case(graph(links, load_balancing=balancing, ranks=6, **more), all_reduce("ring"))
    fabric = made.network.fabric
    pairs = np.array(list(itertools.permutations(range(6), 2)))
    found, shares = routes_of(fabric, pairs, lanes=2)
    tail, head = np.asarray(fabric.tail), np.asarray(fabric.head)
    assert np.allclose(shares.sum(axis=0), 1)
    for path, lane, pair in np.ndindex(found.shape[:3]):
        src, dst = pairs[pair]
        taken = [x for x in found[path, lane, pair] if x != made.network.no_link]
        if shares[path, lane, pair] == 0:
            assert not taken
            continue
        assert len(taken) == networkx.shortest_path_length(plain, src, dst)
        assert tail[taken[0]] == src
        assert head[taken[-1]] == dst
        assert all(head[a] == tail[b] for a, b in itertools.pairwise(taken))


@pytest.mark.parametrize("seed", range(4))
def test_ideal_takes_every_shortest_path_once_and_evenly(seed):
    """Parallel links make paths of their own; of paths as short, those past fewest ranks count."""
    plain, links, edges = random_graph(seed)
    made = case(graph(links, ranks=6), all_reduce("ring"))
    pairs = np.array(list(itertools.permutations(range(6), 2)))
    found, shares = routes_of(made.network.fabric, pairs)
    often = {(a, b): n for a, b in edges for n in [edges.count((a, b))]}
    for pair, (src, dst) in enumerate(pairs):
        taken = [tuple(x) for x, s in zip(found[:, 0, pair], shares[:, 0, pair], strict=True) if s]
        paths = list(networkx.all_shortest_paths(plain, src, dst))
        fewest = min(sum(n < 6 for n in p) for p in paths)
        expected = sum(
            np.prod([often.get((a, b), often.get((b, a))) for a, b in itertools.pairwise(p)])
            for p in paths
            if sum(n < 6 for n in p) == fewest
        )
        assert len(taken) == len(set(taken)) == expected


def test_leaves_bound_what_passes_between_them():
    """Two leaves of three ranks with one cable between: S must cross it each way."""
    links = [*(link(r, f"leaf {r // 3}") for r in range(6)), link("leaf 0", "leaf 1")]
    made = case(graph(links), all_reduce("direct"))
    bounds = lower_bounds(made)
    assert bounds["leaves (all)"] == pytest.approx(100e6 / 50e9)
    assert bounds["latency"] == pytest.approx(1.5e-6)
    assert float(times_of(made).time_s) >= max(bounds.values())


def test_latency_bound_takes_the_least_way_not_the_shortest():
    links = [
        link(0, 1, latency="9 us"),
        link(0, "a", latency="1 us"),
        link("a", "b", latency="1 us"),
        link("b", 1, latency="1 us"),
    ]
    assert lower_bounds(case(graph(links), all_reduce("ring")))["latency"] == pytest.approx(3e-6)


def test_unreachable_pair_is_refused_with_both_names():
    links = [link(0, "a"), link(1, "a"), link(2, "b"), link(3, "b")]
    with pytest.raises(SpecError, match='no way from "rank 0" to "rank 2".*7 other pairs'):
        case(graph(links), all_reduce("ring"))
    with pytest.raises(SpecError, match='no way from "rank 0" to "rank 1"'):
        case(graph([link(1, 0, directed=True)]), all_reduce("ring"))


def test_too_many_shortest_paths_are_refused_with_the_number():
    links = [link(r, "a" if r < 2 else "b") for r in range(4)]
    links += [link("a", f"s{i}") for i in range(65)] + [link("b", f"s{i}") for i in range(65)]
    with pytest.raises(SpecError, match='"rank 0" to "rank 2" there are 65;.*"ideal".*spray'):
        case(graph(links), all_reduce("ring"))
    case(graph(links, load_balancing="ecmp"), all_reduce("ring"))


def test_long_routes_and_large_tables_are_refused(monkeypatch):
    chain = [link(a, a + 1) for a in range(70)]
    with pytest.raises(SpecError, match="70 links apart, and the most is 64"):
        case(graph(chain), all_reduce("ring"))
    monkeypatch.setattr("mrcjax.network.graph.MOST_ENTRIES", 50)
    with pytest.raises(SpecError, match="12 links, 7 nodes and 6 ranks.* 72 entries"):
        case(graph(star(6)), all_reduce("ring"))
    # ranks without a link take rows of the tables too
    with pytest.raises(SpecError, match="4 links, 9 nodes and 8 ranks.* 72 entries"):
        case(graph(star(2), ranks=8), all_reduce("ring"))


def test_a_fault_matches_a_cable_by_name():
    links = [link(0, "s", name="uplink"), link(1, "s")]
    network = graph(links)
    whole = time_of(network, all_reduce("ring"))
    half = case(network, all_reduce("ring"), {}, 'links = [{ match = "uplink*", rate = 0.5 }]')
    assert half.wiring.link_name(0) == "uplink: rank 0 to s"
    assert float(times_of(half).time_s) == pytest.approx(2 * whole, rel=0.01)


def test_inventory_counts_and_prices_nothing():
    links = (*star(4), link("plane 0", "other"))
    rows = tuple(GraphLink(from_=x["from"], to=x["to"], rate=BytesPerSecond(1e9)) for x in links)
    found = inventory(Graph(links=rows, latency=Seconds(1e-6)))
    assert (found.switches, found.host_cables, found.switch_cables, found.cables) == (2, 4, 1, 5)
    assert not found.usd
    assert "not priced" in found.notes[0]


# ---- files

HEADER = "from,to,rate,latency\n"
SPEC = '[network]\nkind = "graph"\nfile = "{}"\n[collective]\nkind = "all_reduce"\nsize = "1 MB"\n'


def spec_with(tmp_path, name: str, text: str):
    (tmp_path / name).write_text(text)
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.format(name))
    return load_spec(spec)


GRAPHML = """<?xml version="1.0"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="r" for="edge" attr.name="rate" attr.type="string"/>
<key id="l" for="edge" attr.name="latency" attr.type="string"/>
<key id="n" for="node" attr.name="name" attr.type="string"/>
<graph edgedefault="undirected">
<node id="a"><data key="n">rank 0</data></node><node id="b"><data key="n">1</data></node>
<node id="s"/>
<edge source="a" target="s"><data key="r">50 GB/s</data><data key="l">500 ns</data></edge>
<edge source="b" target="s"><data key="r">50 GB/s</data><data key="l">500 ns</data></edge>
</graph></graphml>
"""
FILES = {
    "net.csv": HEADER + "0,s,50 GB/s,500 ns\n# a remark\n\nrank 1,s,50 GB/s,500 ns",
    "net.json": json.dumps(
        {"links": [link(r, "s", rate="50 GB/s", latency="500 ns") for r in range(2)]}
    ),
    "list.json": json.dumps([{"from": r, "to": "s", "rate": "400 Gbit/s"} for r in range(2)]),
    "net.graphml": GRAPHML,
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_kind_say_the_same(tmp_path, name):
    spec = spec_with(tmp_path, name, FILES[name])
    assert spec.network.ranks == 2
    assert isinstance(spec.network, Graph)
    wiring = build(spec.network)
    names = [wiring.link_name(i) for i in range(4)]
    assert names == ["rank 0 to s", "rank 1 to s", "s to rank 0", "s to rank 1"]
    assert wiring.capacity_bytes_per_s.tolist() == [50e9] * 4
    assert wiring.latency_s.tolist() == [500e-9] * 4
    # written back it names the file from where it was found, and knows the ranks without it
    text = spec_to_toml(spec)
    assert load_spec(text) == spec
    (tmp_path / name).unlink()
    assert load_spec(text).network.ranks == 2


BAD_FILES = [
    ("net.csv", HEADER, ("has a header and no links", "net.csv")),
    ("net.csv", "", ("has no links",)),
    ("net.csv", "from,rate\n0,1 GB/s\n", ("line 2", 'has no "to"')),
    ("net.csv", "from,to,speed\n0,1,5\n", ('"speed"', "is no column of links", "rate")),
    ("net.csv", "from,to,rat\n0,1,5\n", ('did you mean "rate"?',)),
    (
        "net.csv",
        HEADER + "0,1,1 GB/s,1 us\n1,2,1 G",
        ("line 3", "has 3 cells for the 4", "cut off"),
    ),
    ("net.csv", HEADER + "0,1,1 GB/s,1 us\n1,2,1 GB/s,5", ("line 3, latency", "no unit")),
    ("net.csv", HEADER + "0,1,0 GB/s,1 us\n", ("line 2, rate", "above zero", "0 GB/s")),
    ("net.csv", HEADER + "0,1,-3 GB/s,1 us\n", ("line 2, rate", "negative")),
    ("net.csv", HEADER + "0,1,1 GB/s,-1 us\n", ("line 2, latency", "negative")),
    ("net.csv", HEADER + "0,1,,1 us\n", ("line 2 has no rate", "link_rate")),
    ("net.csv", HEADER + "a,a,1 GB/s,1 us\n", ("line 2", 'joins "a" to itself')),
    ("net.csv", HEADER + '0,1,"1 GB/s,1 us\n', ("no CSV", "cut off")),
    ("net.csv", "from,to,directed\n0,1,maybe\n", ("directed must be true or false", "maybe")),
    ("net.csv", "from,from\n0,1\n", ("has a column twice",)),
    ("net.json", '{"links": [{"from": 0, "to"', ("no JSON", "cut off")),
    ("net.json", '{"edges": []}', ('key "links"',)),
    ("net.json", "[]", ("has no links",)),
    ("net.json", "[3]", ("net.json links[0] must be an object", "3")),
    (
        "net.json",
        '[{"from": 0, "to": 1, "rate": 5e9}]',
        ("links[0], rate", "no unit", "5000000000.0"),
    ),
    ("net.graphml", GRAPHML[:-30], ("no GraphML", "cut off")),
    ("net.graphml", GRAPHML.replace("?>", '?><!DOCTYPE x [<!ENTITY e "1">]>'), ("no GraphML",)),
    ("net.graphml", GRAPHML.replace("50 GB/s", "fast"), ("edge 0, rate", "fast")),
]


@pytest.mark.parametrize(("name", "text", "parts"), BAD_FILES)
def test_bad_file_is_refused_in_words(tmp_path, name, text, parts):
    with pytest.raises(SpecError) as caught:
        spec_with(tmp_path, name, text)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ranks_that_are_given_are_checked(tmp_path):
    (tmp_path / "net.csv").write_text(FILES["net.csv"])
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.format("net.csv"))
    with pytest.raises(SpecError, match='has "rank 1", but network.ranks is 1'):
        mrcjax.build(load_spec(spec, set="network.ranks=1"))
    with pytest.raises(SpecError, match='no way from "rank 0" to "rank 2"'):
        mrcjax.build(load_spec(spec, set="network.ranks=3"))
