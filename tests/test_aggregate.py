"""An all-to-all by classes of alike flows: against every flow on its own, and the engine."""

import numpy as np
import pytest
from runs import case_of, flat, toml

from mrcjax import aggregate
from mrcjax.collective.schedule import peers, route
from mrcjax.emulation import run
from mrcjax.spec import SpecError, load_spec

ALL = {"kind": "all_to_all", "size": "1 GB"}
TORUS = {"kind": "torus", "link_rate": "100 GB/s", "latency": "1 us"}
TREE = {"kind": "fat_tree", "radix": 8, "link_rate": "50 GB/s"}
DRAGONFLY = {
    "kind": "dragonfly",
    "hosts_per_router": 2,
    "routers_per_group": 2,
    "global_links_per_router": 1,
    "groups": 3,
    "link_rate": "50 GB/s",
}
SMALL = {
    "torus": ({**TORUS, "dims": [3, 4]}, {}),
    "torus of two": ({**TORUS, "dims": [2, 5], "link_rate": ["100 GB/s", "30 GB/s"]}, {}),
    "wires": ({"kind": "flat_rails", "ranks": 12, "reach": [3, 4], "rail_rate": "50 GB/s"}, {}),
    "rails": (flat(11, 3, ["50 GB/s", "20 GB/s", "50 GB/s"]), {}),
    "rails stripe": (flat(5, 3, ["50 GB/s", "20 GB/s", "50 GB/s"]), {"stripe": True}),
    "partly filled tree": ({**TREE, "ranks": 14, "oversubscription": 3}, {}),
    "tall tree": ({**TREE, "ranks": 15, "radix": 4, "tiers": 3, "oversubscription": [1, 3]}, {}),
    "two adapters": ({**TREE, "ranks": 9, "nics": 2}, {"stripe": True}),
    "dragonfly": ({**DRAGONFLY, "ranks": 11}, {}),
}


def of(network, collective=None, **engine):
    keys = {**ALL, **(collective or {})}
    return run(load_spec(toml(network=network, collective=keys, engine=engine)))


def every_flow(case):
    """Return the links of each flow, one list of (link, part) per flow, and its bytes."""
    network, schedule, flows, sizes = case.network, case.schedule, [], []
    (phase,) = schedule.phases
    src = np.broadcast_to(np.arange(network.ranks), (phase.lanes, network.ranks))
    chunk = np.asarray(case.params.chunk_bytes[0])
    for k in range(phase.rounds):
        dst, active = (np.asarray(x) for x in peers(phase, schedule, network, k))
        dst = np.broadcast_to(dst, src.shape)
        hops = [np.asarray(hop) for hop in route(network, phase, src, dst).hops]
        hops = [hop.reshape(-1, *src.shape) for hop in hops]
        paths = max(len(hop) for hop in hops)
        for lane, rank in np.argwhere(active):
            links = [int(hop[p, lane, rank]) for hop in hops for p in range(len(hop))]
            flows.append([(link, 1 / paths) for link in links if link != network.no_link])
            sizes.append(float(chunk[lane, 0]))
    return flows, sizes


def drained_one_by_one(flows, sizes, capacity):
    """Give the end of every flow: one bottleneck frozen after the other, event by event."""
    left, ends, now = list(sizes), [0.0] * len(flows), 0.0
    while any(x > 0 for x in left):
        live = {i for i, x in enumerate(left) if x > 0}
        spare, rates, open_ = list(capacity), {}, set(live)
        while open_:
            weight = {}
            for i in open_:
                for link, part in flows[i]:
                    weight[link] = weight.get(link, 0.0) + part
            tight = min(weight, key=lambda link: spare[link] / weight[link])
            share = spare[tight] / weight[tight]
            for i in [i for i in open_ if tight in {link for link, _ in flows[i]}]:
                rates[i] = share
                open_.remove(i)
                for link, part in flows[i]:
                    spare[link] -= part * share
        step = min(left[i] / rates[i] for i in live)
        now += step
        for i in live:
            left[i] -= rates[i] * step
            if left[i] <= sizes[i] * 1e-9:
                left[i], ends[i] = 0.0, now
    return ends


@pytest.mark.parametrize("name", SMALL)
def test_classes_drain_as_every_flow_on_its_own(name):
    network, keys = SMALL[name]
    case = case_of({**network, "latency": "0 s"}, {**ALL, **keys}, {"aggregate": True})
    times = aggregate.times_of(case)
    flows, sizes = every_flow(case)
    ends = drained_one_by_one(flows, sizes, np.asarray(case.params.capacity_bytes_per_s))
    # over planes of a tree the pairs of a switch are taken to spread evenly; here they do
    assert float(times.time_s) == pytest.approx(max(ends), rel=1e-9)
    load = np.zeros(case.network.num_links)
    for links, size in zip(flows, sizes, strict=True):
        for link, part in links:
            load[link] += part * size
    np.testing.assert_allclose(times.link_bytes, load, rtol=1e-9)


