"""Bills of material of 1,024 GPUs, each figure to the digits of the printed table."""

import dataclasses
from typing import Any

import pytest

from mrcjax import hardware
from mrcjax.network.inventory import inventory
from mrcjax.spec import Dragonfly, FatTree, FlatRails, MrcPlanes, RatesPerPort, SpecError
from mrcjax.units import BytesPerSecond


def _rate(gbit_per_s):
    return BytesPerSecond.parse(f"{gbit_per_s} Gbit/s")


def _fat_tree(radix, gbit_per_s, *, ranks=1_024, **more: Any):
    return FatTree(ranks=ranks, radix=radix, link_rate=_rate(gbit_per_s), **more)


def _dragonfly(hosts, routers, global_links, groups, gbit_per_s):
    return Dragonfly(
        ranks=1_024,
        hosts_per_router=hosts,
        routers_per_group=routers,
        global_links_per_router=global_links,
        groups=groups,
        link_rate=_rate(gbit_per_s),
    )


def _flat_rails(rails, gbit_per_s, *, ranks=1_024, **more: Any):
    rates = RatesPerPort.parse(f"{gbit_per_s} Gbit/s")
    return FlatRails(ranks=ranks, rails=rails, rail_rate=rates, **more)


def _planes(planes, gbit_per_s, radix, *, ranks=1_024):
    return MrcPlanes(ranks=ranks, planes=planes, radix=radix, plane_rate=_rate(gbit_per_s))


def _priced(total: float | None) -> float:
    assert total is not None
    return total


def _kw(watts):
    return round(_priced(watts) / 1e3, 1)


def _musd(usd):
    return round(_priced(usd) / 1e6, 2)


# 400 Gbit/s per rank. A cable has two ends, at 400 Gbit/s 8.5 W at a switch, 9 W at a NIC and
# 640 $ each. Columns: parts, host cables, switch cables, modules, then kW of switches, modules,
# both, with NICs, then M$ of switches, optics and cables, all with NICs.
TABLE_400 = {
    "fat tree, 51.2T": (
        _fat_tree(128, 400),
        ({"switch_51t2": 24}, 1_024, 1_024, 2_560),
        (21.9, 35.3, 57.2, 82.8),
        (1.32, 2.62, 5.48),
    ),
    "fat tree, 25.6T": (
        _fat_tree(64, 400),
        ({"switch_25t6": 48}, 1_024, 1_024, 2_560),
        (35.9, 35.3, 71.2, 96.8),
        (1.73, 2.62, 5.89),
    ),
    # optics: 3,072 ends x 640 $ and 992 copper cables x 150 $ are 2,114,880 $
    "dragonfly": (
        _dragonfly(16, 32, 16, 2, 400),
        ({"switch_25t6": 64}, 1_024, 1_504, 2_048),
        (47.8, 26.8, 74.6, 100.2),
        (2.30, 2.11, 5.95),
    ),
    "flat rails": (
        _flat_rails(4, 100),
        ({"switch_102t4": 4}, 4_096, 0, 1_536),
        (6.0, 17.9, 23.9, 49.5),
        (0.44, 1.31, 3.29),
    ),
    "MRC planes": (
        _planes(4, 100, 512),
        ({"switch_51t2": 24}, 4_096, 4_096, 2_560),
        (21.9, 35.3, 57.2, 82.8),
        (1.32, 2.62, 5.48),
    ),
}


@pytest.mark.parametrize("name", TABLE_400)
def test_networks_of_400_gbit_per_s(name):
    spec, (parts, host_cables, switch_cables, modules), kw, musd = TABLE_400[name]
    got = inventory(spec)
    assert got.switches_by_part == parts
    assert got.switches == sum(parts.values())
    assert got.host_cables == host_cables
    assert got.switch_cables == switch_cables
    assert got.modules == modules
    assert got.nics == 1_024
    assert (_kw(got.watts["switches"]), _kw(got.watts["modules"])) == kw[:2]
    assert (_kw(got.watts_without_nics), _kw(got.watts_with_nics)) == kw[2:]
    assert (_musd(got.usd["switches"]), _musd(got.usd["optics_and_cables"])) == musd[:2]
    assert _musd(got.usd_with_nics) == musd[2]


# 800 Gbit/s per rank: switches, kW without and with NICs, M$ with NICs. A copper cable of the
# dragonfly costs 150 $ and draws 0.2 W at this rate too.
TABLE_800 = {
    "fat tree": (_fat_tree(64, 800), {"switch_51t2": 48}, 114.5, 160.6, 10.44),
    "dragonfly": (_dragonfly(16, 32, 16, 2, 800), {"switch_51t2": 64}, 111.9, 158.0, 10.16),
    "flat rails": (_flat_rails(8, 100), {"switch_102t4": 8}, 47.8, 93.9, 6.06),
    "MRC planes": (_planes(8, 100, 512), {"switch_51t2": 48}, 114.5, 160.6, 10.44),
}


