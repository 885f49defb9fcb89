"""Times that are known without an engine: closed forms, and cases worked out by hand."""

import csv
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import (
    GB,
    GIB,
    MS,
    US,
    all_reduce,
    case_of,
    flat,
    time_s,
    times_of,
    with_random_numbers,
    with_table,
)

import mrcjax
from mrcjax import programs
from mrcjax.collective import closed_form
from mrcjax.engine import loop, plan

# Sums of up to 2,000 float64 rounds; a missing latency would be 1e-6 or more.
EXACT = 1e-9

RING_16 = (flat(16, rate="100 GB/s", latency="1 us"), all_reduce("ring", "1 GB"))
MIXED_TREE = {"kind": "fat_tree", "ranks": 64, "radix": 16, "link_rate": "50 GB/s"}


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def faults(**keys):
    """Write a faults section whose tables are inline."""

    def text(value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k} = {text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(text, value)) + "]"
        return f'"{value}"' if isinstance(value, str) else str(value)

    return "\n".join(f"{key} = {text(value)}" for key, value in keys.items())


# ---- closed forms on an ideal network


@pytest.mark.parametrize("rails", [1, 3, 8])
@pytest.mark.parametrize("ranks", [2, slow(3), 7, slow(8), 64, slow(1000)])
def test_closed_forms(ranks, rails):
    numbers = (ranks, rails, 1e8, 50 * GB, 1 * US)
    network = flat(ranks, rails)
    for algorithm, options, expected in (
        ("direct", {}, closed_form.direct_s(*numbers)),
        ("direct", {"stripe": True}, closed_form.direct_s(*numbers, stripe=True)),
        ("ring", {}, closed_form.ring_s(*numbers)),
    ):
        case = case_of(network, all_reduce(algorithm, **options))
        times = times_of(case)
        assert float(times.time_s) == pytest.approx(expected, rel=EXACT)
        np.testing.assert_allclose(times.finish_s, expected, rtol=EXACT)
        sent = np.asarray(times.link_bytes).reshape(2, rails, ranks).sum(axis=1)
        np.testing.assert_allclose(sent, 2 * (ranks - 1) / ranks * 1e8, rtol=EXACT)


@pytest.mark.parametrize(
    ("algorithm", "ranks", "expected_ms"),
    [("ring", 8, 3.514), ("ring", 64, 4.0635), ("direct", 8, 3.502)],
)
def test_worked_examples(algorithm, ranks, expected_ms):
    time = time_s(flat(ranks), all_reduce(algorithm))
    assert time == pytest.approx(expected_ms * MS, rel=EXACT)


@pytest.mark.parametrize("kind", ["reduce_scatter", "all_gather"])
def test_half_an_all_reduce_takes_half(kind):
    numbers = (8, 3, 1e8, 50 * GB, 1 * US)
    for algorithm, of in (("direct", closed_form.direct_s), ("ring", closed_form.ring_s)):
        section = {"kind": kind, "algorithm": algorithm, "size": "100 MB"}
        assert time_s(flat(8, 3), section) == pytest.approx(of(*numbers, kind=kind), rel=EXACT)


def test_groups_do_not_disturb_each_other():
    section = all_reduce("ring", group_size=8, group_stride=2)
    assert time_s(flat(32), section) == pytest.approx(3.514 * MS, rel=EXACT)


# ---- odd sizes


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
@pytest.mark.parametrize(
    ("ranks", "rails", "channels"), [(1, 3, None), (2, 1, 3), (3, 8, 2), (7, 2, 3), (13, 3, 3)]
)
def test_odd_sizes(algorithm, ranks, rails, channels):
    network = flat(ranks, rails) | ({"channels": channels} if channels else {})
    for size in ("0 B", "1 B", "100 MB"):
        time = time_s(network, all_reduce(algorithm, size))
        bound = closed_form.direct_s(ranks, rails, float(size.split()[0]), 1e30, 1 * US)
        assert bound * (1 - EXACT) <= time < 1
        if ranks == 1:
            assert time == 0


def test_no_bytes_take_the_latency():
    assert time_s(flat(7, 3), all_reduce("ring", "0 B")) == pytest.approx(12 * US, rel=EXACT)
    assert time_s(flat(7, 3), all_reduce("direct", "0 B")) == pytest.approx(2 * US, rel=EXACT)


