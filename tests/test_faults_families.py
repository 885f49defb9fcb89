"""Links that are down on graphs, tori, GPU nodes and switches that reduce: rerouted or refused."""

import pytest
from runs import all_reduce, toml

import mrcjax
from mrcjax.spec import SpecError, load_spec

SQUARE = """
kind = "graph"
link_rate = "50 GB/s"
latency = "1 us"
load_balancing = "{}"
links = [{{ from = "0", to = "a" }}, {{ from = "a", to = "1" }},
         {{ from = "0", to = "b" }}, {{ from = "b", to = "1" }}, {{ from = "b", to = "1" }}]
"""
TORUS = {"kind": "torus", "dims": [4, 2], "link_rate": "50 GB/s"}
NODES = {"ranks": 16, "node_size": 4, "link": "ethernet_400g", "radix": 8}
DGX = {"kind": "dgx", **NODES}
RAILS = {"kind": "rail_only", **NODES}
TREE = {"kind": "fat_tree", **NODES, "node_rate": "450 GB/s", "in_network": True}
NIC, CABLE = "rank 0 egress nic 0", "rank 0 egress dimension 0 up"


def down(name: str, reroute: str = "spread") -> str:
    return f'links = [{{ match = "{name}", down = true }}]\nreroute = "{reroute}"'


def run(network, faults="", algorithm="ring", **sections):
    work = {} if "traffic" in sections else {"collective": all_reduce(algorithm)}
    spec = load_spec(toml(network=network, **work, **sections, faults=faults))
    return mrcjax.run(spec, brief=True)


def used(outcome):
    return {outcome.link_name(i) for i, sent in enumerate(outcome.link_bytes) if sent > 0}


@pytest.mark.parametrize("balancing", ["ecmp", "ideal"])
def test_a_graph_is_routed_around_what_is_down(balancing):
    """Two rounds of 50 MB by b alone: 2 ms of work for two lanes in turn, and the last one's way.

    The way back by a is still up.
    """
    outcome = run(SQUARE.format(balancing), down("a to rank 1"))
    assert used(outcome).isdisjoint({"rank 0 to a", "a to rank 1"})
    assert outcome.time_s == pytest.approx(2e-3 + 2e-6, rel=1e-9)
    assert outcome.bound_ratio >= 1 - 1e-9


def test_parallel_links_that_are_up_are_still_taken():
    outcome = run(SQUARE.format("ecmp"), down("* to a"))
    assert {"rank 0 to b"} <= used(outcome)
    again = run(
        SQUARE.format("ecmp"),
        'links = [{ match = "* to a", down = true }, { match = "b to rank 1 #1", down = true }]\n'
        'reroute = "spread"',
    )
    assert "b to rank 1 #2" in used(again)
    assert "b to rank 1 #1" not in used(again)


def test_flows_of_a_graph_avoid_what_is_down():
    traffic = {"kind": "incast", "size": "50 MB", "to": 1}
    sections = {"traffic": traffic, "engine": {"kind": "fluid"}}
    outcome = run(SQUARE.format("ecmp"), down("a to rank 1"), **sections)
    assert outcome.time_s == pytest.approx(1e-3 + 2e-6, rel=1e-9)
    with pytest.raises(SpecError, match='a flow needs "rank 0 to [ab]", which is down'):
        run(SQUARE.format("ideal"), down("rank 0 to *", "none"), **sections)


@pytest.mark.parametrize(
    ("network", "faults", "algorithm", "words"),
    [
        (SQUARE.format("ecmp"), down("rank 0 to *"), "ring", 'to "rank 1" beside what is down'),
        (SQUARE.format("ideal"), down("rank 0 to a", "none"), "ring",
         r'rank 0 cannot reach rank 1: "rank 0 to a".*faults.reroute = "spread"'),
        (SQUARE.format("ideal"), down("rank 0 to a", "neighbour"), "ring",
         'find other routes with faults.reroute = "spread"'),
        (TORUS, down(CABLE), "ring", f'"{CABLE}" is down; a torus like this goes around nothing'),
        (TORUS, down(CABLE, "none"), "ring", "a torus like this goes around nothing"),
        (RAILS, down(NIC, "none"), "hierarchical",
         f'rank 0 cannot reach rank 4: "{NIC}" is down; a rail_only like this goes around nothing'),
        (DGX, down(NIC), "hierarchical", 'set network.cross_rail = "spine"'),
        (TREE, down(NIC), "in_network",
         f'rank 0 cannot reach rank 4: "{NIC}" is down; what switches reduce goes around nothing'),
        (TREE, down("rank 5 ingress nic 0"), "in_network",
         'cannot reach rank 5: "rank 5 ingress nic 0" is down'),
        (TREE, down("leaf 1 up trunk"), "in_network", 'rank 4 cannot reach rank 0: "leaf 1 up'),
        (TREE, 'random = [{ what = "nic", count = 1 }]\nscenarios = 3', "in_network",
         "in scenario 0 .* is down; what switches reduce"),
        (TREE, 'links = [{ match = "*", loss = 0.1 }]', "in_network", "has lost packets"),
        (TREE, 'jitter = [{ at = "round", mean = "1 ms" }]', "in_network",
         r"faults.jitter\[0\].at has delays of every round"),
    ],
)  # fmt: skip
def test_what_cannot_be_gone_around_is_refused_by_name(network, faults, algorithm, words):
    with pytest.raises(SpecError, match=words) as error:
        run(network, faults, algorithm)
    if network in (TORUS, RAILS):
        assert "reroute" not in str(error.value)


def test_the_remedy_for_a_dgx_works():
    """Three NICs do the work of four: the nodes' halves of 100 MB / 4 take a third longer."""
    network = {**DGX, "cross_rail": "spine"}
    healthy = run(network, algorithm="hierarchical")
    assert run(network, down(NIC), "hierarchical").time_s > 1.1 * healthy.time_s


def test_a_late_start_holds_switches_that_reduce():
    late = run(TREE, 'late = [{ rank = 3, by = "5 ms" }]', "in_network")
    assert late.time_s == pytest.approx(run(TREE, "", "in_network").time_s + 5e-3, rel=1e-9)
