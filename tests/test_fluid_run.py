"""Engine `fluid` through `run`: against SimGrid, against engine `chunk`, and against the bounds."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runs import all_reduce, case_of, flat, time_s, toml, with_table

import mrcjax
from mrcjax.engine import emulate_sends
from mrcjax.fluid import write_out
from mrcjax.spec import SpecError, load_spec

CASES = sorted((Path(__file__).parents[2] / "shared" / "cases" / "simgrid").glob("*.json"))
FLUID = {"kind": "fluid"}


def run(engine=FLUID, **sections):
    return quick(load_spec(toml(engine=engine, **sections)))


def quick(spec):
    """Run it, compiled without optimisation: most of the time here is the compiler's."""
    return mrcjax.run(spec, brief=True)


# ---- SimGrid's cases from files


def nodes_of_links(case: dict) -> list[tuple[str, str]]:
    """Ends of every link, found from the routes: a link begins where the one before it ends."""
    links = len(case["link_names"])
    same = list(range(2 * links + case["endpoints"]))  # tails, heads, ranks

    def root(x: int) -> int:
        while same[x] != x:
            x = same[x]
        return x

    for flow in case["flows"]:
        path = flow["route"]
        pairs = [(2 * links + flow["src"], path[0]), (2 * links + flow["dst"], links + path[-1])]
        pairs += [(links + a, b) for a, b in zip(path, path[1:], strict=False)]
        for one, other in pairs:
            same[root(one)] = root(other)
    name = {root(2 * links + rank): str(rank) for rank in range(case["endpoints"])}
    assert len(name) == case["endpoints"]
    return [
        tuple(name.get(root(end), f"node {root(end)}") for end in (link, links + link))
        for link in range(links)
    ]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_flows_of_simgrid_finish_when_it_says(path, tmp_path):
    case = json.loads(path.read_text())
    with (tmp_path / "net.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["from", "to", "name", "directed"])
        for name, ends in zip(case["link_names"], nodes_of_links(case), strict=True):
            rows.writerow([*ends, name, "true"])
    with (tmp_path / "flows.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["src", "dst", "bytes", "start", "route"])
        for flow in case["flows"]:
            route = ";".join(case["link_names"][link] for link in flow["route"])
            start = f"{flow['start_s']!r} s"
            rows.writerow([flow["src"], flow["dst"], flow["bytes"], start, route])
    (tmp_path / "spec.toml").write_text(
        toml(
            network={
                "kind": "graph",
                "ranks": case["endpoints"],
                "file": "net.csv",
                "link_rate": f"{case['link_bandwidth_Bps']} B/s",
                "latency": f"{case['link_latency_s']} s",
                "load_balancing": "ecmp",
            },
            traffic={"kind": "file", "file": "flows.csv"},
            engine=FLUID,
        )
    )
    outcome = quick(load_spec(tmp_path / "spec.toml"))
    assert outcome.flows is not None
    expected = [flow["finish_s"] for flow in case["flows"]]
    assert outcome.flows.finish_s == pytest.approx(expected, rel=1e-9)
    assert outcome.time_s == pytest.approx(max(expected), rel=1e-9)
    assert outcome.lower_bound_s <= outcome.time_s * (1 + 1e-12)


# ---- against chunk, where nobody has to share

NODES = {
    "kind": "flat_rails", "ranks": 12, "rails": 2, "rail_rate": "50 GB/s", "latency": "500 ns",
    "node_size": 4, "node_rate": "400 GB/s", "endpoint_latency": "3 us",
}  # fmt: skip
TREE = {"kind": "fat_tree", "ranks": 16, "radix": 8, "link_rate": "50 GB/s"}
LATE = "late = [{ rank = 1, by = '3 ms' }, { rank = 2, by = '10 us' }]"
ALIKE = {
    "ring of 7": (flat(7), all_reduce("ring"), ""),
    "ring of 3 on rails": (flat(3, 2), all_reduce("ring"), ""),
    "direct of 7 on 3 rails": (flat(7, 3), all_reduce("direct"), ""),
    "direct on a tree": ({**TREE, "latency": "0 s"}, all_reduce("direct"), ""),
    "one rank": (flat(1), all_reduce("ring"), ""),
    "no bytes": (flat(5), all_reduce("ring", "0 B"), ""),
    "late direct": (flat(3, 2), all_reduce("direct"), LATE),
    "far": (flat(4, endpoint_latency="4 us", goodput=0.9), all_reduce("ring"), ""),
    "nodes, direct": (NODES, all_reduce("hierarchical"), ""),
    "nodes, ring in pieces": (NODES, all_reduce("hierarchical", between="ring", chunks=2), ""),
    "wired ring": (flat(6, 3, reach=[3, 2]), all_reduce("ring"), ""),
}


@pytest.mark.parametrize("name", ALIKE)
def test_chunk_and_fluid_agree_where_no_link_is_shared(name):
    network, collective, faults = ALIKE[name]
    fair, chunk = (
        run(engine, network=network, collective=collective, faults=faults) for engine in (FLUID, {})
    )
    assert fair.time_s == pytest.approx(chunk.time_s, rel=1e-9)
    assert fair.finish_s == pytest.approx(chunk.finish_s, rel=1e-9)
    assert fair.link_bytes == pytest.approx(chunk.link_bytes, rel=1e-9)
    assert fair.bounds_s == chunk.bounds_s


CONTENDED = {
    "sprayed tree": ({**TREE, "load_balancing": "spray", "paths": 4}, "direct"),
    "2:1 tree": ({**TREE, "oversubscription": 2}, "direct"),
    "unequal rails": (flat(6, 2, ["50 GB/s", "20 GB/s"]), "direct"),
    "dragonfly": (
        {
            "kind": "dragonfly", "ranks": 16, "hosts_per_router": 2, "routers_per_group": 2,
            "global_links_per_router": 2, "groups": 4, "link_rate": "50 GB/s",
            "load_balancing": "ecmp",
        },
        "direct",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENDED)
def test_shared_links_never_beat_the_bound(name):
    network, algorithm = CONTENDED[name]
    for engine in (FLUID, {"kind": "chunk"}):
        outcome = run(engine, network=network, collective=all_reduce(algorithm))
        assert outcome.bound_ratio >= 1 - 1e-9
        assert outcome.time_s >= outcome.schedule_bound_s * (1 - 1e-9)


def test_a_table_waits_for_what_it_says():
    """Rank 0 sends to 1 and 2; rank 1 goes on after its lane's arrival, rank 2 after all."""
    case = case_of(flat(3), all_reduce("ring"), FLUID)
    peer = np.full((3, 3, 1), -1)
    needs = np.zeros((3, 3, 1), int)
    peer[0, 0], peer[1, 1], peer[1, 0], peer[2, 2] = 1, 2, 2, 0
    needs[1, 1], needs[2, 2] = 1, 2
    tabled, params = with_table(case, peer, 50e3, needs)
    written = write_out(replace(tabled, params=params))
    found = emulate_sends(written.sends, params.capacity_bytes_per_s, params.latency_s)
    # each 1 us to drain and 1 us on the way; the second send of rank 0 follows the first at once
    assert np.asarray(found.delivered_s) == pytest.approx([2e-6, 3e-6, 4e-6, 6e-6], rel=1e-9)


def test_too_many_sends_are_refused_with_the_number():
    with pytest.raises(SpecError, match=r'would be 2,095,104.*"fluid"; engine.kind = "chunk"'):
        run(
            network={"kind": "fat_tree", "ranks": 1024, "radix": 64, "link_rate": "1 GB/s",
                     "load_balancing": "spray", "paths": 64},
            collective=all_reduce("direct"),
        )  # fmt: skip


def test_outcome_says_what_the_engine_did(tmp_path):
    outcome = run(network=flat(5), collective=all_reduce("ring"))
    assert outcome.fluid is not None
    said = outcome.to_json()["fluid"]
    assert said["sends"] == 2 * 4 * 5
    assert 1 <= said["events"] <= 2 * said["sends"]
    assert outcome.to_json()["rules"] == {"egress": "max-min", "ingress": "max-min"}
    mrcjax.write(tmp_path / "run.h5", [outcome], command="test")
    assert mrcjax.load(tmp_path / "run.h5").run().to_json()["fluid"] == said


def test_a_link_that_is_down_is_refused_by_name():
    with pytest.raises(SpecError, match='"rank 1 egress rail 0" is down'):
        run(
            network=flat(3),
            collective=all_reduce("ring"),
            faults="links = [{ match = 'rank 1 egress *', rate = 0 }]",
        )


# ---- traffic

STAR = flat(5, latency="0 s")


def traffic_times(network, **traffic) -> tuple:
    outcome = run(network=network, traffic=traffic)
    assert outcome.flows is not None
    assert outcome.bound_ratio >= 1 - 1e-9
    return outcome, outcome.flows


def test_incast_shares_the_receivers_port():
    outcome, flows = traffic_times(STAR, kind="incast", size="1 GB", to=3, senders=3)
    assert flows.src.tolist() == [4, 0, 1]
    assert flows.finish_s == pytest.approx([3 / 50] * 3)
    assert outcome.time_s == pytest.approx(outcome.lower_bound_s)
    assert outcome.finish_s == pytest.approx([0.06, 0.06, 0, 0.06, 0.06])
    assert (outcome.collective, outcome.algorithm) == ("traffic", "incast")
    assert outcome.size_bytes == 3e9


@pytest.mark.parametrize("reroute", ["none", "spread"])
def test_a_flow_over_a_link_that_is_down_is_refused_by_name(reroute):
    def down(match: str, size: str = "1 GB"):
        faults = f'links = [{{ match = "{match}", down = true }}]\nreroute = "{reroute}"'
        traffic = {"kind": "incast", "size": size, "to": 3, "senders": 1}
        return run(network=STAR, traffic=traffic, faults=faults)

    said = 'a flow needs "rank 4 egress rail 0", which is down'
    with pytest.raises(SpecError, match=said):
        down("rank 4 egress *")
    assert down("rank 1 *").time_s == pytest.approx(1 / 50)
    assert down("rank 4 *", "0 B").time_s == 0  # nothing needs the link


def test_permutation_is_seeded_and_all_at_once():
    one, flows = traffic_times(STAR, kind="permutation", size="1 GB", seed=4)
    assert sorted(set(flows.src)) == sorted(flows.src)
    assert sorted(set(flows.dst)) == sorted(flows.dst)
    assert flows.finish_s == pytest.approx(1 / 50)
    again, _ = traffic_times(STAR, kind="permutation", size="1 GB", seed=4)
    assert again.flows.dst.tolist() == flows.dst.tolist()
    assert one.seeds["traffic"] == 4


def test_all_to_all_and_neighbours_are_bound_by_the_ports():
    outcome, flows = traffic_times(STAR, kind="all_to_all", size="1 GB")
    assert len(set(zip(flows.src, flows.dst, strict=True))) == 20
    assert outcome.time_s == pytest.approx(4 / 50)
    outcome, flows = traffic_times(STAR, kind="nearest_neighbour", size="1 GB", strides=[1, -1, 2])
    assert len(flows.src) == 15
    assert outcome.time_s == pytest.approx(3 / 50)


def test_neighbours_on_a_grid_are_those_that_a_cable_joins():
    grid = {"kind": "torus", "dims": [4, 3], "link_rate": "50 GB/s", "latency": "0 ns"}
    outcome, flows = traffic_times(grid, kind="nearest_neighbour", size="1 GB")
    assert len(flows.src) == 4 * 12
    assert outcome.time_s == pytest.approx(1 / 50)  # every flow has a cable to itself
    outcome, flows = traffic_times(grid, kind="nearest_neighbour", size="1 GB", strides=[1])
    assert len(flows.src) == 12


def test_a_flow_takes_all_rails_of_a_rank():
    outcome, _ = traffic_times(flat(4, 4), kind="permutation", size="1 GB", seed=2)
    assert outcome.time_s == pytest.approx(1 / 200 + 1e-6)


def flows_file(tmp_path, text: str, network=STAR, name: str = "flows.csv"):
    (tmp_path / name).write_text(text)
    spec = tmp_path / "spec.toml"
    traffic = {"kind": "file", "file": name}
    spec.write_text(toml(network=network, traffic=traffic, engine=FLUID))
    return quick(load_spec(spec))


def test_sends_of_a_file_wait_for_each_other(tmp_path):
    text = "id,src,dst,bytes,start,after,delay\n"
    text += "a,0,1,50000,1 us,,\nb,1,2,0.1 MB,,a,5 us\nc,2,3,50000,,a;b,\nd,rank 4,0,0,2 us,,\n"
    outcome = flows_file(tmp_path, text)
    assert outcome.flows is not None
    assert outcome.flows.finish_s == pytest.approx([2e-6, 9e-6, 10e-6, 2e-6])
    assert outcome.bounds_s["flows alone"] == pytest.approx(10e-6)
    rows = [{"src": 0, "dst": 1, "bytes": 50000}, {"src": 1, "dst": 2, "bytes": 1, "after": [0]}]
    outcome = flows_file(tmp_path, json.dumps({"sends": rows}), name="flows.json")
    assert outcome.time_s == pytest.approx(1e-6, rel=1e-3)


SQUARE = """
kind = "graph"
link_rate = "50 GB/s"
latency = "1 us"
links = [{ from = "0", to = "a", name = "left" }, { from = "a", to = "1" },
         { from = "0", to = "b" }, { from = "b", to = "1" }, { from = "b", to = "1" }]
"""


@pytest.mark.parametrize(
    "route", ["left;a to rank 1", "left: rank 0 to a; 1", "0;a;1", "rank 0 to a;a to rank 1"][:3]
)
def test_routes_are_given_by_links_or_nodes(tmp_path, route):
    outcome = flows_file(tmp_path, f"src,dst,bytes,route\n0,1,50000,{route}\n", SQUARE)
    used = {outcome.link_name(i) for i in np.flatnonzero(outcome.link_bytes)}
    assert used == {"left: rank 0 to a", "a to rank 1"}
    assert outcome.time_s == pytest.approx(3e-6)


def test_routes_not_given_are_looked_up_beside_those_given(tmp_path):
    outcome = flows_file(tmp_path, "src,dst,bytes,route\n0,1,5e4,0;a;1\n1,0,5e4,\n", SQUARE)
    assert outcome.flows is not None
    # back over all three shortest paths: one third of the flow on each, two thirds on one link
    assert outcome.flows.finish_s == pytest.approx([3e-6, 2e-6 + 2e-6 / 3])


def test_link_names_give_routes_on_any_network(tmp_path):
    route = "rank 0 egress rail 0;rank 1 ingress rail 0"
    outcome = flows_file(tmp_path, f"src,dst,bytes,route\n0,1,50000,{route}\n", flat(3, 2))
    assert outcome.time_s == pytest.approx(2e-6)


BAD_FLOWS = [
    ("src,dst,bytes\n", "has a header and no sends"),
    ("src,dst\n0,1\n", 'line 2 has no "bytes"'),
    ("src,dst,bytes\n0,5,1\n", "line 2, dst must be a rank.*0 to 4"),
    ("src,dst,bytes\n0,x,1\n", "line 2, dst must be a rank"),
    ("src,dst,bytes\n0,0,1\n", "rank 0 sends to itself"),
    ("src,dst,bytes\n0,1,-1\n", "line 2, bytes must be finite and not negative"),
    ("src,dst,bytes\n0,1,nan\n", "line 2, bytes must be finite"),
    ("src,dst,bytes\n0,1,1 s\n", "line 2, bytes must be a size"),
    ("src,dst,bytes,start\n0,1,1,5\n", "line 2, start has no unit"),
    ("src,dst,bytes,delay\n0,1,1,5 us\n", "delay has no effect without after"),
    ("src,dst,bytes,after\n0,1,1,9\n", 'after names no send: "9"'),
    ("src,dst,bytes,after\n0,1,1,1\n1,2,1,0\n", "after waits for itself in the end"),
    ("src,dst,bytes,id\n0,1,1,a\n1,2,1,a\n", '"a" names two sends'),
    ("src,dst,bytes,route\n0,1,1,nowhere\n", 'route "nowhere" is no link.*egress'),
    ("src,dst,bytes,route\n0,1,1,rank 0 egress rail 0\n", "must lead from rank 0 to rank 1"),
    ("src,dst,byte\n0,1,1\n", 'did you mean "bytes"'),
]


@pytest.mark.parametrize(("text", "said"), BAD_FLOWS)
def test_bad_sends_are_refused_in_words(tmp_path, text, said):
    with pytest.raises(SpecError, match=said):
        flows_file(tmp_path, text)


@pytest.mark.parametrize(
    ("route", "said"),
    [
        ("0;b;a;1", 'cannot go on with "a"'),
        ("0;a", "must lead from rank 0 to rank 1"),
        ("left", "must lead from rank 0 to rank 1"),
        ("left;rank 0 to b", 'cannot go on with "rank 0 to b"'),
    ],
)
def test_routes_that_do_not_hang_together_are_refused(tmp_path, route, said):
    with pytest.raises(SpecError, match=said):
        flows_file(tmp_path, f"src,dst,bytes,route\n0,1,1,{route}\n", SQUARE)


def test_flows_are_archived(tmp_path):
    outcome = run(network=STAR, traffic={"kind": "incast", "size": "1 GB"})
    mrcjax.write(tmp_path / "run.h5", [outcome], command="test")
    stored = mrcjax.load(tmp_path / "run.h5").run()
    assert stored.to_json() == outcome.to_json()
    assert outcome.flows is not None
    assert stored.flows.src.tolist() == outcome.flows.src.tolist()


def test_unreachable_flow_is_refused_and_others_are_not(tmp_path):
    parts = SQUARE.replace("kind", "ranks = 3\nkind")
    assert flows_file(tmp_path, "src,dst,bytes\n0,1,1\n", parts).time_s > 0
    with pytest.raises(SpecError, match=re.escape('no way from "rank 0" to "rank 2"')):
        flows_file(tmp_path, "src,dst,bytes\n0,2,1\n", parts)


def test_time_of_chunk_is_untouched_by_the_other_engine():
    assert time_s(flat(4), all_reduce("ring")) == pytest.approx(6 * (25e6 / 50e9 + 1e-6))