def test_a_late_rank_alone_finishes_when_it_joins():
    late = faults(late=[{"rank": 0, "by": "3 ms"}])
    times = times_of(case_of(flat(1), all_reduce("ring"), {}, late))
    assert float(times.time_s) == pytest.approx(3 * MS, rel=EXACT)


# ---- no hidden barrier: what one late rank or one far or slow link does to a ring


@pytest.mark.parametrize("rank", [0, 5, 15])
def test_late_rank_delays_a_ring_by_exactly_its_lateness(rank):
    assert time_s(*RING_16) == pytest.approx(18.81 * MS, rel=EXACT)
    late = faults(late=[{"rank": rank, "by": "3 ms"}])
    assert time_s(*RING_16, {}, late) == pytest.approx(21.81 * MS, rel=EXACT)


@pytest.mark.parametrize(
    ("ranks", "far", "expected"),
    [
        (2, [0], 1),
        (3, [1], 2),
        (16, [5], 2),
        (4, [1, 2], 4),
        (16, [5, 6], 4),
        (16, [15, 0], 4),
        # Opposite edges: on its 2(n-1) = 6 steps a chunk passes one of them twice, one once.
        (4, [0, 2], 3),
    ],
)
def test_far_edges_delay_a_ring_by_how_often_data_passes_them(ranks, far, expected):
    network = flat(ranks, rate="100 GB/s", latency="1 us")
    extra = faults(
        links=[{"match": f"rank {r} egress rail *", "add_latency": "500 us"} for r in far]
    )
    usual = time_s(network, all_reduce("ring", "1 GB"))
    delay = time_s(network, all_reduce("ring", "1 GB"), {}, extra) - usual
    assert delay == pytest.approx(expected * 500 * US, rel=1e-8)


@pytest.mark.parametrize("end", ["egress", "ingress"])
@pytest.mark.parametrize(("rate", "expected_ms"), [(0.5, 37.502), (0.999, 18.8113), (0.9, None)])
def test_slow_link_in_a_ring(end, rate, expected_ms):
    match = faults(links=[{"match": f"rank 5 {end} rail *", "rate": rate}])
    time = time_s(*RING_16, {}, match)
    expected = closed_form.ring_with_slow_link_s(16, 1e9, 100 * GB, rate * 100 * GB, 2 * US)
    assert time == pytest.approx(expected, rel=EXACT)
    if expected_ms:
        assert time == pytest.approx(expected_ms * MS, rel=1e-5)


# ---- ports


@pytest.mark.parametrize("sender_rate", [50 * GB, 25 * GB])
def test_incast_takes_what_the_port_takes(sender_rate):
    """Seven senders of 100 MB into one port; the port is charged for bytes, not for slow feeders.

    At 25 GB/s every sender needs 4 ms, and the chunks arrive side by side.
    """
    peer = np.full((1, 8, 1), 0)
    peer[0, 0] = -1
    case, params = with_table(case_of(flat(8), all_reduce("direct")), peer, 100e6)
    capacity = params.capacity_bytes_per_s.at[:8].set(sender_rate)
    times = times_of(case, replace(params, capacity_bytes_per_s=capacity))
    assert float(times.time_s) == pytest.approx(14.001 * MS, rel=EXACT)
    assert float(times.link_bytes[8]) == 700e6


def test_time_grows_linearly_with_bytes():
    """T(2S) - T(S) = 2 (n - 1) / n S / B for a ring."""
    case = case_of(flat(8), all_reduce("ring"))
    (size,) = case.params.chunk_bytes
    one, two = (
        float(times_of(case, replace(case.params, chunk_bytes=(size * k,))).time_s) for k in (1, 2)
    )
    assert two - one == pytest.approx(2 * 7 / 8 * 100e6 / (50 * GB), rel=EXACT)


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_bandwidth_matters_for_large_sizes_only(algorithm):
    case = case_of(flat(8), all_reduce(algorithm))
    (size,) = case.params.chunk_bytes
    capacity = case.params.capacity_bytes_per_s

    def time(scale, rate):
        numbers = {"chunk_bytes": (size * scale,), "capacity_bytes_per_s": capacity * rate}
        return float(times_of(case, replace(case.params, **numbers)).time_s)

    assert time(1e6, 1) / time(1e6, 2) == pytest.approx(2, rel=1e-5)
    assert time(1e-14, 1) == pytest.approx(time(1e-14, 2), rel=1e-9)