def test_max_min_is_not_equal_shares():
    """Within a leaf flows are faster than those that cross: some end first, others speed up."""
    network = {**TREE, "ranks": 12, "oversubscription": 3, "latency": "0 s"}
    case = case_of(network, ALL, {"aggregate": True})
    quotient = aggregate.all_to_all_classes(
        case.wiring,
        np.asarray(case.params.capacity_bytes_per_s),
        np.asarray(case.params.latency_s),
        np.asarray([11]),
    )
    rates = aggregate.max_min_rates(quotient, np.ones(len(quotient.kinds), bool))
    ends = aggregate.drain(quotient, np.full(len(rates), 1e9 / 12))
    assert len({round(x) for x in rates}) == 2
    assert len({round(x, 9) for x in ends}) == 2


# ---- the engine, and sizes it cannot do


@pytest.mark.parametrize(
    ("network", "error_s"),
    [
        ({**TORUS, "dims": [4, 4, 4]}, 2.1e-4),
        ({"kind": "fat_tree", "ranks": 64, "radix": 16, "link_rate": "50 GB/s"}, 2.8e-4),
    ],
)
def test_agrees_with_the_engine_within_its_error(network, error_s):
    short, long = of(network, aggregate=True), of(network)
    assert short.engine == "aggregate"
    assert {tier.rule for tier in short.tiers} == {"max-min"}
    assert short.lower_bound_s <= short.time_s <= 1.01 * short.lower_bound_s
    assert abs(short.time_s - long.time_s) < error_s
    np.testing.assert_allclose(short.link_bytes, long.link_bytes, rtol=1e-9)


@pytest.mark.parametrize(
    ("network", "ideal_s"),
    [
        ({**TORUS, "dims": [16, 32, 32]}, 40e-3),
        ({**TREE, "ranks": 16384, "radix": 64, "tiers": 3}, 20e-3),
        (flat(16384, 8), 2.5e-3),
        (
            {
                "kind": "mrc_planes",
                "ranks": 16384,
                "planes": 8,
                "radix": 512,
                "plane_rate": "100 Gbit/s",
            },
            10e-3,
        ),
        (
            {
                **DRAGONFLY,
                "ranks": 16384,
                "hosts_per_router": 16,
                "routers_per_group": 32,
                "global_links_per_router": 16,
                "groups": 32,
            },
            20e-3,
        ),
    ],
)
def test_sixteen_thousand_ranks(network, ideal_s):
    outcome = of(network, aggregate=True)
    assert outcome.time_s == pytest.approx(ideal_s, rel=2e-3)
    assert outcome.lower_bound_s <= outcome.time_s < 1.002 * outcome.lower_bound_s


def test_sprayed_paths_are_taken_for_even_and_said_so():
    planes = {"kind": "mrc_planes", "ranks": 16, "planes": 2, "radix": 8, "paths": 4}
    outcome = of({**planes, "plane_rate": "12 GB/s"}, aggregate=True)
    assert any("sprayed" in warning for warning in outcome.warnings)
    assert outcome.spec.network.load_balancing == "spray"


def test_one_rank():
    assert of(flat(1, 2), aggregate=True).time_s == 0


@pytest.mark.parametrize(
    ("network", "collective", "faults", "words"),
    [
        (flat(8), {"kind": "all_reduce"}, "", ("collective.kind", "all_to_all")),
        (flat(8), {"group_size": 4}, "", ("collective.group_size",)),
        (flat(8), {"element_bytes": 2}, "", ("collective.element_bytes",)),
        (flat(8, node_size=4, node_rate="1 GB/s"), {}, "", ("node_size", "leave node_size out")),
        (
            {"kind": "dgx", "ranks": 16, "link_rate": "50 GB/s"},
            {},
            "",
            ("network.node_size", "alike, got 8; leave aggregate out"),
        ),
        (flat(8), {}, 'late=[{rank=1,by="1 s"}]', ("faults.late",)),
        (flat(8), {}, 'links=[{match="rank 1 *",rate=0.5}]', ("alike", "rank 1 egress rail 0")),
        ({**TREE, "ranks": 8, "load_balancing": "ecmp"}, {}, "", ("hashed", "spray")),
        ({**TORUS, "dims": [4, 4], "wrap": False}, {}, "", ("from every rank", "wrap")),
        ({**TORUS, "dims": [4, 4], "ties": "up"}, {}, "", ("from every rank", "split")),
    ],
)
def test_what_is_not_alike_is_refused(network, collective, faults, words):
    keys = {**ALL, **collective}
    text = toml(network=network, collective=keys, engine={"aggregate": True}, faults=faults or {})
    with pytest.raises(SpecError) as error:
        run(load_spec(text))
    for word in words:
        assert word in str(error.value)


def test_faults_that_hit_all_links_alike_are_fine():
    slow = 'links=[{match="*",rate=0.5}]'
    text = toml(network=flat(8, 1), collective=ALL, engine={"aggregate": True}, faults=slow)
    assert run(load_spec(text)).time_s == pytest.approx(2 * of(flat(8, 1)).time_s, rel=1e-3)
