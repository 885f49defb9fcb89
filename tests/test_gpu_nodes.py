"""GPU-node families: counts, ways through nodes and rails, planes inside nodes, closed forms."""

import math
from dataclasses import replace

import networkx
import numpy as np
import pytest
from oracle import chunk
from oracle.algorithms import groups_of
from oracle.executor import check
from runs import (
    all_reduce,
    case_of,
    exact_waits,
    expand,
    sends_of,
    time_s,
    times_of,
    with_random_numbers,
)

from mrcjax import hardware, network
from mrcjax.bound import lower_bounds
from mrcjax.case import Case
from mrcjax.network import node_rails, nvl, sizes
from mrcjax.network.inventory import inventory
from mrcjax.spec import SpecError, example, load_spec, spec_to_toml

A = 500e-9  # latency of a link where none is given


def dgx(ranks: int, **more):
    keys = {"kind": "dgx", "ranks": ranks, "node_size": 8, "link_rate": "400 Gbit/s"}
    return {**keys, "node_rate": "450 GB/s", **more}


def small(ranks: int = 8, **more):
    """Nodes of 4 on 4-port switches: a leaf holds one rail of 2 nodes."""
    return dgx(ranks, **{"node_size": 4, "radix": 8, **more})


def spec_of(keys: dict):
    return case_of(keys, all_reduce("direct")).spec.network


def network_of(**keys):
    """Return the network section of a spec without building it."""
    lines = "\n".join(f"{key} = {value!r}".replace("'", '"') for key, value in keys.items())
    return load_spec(
        f'[network]\n{lines}\n[collective]\nkind = "all_reduce"\nsize = "1 GB"\n'
    ).network


# ---- counts


def switches(keys: dict) -> dict[str, int]:
    return inventory(network_of(**keys)).switches_by_tier


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (dgx(1024), {"leaf": 32, "spine": 16}),
        (dgx(2048), {"leaf": 64, "spine": 32}),
        (dgx(16384, kind="rail_only"), {"leaf": 512, "spine": 256}),
        (dgx(16384, spine="rail"), {"leaf": 512, "spine": 256}),
        (dgx(16384, tiers=3), {"leaf": 512, "aggregation": 512, "core": 256}),
        (dgx(256, kind="rail_only"), {"leaf": 8}),
        (dgx(20), {"leaf": 8, "spine": 4}),
        (dgx(24), {"leaf": 8, "spine": 4}),
    ],
)
def test_switches_between_nodes(keys, expected):
    assert switches(keys) == expected


@pytest.mark.parametrize("ranks", [16, 264, 2000, 4096, 16384])
@pytest.mark.parametrize("tiers", [2, 3])
def test_rail_only_is_m_networks_of_one_rail(ranks, tiers):
    """Switches and links are m times those of a Clos of N / m."""
    bill = inventory(network_of(**dgx(ranks, kind="rail_only", tiers=tiers)))
    rail = sizes.clos(
        where="network",
        ranks=ranks // 8,
        tiers=tiers,
        planes=1,
        ports_per_plane=1,
        radix=64,
        oversubscription=(1.0, 1.0),
    )
    assert bill.switches_by_tier == {tier: 8 * n for tier, n in rail.switches.items()}
    assert bill.switch_cables == 8 * rail.switch_cables
    assert bill.host_cables == ranks


def test_a_full_tree_of_rails_costs_what_the_fat_tree_does():
    rails = inventory(network_of(**dgx(1024)))
    tree = {"kind": "fat_tree", "ranks": 1024, "radix": 64, "link_rate": "400 Gbit/s"}
    plain = inventory(network_of(**tree))
    assert rails.switches == plain.switches == 48
    assert rails.usd == pytest.approx(plain.usd)
    assert rails.watts == pytest.approx(plain.watts)
    assert plain.scale_up_switches == 0


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"kind": "nvl", "ranks": 72}, 18),
        ({"kind": "nvl", "ranks": 64, "domain": 64}, 18),
        ({"kind": "nvl", "ranks": 576, "link": "ethernet_800g"}, 8 * 18),
        ({"kind": "nvl", "ranks": 100, "link": "ethernet_800g"}, 2 * 18),
        (dgx(1024), 128 * 4),
        (dgx(20), 3 * 4),
    ],
)
def test_scale_up_switches(keys, expected):
    bill = inventory(network_of(**keys))
    part = hardware.scale_up_switch(bill.scale_up_part)
    assert bill.scale_up_switches == expected
    assert bill.scale_up_watts == expected * part.watts
    assert "scale-up switches" in dict(bill.rows())
    assert any("not priced" in note for note in bill.notes)