# ---- trunks


def test_permutation_on_a_non_blocking_tree():
    """100 MB at 50 GB/s take 2 ms, wherever the peers are."""
    rng = np.random.default_rng(0)
    order = rng.permutation(64)
    peer = np.empty(64, int)
    peer[order] = np.roll(order, 1)
    plain = case_of(MIXED_TREE, all_reduce("direct"))
    case, params = with_table(plain, peer.reshape(1, 64, 1), 100e6)
    assert float(times_of(case, params).time_s) == pytest.approx(2 * MS, rel=0.01)


def test_direct_on_a_non_blocking_tree_reaches_its_port_bound():
    bound = closed_form.direct_s(64, 1, 100e6, 50 * GB, 2 * US)
    assert time_s(MIXED_TREE, all_reduce("direct")) == pytest.approx(bound, rel=1e-3)


# ---- store-and-forward


@pytest.mark.parametrize(
    ("switching", "algorithm", "expected_ms"),
    [
        ("store_and_forward", "ring", 60.006),
        ("store_and_forward", "direct", 40.002),
        ("cut_through", "ring", 30.006),
        ("cut_through", "direct", 30.002),
    ],
)
def test_switching(switching, algorithm, expected_ms):
    """4 ranks, 1 GiB at 50 GiB/s, so that a shard takes 5 ms: whole messages pay it per hop."""
    network = flat(4, rate="50 GiB/s")
    time = time_s(network, all_reduce(algorithm, "1 GiB"), {"switching": switching})
    assert time == pytest.approx(expected_ms * MS, rel=EXACT)


ASTRA_SIM = Path(__file__).parents[2] / "shared" / "cases" / "astra-sim.csv"
KINDS = {
    "allreduce": "all_reduce",
    "reducescatter": "reduce_scatter",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
}


def astra_sim_rows(ranks):
    """Read the rows of a congestion-aware switch that the built-in algorithms can reproduce."""
    with ASTRA_SIM.open() as file:
        return [
            row
            for row in csv.DictReader(file)
            if (row["backend"], row["topology"], row["chunks"]) == ("aware", "Switch", "1")
            and int(row["npus"]) == ranks
            and row["algorithm"] in ("ring", "direct")
            and (row["collective"], row["algorithm"]) != ("alltoall", "ring")
        ]


@pytest.mark.skipif(not ASTRA_SIM.exists(), reason="the reference cases are not here")
@pytest.mark.parametrize("ranks", [4, slow(8), 64, slow(256), slow(1024)])
def test_astra_sim_switch(ranks):
    """Its GB is 2^30 bytes; its all-gather size is a rank's shard; each delay is floored to ns."""
    cases = {}
    for row in astra_sim_rows(ranks):
        kind = KINDS[row["collective"]]
        key = (kind, row["algorithm"])
        if key not in cases:
            section = {"kind": kind, "algorithm": row["algorithm"], "size": "1 B"}
            cases[key] = case_of(flat(ranks), section, {"switching": "store_and_forward"})
        case = cases[key]
        size = float(row["bytes"]) * (ranks if kind == "all_gather" else 1)
        links = case.params.latency_s.shape
        params = replace(
            case.params,
            capacity_bytes_per_s=np.full(links, float(row["bandwidth_GBps"]) * GIB),
            latency_s=np.full(links, float(row["latency_ns"]) * 1e-9),
            chunk_bytes=(np.full((1, 1), size / ranks),),
            endpoint_latency_s=np.asarray(float(row["endpoint_ns"]) * 1e-9),
        )
        expected = float(row["sim_time_ns"]) * 1e-9
        time = float(times_of(case, params).time_s)
        assert time == pytest.approx(expected, rel=1e-3, abs=200e-9), row
    assert len(cases) == 7


# ---- fast-forward: rounds that repeat are skipped, and nothing changes


