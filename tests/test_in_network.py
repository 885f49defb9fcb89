"""Switches that reduce and multicast: closed forms, the twin that moves small pieces, bounds."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import in_network as twin
from runs import MS, US, all_reduce, case_of, time_s, timed, times_of, with_random_numbers

import mrcjax
from mrcjax import hardware
from mrcjax.bound import lower_bounds
from mrcjax.case import Case
from mrcjax.network.inventory import inventory
from mrcjax.spec import SpecError, example, load_spec

GBIT = 1e9 / 8
KINDS = ("all_reduce", "reduce_scatter", "all_gather")


def node(ranks: int = 8, **more):
    keys = {"kind": "dgx", "ranks": ranks, "link": "infiniband_ndr", "in_network": True}
    return {**keys, "node_rate": "450 GB/s", "node_latency": "500 ns", **more}


def tree(ranks: int = 8, **more):
    keys = {"kind": "fat_tree", "ranks": ranks, "radix": 8, "link_rate": "400 Gbit/s"}
    return {**keys, "latency": "500 ns", "in_network": True, **more}


def in_network(kind: str = "all_reduce", size: str = "1 GB", **more):
    return {"kind": kind, "algorithm": "in_network", "size": size, **more}


# ---- closed forms


@pytest.mark.parametrize(
    ("kind", "ranks"),
    [("all_reduce", 2), ("all_reduce", 8), ("reduce_scatter", 3), ("all_gather", 3)],
)
def test_one_switch_takes_the_buffer_once(kind, ranks):
    expected = 1e9 / 450e9 + 2 * 500e-9
    assert time_s(node(ranks), in_network(kind)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "network", "links"),
    [
        ("all_reduce", tree(4), 2),
        ("all_reduce", tree(31, load_balancing="ecmp"), 4),
        ("reduce_scatter", tree(16, radix=4, tiers=3), 6),
        ("all_gather", tree(13, radix=4, tiers=3, load_balancing="spray"), 6),
        ("all_reduce", node(16, in_network="network"), 4),
    ],
)
def test_a_tree_adds_its_latencies_only(kind, network, links):
    expected = 1e9 / 50e9 + links * 500e-9 + 3e-6
    network = {**network, "endpoint_latency": "3 us"}
    assert time_s(network, in_network(kind)) == pytest.approx(expected, rel=1e-9)


def test_planes_share_the_buffer():
    network = {"kind": "mrc_planes", "ranks": 8, "planes": 4, "radix": 4, "in_network": True}
    network |= {"plane_rate": "100 Gbit/s", "latency": "500 ns"}
    expected = 1e9 / 50e9 + 4 * 500e-9
    assert time_s(network, in_network()) == pytest.approx(expected, rel=1e-9)


def test_efficiency_scales_the_wire():
    expected = 1e9 / (0.85 * 450e9) + 1 * US
    network = node(in_network_efficiency=0.85)
    assert time_s(network, in_network()) == pytest.approx(expected, rel=1e-9)


def test_the_owner_adds_a_shard_and_a_pass():
    expected = (1 + 1 / 8) * 1e9 / 450e9 + 4 * 500e-9
    assert time_s(node(in_network_owner=True), in_network()) == pytest.approx(expected, rel=1e-9)


def test_store_and_forward_waits_for_whole_pieces():
    engine = {"switching": "store_and_forward"}
    expected = (1 + 1 / 5) * 1e9 / 450e9 + 1 * US
    assert time_s(node(), in_network(chunks=5), engine) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("kind", "over_node"), [("all_reduce", 2), ("reduce_scatter", 1)])
def test_over_nodes_the_slices_meet_between_them(kind, over_node):
    """In the node S at its rate, between nodes S/8 at the adapter's, in the node S again."""
    latency = (2 * over_node + 2) * 500e-9
    expected = over_node * 1e9 / 450e9 + 1e9 / 8 / 50e9 + latency
    assert time_s(node(16), in_network(kind)) == pytest.approx(expected, rel=1e-9)