def test_a_larger_domain_is_a_what_if_of_more_tiers():
    part = hardware.scale_up_switch("nvswitch4")
    bill = inventory(network_of(kind="nvl", ranks=576, domain=576))
    leaves = math.ceil(576 / 36)
    assert bill.scale_up_switches >= 18 * (leaves + math.ceil(leaves * 36 / 72))
    assert bill.scale_up_switches == nvl.domain_switches(576, part)
    assert any("no domain of 576 ranks is sold" in note for note in bill.notes)
    assert bill.switches == 0


@pytest.mark.parametrize("name", ["dgx_h100", "nvl72", "rail_only", "in_network"])
def test_examples_build_and_read_back(name):
    spec = load_spec(example(name))
    assert load_spec(spec_to_toml(spec)) == spec
    wiring = network.build(spec.network)
    assert wiring.num_cables >= spec.network.ranks
    assert inventory(spec.network).scale_up_switches > 0


def test_rates_come_from_the_catalogue():
    assert network_of(**{**dgx(8), "node_rate": "1 GB/s"}).node_bytes_per_s == 1e9
    plain = network_of(kind="dgx", ranks=8, link="infiniband_ndr")
    assert plain.node_bytes_per_s == hardware.link("nvlink4").rate_bytes_per_s
    rack = network_of(kind="nvl", ranks=72)
    part = hardware.scale_up_switch("nvswitch4")
    assert rack.node_bytes_per_s == hardware.link("nvlink5").rate_bytes_per_s
    assert rack.node_bytes_per_s == part.planes * 50e9


# ---- ways


def ways(keys: dict, src: int, dst: int) -> list[str]:
    """Names of the links from src to dst of a direct all-to-all."""
    case = case_of(keys, {"kind": "all_to_all", "algorithm": "direct", "size": "1 MB"})
    (send,) = [s for s in sends_of(case) if (s.src, s.dst) == (src, dst)]
    ((_, path),) = send.path
    return [case.wiring.link_name(link) for link in path if link != case.network.no_link]


def test_pxn_changes_rails_in_the_senders_node():
    assert ways(small(), 1, 6) == [
        "rank 1 node egress",
        "rank 2 node ingress",
        "rank 2 egress nic 0",
        "rank 6 ingress nic 0",
    ]
    assert ways(small(), 1, 5) == ["rank 1 egress nic 0", "rank 5 ingress nic 0"]
    assert ways(small(), 1, 2) == ["rank 1 node egress", "rank 2 node ingress"]


def test_beyond_the_leaf_a_rail_goes_up_and_down():
    keys = small(24, radix=8)
    assert ways(keys, 1, 22)[2:] == [
        "rank 2 egress nic 0",
        "leaf 2 up trunk",
        "leaf 6 down trunk",
        "rank 22 ingress nic 0",
    ]
    keys = {**keys, "kind": "rail_only"}
    assert ways(keys, 1, 22)[3:5] == ["leaf 4 up trunk", "leaf 5 down trunk"]


def test_through_the_spine_nodes_are_left_at_once():
    assert ways(small(cross_rail="spine"), 1, 6) == [
        "rank 1 egress nic 0",
        "leaf 1 up trunk",
        "leaf 2 down trunk",
        "rank 6 ingress nic 0",
    ]


def test_a_partly_filled_node_lets_the_receivers_node_change_rails():
    """Rank 8 is alone in node 2 of 4: it has no neighbour on the rail of rank 3."""
    assert ways(small(9), 8, 3) == [
        "rank 8 egress nic 0",
        "rank 0 ingress nic 0",
        "rank 0 node egress",
        "rank 3 node ingress",
    ]
    assert ways(small(9), 3, 8)[:3] == [
        "rank 3 node egress",
        "rank 0 node ingress",
        "rank 0 egress nic 0",
    ]