@pytest.mark.parametrize("name", TABLE_800)
def test_networks_of_800_gbit_per_s(name):
    spec, parts, kw, kw_with_nics, musd_with_nics = TABLE_800[name]
    got = inventory(spec)
    assert got.switches_by_part == parts
    assert got.nics == 1_024
    assert _kw(got.watts_without_nics) == kw
    assert _kw(got.watts_with_nics) == kw_with_nics
    assert _musd(got.usd_with_nics) == musd_with_nics


# Networks of unequal rate: switches, kW without and with NICs, M$ with NICs.
TABLE_UNEQUAL = {
    "fat tree": (_fat_tree(32, 400, tiers=3), {"switch_12t8": 160}, 116.7, 142.3, 8.67),
    "dragonfly": (_dragonfly(8, 16, 8, 8, 400), {"switch_12t8": 128}, 78.0, 103.6, 6.21),
    "flat rails 8": (_flat_rails(8, 400), {"switch_51t2": 192}, 457.9, 642.2, 41.77),
    "flat rails 20": (_flat_rails(20, 400), {"switch_51t2": 480}, 1_144.8, 1_605.6, 104.43),
    "MRC planes": (_planes(8, 100, 512), {"switch_51t2": 48}, 114.5, 160.6, 10.44),
}


@pytest.mark.parametrize("name", TABLE_UNEQUAL)
def test_networks_of_unequal_rate(name):
    spec, parts, kw, kw_with_nics, musd_with_nics = TABLE_UNEQUAL[name]
    got = inventory(spec)
    assert got.switches_by_part == parts
    assert _kw(got.watts_without_nics) == kw
    assert _kw(got.watts_with_nics) == kw_with_nics
    assert _musd(got.usd_with_nics) == musd_with_nics


def test_flat_rails_of_20_cost_102_thousand_dollars_per_gpu():
    assert round(_priced(inventory(_flat_rails(20, 400)).usd_with_nics) / 1_024 / 1e3) == 102


@pytest.mark.parametrize(("rails", "watts", "usd"), [(8, 19_660.8, 5.24), (20, 49_152, 13.11)])
def test_passive_optical_plane_has_end_points_only(rails, watts, usd):
    got = inventory(_flat_rails(rails, 400, plane="optical"))
    assert got.realisation == "passive optical plane (what-if)"
    assert (got.switches, got.nics, got.modules) == (0, 0, 0)
    assert got.host_cables == got.link_ends == 1_024 * rails
    # 6 pJ/bit x 400 Gbit/s = 2.4 W per rail of a rank
    assert got.watts_without_nics == pytest.approx(watts, rel=1e-12)
    assert got.watts_with_nics == got.watts_without_nics
    assert _musd(got.usd_with_nics) == usd
    assert "no such plane is sold" in got.notes[0]


@pytest.mark.parametrize(
    ("reach", "links", "cables"),
    [
        ((32, 32), 62, 31_744),
        ((4,) * 5, 15, 7_680),
        ((2,) * 10, 10, 5_120),
        ("direct", 1_023, 523_776),
    ],
)
def test_direct_wiring_counts_cables_and_prices_nothing(reach, links, cables):
    got = inventory(_flat_rails(links, 100, reach=reach))
    assert got.realisation == f"direct wiring, {links} links per rank"
    assert got.cables == got.host_cables == cables
    assert got.link_ends == 2 * cables
    assert got.switches == 0
    assert got.watts == got.usd == {}
    assert got.watts_without_nics is got.watts_with_nics is None
    assert got.usd_without_nics is got.usd_with_nics is None
    rows = got.rows()
    assert {("modules", "-"), ("NICs", "-"), ("total with NICs, kW", "-")} <= set(rows)


def test_two_tiers_of_1024_h100_cost_what_a_public_sheet_says():
    """48 switches 1.73 M$ and cables 2.62 M$: 4.25 k$ per GPU without adapters."""
    got = inventory(_fat_tree(64, 400))
    assert got.usd["switches"] == 1_728_000
    assert got.usd["optics_and_cables"] == pytest.approx(2_621_440, rel=1e-12)
    assert round(_priced(got.usd_without_nics) / 1_024) == 4_248