def test_pieces_overlap_over_nodes():
    """The first and the last piece go alone; else the adapters (S/8 each way) are always busy."""
    whole = time_s(node(16), in_network())
    cut = time_s(node(16), in_network(chunks=4))
    assert cut < 0.75 * whole
    assert cut > 1e9 / 8 / 50e9


# ---- who is late or slow holds the reduction


@pytest.mark.parametrize("network", [node(), tree(32)])
def test_one_late_rank_holds_all_by_as_much(network):
    usual = time_s(network, in_network())
    for late in (1e-4, 1.0):
        fault = f'late = [{{ rank = 5, by = "{late} s" }}]'
        late_s = time_s(network, in_network(), None, fault)
        assert late_s == pytest.approx(usual + late, rel=1e-9)


def test_one_slow_port_holds_all():
    slow = 'links = [{ match = "rank 3 node egress", rate = 0.5 }]'
    expected = 1e9 / 225e9 + 1 * US
    times = times_of(case_of(node(), in_network(), None, slow))
    assert np.asarray(times.finish_s) == pytest.approx(np.full(8, expected), rel=1e-9)


def test_a_slow_receiver_holds_only_itself():
    slow = 'links = [{ match = "rank 3 node ingress", rate = 0.5 }]'
    finish = np.asarray(times_of(case_of(node(), in_network(), None, slow)).finish_s)
    assert finish[3] == pytest.approx(1e9 / 225e9 + 1 * US, rel=1e-9)
    others = np.delete(finish, 3)
    assert others == pytest.approx(np.full(7, 1e9 / 450e9 + 1 * US), rel=1e-9)


def test_groups_share_what_is_above_them():
    """Two groups over both leaves: a trunk of two cables carries both, one cable does not."""
    network = tree(8, radix=8, oversubscription=3, load_balancing="ideal")
    alone = time_s(network, in_network())
    both = time_s(network, in_network(group_size=4, group_stride=2))
    assert both == pytest.approx(alone, rel=1e-9)
    narrow = tree(14, radix=8, oversubscription=7, load_balancing="ideal")
    shared = time_s(narrow, in_network(group_size=7, group_stride=2))
    assert shared == pytest.approx(2 * 1e9 / 50e9 + 4 * 500e-9, rel=1e-9)


# ---- the twin


def names(case: Case) -> dict[str, int]:
    return {case.wiring.link_name(i): i for i in range(case.network.num_links)}


def one_node(case: Case) -> twin.Switch:
    link = names(case)
    return twin.Switch(
        tuple(
            twin.Member(rank, link[f"rank {rank} node egress"], link[f"rank {rank} node ingress"])
            for rank in range(case.network.ranks)
        )
    )


def two_tiers(case: Case) -> twin.Switch:
    link = names(case)
    leaves = []
    for leaf, first in enumerate(range(0, case.network.ranks, 4)):
        below = range(first, min(first + 4, case.network.ranks))
        ranks = tuple(
            twin.Member(r, link[f"rank {r} egress nic 0"], link[f"rank {r} ingress nic 0"])
            for r in below
        )
        up, down = link[f"leaf {leaf} up trunk"], link[f"leaf {leaf} down trunk"]
        leaves.append(twin.Member(twin.Switch(ranks), up, down))
    return twin.Switch(tuple(leaves))


SHAPES = [(node(5), one_node), (tree(10), two_tiers)]


def by_twin(case: Case, params, shape, pieces: int) -> np.ndarray:
    kind, size = case.spec.collective.kind, float(case.spec.collective.size)
    top = shape(case)
    links = twin.Links(*(np.asarray(x) for x in (params.capacity_bytes_per_s, params.latency_s)))
    late = np.asarray(params.late_s)
    if kind == "all_gather":
        got = twin.gathered(top, links, size, pieces, late)
    else:
        ready = twin.reduced(top, links, size, pieces, late)
        down = twin.multicast if kind == "all_reduce" else twin.scattered
        got = down(top, links, ready, size)
    return np.asarray([got[rank] for rank in range(case.network.ranks)])


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize(("network", "shape"), SHAPES)
def test_whole_pieces_are_those_of_the_twin(kind, network, shape):
    engine = {"switching": "store_and_forward"}
    case = case_of(network, in_network(kind, "10 MB", chunks=7), engine)
    for seed in range(3):
        params = with_random_numbers(case, seed)
        finish = np.asarray(times_of(case, params).finish_s)
        assert finish == pytest.approx(by_twin(case, params, shape, 7), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("network", "shape"), SHAPES)