PXN = [
    (small(8), all_reduce("direct")),
    (small(9, load_balancing="ecmp"), {"kind": "all_to_all", "algorithm": "direct"}),
    (small(12, spine="rail", radix=4, channels=2), all_reduce("ring")),
    (small(12, kind="rail_only", node_rate=["90 GB/s", "40 GB/s"]), all_reduce("direct")),
    (small(8, cross_rail="spine"), all_reduce("direct")),
    ({"kind": "nvl", "ranks": 7, "domain": 3, "link": "ethernet_800g"}, all_reduce("ring")),
    (small(8, node_rate=["90 GB/s", "40 GB/s"]), all_reduce("hierarchical", chunks=2)),
]


@pytest.mark.parametrize(("keys", "collective"), PXN)
def test_times_are_those_of_the_twin(keys, collective):
    case = case_of(keys, {"size": "10 MB", **collective})
    params = with_random_numbers(case, 5)
    got = times_of(case, params)
    right = expand(case, params).by(chunk)
    assert np.asarray(got.finish_s) == pytest.approx(np.asarray(right.finish_s), rel=1e-9)
    num = case.network.num_links
    assert np.asarray(got.link_bytes) == pytest.approx(np.asarray(right.link_bytes[:num]))
    bounds = lower_bounds(replace(case, params=params))
    assert max(bounds.values()) <= float(got.time_s) * (1 + 1e-9)


# ---- collectives over nodes that may be partly filled


@pytest.mark.parametrize(
    ("keys", "collective"),
    [
        (small(7), {"algorithm": "ring"}),
        (small(7), {"algorithm": "direct"}),
        (small(3), {"algorithm": "ring"}),
        (small(9), {"algorithm": "direct", "group_size": 3}),
        (small(9, node_rate=["3 GB/s", "1 GB/s"]), {"algorithm": "ring"}),
        (small(8, node_rate=["3 GB/s", "1 GB/s"]), {"algorithm": "hierarchical"}),
        (
            small(4, node_rate=["3 GB/s", "1 GB/s"]),
            {"algorithm": "ring", "split": "proportional", "element_bytes": 1},
        ),
    ],
)
def test_the_collective_is_done(keys, collective):
    ranks, size = keys["ranks"], keys["ranks"] * 24
    case = case_of(keys, {"kind": "all_reduce", "size": f"{size} B", **collective})
    sends = []
    for send in sends_of(case):
        ((start, count),) = send.pieces
        assert start == int(start)
        assert count == int(count)
        sends.append(replace(send, pieces=((int(start), int(count)),)))
    with exact_waits():
        check(
            "all_reduce", sends, ranks, size, groups_of(ranks, collective.get("group_size", ranks))
        )


@pytest.mark.parametrize("ranks", [24, 20])
def test_a_ring_over_nodes_that_are_not_a_power_of_two(ranks):
    """Factor 1.9167 for 24; 20 ranks are two nodes and a half. One adapter at each node's edge."""
    collective = all_reduce("ring", "1 GB")
    got = time_s(dgx(ranks, channels=1), collective)
    alone = 2 * (ranks - 1) / ranks * 1e9 / 50e9
    assert alone < got < 1.01 * alone


def test_hierarchical_needs_full_nodes():
    with pytest.raises(SpecError, match=r"full nodes.*24 ranks"):
        case_of(dgx(20), all_reduce("hierarchical"))


# ---- planes inside a node

PLANES = ["1000 Gbit/s", "800 Gbit/s", "800 Gbit/s", "1000 Gbit/s"]