def test_two_tiers_of_16384_h100_cost_what_a_public_sheet_says():
    """768 switches 27.6 M$ and cables 41.9 M$; one plane per GPU of 2,048 nodes."""
    got = inventory(_planes(8, 400, 64, ranks=2_048))
    assert got.switches_by_part == {"switch_25t6": 768}
    assert round(got.usd["switches"] / 1e6, 1) == 27.6
    assert round(got.usd["optics_and_cables"] / 1e6, 1) == 41.9


def test_share_of_a_large_three_tier_tree():
    """A 64th of 65,536 ranks on 64-port switches: 80 switches and 112.5 kW."""
    got = inventory(_fat_tree(64, 400, ranks=65_536, tiers=3))
    assert got.switches == 64 * 80
    assert _kw(_priced(got.watts_without_nics) / 64) == 112.5


def test_planes_and_fat_tree_of_1024_are_the_same_hardware():
    planes, tree = inventory(_planes(4, 100, 512)), inventory(_fat_tree(128, 400))
    assert planes.switches_by_part == tree.switches_by_part
    assert planes.modules == tree.modules
    assert planes.watts == pytest.approx(tree.watts, rel=1e-12)
    assert planes.usd == pytest.approx(tree.usd, rel=1e-12)


@pytest.mark.parametrize(
    ("spec", "words", "tiers"),
    [
        (_flat_rails(4, 100), "one 1024-port crossbar per rail", {"crossbar": 4}),
        (_flat_rails(4, 100, ranks=512), "one 512-port crossbar per rail", {"crossbar": 4}),
        (_flat_rails(2, 400, ranks=33), "one 64-port crossbar per rail", {"crossbar": 2}),
        (
            _flat_rails(8, 400),
            "two-tier Clos per rail (which is mrc_planes)",
            {"leaf": 8 * 16, "spine": 8 * 8},
        ),
        (
            _flat_rails(4, 100, ranks=16_384),
            "two-tier Clos per rail (which is mrc_planes)",
            {"leaf": 4 * 32, "spine": 4 * 16},
        ),
        (
            _flat_rails(1, 400, ranks=16_384),
            "three-tier Clos per rail",
            {"leaf": 256, "aggregation": 256, "core": 128},
        ),
        (
            _flat_rails(2, 400, switch="switch_25t6"),
            "two-tier Clos per rail (which is mrc_planes)",
            {"leaf": 64, "spine": 32},
        ),
        (_planes(8, 100, 512), "two-tier Clos per plane", {"leaf": 32, "spine": 16}),
        (_planes(8, 100, 512, ranks=256), "one-tier Clos per plane", {"leaf": 8}),
        (_fat_tree(128, 400), "two-tier Clos", {"leaf": 16, "spine": 8}),
        (
            _fat_tree(32, 400, tiers=3),
            "three-tier Clos",
            {"leaf": 64, "aggregation": 64, "core": 32},
        ),
        (
            _dragonfly(16, 32, 16, 2, 400),
            "dragonfly of 63-port routers, copper inside groups",
            {"router": 64},
        ),
    ],
)
def test_hardware_taken(spec, words, tiers):
    got = inventory(spec)
    assert got.realisation == words
    assert got.switches_by_tier == tiers
    assert got.kind == spec.kind
    assert got.ranks == spec.ranks


def test_clos_per_rail_equals_the_planes_it_is_said_to_be():
    rails, planes = inventory(_flat_rails(8, 400)), inventory(_planes(8, 400, 128))
    for field in ("switches_by_part", "host_cables", "switch_cables", "modules", "watts", "usd"):
        assert getattr(rails, field) == getattr(planes, field)


def test_rails_of_unequal_rate_are_added_up():
    rates = RatesPerPort.parse(["100 Gbit/s", "400 Gbit/s", "100 Gbit/s"])
    got = inventory(FlatRails(ranks=1_024, rails=3, rail_rate=rates))
    slow, fast = inventory(_flat_rails(2, 100)), inventory(_flat_rails(1, 400))
    assert got.realisation == (
        "2 x 12.5 GB/s: one 1024-port crossbar per rail; "
        "1 x 50 GB/s: two-tier Clos per rail (which is mrc_planes)"
    )
    assert got.switches_by_part == {"switch_102t4": 2, "switch_51t2": 24}
    assert got.host_cables == 3 * 1_024
    assert got.modules == slow.modules + fast.modules
    for share in ("switches", "modules"):
        assert got.watts[share] == pytest.approx(slow.watts[share] + fast.watts[share], rel=1e-12)
    # one adapter of 600 Gbit/s, scaled from the 800G part
    assert got.nics == 1_024
    assert got.watts["nics"] == pytest.approx(1_024 * 45 * 0.75, rel=1e-12)