def test_cut_through_is_the_limit_of_small_pieces(kind, network, shape):
    """Late shards that meet in a gather wait for each other: it is off by the work of one."""
    case = case_of(network, in_network(kind, "10 MB"))
    for seed in range(3):
        params = with_random_numbers(case, seed)
        finish = np.asarray(times_of(case, params).finish_s)
        right = by_twin(case, params, shape, 1000)
        slack = 0.005
        if kind == "all_gather":
            slowest = np.asarray(params.capacity_bytes_per_s).min()
            slack += 10e6 / case.network.ranks / slowest / right.max()
        assert np.abs(finish - right).max() < slack * right.max()


# ---- wafers on SwarmX


def test_the_fluid_engine_refuses_what_it_does_not_do():
    with pytest.raises(SpecError, match="no switches that reduce"):
        case_of(node(), in_network(), {"kind": "fluid"})


def wafers(ranks: int, **more):
    return {"kind": "wafer", "ranks": ranks, "latency": "1 us", **more}


@pytest.mark.parametrize(
    ("ranks", "fan_out", "levels"), [(2, 4, 1), (8, 4, 2), (5, 2, 3), (17, 4, 3)]
)
def test_wafers_take_the_buffer_once(ranks, fan_out, levels):
    """150 GB/s per system; up to MemoryX and down: one link to SwarmX, one above every level."""
    expected = 138e9 / 150e9 + 2 * (levels + 1) * 1e-6
    keys = wafers(ranks, fan_out=fan_out)
    assert time_s(keys, in_network(size="138 GB")) == pytest.approx(expected, rel=1e-9)


def swarmx(case: Case) -> twin.Switch:
    """Write out 5 wafers on switches of 2, 3 + 2 + 1 of them, and MemoryX."""
    link = names(case)

    def member(what, name: str) -> twin.Member:
        return twin.Member(what, link[name.format("up")], link[name.format("down")])

    ends = {"up": "egress", "down": "ingress"}
    ranks = [
        twin.Member(r, *(link[f"rank {r} {way} swarmx 0"] for way in ends.values()))
        for r in range(5)
    ]
    lowest = [twin.Switch(tuple(ranks[i : i + 2])) for i in (0, 2, 4)]
    middle = [member(s, f"swarmx level 0 switch {i} {{}}") for i, s in enumerate(lowest)]
    upper = [twin.Switch(tuple(middle[i : i + 2])) for i in (0, 2)]
    high = [member(s, f"swarmx level 1 switch {i} {{}}") for i, s in enumerate(upper)]
    return twin.Switch((member(twin.Switch(tuple(high)), "swarmx level 2 switch 0 {}"),))


def test_wafers_are_those_of_the_twin():
    engine = {"switching": "store_and_forward"}
    case = case_of(wafers(5, fan_out=2), in_network(size="10 MB", chunks=7), engine)
    params = with_random_numbers(case, 1)
    finish = np.asarray(times_of(case, params).finish_s)
    assert finish == pytest.approx(by_twin(case, params, swarmx, 7), rel=1e-9)


@pytest.mark.parametrize(
    ("keys", "collective", "words"),
    [
        (wafers(4), all_reduce("ring"), "collective.algorithm does not go with wafers"),
        (wafers(4), in_network("all_gather"), "collective.kind does not go with wafers"),
        (wafers(4), in_network(group_size=2), "collective.group_size does not go with wafers"),
        (wafers(4, in_network=False), in_network(), "network.in_network has no meaning"),
        (wafers(4, node_size=2, node_rate="1 GB/s"), in_network(), "network.node_size has no"),
    ],
)
def test_what_wafers_do_not_do_is_refused(keys, collective, words):
    with pytest.raises(SpecError, match=words):
        case_of(keys, collective)


