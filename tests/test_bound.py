"""Lower bounds: known values, and that no result of any network is ever below one."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrcjax.bound import lower_bounds
from mrcjax.case import build
from mrcjax.emulation import run
from mrcjax.spec import SpecError, load_spec

GB = 1e9


def bounds_of(network: str, collective: str, faults: str = "") -> dict[str, float]:
    text = f"[network]\n{network}\n[collective]\n{collective}\n{faults}"
    return lower_bounds(build(load_spec(text)))


RAILS = 'kind = "flat_rails"\nranks = 8\nrails = 2\nrail_rate = "50 GB/s"\n'


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("all_reduce", 2 * 7 / 8 * 1 / 100),
        ("reduce_scatter", 7 / 8 * 1 / 100),
        ("all_gather", 7 / 8 * 1 / 100),
        ("all_to_all", 7 / 8 * 1 / 100),
    ],
)
def test_ports_bound_equal_ranks(kind, seconds):
    found = bounds_of(RAILS, f'kind = "{kind}"\nsize = "1 GB"')
    assert found["ports (all)"] == pytest.approx(seconds, rel=1e-12)


def test_a_slow_rank_needs_the_buffer_once_not_twice():
    # Its shard may be reduced elsewhere: S / B holds, 2 (n - 1) / n S / B does not.
    slow = '[faults]\nlinks = [{ match = "rank 3 *", rate = 0.1 }]'
    found = bounds_of(RAILS, 'kind = "all_reduce"\nsize = "1 GB"', slow)
    assert found["ports (slowest)"] == pytest.approx(1 / 10, rel=1e-12)


def test_nodes_are_contracted():
    # 8 nodes of 8 ranks with one 50 GB/s port each: 2 (7/8) S / 400 GB/s.
    tree = (
        'kind = "fat_tree"\nranks = 64\nradix = 16\nlink_rate = "50 GB/s"\n'
        'node_size = 8\nnode_rate = "450 GB/s"\n'
    )
    found = bounds_of(tree, 'kind = "all_reduce"\nsize = "1 GB"\nalgorithm = "hierarchical"')
    assert found["nodes (all)"] == pytest.approx(2 * 7 / 8 / 400, rel=1e-12)


def test_an_oversubscribed_leaf_binds():
    # Radix 16 at 3:1 is 12 ports down and 4 up: 4 leaves of 12 ranks, 2 (3/4) S / 200 GB/s.
    tree = (
        'kind = "fat_tree"\nranks = 48\nradix = 16\nlink_rate = "50 GB/s"\noversubscription = 3\n'
    )
    found = bounds_of(tree, 'kind = "all_reduce"\nsize = "1 GB"')
    assert found["leaves (all)"] == pytest.approx(2 * 3 / 4 / 200, rel=1e-12)
    # An all-to-all cannot be reduced first: 12 ranks send 3/4 of their buffers out of the leaf.
    found = bounds_of(tree, 'kind = "all_to_all"\nsize = "1 GB"')
    assert found["leaves (slowest)"] == pytest.approx(12 * 3 / 4 / 200, rel=1e-12)
    assert max(found, key=lambda name: found[name]).startswith("leaves")


def test_groups_without_ranks_bound_nothing():
    # Of four groups of 8 two have ranks: all 8 of the first, 5 of the second; 4 cables lead out.
    part = (
        'kind = "dragonfly"\nranks = 13\nhosts_per_router = 2\nrouters_per_group = 4\n'
        'global_links_per_router = 1\ngroups = 4\nlink_rate = "50 GB/s"\n'
    )
    found = bounds_of(part, 'kind = "all_reduce"\nsize = "1 GB"')
    assert found["groups (all)"] == pytest.approx(2 / (2 * 4 * 50), rel=1e-12)
    assert found["groups (slowest)"] == pytest.approx(1 / (4 * 50), rel=1e-12)


def test_groups_add_up_on_a_cut():
    # Four groups of 16 strided over all leaves: every leaf is cut by all of them.
    tree = 'kind = "fat_tree"\nranks = 64\nradix = 16\nlink_rate = "50 GB/s"\n'
    group = 'kind = "all_reduce"\nsize = "1 GB"\ngroup_size = 16\ngroup_stride = 4'
    found = bounds_of(tree, group)
    assert found["leaves (slowest)"] == pytest.approx(4 * 1 / 400, rel=1e-12)


def test_latency_counts_links_on_the_way_and_late_ranks():
    tree = 'kind = "fat_tree"\nranks = 64\nradix = 16\nlink_rate = "50 GB/s"\nlatency = "1 us"\n'
    late = '[faults]\nlate = [{ rank = 5, by = "3 ms" }]'
    found = bounds_of(tree, 'kind = "all_reduce"\nsize = "1 GB"', late)
    assert found["latency"] == pytest.approx(3e-3 + 4e-6, rel=1e-12)


GRID = 'kind = "torus"\nlink_rate = "100 GB/s"\nlatency = "1 us"\n'
A2A = 'kind = "all_to_all"\nsize = "1 GB"'


def test_all_to_all_on_a_torus():
    # Halves: S d / (8 b). Hop volume: S (d0 + d1 + d2) / 4 / (6 b).
    found = bounds_of(GRID + "dims = [4, 4, 8]", A2A)
    assert found["halves of dimension 2 (all)"] == pytest.approx(8 / 800, rel=1e-12)
    assert found["halves of dimension 0 (slowest)"] == pytest.approx(4 / 800, rel=1e-12)
    assert found["hop volume"] == pytest.approx(4 / 600, rel=1e-12)
    assert found["latency"] == pytest.approx(8e-6, rel=1e-12)
    large = bounds_of(GRID + "dims = [16, 32, 32]", A2A)
    assert large["halves of dimension 1 (all)"] == pytest.approx(40e-3, rel=1e-12)
    assert large["ports (all)"] == pytest.approx(1 / 600, rel=1e-3)
    assert large["hop volume"] == pytest.approx(20 / 600, rel=1e-12)


def test_hop_volume_off_the_torus():
    # A line of three: 8 links' worth for 3 x 3 pairs, 4 links. Wires: (2/3 + 3/4) hops, 5 ports.
    line = bounds_of(GRID.replace("torus", "mesh") + "dims = [3]", A2A)
    assert line["hop volume"] == pytest.approx(8 / 3 / 400, rel=1e-12)
    wires = 'kind = "flat_rails"\nranks = 12\nreach = [3, 4]\nrail_rate = "100 GB/s"\n'
    assert bounds_of(wires, A2A)["hop volume"] == pytest.approx(17 / 12 / 500, rel=1e-12)
    nodes = wires + 'node_size = 3\nnode_rate = "1 GB/s"\n'
    assert "hop volume" not in bounds_of(nodes, A2A)
    assert "hop volume" not in bounds_of(wires, AR)


def test_slabs_of_a_torus_bind_a_slow_dimension():
    # 4 slabs of 2 ranks: 2 (4 - 1) S between them over 16 links of 10 GB/s.
    slow = 'kind = "torus"\ndims = [2, 4]\nlink_rate = ["100 GB/s", "10 GB/s"]\n'
    found = bounds_of(slow, AR)
    assert found["slabs of dimension 1 (all)"] == pytest.approx(6 / 160, rel=1e-12)
    assert max(found, key=lambda name: found[name]) == "slabs of dimension 1 (all)"


def test_one_rank_needs_nothing():
    found = bounds_of('kind = "flat_rails"\nranks = 1\nrails = 2\nrail_rate = "50 GB/s"', AR)
    assert found == {"late": 0.0}


AR = 'kind = "all_reduce"\nsize = "1 GB"'

# Shapes come from a small fixed set: every other one would be another compilation.
SHAPES = {
    "rails": ('kind="flat_rails"\nranks=7\nrails=3\nrail_rate="{r} Gbit/s"\n', ""),
    "rails ring": (
        'kind="flat_rails"\nranks=8\nrails=2\nrail_rate=["{r} Gbit/s","{q} Gbit/s"]\n',
        'algorithm="ring"\n',
    ),
    "wired": ('kind="flat_rails"\nranks=12\nreach=[4,3]\nrail_rate="{r} Gbit/s"\n', ""),
    "tree": ('kind="fat_tree"\nranks=20\nradix=8\nlink_rate="{r} Gbit/s"\nseed={s}\n'
             'load_balancing="ecmp"\n', ""),
    "deep tree": (
        'kind="fat_tree"\nranks=32\nradix=6\ntiers=3\noversubscription=2\n'
        'link_rate="{r} Gbit/s"\n', "",
    ),
    "planes": (
        'kind="mrc_planes"\nranks=24\nplanes=2\nradix=16\nplane_rate="{r} Gbit/s"\npaths=4\n'
        'seed={s}\n', "",
    ),
    "dragonfly": (
        'kind="dragonfly"\nranks=30\nhosts_per_router=2\nrouters_per_group=4\n'
        'global_links_per_router=1\ngroups=4\nlink_rate="{r} Gbit/s"\nload_balancing="ecmp"\n'
        'seed={s}\n', "",
    ),
    # four groups are built, and two have ranks
    "part of a dragonfly": (
        'kind="dragonfly"\nranks=13\nhosts_per_router=2\nrouters_per_group=4\n'
        'global_links_per_router=1\ngroups=4\nlink_rate="{r} Gbit/s"\nrouting="valiant"\n', "",
    ),
    "ideal dragonfly": (
        'kind="dragonfly"\nranks=24\nhosts_per_router=2\nrouters_per_group=4\n'
        'global_links_per_router=1\ngroups=3\nlink_rate="{r} Gbit/s"\n', 'algorithm="ring"\n',
    ),
    "nodes": (
        'kind="fat_tree"\nranks=16\nradix=8\nlink_rate="{r} Gbit/s"\nnode_size=4\n'
        'node_rate="{q} GB/s"\n', 'algorithm="hierarchical"\n',
    ),
    "mixed nodes": (
        'kind="flat_rails"\nranks=12\nrails=1\nrail_rate="{r} Gbit/s"\nnode_size=4\n'
        'node_rate="{q} GB/s"\n', 'algorithm="ring"\n',
    ),
    "torus": ('kind="torus"\ndims=[3,4]\nlink_rate="{r} Gbit/s"\n', ""),
    "mesh": ('kind="mesh"\ndims=[2,5]\nlink_rate=["{r} Gbit/s","{q} Gbit/s"]\n', ""),
    "torus rings": ('kind="torus"\ndims=[2,3]\nlink_rate="{r} Gbit/s"\n', 'algorithm="rings"\n'),
    "dimensions": (
        'kind="flat_rails"\nranks=12\nrails=2\nrail_rate="{r} Gbit/s"\n',
        'algorithm="hierarchical"\ndimensions=[3,4]\nbetween=["ring","direct"]\nchunks=2\n',
    ),
    "dgx": (
        'kind="dgx"\nranks=12\nnode_size=4\nradix=8\nlink_rate="{r} Gbit/s"\n'
        'node_rate="{q} GB/s"\ncross_rail="spine"\nload_balancing="ecmp"\nseed={s}\n', "",
    ),
    "part of a dgx": (
        'kind="dgx"\nranks=11\nnode_size=4\nradix=8\nlink_rate="{r} Gbit/s"\n'
        'node_rate="{q} GB/s"\n', "",
    ),
    "rails only": (
        'kind="rail_only"\nranks=12\nnode_size=4\nradix=8\nlink_rate="{r} Gbit/s"\n'
        'node_rate="{q} GB/s"\n', 'algorithm="hierarchical"\n',
    ),
    "domains": (
        'kind="nvl"\nranks=8\ndomain=4\nradix=8\nlink_rate="{r} Gbit/s"\n'
        'node_rate=["{q} GB/s","{q} GB/s"]\n', "",
    ),
    "reducing domains": (
        'kind="nvl"\nranks=8\ndomain=4\nradix=8\nlink_rate="{r} Gbit/s"\nnode_rate="{q} GB/s"\n'
        'in_network=true\nin_network_efficiency=0.8\n', 'algorithm="in_network"\n',
    ),
    "wafers": ('kind="wafer"\nranks=7\nlink_rate="{r} Gbit/s"\n', 'algorithm="in_network"\n'),
    "slim fly": (
        'kind="slim_fly"\nranks=11\nq=3\nhosts_per_switch=1\nlink_rate="{r} Gbit/s"\n'
        'load_balancing="ecmp"\nseed={s}\n', "",
    ),
    "nodes of a hyperx": (
        'kind="hyperx"\nranks=10\ndims=[2,2]\nhosts_per_switch=4\nlink_rate="{r} Gbit/s"\n'
        'node_size=4\nnode_rate="{q} GB/s"\n', "",
    ),
    "hyperx": (
        'kind="hyperx"\nranks=11\ndims=[2,3]\nhosts_per_switch=2\nlink_rate="{r} Gbit/s"\n', "",
    ),
    "jellyfish": (
        'kind="jellyfish"\nranks=11\nswitches=6\nnetwork_ports=3\nhosts_per_switch=2\n'
        'link_rate="{r} Gbit/s"\nload_balancing="spray"\npaths=4\nseed={s}\n', "",
    ),
    "graph": (
        'kind="graph"\nlink_rate="{r} Gbit/s"\nlinks=[{{from="0",to="a"}},{{from="a",to="b"}},'
        '{{from="1",to="a",name="rank 1 egress"}},{{from="a",to="b"}},'
        '{{from="2",to="b",rate="{q} GB/s",name="rank 2 ingress"}}]\n', 'element_bytes=8\n',
    ),
    "groups": ('kind="flat_rails"\nranks=12\nrails=2\nrail_rate="{r} Gbit/s"\n',
               "group_size=4\ngroup_stride=3\n"),
}  # fmt: skip
KINDS = {  # by the first word found: the rings of a hierarchy do not come first
    "hierarchical": ["all_reduce"],
    "rings": ["all_reduce"],
    "ring": ["all_reduce", "reduce_scatter", "all_gather"],
    "in_network": ["all_reduce"],
}


@st.composite
def specs(draw) -> str:
    network, algorithm = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    word = next((w for w in KINDS if w in algorithm), "")
    kinds = KINDS.get(word, [*KINDS["ring"], "all_to_all"])
    network = network.format(
        r=draw(st.floats(1, 1000)), q=draw(st.floats(1, 1000)), s=draw(st.integers(0, 9))
    )
    size = draw(st.sampled_from(["0 B", "1 kB", "1 MB", "1 GB"]))
    text = f"[network]\n{network}"
    text += f'endpoint_latency="{draw(st.floats(0, 10))} us"\n'
    text += f"goodput={draw(st.floats(0.1, 1))}\n"
    text += f'[collective]\nkind="{draw(st.sampled_from(kinds))}"\nsize="{size}"\n{algorithm}'
    switching = draw(st.sampled_from(["cut_through", "store_and_forward"]))
    text += f'[engine]\nswitching="{switching}"\n[faults]\n'
    if draw(st.booleans()):
        text += f'late=[{{rank={draw(st.integers(0, 2))},by="{draw(st.floats(0, 100))} ms"}}]\n'
    if draw(st.booleans()):
        rate, more = draw(st.floats(0.01, 1)), draw(st.floats(0, 1000))
        rank = draw(st.sampled_from(["1", "2", "*"]))
        text += f'links=[{{match="rank {rank} *gress*",rate={rate},add_latency="{more} us"}}]\n'
    return text


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(specs())
def test_no_result_is_below_its_bound(text):
    outcome = run(load_spec(text), brief=True)
    assert math.isfinite(outcome.time_s)
    assert outcome.time_s >= outcome.lower_bound_s * (1 - 1e-12)
    assert outcome.time_s >= outcome.schedule_bound_s * (1 - 1e-12)
    assert outcome.schedule_bound_s >= outcome.lower_bound_s


def test_what_float32_cannot_hold_is_refused():
    text = f"[network]\n{RAILS}\n[collective]\nkind='all_reduce'\nsize='1e300 B'"
    assert math.isfinite(run(load_spec(text)).time_s)
    with pytest.raises(SpecError, match="float32.*use smaller sizes"):
        run(load_spec(text + "\n[engine]\nprecision='float32'"))


def test_the_comparison_can_fail():
    # Negative control: half of a time that meets its bound is below it.
    outcome = run(load_spec(f"[network]\n{RAILS}latency='0 s'\n[collective]\n{AR}\nstripe=true"))
    assert outcome.bound_ratio == pytest.approx(1, rel=1e-9)
    assert outcome.time_s / 2 < outcome.lower_bound_s