@pytest.mark.parametrize(
    ("spec", "nics", "watts_per_rank"),
    [
        (_planes(4, 100, 512), 1_024, 25),
        (_planes(8, 100, 512), 1_024, 45),
        (_planes(2, 100, 512), 1_024, 12.5),
        (_fat_tree(128, 400, nics=2), 1_024, 45),
        (_flat_rails(8, 400), 4_096, 180),
        (_flat_rails(20, 400), 10_240, 450),
    ],
)
def test_adapters_follow_the_rate_of_a_rank(spec, nics, watts_per_rank):
    got = inventory(spec)
    assert got.nics == nics
    assert got.watts["nics"] == pytest.approx(1_024 * watts_per_rank, rel=1e-12)


def test_dragonfly_splits_copper_from_optical():
    got = inventory(_dragonfly(16, 32, 16, 2, 400))
    assert got.switch_cables_copper == 992
    assert got.switch_cables_optical == 512
    assert got.nic_link_ends == 1_024
    assert got.switch_link_ends == 1_024 + 2 * 512
    assert got.link_ends == 2 * got.cables == 2 * (1_024 + 1_504)


def test_scale_up_nodes_change_nothing():
    node = {"node_size": 8, "node": "nvlink4"}
    assert inventory(_fat_tree(128, 400, **node)) == inventory(_fat_tree(128, 400))


def test_values_come_from_the_catalogue(monkeypatch):
    before = inventory(_dragonfly(16, 32, 16, 2, 400))
    optics = hardware.optics()
    doubled = dataclasses.replace(
        optics,
        switch_module_j_per_byte=2 * optics.switch_module_j_per_byte,
        nic_module_j_per_byte=2 * optics.nic_module_j_per_byte,
        copper_watts=2 * optics.copper_watts,
        link_end_usd_per_byte_per_s=2 * optics.link_end_usd_per_byte_per_s,
        copper_usd=2 * optics.copper_usd,
    )
    monkeypatch.setattr(hardware, "optics", lambda: doubled)
    after = inventory(_dragonfly(16, 32, 16, 2, 400))
    assert after.watts["modules"] == 2 * before.watts["modules"]
    assert after.usd["optics_and_cables"] == 2 * before.usd["optics_and_cables"]
    assert after.watts["switches"] == before.watts["switches"]


def test_rows_print_every_figure():
    rows = dict(inventory(_fat_tree(128, 400)).rows())
    assert rows == {
        "hardware": "two-tier Clos",
        "switches": "24 (16 leaf + 8 spine)",
        "switch parts": "24 x switch_51t2",
        "host cables": "1,024",
        "switch cables, optical": "1,024",
        "switch cables, copper": "0",
        "link ends": "4,096",
        "modules": "2,560",
        "NICs": "1,024 (nic_400g per rank)",
        "switches, kW": "21.9",
        "modules, kW": "35.3",
        "NICs, kW": "25.6",
        "total without NICs, kW": "57.2",
        "total with NICs, kW": "82.8",
        "switches, M$": "1.32",
        "optics and cables, M$": "2.62",
        "NICs, M$": "1.54",
        "total without NICs, M$": "3.94",
        "total with NICs, M$": "5.48",
    }


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (_fat_tree(128, 400, ranks=8_193), r"network\.ranks.*8193.*at most 8192"),
        (_fat_tree(64, 400, ranks=65_537, tiers=3), r"network\.ranks.*at most 65536"),
        (_planes(8, 100, 512, ranks=131_073), r"network\.ranks.*at most 131072"),
        (_dragonfly(16, 32, 16, 514, 400), r"network\.groups.*514.*at most 513"),
        (_dragonfly(16, 16, 16, 2, 400), r"network\.ranks.*at most 512.*groups = 4"),
        (_flat_rails(1, 800, ranks=65_537), r"network\.ranks.*64-port.*65536.*got 65537"),
        (_flat_rails(1, 1_600), r"network\.rail_rate of 200 GB/s is faster"),
        (_fat_tree(128, 800), r"network\.switch.*128 ports of 100 GB/s.*at most 64"),
        (
            _fat_tree(128, 400, switch="switch_25t6"),
            r'network\.switch has 64 ports.*128 are needed, got "switch_25t6"',
        ),
        (_flat_rails(1, 400, switch="switch_102t4"), r"network\.switch has 0 ports"),
    ],
)
def test_what_cannot_be_built_is_refused(spec, complaint):
    with pytest.raises(SpecError, match=complaint):
        inventory(spec)