def test_switches_over_wafers_are_counted():
    spec = load_spec(example("wafer"))
    bill = inventory(spec.network)
    assert bill.switches_by_tier == {"swarmx 0": 2, "swarmx 1": 1}
    assert bill.cables == case_of(wafers(8), in_network()).wiring.num_cables
    assert bill.usd == {}


# ---- every rank's data meets every other's, once


@pytest.mark.parametrize(
    ("network", "keys"),
    [
        (node(8), {}),
        (node(8), {"group_size": 4}),
        (tree(31, load_balancing="ecmp"), {}),
        (tree(30), {"group_size": 5, "group_stride": 3}),
        (tree(13, radix=4, tiers=3, load_balancing="spray"), {}),
        (node(16, in_network="network"), {"group_size": 2, "group_stride": 8}),
    ],
)
def test_a_group_has_one_root_of_its_own(network, keys):
    case = case_of(network, in_network(**keys))
    (tree_of_groups,) = case.schedule.trees
    lanes, ranks = tree_of_groups.parent[0].shape
    lane, place = np.arange(lanes)[:, None], np.broadcast_to(np.arange(ranks), (lanes, ranks))
    passed = []
    for parent in tree_of_groups.parent:
        passed.append(place)
        place = np.asarray(parent)[lane, place]
    # switches without a link up stand alone in their group
    for up, here in list(zip(tree_of_groups.up, passed, strict=True))[1:]:
        for row_up, row, roots in zip(np.asarray(up), here, place, strict=True):
            for root in np.unique(roots):
                switches = np.unique(row[roots == root])
                has_link = row_up[switches] != case.network.no_link
                assert (has_link == (len(switches) > 1)).all()
    size, stride = keys.get("group_size", ranks), keys.get("group_stride", 1)
    group = np.arange(ranks) // (size * stride) * stride + np.arange(ranks) % stride
    for row in place:
        assert len(np.unique(row)) == len(np.unique(group))
        assert all(len(np.unique(row[group == g])) == 1 for g in np.unique(group))


def test_hashed_trees_meet_at_one_top():
    """The cables that a group takes from all its leaves end at one spine."""
    case = case_of(tree(30, load_balancing="ecmp"), in_network(group_size=15, group_stride=2))
    (trees,) = case.schedule.trees
    sizes = case.network.fabric.sizes
    tier = case.network.tier("leaf up")
    up, down, group = (np.asarray(x[1])[0] for x in (trees.up, trees.down, trees.parent))
    spine = (up - tier.first) % sizes.uplinks % sizes.spines
    for g in np.unique(group):
        assert len(np.unique(spine[group == g])) == 1
    assert (up - tier.first == down - case.network.tier("leaf down").first).all()


# ---- bounds, bandwidths


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        ("all_reduce", node(16)),
        ("reduce_scatter", node(12, in_network="network")),
        ("all_gather", node(8)),
        ("all_reduce", tree(13, radix=4, tiers=3)),
    ],
)
def test_no_run_is_below_its_bound(kind, network):
    case = case_of(network, in_network(kind, "10 MB"))
    for seed in range(3):
        params = with_random_numbers(case, seed)
        bounds = lower_bounds(replace(case, params=params))
        assert max(bounds.values()) <= float(times_of(case, params).time_s) * (1 + 1e-9)


