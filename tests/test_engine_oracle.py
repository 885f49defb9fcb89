"""The engine against its slow twins, on small random cases.

Links, late ranks and, in tables, the sends themselves are random, so that hardly two chunks meet
at one time. The oracle `chunk` keeps the same rules and must agree; `event` serves links in order
of arrival and shows what keeping the order of rounds costs.
"""

from dataclasses import replace

import jax
import numpy as np
import pytest
from oracle import chunk, event
from runs import (
    all_reduce,
    case_of,
    expand,
    flat,
    times_of,
    with_random_numbers,
    with_table,
)

from mrcjax.engine import emulate, sharing

# Both add and compare the same few hundred float64 numbers, in nearly the same order.
EXACT = 1e-9

SPRAY = {"load_balancing": "spray", "paths": 5}
ECMP = {"load_balancing": "ecmp"}
STORE = {"switching": "store_and_forward"}
SLOW_STORE = pytest.param("store_and_forward", marks=pytest.mark.slow)
NODE = {"node_size": 4, "node_rate": "200 GB/s", "node_latency": "300 ns"}
GROUPS = {"group_size": 3, "group_stride": 2}
ENDS = {"reduction_rate": "40 GB/s", "endpoint_latency": "3 us"}


def tree(**more):
    keys = {"kind": "fat_tree", "ranks": 12, "radix": 12, "link_rate": "50 GB/s", "nics": 3}
    return {**keys, **more}


def tall_tree(**more):
    return tree(ranks=12, radix=4, tiers=3, nics=1, **more)


def planes(**more):
    keys = {"kind": "mrc_planes", "ranks": 12, "planes": 3, "radix": 8, "plane_rate": "12 GB/s"}
    return {**keys, **more}


def dragonfly(**more):
    keys = {"kind": "dragonfly", "ranks": 12, "hosts_per_router": 2, "routers_per_group": 2}
    keys |= {"global_links_per_router": 2, "groups": 3, "link_rate": "50 GB/s"}
    return {**keys, **more}


def wired(*reach, **more):
    return {"kind": "flat_rails", "ranks": 12, "rail_rate": "50 GB/s", "reach": reach, **more}


def torus(*dims, **more):
    return {"kind": "torus", "dims": dims, "link_rate": "50 GB/s", **more}


def scatter(algorithm="direct", size="100 MB", **more):
    return {"kind": "reduce_scatter", "algorithm": algorithm, "size": size, **more}


def gather(algorithm="direct", size="100 MB", **more):
    return {"kind": "all_gather", "algorithm": algorithm, "size": size, **more}


ALL_TO_ALL = {"kind": "all_to_all", "size": "100 MB"}