SLOW = {"links": [{"match": "rank 5 egress *", "rate": 0.5}]}
LATE = {"late": [{"rank": 7, "by": "3 ms"}]}
RING = {"kind": "reduce_scatter", "algorithm": "ring", "size": "100 MB"}
ECMP_TREE = {"kind": "fat_tree", "radix": 32, "link_rate": "50 GB/s", "load_balancing": "ecmp"}


@pytest.mark.parametrize(
    ("network", "collective", "fault"),
    [
        (flat(260, 2, ["50 GB/s", "20 GB/s"]), all_reduce("ring"), {}),
        (flat(260), RING, SLOW),
        (flat(260), RING, {"links": [{"match": "rank 5 egress *", "rate": 0.999}]}),
        (flat(260), all_reduce("ring"), LATE),
        # Nothing to send: behind the late rank one rank moves a round, which looks like steps.
        (flat(260), all_reduce("ring", "0 B"), LATE),
        (flat(260, channels=2), RING, SLOW),
        ({**ECMP_TREE, "ranks": 260}, RING, SLOW),
        slow(flat(260, node_size=4, node_rate="200 GB/s"), {**RING, "kind": "all_gather"}, LATE),
        slow(flat(512), all_reduce("ring"), SLOW),
        slow({**ECMP_TREE, "ranks": 400}, RING, LATE),
    ],
)
def test_fast_forward_changes_nothing(network, collective, fault):
    on, off = (
        times_of(case_of(network, collective, {"fast_forward": flag}, faults(**fault)))
        for flag in (True, False)
    )
    np.testing.assert_allclose(on.finish_s, off.finish_s, rtol=1e-11)
    np.testing.assert_allclose(on.link_bytes, off.link_bytes, rtol=1e-11)


def test_fast_forward_with_random_links():
    case = case_of(flat(260), RING)
    plain = replace(case, config=replace(case.config, fast_forward=False))
    for seed in range(3):
        params = with_random_numbers(case, seed)
        on, off = times_of(case, params), times_of(plain, params)
        np.testing.assert_allclose(on.finish_s, off.finish_s, rtol=1e-11)


def test_fast_forward_skips_what_repeats_and_nothing_else():
    """Three clocks: the slowest drives the others once its lead has worn off."""
    ran = []

    def step(k, state, gain):
        jax.debug.callback(lambda k: ran.append(int(k)), k)
        (clocks,), count = state
        own, before = clocks + gain, jnp.roll(clocks, 1) + gain.max()
        return (jnp.maximum(own, before),), count + 1

    start = ((jnp.asarray([5.0, 0.0, 0.0]),), jnp.zeros(()))
    gain = jnp.asarray([1.0, 1.5, 0.5])
    skipped = loop.run_rounds(step, 1000, True, start, gain)
    jax.effects_barrier()
    assert len(ran) < 400
    plain = loop.run_rounds(step, 1000, False, start, gain)
    np.testing.assert_allclose(skipped[0][0], plain[0][0], rtol=1e-12)
    assert skipped[1] == plain[1] == 1000


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_many_lanes_of_a_port_are_sorted_with_the_same_result(algorithm, monkeypatch):
    # Up to eight lanes of a port are ordered by comparing pairs, more by the general path.
    text = (
        '[network]\nkind = "flat_rails"\nranks = 6\nrails = 2\nrail_rate = ["50 GB/s", "30 GB/s"]\n'
        f'channels = 6\n[collective]\nkind = "all_reduce"\nalgorithm = "{algorithm}"\n'
        'size = "1 MB"\n[faults]\nlate = [{ rank = 2, by = "7 us" }]\n'
    )
    pairwise = mrcjax.run(mrcjax.load_spec(text))
    monkeypatch.setattr(plan, "MOST_SLOTS", 2)
    programs.forget()
    by_sorting = mrcjax.run(mrcjax.load_spec(text))
    programs.forget()
    assert {tier.rule for tier in pairwise.tiers} == {"slots(3)"}
    assert {tier.rule for tier in by_sorting.tiers} == {"sort"}
    np.testing.assert_allclose(by_sorting.finish_s, pairwise.finish_s, rtol=1e-9)