@pytest.mark.parametrize(
    ("more", "split", "expected_ms"),
    [({}, "proportional", 3.889), ({}, "equal", 4.375), ({"channels": 1}, "equal", 14.0)],
)
def test_four_planes(more, split, expected_ms):
    """8 ranks, 1 GB: all planes in proportion 450 GB/s, equal quarters 400, one path 125."""
    keys = dgx(8, node_rate=PLANES, node_latency="0 s", **more)
    rate = {"proportional": 450e9, "equal": 400e9}[split] if not more else 125e9
    got = time_s(keys, all_reduce("ring", "1 GB", split=split))
    assert got == pytest.approx(2 * 7 / 8 * 1e9 / rate, rel=1e-9)
    assert got * 1e3 == pytest.approx(expected_ms, abs=5e-4)


def test_planes_have_names_that_faults_match():
    slow = 'links = [{ match = "rank 3 node egress plane 2", rate = 0.5 }]'
    keys = dgx(8, node_rate=PLANES)
    collective = all_reduce("ring", "1 GB")
    assert time_s(keys, collective, None, slow) > 1.9 * time_s(keys, collective)


def test_equal_planes_are_one_trunk():
    one = time_s(dgx(8), all_reduce("ring", "1 GB"))
    four = time_s(dgx(8, node_rate=["112.5 GB/s"] * 4), all_reduce("ring", "1 GB"))
    assert four == pytest.approx(one, rel=1e-9)


# ---- closed forms


@pytest.mark.parametrize("kind", ["dgx", "rail_only"])
@pytest.mark.parametrize("nodes", [2, 3])
def test_two_level_rails(kind, nodes):
    """2 (m-1)/m S/B + 2 (n-1)/n (S/m)/b, two latencies in each node phase, 2 (n-1) on the rail."""
    m, size = 8, 1e9
    expected = 2 * ((m - 1) / m * size / 450e9 + 2 * A)
    expected += 2 * (nodes - 1) * (size / m / nodes / 50e9 + 2 * A)
    collective = all_reduce("hierarchical", "1 GB", between="ring")
    keys = dgx(m * nodes, kind=kind)
    assert time_s(keys, collective) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("domain", "tiers"), [(72, 1), (100, 2)])
def test_one_domain_is_one_hop(domain, tiers):
    """The direct algorithm on 900 GB/s; a domain beyond one switch has longer ways."""
    keys = {"kind": "nvl", "ranks": domain, "domain": domain}
    expected = 2 * ((domain - 1) / domain * 1e9 / 900e9 + 2 * A * tiers)
    assert time_s(keys, all_reduce("direct", "1 GB")) == pytest.approx(expected, rel=1e-9)


def test_domains_over_a_tree():
    """Two domains of 4: as the rails above, on one leaf."""
    keys = {"kind": "nvl", "ranks": 8, "domain": 4, "link_rate": "800 Gbit/s", "radix": 64}
    expected = 2 * (3 / 4 * 1e9 / 900e9 + 2 * A) + 2 * (1e9 / 4 / 2 / 100e9 + 2 * A)
    collective = all_reduce("hierarchical", "1 GB", between="ring")
    assert time_s(keys, collective) == pytest.approx(expected, rel=1e-9)


# ---- cuts and bisection


def test_oversubscribed_units_bound_what_crosses_them():
    """With three quarters of the ports down, six nodes per leaf: two units, 8 x 2 cables up."""
    keys = small(32, radix=8, oversubscription=3, load_balancing="ideal")
    case = case_of(keys, {"kind": "all_to_all", "algorithm": "direct", "size": "32 MB"})
    bounds = lower_bounds(case)
    crossing = 24 * 8 * 1e6  # bytes from the 24 ranks of the first unit to the 8 of the second
    assert bounds["units (slowest)"] == pytest.approx(crossing / (4 * 2 * 50e9), rel=1e-9)
    assert float(times_of(case).time_s) >= max(bounds.values())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (dgx(1024), 512 * 50e9),
        (dgx(1024, kind="rail_only"), 512 * 50e9),
        (dgx(16384, tiers=3), 8192 * 50e9),
        (dgx(8), 4 * 50e9),
    ],
)
def test_bisection_of_rails(keys, expected):
    assert node_rails.bisection_bytes_per_s(network_of(**keys)) == pytest.approx(expected)