CASES = {
    "rails direct": (flat(12, 3), all_reduce("direct")),
    "rails direct stripe": (flat(12, 3), all_reduce("direct", stripe=True)),
    "rails ring": (flat(12, 3), all_reduce("ring")),
    "rails more than peers": (flat(3, 5), all_reduce("direct")),
    "idle rails": (flat(12, 3, channels=2), scatter()),
    "channels share a port": (flat(12, 2, channels=3), scatter()),
    "ring channels share a port": (flat(12, 1, channels=2), all_reduce("ring")),
    "rails differ": (flat(7, 2, ["50 GB/s", "20 GB/s"], ["1 us", "2 us"]), all_reduce("direct")),
    "all to all": (flat(12, 3), ALL_TO_ALL),
    "groups": (flat(12, 3), all_reduce("direct", **GROUPS)),
    "ring groups": (flat(12, 3), all_reduce("ring", **GROUPS)),
    "elements": (flat(7, 3), all_reduce("direct", "100 kB", element_bytes=4)),
    "ring elements": (flat(7, 3), all_reduce("ring", "100 B", element_bytes=4)),
    "stripe elements": (flat(7, 3), gather(size="104 B", element_bytes=4, stripe=True)),
    "ends": (flat(12, 3, **ENDS), all_reduce("direct")),
    "ring ends": (flat(12, 1, channels=2, **ENDS), all_reduce("ring")),
    "store and forward": (flat(12, 3), all_reduce("ring"), STORE),
    "tree trunks": (tree(), all_reduce("direct")),
    "tree trunks store and forward": (tree(), scatter(), STORE),
    "tree ecmp": (tree(**ECMP), all_reduce("ring")),
    "tree ecmp store and forward": (tree(**ECMP), scatter(), STORE),
    "tree spray": (tree(**SPRAY), gather()),
    "tall tree trunks": (tall_tree(), scatter()),
    "tall tree ecmp": (tall_tree(**ECMP), scatter()),
    "tall tree spray": (tall_tree(**SPRAY), scatter()),
    "planes trunks": (planes(load_balancing="ideal"), gather("ring")),
    "planes ecmp": (planes(**ECMP), gather()),
    "planes spray": (planes(paths=5), scatter()),
    "dragonfly trunks": (dragonfly(), scatter()),
    "dragonfly ecmp": (dragonfly(**ECMP), scatter()),
    "dragonfly spray": (dragonfly(**SPRAY), gather()),
    "wired direct": (wired(3, 4), scatter()),
    "wired ring relayed": (wired(4, 3, channels=2), gather("ring")),
    "wired store and forward": (wired(3, 4), scatter(), STORE),
    "torus direct": (torus(3, 4), scatter()),
    "torus ties up": (torus(2, 4, ties="up"), ALL_TO_ALL),
    "torus rings": (torus(2, 3), all_reduce("rings")),
    "torus rings elements": (torus(3, 2, **ENDS), all_reduce("rings", "100 kB", element_bytes=4)),
    "torus of single cables": (torus(2, 3, double=False), all_reduce("rings"), STORE),
    "torus dimensions": (
        torus(3, 2),
        all_reduce("hierarchical", between=["ring", "direct"], chunks=2),
    ),
    "mesh ring": ({**torus(3, 3), "kind": "mesh"}, gather("ring")),
    "mesh rings": ({**torus(3, 2), "kind": "mesh"}, all_reduce("rings")),
    "dimensions": (flat(12, 2), all_reduce("hierarchical", dimensions=[3, 4], between="ring")),
    "nodes direct": (flat(12, 3, **NODE), scatter()),
    "nodes ring": (tree(nics=1, **NODE), gather("ring")),
    "nodes groups inside": (flat(12, 3, **NODE), scatter("ring", group_size=2, group_stride=2)),
    "nodes groups mixed": (flat(12, 3, **NODE, **ENDS), scatter("ring", group_size=6)),
    "hierarchical direct": (flat(12, 3, **NODE), all_reduce("hierarchical")),
    "hierarchical ring": (flat(12, 3, **NODE), all_reduce("hierarchical", between="ring")),
    # Between two nodes the peer's sum may be there before one's own is reduced.
    "hierarchical slow reducers": (
        flat(8, 2, reduction_rate="2 GB/s", **NODE),
        all_reduce("hierarchical", "1 MB"),
    ),
    "hierarchical wired": (wired(4, 3, **NODE), all_reduce("hierarchical")),
}
CHUNKED = {
    "hierarchical direct chunks": {"chunks": 3, "element_bytes": 4},
    "hierarchical ring chunks": {"chunks": 3, "between": "ring"},
}
CASES |= {
    k: (flat(12, 3, **NODE, **ENDS), all_reduce("hierarchical", **v)) for k, v in CHUNKED.items()
}
TABLES = {
    "table on rails": flat(7, 2),
    "table on a tree": tree(ranks=7, nics=1, **ECMP),
    "table on wires": wired(3, 4),
}


LONG = (
    "rails more than peers",
    "tree spray",
    "tall tree trunks",
    "tall tree spray",
    "planes trunks",
    "planes ecmp",
    "dragonfly spray",
    "wired ring relayed",
    "torus ties up",
    "torus rings elements",
    "mesh rings",
    "nodes groups mixed",
    "hierarchical wired",
    "hierarchical ring chunks",
)


def marked(names, long=LONG):
    """Mark what takes long to compile; each kind of link rule has a case that does not."""
    return [pytest.param(n, marks=pytest.mark.slow) if n in long else n for n in names]


