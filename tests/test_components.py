"""Names of what can fail, and the cables that it takes along."""

import numpy as np
import pytest
from runs import all_reduce, flat, toml

from mrcjax.network import build
from mrcjax.network.component import Cables
from mrcjax.network.components import components, find
from mrcjax.spec import load_spec

TREE = {"kind": "fat_tree", "link_rate": "50 GB/s"}
PLANES = {"kind": "mrc_planes", "ranks": 32, "planes": 2, "radix": 8, "plane_rate": "50 GB/s"}
POD_TREE = {**TREE, "ranks": 16, "radix": 4, "tiers": 3, "node_size": 8, "node_rate": "9 GB/s"}
DRAGONFLY = {
    "kind": "dragonfly",
    "ranks": 32,
    "hosts_per_router": 2,
    "routers_per_group": 4,
    "global_links_per_router": 2,
    "groups": 5,
    "link_rate": "50 GB/s",
}
NETWORKS = {
    "rails": flat(32, 4),
    "wired": {"kind": "flat_rails", "ranks": 32, "reach": [4, 8], "rail_rate": "50 GB/s"},
    "trunks": {**PLANES, "load_balancing": "ideal"},
    "cables": PLANES,
    "pods": POD_TREE,
    "pod cables": {**POD_TREE, "load_balancing": "ecmp"},
    "one domain": {"kind": "nvl", "ranks": 10},
    "dragonfly": DRAGONFLY,
    "dragonfly cables": {**DRAGONFLY, "load_balancing": "ecmp"},
}


def wiring_of(name: str):
    return build(load_spec(toml(network=NETWORKS[name], collective=all_reduce("ring"))).network)


@pytest.mark.parametrize(
    ("network", "pattern", "names"),
    [
        ("rails", "rank 17 egress rail 2", {"rank 17 egress rail 2": 1}),
        ("rails", "rank 17 rail 2", {"rank 17 egress rail 2": 1, "rank 17 ingress rail 2": 1}),
        ("rails", "rail 3 / rank 1 *", {"rank 1 egress rail 3": 1, "rank 1 ingress rail 3": 1}),
        (
            "wired",
            "rank 3 rail 0",
            {"rank 3 egress rail 0 (digit 0 to +1)": 1, "rank 0 egress rail 2 (digit 0 to +3)": 1},
        ),
        ("trunks", "plane 0 leaf 3 up cable 2", {"plane 0 leaf 3 up trunk": 1}),
        ("trunks", "plane 0 leaf 3 up cable *", {"plane 0 leaf 3 up trunk": 4}),
        ("cables", "plane 0 leaf 3 up cable 2", {"plane 0 leaf 3 up cable 2": 1}),
        (
            "trunks",
            "plane 1 leaf 3 / *trunk",
            {"plane 1 leaf 3 up trunk": 4, "plane 1 leaf 3 down trunk": 4},
        ),
        (
            "pods",
            "rank 9",
            {
                f"rank 9 {what}": 1
                for what in ("egress nic 0", "ingress nic 0", "node egress", "node ingress")
            },
        ),
        ("pods", "node 1 / *9 node*", {"rank 9 node egress": 1, "rank 9 node ingress": 1}),
        ("one domain", "node 0 / *9 node*", {"rank 9 node egress": 1, "rank 9 node ingress": 1}),
        ("pods", "core 1 / pod 0 *", {"pod 0 up trunk": 1, "pod 0 down trunk": 1}),
    ],
)
def test_a_pattern_names_cables(network, pattern, names):
    wiring = wiring_of(network)
    assert named(wiring, find(wiring, pattern)) == names


def named(wiring, cables: Cables) -> dict[str, int]:
    return {wiring.link_name(int(i)): int(k) for i, k in zip(*cables, strict=True)}


@pytest.mark.parametrize(
    ("network", "pattern", "num_links", "num_cables"),
    [
        ("rails", "rail 3", 64, 64),
        ("rails", "rank 5", 8, 8),
        ("rails", "rank 5 *", 8, 8),
        ("rails", "*", 256, 256),
        ("wired", "rank 3", 20, 20),  # both directions of ten cables
        ("trunks", "plane 1 / *", 80, 128),
        ("trunks", "leaf 3", 20, 32),  # of both planes: 4 hosts, 4 cables up, each both ways
        ("cables", "leaf 3", 32, 32),
        ("trunks", "spine 1", 32, 32),
        ("pods", "pod 1 aggregation 0", 6, 8),
        ("pods", "node 1", 32, 32),
        ("rails", "leaf 3", 0, 0),
    ],
)
def test_a_component_has_all_its_cables(network, pattern, num_links, num_cables):
    wiring = wiring_of(network)
    links, cables = find(wiring, pattern)
    assert (len(links), cables.sum()) == (num_links, num_cables)
    assert (cables <= wiring.cables[links]).all()


@pytest.mark.parametrize("network", ["trunks", "cables", "pods", "pod cables", "dragonfly"])
def test_a_cable_between_switches_belongs_to_the_two_at_its_ends(network):
    check_ends_of_cables(network)


def test_a_cable_of_a_dragonfly_belongs_to_two_routers():
    check_ends_of_cables("dragonfly cables")


def check_ends_of_cables(network: str):
    wiring = wiring_of(network)
    switches = components(wiring)["switch"]
    ends = np.zeros(wiring.network.num_links)
    for i in range(switches.count):
        links, cables = switches.cables(i)
        np.add.at(ends, links, cables)
    for tier in wiring.network.tiers:
        mine = slice(tier.first, tier.first + tier.count)
        wanted = 0 if tier.name.startswith("node") else 1 if tier.sharing == "port" else 2
        assert (ends[mine] == wanted * wiring.cables[mine]).all(), tier.name


def test_one_domain_has_no_links_outside_nodes():
    assert set(components(wiring_of("one domain"))) == {"rank", "node"}