def test_the_bound_is_that_of_switches_that_reduce():
    spec = mrcjax.load_spec(
        '[network]\nkind = "fat_tree"\nranks = 32\nradix = 8\nlink_rate = "400 Gbit/s"\n'
        'in_network = true\n[collective]\nkind = "all_reduce"\nalgorithm = "in_network"\n'
        'size = "1 GB"\n'
    )
    outcome = mrcjax.run(spec)
    assert "in-network reduction" in outcome.bound_kind
    assert outcome.lower_bound_s == pytest.approx(20 * MS, rel=1e-9)
    assert outcome.busbw_bytes_per_s > 50e9  # as nccl-tests defines it, above the wire
    assert outcome.link_bytes.max() == pytest.approx(1e9, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_sends_from_rank_to_rank_never_show_more_than_the_link(algorithm):
    case = case_of(node(8, in_network=False), all_reduce(algorithm, "1 GB"))
    busbw = 2 * 7 / 8 * 1e9 / float(times_of(case).time_s)
    assert 0.99 * 450e9 < busbw <= 450e9


def test_nvls_on_eight_h100_as_measured():
    """NCCL's rate, efficiency and the pass through the owner: measured are 475 to 480 GB/s."""
    link = hardware.link("nvlink4")
    spec = load_spec(example("in_network"))
    assert spec.network.node_bytes_per_s == link.effective_bytes_per_s
    assert spec.network.in_network_efficiency == link.in_network_efficiency
    busbw = mrcjax.run(spec).busbw_bytes_per_s
    assert busbw == pytest.approx(477.5e9, rel=0.03)


# ---- numbers


def test_gradient_in_every_number():
    case = case_of(tree(6), in_network(size="10 MB"))
    params = with_random_numbers(case, 4)

    def total(params):
        return timed(params, case.network, case.schedule, config=case.config).time_s

    slopes = jax.jit(jax.grad(total))(params)
    rng = np.random.default_rng(0)
    for name in ("capacity_bytes_per_s", "latency_s", "late_s", "in_network_efficiency"):
        value, slope = getattr(params, name), getattr(slopes, name)
        way = jnp.asarray(rng.standard_normal(value.shape)) * value
        step = 1e-6
        ends = [total(replace(params, **{name: value + sign * step * way})) for sign in (1.0, -1.0)]
        estimate = float(ends[0] - ends[1]) / (2 * step)
        assert float((slope * way).sum()) == pytest.approx(estimate, rel=1e-5, abs=1e-12)


def test_other_numbers_need_no_compilation():
    traces = 0

    def emulated(params, network, schedule):
        nonlocal traces
        traces += 1
        return mrcjax.engine.emulate(params, network, schedule).time_s

    run = jax.jit(emulated)
    for size, rate in (("1 GB", "450 GB/s"), ("3 MB", "100 GB/s")):
        case = case_of(node(6, node_rate=rate), in_network(size=size))
        run(case.params, case.network, case.schedule)
    assert traces == 1


def test_elements_and_shares_are_kept():
    network = node(5, node_rate=["300 GB/s", "100 GB/s"])
    collective = in_network("reduce_scatter", "1002 B", element_bytes=2, split="proportional")
    case = case_of(network, collective)
    whole, shard = (np.asarray(x) for x in case.params.chunk_bytes)
    assert whole[0, :, 0].tolist() == [752.0, 250.0]
    assert shard.sum() == 1002
    assert (shard % 2 == 0).all()
    assert np.ptp(shard.sum(axis=(0, 1))) <= 2


# ---- refusals


@pytest.mark.parametrize(
    ("network", "collective", "words"),
    [
        (tree(in_network=False), in_network(), "in_network is false"),
        (node(16, in_network="node"), in_network(), "over several nodes"),
        (tree(8), in_network("all_to_all"), "all_to_all"),
        (node(12), in_network(), "whole nodes"),
        (tree(in_network=False, in_network_owner=True), all_reduce("ring"), "no switch reduces"),
        (node(16, kind="rail_only", in_network="network"), in_network(), "only nodes join"),
        (tree(in_network="node"), in_network(), "none inside nodes"),
        (tree(in_network_owner=True), in_network(), "no switch inside a node reduces"),
        (
            {
                "kind": "flat_rails",
                "ranks": 4,
                "rails": 1,
                "rail_rate": "1 GB/s",
                "in_network": True,
            },
            in_network(),
            "none at all",
        ),
    ],
)
def test_what_no_switch_can_do_is_refused(network, collective, words):
    with pytest.raises(SpecError, match=words):
        case_of(network, collective)