def assert_same(times, expanded, oracle):
    assert float(times.time_s) == pytest.approx(oracle.completion_s, rel=EXACT)
    np.testing.assert_allclose(times.finish_s, oracle.finish_s, rtol=EXACT)
    link_bytes = oracle.link_bytes[: expanded.num_links]
    np.testing.assert_allclose(times.link_bytes, link_bytes, rtol=EXACT)


def assert_equals_twin(case, params):
    expanded = expand(case, params)
    assert_same(times_of(case, params), expanded, expanded.by(chunk))


@pytest.mark.parametrize("name", marked(CASES))
def test_equals_the_twin(name):
    case = case_of(*CASES[name])
    for seed in range(2):
        assert_equals_twin(case, with_random_numbers(case, seed))


@pytest.mark.parametrize("name", ["planes spray", "dragonfly spray"])
def test_spray_over_links_of_equal_latency_equals_the_twin(name):
    """Equal latencies are not looked up link by link; some paths may skip a hop others take."""
    case = case_of(*CASES[name])
    params = replace(with_random_numbers(case, 5), latency_s=case.params.latency_s)
    assert_equals_twin(case, params)


def random_table(ranks, rounds, lanes, seed):
    rng = np.random.default_rng(seed)
    peer = (np.arange(ranks)[:, None] + rng.integers(1, ranks, (rounds, ranks, lanes))) % ranks
    peer = np.where(rng.random(peer.shape) < 0.2, -1, peer)
    bytes_ = rng.uniform(1e5, 1e7, peer.shape) * (rng.random(peer.shape) < 0.9)
    return peer, bytes_, rng.integers(0, 3, peer.shape)


@pytest.mark.parametrize("name", TABLES)
def test_tables_equal_the_twin(name):
    plain = case_of(TABLES[name], all_reduce("direct"))
    for seed in range(4):
        case, params = with_table(plain, *random_table(plain.network.ranks, 6, 3, seed))
        assert_equals_twin(case, with_random_numbers(case, seed, params))


def test_the_comparison_notices_a_wrong_link():
    case = case_of(*CASES["rails direct"])
    params = with_random_numbers(case, 0)
    expanded = expand(case, params)
    slowest = np.argmin(params.capacity_bytes_per_s)
    expanded.capacity_bytes_per_s[slowest] *= 0.999
    with pytest.raises(AssertionError):
        assert_same(times_of(case, params), expanded, expanded.by(chunk))


@pytest.mark.parametrize(
    "name", ["rails ring", "channels share a port", "tree ecmp", "planes spray", "dragonfly trunks"]
)
def test_ports_and_paths_agree(name):
    """The same sends through the fast path and, as a table, through the general path."""
    case = case_of(*CASES[name])
    params = with_random_numbers(case, 3)
    sends = expand(case, params).sends
    first_round = np.cumsum([0, *(p.rounds for p in case.schedule.phases)])
    shape = (first_round[-1], case.network.ranks, case.schedule.phases[0].lanes)
    peer, bytes_, needs = np.full(shape, -1), np.zeros(shape), np.zeros(shape, int)
    for send in sends:
        at = (first_round[send.phase] + send.round, send.src, send.lane)
        peer[at], bytes_[at] = send.dst, send.bytes
        needs[at] = 0 if not send.waits else 1 if send.waits[0].lane is not None else 2
    table, table_params = with_table(case, peer, bytes_, needs)
    fast = times_of(case, params)
    numbers = {**vars(params), "chunk_bytes": table_params.chunk_bytes}
    slow = times_of(table, type(params)(**numbers))
    np.testing.assert_allclose(fast.finish_s, slow.finish_s, rtol=EXACT)
    np.testing.assert_allclose(fast.link_bytes, slow.link_bytes, rtol=EXACT)


