"""Counts of switches and cables against closed forms and published tables."""

import math

import pytest

from mrcjax.network import sizes, switch_sizes
from mrcjax.spec import SpecError


def _clos(ranks, radix, *, tiers=2, planes=1, ports_per_plane=1, oversubscription=None):
    return sizes.clos(
        where="network",
        ranks=ranks,
        tiers=tiers,
        planes=planes,
        ports_per_plane=ports_per_plane,
        radix=radix,
        oversubscription=oversubscription or (1.0,) * (tiers - 1),
    )


def _dragonfly(ranks, hosts, routers, global_ports, groups):
    return sizes.dragonfly(
        where="network",
        ranks=ranks,
        hosts=hosts,
        routers=routers,
        global_ports=global_ports,
        groups=groups,
    )


@pytest.mark.parametrize("k", [4, 8, 32, 64, 128, 512])
def test_full_two_tier_tree_has_the_closed_form(k):
    size = _clos(k * k // 2, k)
    assert size.switches == {"leaf": k, "spine": k // 2}
    assert size.host_cables == k * k // 2
    assert size.switch_cables == k * k // 2


@pytest.mark.parametrize("k", [4, 8, 32, 64])
def test_full_three_tier_tree_has_the_closed_form(k):
    size = _clos(k**3 // 4, k, tiers=3)
    assert size.switches == {"leaf": k * k // 2, "aggregation": k * k // 2, "core": k * k // 4}
    assert sum(size.switches.values()) == 5 * k * k // 4
    assert size.host_cables == k**3 // 4
    assert size.switch_cables == k**3 // 2


@pytest.mark.parametrize("tiers", [2, 3])
@pytest.mark.parametrize("k", [4, 16, 64])
def test_full_tree_has_the_general_closed_form(k, tiers):
    n = 2 * (k // 2) ** tiers
    size = _clos(n, k, tiers=tiers)
    assert sum(size.switches.values()) == (2 * tiers - 1) * (k // 2) ** (tiers - 1)
    assert size.switch_cables == (tiers - 1) * n


@pytest.mark.parametrize(("planes", "k"), [(8, 512), (4, 256), (2, 8)])
def test_full_planes_have_planes_times_the_counts_of_one(planes, k):
    size = _clos(k * k // 2, k, planes=planes)
    assert sum(size.switches.values()) == planes * 3 * k // 2
    assert size.host_cables == planes * k * k // 2
    assert size.switch_cables == planes * k * k // 2


# DeepSeek, ISCA 2025 (arXiv:2505.09343), Table 3: endpoints, switches, links between switches.
# The 8 planes of its multi-plane tree hold 2,048 endpoints each.
@pytest.mark.parametrize(
    ("size", "endpoints", "switches", "links"),
    [
        (_clos(2_048, 64), 2_048, 96, 2_048),
        (_clos(2_048, 64, planes=8), 16_384, 768, 16_384),
        (_clos(65_536, 64, tiers=3), 65_536, 5_120, 131_072),
    ],
    ids=["FT2", "MPFT", "FT3"],
)
def test_trees_of_deepseek_table_3(size, endpoints, switches, links):
    assert size.host_cables == endpoints
    assert sum(size.switches.values()) == switches
    assert size.switch_cables == links


def test_dragonfly_of_deepseek_table_3():
    size = _dragonfly(261_632, 16, 32, 16, 511)
    assert size.radix == 63
    assert size.host_cables == 261_632
    assert size.switches == {"router": 16_352}
    assert size.local_cables == 253_456
    # 511 more than the group pairs: surplus ports become parallel cables
    assert size.switch_cables_global == 511 * 510 // 2 + 511 == 130_816
    assert size.local_cables + size.switch_cables_global == 384_272


def test_slim_fly_of_deepseek_table_3():
    """q = 28 is no prime power: the table counts a graph that does not exist."""
    size = switch_sizes.slim_fly(where="network", q=28)
    assert (size.network_ports, size.hosts, size.radix) == (42, 21, 63)
    assert size.endpoints == size.host_cables == 32_928
    assert size.switches == {"switch": 1_568}
    assert size.switch_cables == 32_928
    with pytest.raises(SpecError, match=r"network\.q is no prime power.*28; use q = 27 or q = 29"):
        switch_sizes.check_slim_fly_exists("network", 28)


@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9, 13, 16, 25, 27, 32])
def test_slim_fly_has_the_closed_form(q):
    d = {3: -1, 0: 0, 1: 1}[q % 4]
    size = switch_sizes.slim_fly(where="network", q=q, hosts=1)
    assert size.network_ports == (3 * q - d) / 2
    assert size.switch_cables == q * q * size.network_ports
    assert sum(size.switches.values()) == 2 * q * q


@pytest.mark.parametrize(("dims", "hosts"), [((4, 4), 2), ((3, 5, 2), 4), ((7,), 3)])
def test_hyperx_has_the_closed_form(dims, hosts):
    size = switch_sizes.hyperx(where="network", dims=dims, hosts=hosts)
    switches = math.prod(dims)
    assert size.endpoints == hosts * switches
    assert size.switch_cables == switches * sum(d - 1 for d in dims) / 2
    assert size.radix == hosts + sum(d - 1 for d in dims)


def test_jellyfish_has_the_closed_form():
    size = switch_sizes.jellyfish(where="network", switches=40, network_ports=7, hosts=5)
    assert (size.endpoints, size.switch_cables, size.radix) == (200, 140, 12)


def test_graphs_of_switches_for_16384_ranks():
    size = switch_sizes.slim_fly(where="network", q=27, hosts=12, ranks=16_384)
    assert size.network_ports == 41
    assert size.switches == {"switch": 1_458}
    square = switch_sizes.hyperx(where="network", dims=(128, 128), hosts=1, ranks=16_384)
    assert square.switches == {"switch": 16_384}
    assert square.network_ports == 254


# arXiv:2605.04333, figure 1, and the ratios its authors state: 60% of the switches and 67% of
# the optics of a three-tier tree of 64 x 800G switches.
def test_mrc_planes_at_full_size():
    planes = _clos(131_072, 512, planes=8)
    assert planes.switches == {"leaf": 8 * 512, "spine": 8 * 256}
    assert sum(planes.switches.values()) == 8 * 768 == 6_144
    assert planes.hosts_per_leaf == 256
    tree = _clos(65_536, 64, tiers=3)
    assert tree.hosts_per_leaf == 32
    # 6,144 / 131,072 over 5,120 / 65,536
    assert sum(planes.switches.values()) * 65_536 * 5 == 3 * sum(tree.switches.values()) * 131_072
    # cable capacity per rank: 2 levels of 8 x 100 Gbit/s over 3 levels of 800 Gbit/s
    planes_gbit_per_s = (planes.host_cables + planes.switch_cables) * 100 // 131_072
    tree_gbit_per_s = (tree.host_cables + tree.switch_cables) * 800 // 65_536
    assert planes_gbit_per_s * 3 == tree_gbit_per_s * 2


@pytest.mark.parametrize(
    ("size", "tiers"),
    [
        (_clos(16_384, 64, tiers=3), {"leaf": 512, "aggregation": 512, "core": 256}),
        (_clos(16_384, 512, planes=8), {"leaf": 8 * 64, "spine": 8 * 32}),
        (_clos(16_384, 256, planes=4), {"leaf": 4 * 128, "spine": 4 * 64}),
        (_dragonfly(16_384, 16, 32, 16, 32), {"router": 1_024}),
    ],
    ids=["three tiers", "8 x 100G planes", "4 x 200G planes", "dragonfly"],
)
def test_switches_for_16384_ranks(size, tiers):
    assert size.switches == tiers
    assert size.host_cables == 16_384 * getattr(size, "planes", 1)


@pytest.mark.parametrize(
    ("size", "tiers", "switch_cables"),
    [
        (_clos(1_024, 128), {"leaf": 16, "spine": 8}, 1_024),
        (_clos(1_024, 64), {"leaf": 32, "spine": 16}, 1_024),
        (_clos(1_024, 512, planes=4), {"leaf": 16, "spine": 8}, 4_096),
        (_clos(1_024, 32, tiers=3), {"leaf": 64, "aggregation": 64, "core": 32}, 2_048),
    ],
    ids=["k = 128", "k = 64", "4 planes", "three tiers"],
)
def test_trees_for_1024_ranks(size, tiers, switch_cables):
    assert size.switches == tiers
    assert size.switch_cables == switch_cables


def test_a_single_leaf_needs_no_cables_between_switches():
    for tiers in (2, 3):
        size = _clos(32, 64, tiers=tiers)
        assert size.switches == {"leaf": 1}
        assert size.switch_cables == 0


def test_a_single_pod_needs_no_cores():
    size = _clos(1_024, 64, tiers=3)
    assert size.switches == {"leaf": 32, "aggregation": 32}
    assert size.switch_cables == 1_024


def test_several_adapters_of_a_rank_fill_ports_of_one_tree():
    assert _clos(256, 64, ports_per_plane=8).switches == _clos(2_048, 64).switches


def test_oversubscription_thins_the_spine():
    # 48 ports down and 16 up: one spine for every 4 leaves
    size = _clos(48 * 64, 64, oversubscription=(3.0,))
    assert (size.hosts_per_leaf, size.uplinks) == (48, 16)
    assert size.switches == {"leaf": 64, "spine": 16}
    assert size.switch_cables == 64 * 16


@pytest.mark.parametrize("radix", [4, 6, 64, 128])
@pytest.mark.parametrize("oversubscription", [1.0, 3.0])
def test_no_switch_has_more_cables_than_ports(radix, oversubscription):
    down = _clos(1, radix, oversubscription=(oversubscription,)).hosts_per_leaf
    for leaves in range(2, radix + 1):
        size = _clos(leaves * down, radix, oversubscription=(oversubscription,))
        # cable j of every leaf ends at spine j mod spines
        busiest = leaves * -(-size.uplinks // size.spines)
        assert busiest <= radix
        pods = leaves  # the same arithmetic joins pods to cores
        tree = _clos(pods * down * down, radix, tiers=3, oversubscription=(oversubscription,) * 2)
        assert tree.pods * -(-tree.agg_uplinks // tree.cores_per_agg) <= radix


def test_spines_are_one_more_where_the_cables_do_not_divide():
    # 23 leaves x 64 uplinks are 11.5 spines of 128 ports, but of 12 spines the first four would
    # get 6 cables from every leaf: 138 ports
    assert _clos(23 * 64, 128).switches == {"leaf": 23, "spine": 13}


@pytest.mark.parametrize(
    ("ranks", "hosts", "routers", "global_ports", "groups", "local", "between"),
    [
        (1_024, 16, 32, 16, 2, 992, 512),
        (1_024, 8, 16, 8, 8, 960, 512),
        (6, 1, 2, 1, 3, 3, 3),
        (8, 4, 2, 3, 1, 1, 0),
    ],
)
def test_dragonfly_cables(ranks, hosts, routers, global_ports, groups, local, between):
    size = _dragonfly(ranks, hosts, routers, global_ports, groups)
    assert size.ranks == ranks
    assert size.local_cables == local == groups * routers * (routers - 1) // 2
    assert size.switch_cables_global == between


@pytest.mark.parametrize("hosts", [1, 2, 8, 16])
def test_balanced_dragonfly_has_four_p_minus_one_ports(hosts):
    routers, global_ports = 2 * hosts, hosts
    most = routers * global_ports + 1
    size = _dragonfly(hosts * routers * most, hosts, routers, global_ports, most)
    assert size.radix == 4 * hosts - 1
    assert size.ranks == hosts * routers * most
    # at the most groups, one cable between any two
    assert size.global_cables == (1,) * (most - 1)
    assert size.switch_cables_global == most * routers * global_ports // 2


@pytest.mark.parametrize("groups", range(2, 14))
@pytest.mark.parametrize("ports", [(4, 3), (5, 3), (3, 5)])
def test_global_cables_are_even_and_symmetric(ports, groups):
    routers, global_ports = ports
    size = _dragonfly(1, 1, routers, global_ports, groups)
    cables = size.global_cables
    assert len(cables) == groups - 1
    assert cables == cables[::-1]
    assert max(cables) - min(cables) <= 1
    unused = routers * global_ports - sum(cables)
    # an odd port is left over only where no group is opposite to itself
    assert unused == (routers * global_ports % 2 if groups % 2 else 0)


@pytest.mark.parametrize(
    ("reach", "links", "cables"),
    [
        ((32, 32), 62, 31_744),
        ((4,) * 5, 15, 7_680),
        ((2,) * 10, 10, 5_120),
        ((1_024,), 1_023, 523_776),
    ],
)
def test_direct_wiring_of_1024_ranks(reach, links, cables):
    size = sizes.direct_wiring(where="network", ranks=1_024, reach=reach)
    assert size.ports == links
    assert size.cables == cables


def test_full_mesh_of_16384_ranks():
    size = sizes.direct_wiring(where="network", ranks=16_384, reach=(16_384,))
    assert size.ports == 16_383
    assert size.cables == 134_209_536
    square = sizes.direct_wiring(where="network", ranks=16_384, reach=(128, 128))
    assert square.ports == 254


@pytest.mark.parametrize(
    ("tiers", "radix", "ports_per_plane", "largest"),
    [(2, 128, 1, 8_192), (2, 64, 8, 256), (3, 64, 1, 65_536), (3, 32, 1, 8_192)],
)
def test_too_many_ranks_name_the_largest_size(tiers, radix, ports_per_plane, largest):
    assert _clos(largest, radix, tiers=tiers, ports_per_plane=ports_per_plane)
    with pytest.raises(SpecError, match=rf"network\.ranks.*at most {largest}\b"):
        _clos(largest + 1, radix, tiers=tiers, ports_per_plane=ports_per_plane)


def test_a_radix_too_small_to_split_is_refused():
    with pytest.raises(SpecError, match=r"network\.radix.*4.*15:1"):
        _clos(8, 4, oversubscription=(15.0,))


def test_too_many_groups_are_refused_with_the_most():
    with pytest.raises(SpecError, match=r"network\.groups.*514.*at most 513 groups"):
        _dragonfly(1_024, 16, 32, 16, 514)


def test_too_many_ranks_for_the_groups_name_the_groups_needed():
    with pytest.raises(SpecError, match=r"network\.ranks.*at most 1024 ranks.*groups = 3"):
        _dragonfly(1_025, 16, 32, 16, 2)
    with pytest.raises(SpecError, match=r"at most 6 ranks.*larger groups"):
        _dragonfly(7, 1, 2, 1, 3)


def test_reach_must_multiply_to_the_ranks():
    with pytest.raises(SpecError, match=r"network\.reach.*1024.*1000"):
        sizes.direct_wiring(where="network", ranks=1_000, reach=(32, 32))