def test_bisection_of_oversubscribed_rails():
    """Two units of six nodes: the four leaves of one have two cables up each."""
    keys = small(48, oversubscription=3)
    assert node_rails.bisection_bytes_per_s(network_of(**keys)) == pytest.approx(4 * 2 * 50e9)


def test_bisection_of_domains():
    one = network_of(kind="nvl", ranks=72)
    assert nvl.bisection_bytes_per_s(one) == pytest.approx(36 * 900e9)
    four = network_of(kind="nvl", ranks=288, link="ethernet_800g")
    assert nvl.bisection_bytes_per_s(four) == pytest.approx(144 * 100e9)


def half_to_half(case: Case, half: np.ndarray) -> float:
    """Maximum flow from the ranks in `half` to the rest over nodes, leaves and one top."""
    here, m = case.network, case.network.node_size
    rate = case.wiring.capacity_bytes_per_s
    leaf_of = np.asarray(here.fabric.leaf_of_port)[0]
    graph = networkx.DiGraph()
    joined = {
        "node egress": lambda i: (i, f"node {i // m}"),
        "node ingress": lambda i: (f"node {i // m}", i),
        "egress": lambda i: (i, f"leaf {leaf_of[i]}"),
        "ingress": lambda i: (f"leaf {leaf_of[i]}", i),
        "leaf up": lambda i: (f"leaf {i}", "top"),
        "leaf down": lambda i: ("top", f"leaf {i}"),
    }
    for tier in here.tiers:
        for i in range(tier.count):
            graph.add_edge(*joined[tier.name](i), capacity=float(rate[tier.first + i]))
    for rank in range(here.ranks):
        graph.add_edge(*(("from", rank) if half[rank] else (rank, "to")))
    return networkx.maximum_flow_value(graph, "from", "to")


@pytest.mark.parametrize(
    "keys",
    [
        small(16),
        small(48, oversubscription=3),
        small(16, radix=4, kind="rail_only"),
        {"kind": "nvl", "ranks": 24, "domain": 6, "link": "ethernet_800g", "radix": 12},
        {"kind": "nvl", "ranks": 24, "domain": 6, "link": "ethernet_800g", "radix": 8}
        | {"oversubscription": 3, "tiers": 2},
    ],
)
def test_bisection_is_the_maximum_flow_between_halves(keys):
    case = case_of(keys, all_reduce("direct"))
    spec = case.spec.network
    bisection = (nvl if spec.kind == "nvl" else node_rails).bisection_bytes_per_s(spec)
    half = np.arange(spec.ranks) < spec.ranks // 2
    assert half_to_half(case, half) == pytest.approx(bisection, rel=1e-9)


# ---- refusals


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (dgx(16384), r"at most 256 nodes.*rail_only"),
        (dgx(32768, kind="rail_only"), r"at most 2048 nodes.*tiers = 3"),
        ({**dgx(8), "node_size": 1}, r"2 or more in a dgx.*fat_tree"),
        (dgx(16, spine="rail", cross_rail="spine"), r'cross_rail.*spine = "rail"'),
        (dgx(16, placement="rail"), r"placement.*leave placement out"),
        ({"kind": "nvl", "ranks": 144}, r"link_rate is missing"),
        ({"kind": "nvl", "ranks": 144, "domain": 1}, r"network.domain.*2 or more"),
    ],
)
def test_what_does_not_fit_is_refused(keys, words):
    with pytest.raises(SpecError, match=words):
        network.build(network_of(**keys))


def test_shares_by_rate_need_one_kind_of_port():
    with pytest.raises(SpecError, match=r"collective.split.*hierarchical"):
        case_of(small(8), all_reduce("ring", split="proportional"))
    with pytest.raises(SpecError, match=r"collective.split.*stripe"):
        case_of(small(4), all_reduce("direct", split="proportional"))


def test_groups_of_any_stride_stay_in_one_domain():
    keys = {"kind": "nvl", "ranks": 8, "domain": 8}
    expected = 2 * 3 * (1e9 / 4 / 900e9 + 2 * A)
    collective = all_reduce("ring", "1 GB", group_size=4, group_stride=2)
    assert time_s(keys, collective) == pytest.approx(expected, rel=1e-9)