@pytest.mark.parametrize("name", ["tall tree ecmp", "dragonfly ecmp", "nodes direct"])
def test_share_rule_of_many_sends_equals_the_twin(name, monkeypatch):
    """From 4,096 sends a round on, links that any number of chunks may meet on are shared."""
    monkeypatch.setattr(sharing, "SORT_BELOW", 0)
    case = case_of(*CASES[name])
    is_general = case.schedule.phases[0].domain == "mixed"
    params = with_random_numbers(case, 4)
    expanded = expand(case, params)
    for link in range(expanded.num_links):
        is_port = case.network.tier_of(link).sharing == "port"
        expanded.rule[link] = "fifo" if is_port and not is_general else "share"
    # A fresh function, as what is compiled already knows the other threshold.
    run = jax.jit(lambda params: emulate(params, case.network, case.schedule, config=case.config))
    assert_same(run(params), expanded, expanded.by(chunk))


# ---- order of rounds against order of arrival


def time_by(oracle, *sections, seed=None):
    case = case_of(*sections)
    return expand(case, None if seed is None else with_random_numbers(case, seed)).by(oracle)


@pytest.mark.parametrize("name", ["rails direct", "rails ring", "hierarchical direct"])
def test_order_does_not_matter_on_equal_ports(name):
    rounds, arrivals = (time_by(oracle, *CASES[name]) for oracle in (chunk, event))
    assert rounds.completion_s == pytest.approx(arrivals.completion_s, rel=EXACT)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("rails direct", 0.05),
        ("channels share a port", 0.10),
        ("tall tree ecmp", 0.10),
        ("tree ecmp", 0.10),
        ("planes ecmp", 0.10),
        ("wired direct", 0.10),
        ("nodes direct", 0.10),
    ],
)
def test_order_of_rounds_costs_little(name, most):
    """Capacities differ by up to a factor 4 and ranks start up to about 250 us late."""
    for seed in range(4):
        rounds, arrivals = (time_by(o, *CASES[name], seed=seed) for o in (chunk, event))
        assert abs(rounds.completion_s / arrivals.completion_s - 1) < most


@pytest.mark.slow
def test_order_of_rounds_costs_much_where_a_link_serves_two_hops():
    """A balanced dragonfly, whose local links carry first and last hops.

    A chunk that comes late to its last hop holds the link for the next round's first hops, these
    come late to theirs, and so on: 8.12 ms against 3.58 ms by order of arrival. With a copy of the
    local links for the last hops the difference is 5 %.
    """
    network = {"kind": "dragonfly", "ranks": 72, "hosts_per_router": 2, "routers_per_group": 4}
    network |= {"global_links_per_router": 2, "groups": 9, "link_rate": "50 GB/s", **ECMP}
    case = case_of(network, scatter())
    expanded = expand(case)
    rounds, arrivals = expanded.by(chunk), expanded.by(event)
    assert_same(times_of(case), expanded, rounds)
    assert 2 < rounds.completion_s / arrivals.completion_s < 2.5

    local, copies = case.network.tier("local"), len(expanded.capacity_bytes_per_s)
    for numbers in (expanded.capacity_bytes_per_s, expanded.latency_s, expanded.rule):
        numbers += numbers[local.first : local.first + local.count]
    for number, send in enumerate(expanded.sends):
        ((weight, path),) = send.path
        if local.first <= path[3] < local.first + local.count:
            path = (*path[:3], path[3] - local.first + copies, path[4])
            expanded.sends[number] = replace(send, path=((weight, path),))
    rounds, arrivals = expanded.by(chunk), expanded.by(event)
    assert 1 < rounds.completion_s / arrivals.completion_s < 1.1


@pytest.mark.parametrize(
    "name",
    marked(["tree ecmp direct", "tall tree ecmp", "planes ecmp", "dragonfly ecmp", "ends ecmp"]),
)
@pytest.mark.parametrize("switching", ["cut_through", SLOW_STORE])
def test_order_of_arrival_equals_the_event_driven_twin(name, switching):
    """Exact within a phase; the next phase of a rank queues behind all of the one before."""
    extra = {
        "tree ecmp direct": (tree(nics=2, **ECMP), scatter()),
        "ends ecmp": (tree(nics=2, **ECMP, **ENDS), scatter(element_bytes=4)),
    }
    network, collective = extra.get(name) or CASES[name]
    case = case_of(network, collective, {"order": "arrival", "switching": switching})
    for seed in range(2):
        params = with_random_numbers(case, seed)
        expanded = expand(case, params)
        assert_same(times_of(case, params), expanded, expanded.by(event))
