"""The oracles themselves: closed forms, cases worked out by hand, and schedules that are wrong."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Send, chunk, event
from oracle.algorithms import cut, direct, groups_of, halving_doubling, hierarchical, ring
from oracle.executor import WrongResult, check, execute
from oracle.network import Network, nodes_on_rails, ports, private_links, ring_edges, trunked

GB = 1e9
GIB = 2.0**30
US = 1e-6
MS = 1e-3
# Both oracles add a few hundred float64 numbers; a missing latency would be 1e-6 or more.
EXACT = 1e-11

both_oracles = pytest.mark.parametrize("oracle", [chunk, event], ids=["chunk", "event"])


def all_groups(ranks):
    return [list(range(ranks))]


def timed(oracle, sends, network: Network, **options):
    return oracle.emulate(
        sends, network.ranks, network.capacity_bytes_per_s, network.latency_s, **options
    )


def ring_sends(network, size_bytes, channels=1):
    n = network.ranks * channels
    return ring("all_reduce", all_groups(network.ranks), channels, n, size_bytes / n, network.path)


def direct_sends(network, size_bytes, rails=1, *, stripe=False, collective="all_reduce"):
    n = network.ranks
    elements = n * rails if stripe else n
    return direct(
        collective,
        all_groups(n),
        rails,
        elements,
        size_bytes / elements,
        network.path,
        stripe=stripe,
    )


# ---- closed forms


@pytest.mark.parametrize(
    ("oracle", "ranks", "expected_ms"),
    [(chunk, 8, 3.514), (event, 8, 3.514), (chunk, 64, 4.0635)],
)
def test_ring_all_reduce(oracle, ranks, expected_ms):
    network = ports(ranks, 1, 50 * GB, 0.5 * US)
    timing = timed(oracle, ring_sends(network, 100e6), network)
    assert timing.completion_s == pytest.approx(expected_ms * MS, rel=EXACT)
    assert timing.finish_s == pytest.approx([timing.completion_s] * ranks, rel=EXACT)
    assert timing.link_bytes == pytest.approx([2 * (ranks - 1) / ranks * 100e6] * 2 * ranks)


@pytest.mark.parametrize(
    ("oracle", "ranks", "expected_ms"),
    [(chunk, 8, 0.502), (event, 8, 0.502), (chunk, 64, 0.0645)],
)
def test_direct_over_private_links(oracle, ranks, expected_ms):
    network = private_links(ranks, 50 * GB, 1 * US)
    sends = direct_sends(network, 100e6, rails=ranks - 1)
    assert timed(oracle, sends, network).completion_s == pytest.approx(expected_ms * MS, rel=EXACT)


@both_oracles
def test_direct_through_one_port(oracle):
    network = ports(8, 1, 50 * GB, 0.5 * US)
    timing = timed(oracle, direct_sends(network, 100e6), network)
    assert timing.completion_s == pytest.approx(3.502 * MS, rel=EXACT)


@both_oracles
@pytest.mark.parametrize(("ranks", "rails"), [(2, 1), (8, 3), (9, 4), (9, 8), (5, 8)])
def test_direct_on_rails(oracle, ranks, rails):
    """Derive 2 (ceil((n-1)/R) S/(n b) + a), and 2 ((n-1) S/(n R b) + a) with stripes."""
    size, rate, a = 64e6, 50 * GB, 1 * US
    network = ports(ranks, rails, rate, a / 2)
    rounds = math.ceil((ranks - 1) / rails)
    whole = timed(oracle, direct_sends(network, size, rails), network)
    assert whole.completion_s == pytest.approx(2 * (rounds * size / ranks / rate + a), rel=EXACT)
    striped = timed(oracle, direct_sends(network, size, rails, stripe=True), network)
    expected = 2 * ((ranks - 1) * size / (ranks * rails * rate) + a)
    assert striped.completion_s == pytest.approx(expected, rel=EXACT)


@both_oracles
def test_one_phase_collectives_take_half(oracle):
    network = ports(6, 2, 50 * GB, 0.5 * US)
    for collective in ("reduce_scatter", "all_gather", "all_to_all"):
        sends = direct_sends(network, 60e6, 2, collective=collective)
        expected = 3 * 10e6 / (50 * GB) + 1 * US
        assert timed(oracle, sends, network).completion_s == pytest.approx(expected, rel=EXACT)


@both_oracles
@pytest.mark.parametrize(
    ("algorithm", "switching", "expected_ms"),
    [
        ("ring", "store_and_forward", 60.006),
        ("direct", "store_and_forward", 40.002),
        ("ring", "cut_through", 30.006),
        ("direct", "cut_through", 30.002),
    ],
)
def test_switching(oracle, algorithm, switching, expected_ms):
    """Agree with a whole-message store-and-forward simulator on a switch of 4 ports."""
    network = ports(4, 1, 50 * GIB, 0.5 * US)
    sends = (ring_sends if algorithm == "ring" else direct_sends)(network, GIB)
    timing = timed(oracle, sends, network, switching=switching)
    assert timing.completion_s == pytest.approx(expected_ms * MS, rel=EXACT)


@both_oracles
@pytest.mark.parametrize("sender_rate", [50 * GB, 25 * GB, 2 * 50 * GB])
def test_incast(oracle, sender_rate):
    """A port of 50 GB/s takes 7 x 100 MB in 14 ms; a slower feeder does not hold the port."""
    network = ports(8, 1, 50 * GB, 0.5 * US)
    network.capacity_bytes_per_s[:8] = [sender_rate] * 8
    sends = [Send(0, 0, src, 0, 7, bytes=100e6, path=network.path(src, 7, 0)) for src in range(7)]
    timing = timed(oracle, sends, network)
    assert timing.completion_s == pytest.approx(14.001 * MS, rel=EXACT)
    # One chunk after the other: sender i is served i-th, as its rank breaks the tie.
    first = max(2 * MS, 100e6 / sender_rate) + 1 * US
    assert timing.delivery_s[0] == pytest.approx(first, rel=EXACT)
    assert timing.finish_s[0] == pytest.approx(100e6 / sender_rate, rel=EXACT)


# ---- stragglers: no barrier hides in the oracles


@both_oracles
@pytest.mark.parametrize("late_rank", [0, 5, 15])
def test_one_late_rank_delays_a_ring_by_as_much(oracle, late_rank):
    network = ports(16, 1, 100 * GB, 1 * US)
    late = [0.0] * 16
    late[late_rank] = 3 * MS
    timing = timed(oracle, ring_sends(network, 1 * GB), network, late_s=late)
    assert timing.completion_s == pytest.approx(18.81 * MS + 3 * MS, rel=EXACT)


@both_oracles
@pytest.mark.parametrize("where", ["edge", "egress", "ingress"])
@pytest.mark.parametrize(("rate", "expected_ms"), [(0.5, 37.502), (0.999, 18.8112512512512)])
def test_one_slow_link_in_a_ring(oracle, where, rate, expected_ms):
    """T = max(K c' + a, K (c + a) + 2 (c' - c)), K = 2(n-1), c = S/(nB), c' = S/(nB')."""
    if where == "edge":
        network = ring_edges(16, 100 * GB, 2 * US)
    else:
        network = ports(16, 1, 100 * GB, 1 * US)
    network.capacity_bytes_per_s[3 + 16 * (where == "ingress")] *= rate
    timing = timed(oracle, ring_sends(network, 1 * GB), network)
    assert timing.completion_s == pytest.approx(expected_ms * MS, rel=EXACT)


@both_oracles
@pytest.mark.parametrize(
    ("ranks", "far_edges", "times"),
    [
        (2, [0], 1),
        (3, [1], 2),
        (8, [7], 2),
        (4, [1, 2], 4),
        (6, [0, 3], 4),
        # The slowest chain has 2(n-1) hops: it passes two neighbouring edges once and all others
        # twice, so in a ring of 4 it cannot pass two opposite edges twice each.
        (4, [0, 2], 3),
    ],
)
def test_far_edges_in_a_ring(oracle, ranks, far_edges, times):
    network = ring_edges(ranks, 50 * GB, 1 * US)
    sends = ring_sends(network, 80e6)
    before = timed(oracle, sends, network).completion_s
    for edge in far_edges:
        network.latency_s[edge] += 500 * US
    after = timed(oracle, sends, network).completion_s
    assert after - before == pytest.approx(times * 500 * US, rel=1e-9)


@both_oracles
def test_an_idle_rank_ends_when_it_is_ready(oracle):
    network = ports(3, 1, 50 * GB, 0.0)
    sends = [Send(0, 0, 0, 0, 1, bytes=50e6, path=network.path(0, 1, 0))]
    timing = timed(oracle, sends, network, late_s=[0.0, 0.0, 7 * MS])
    assert timing.finish_s == pytest.approx([1 * MS, 1 * MS, 7 * MS])
    assert timed(oracle, [], network).completion_s == 0.0


# ---- end points


@both_oracles
def test_endpoint_latency_once_per_message(oracle):
    network = ports(8, 1, 50 * GB, 0.5 * US)
    c, a, e = 100e6 / 8 / (50 * GB), 1 * US, 3 * US
    timing = timed(oracle, ring_sends(network, 100e6), network, endpoint_latency_s=e)
    assert timing.completion_s == pytest.approx(14 * (c + a + e), rel=EXACT)
    timing = timed(oracle, direct_sends(network, 100e6), network, endpoint_latency_s=e)
    assert timing.completion_s == pytest.approx(2 * (7 * c + a + e), rel=EXACT)


@both_oracles
@pytest.mark.parametrize("rate", [20 * GB, 200 * GB])
def test_reducer_is_serial(oracle, rate):
    """Slower than the link it is the bottleneck, faster it only adds the last reduction."""
    network = ports(8, 1, 50 * GB, 0.5 * US)
    m = 100e6 / 8
    c, a, r = m / (50 * GB), 1 * US, m / rate
    timing = timed(oracle, direct_sends(network, 100e6), network, reduction_bytes_per_s=rate)
    reduce_scatter = max(7 * c + a + r, c + a + 7 * r)
    assert timing.completion_s == pytest.approx(reduce_scatter + 7 * c + a, rel=EXACT)
    timing = timed(oracle, ring_sends(network, 100e6), network, reduction_bytes_per_s=rate)
    assert timing.completion_s == pytest.approx(7 * (c + a + r) + 7 * (c + a), rel=EXACT)


# ---- links in round order, in arrival order, shared


def test_round_order_differs_from_arrival_order():
    """Rank 1's second chunk waits for late rank 0's first one only when links keep round order."""
    network = ports(3, 1, 1.0, 0.0)
    sends = [
        Send(0, 0, 0, 0, 2, bytes=1.0, path=network.path(0, 2, 0)),
        Send(0, 0, 1, 0, 2, bytes=1.0, path=network.path(1, 2, 0)),
        Send(0, 1, 1, 0, 2, bytes=1.0, path=network.path(1, 2, 0)),
    ]
    late = [10.0, 0.0, 0.0]
    assert timed(chunk, sends, network, late_s=late).delivery_s == [11.0, 1.0, 12.0]
    assert timed(event, sends, network, late_s=late).delivery_s == [11.0, 1.0, 2.0]


def test_shared_link():
    """W = max(free, earliest head) + sum of bytes/capacity, worked out for two rounds."""
    network = trunked(4, 2.0, 1.0, 0.0)
    sends = [
        Send(0, 0, 0, 0, 2, bytes=2.0, path=network.path(0, 2, 0)),
        Send(0, 0, 1, 0, 3, bytes=4.0, path=network.path(1, 3, 0)),
        Send(0, 1, 0, 0, 2, bytes=6.0, path=network.path(0, 2, 0)),
    ]
    late = [0.5, 0.0, 0.0, 0.0]
    rule = ["fifo"] * 8 + ["share"]
    timing = timed(chunk, sends, network, late_s=late, rule=rule)
    # Round 0: heads reach the trunk at 0.5 and 0, W = 0 + 6. Round 1: its head at 1.5, W = 6 + 6.
    assert timing.delivery_s == [6.0, 6.0, 12.0]
    assert timing.link_free_s[8] == 12.0
    # As a FIFO the trunk serves 4 bytes from 0 to 4, then 2 until 6.
    assert timed(chunk, sends, network, late_s=late).delivery_s == [6.0, 4.0, 12.0]
    # A feeder slower than the trunk decides by itself.
    network.capacity_bytes_per_s[0] = 0.1
    assert timed(chunk, sends[:1], network, rule=rule).delivery_s == [20.0]


@pytest.mark.parametrize("oversubscription", [0.5, 1.0, 2.0])
def test_ring_through_a_shared_trunk(oversubscription):
    network = trunked(8, 50 * GB, 8 * 50 * GB / oversubscription, 0.5 * US)
    timing = timed(chunk, ring_sends(network, 100e6), network, rule=["fifo"] * 16 + ["share"])
    c, a = 100e6 / 8 / (50 * GB), 1.5 * US
    # All ranks are in step: nobody sends while the trunk still serves the round before.
    expected = 14 * (max(1.0, oversubscription) * c + a)
    assert timing.completion_s == pytest.approx(expected, rel=EXACT)


@both_oracles
def test_spray_adds_its_share_to_each_path(oracle):
    """Egress 0, middle links 1 and 2, ingress 3: half the bytes on each middle link."""
    spray = ((0.5, (0, 1, 3)), (0.5, (0, 2, 3)))
    sends = [Send(0, 0, 0, 0, 1, bytes=8.0, path=spray)]
    timing = oracle.emulate(sends, 2, [4.0, 1.0, 1.0, 4.0], [0.25] * 4)
    assert timing.link_bytes == [8.0, 4.0, 4.0, 8.0]
    # Middle links take 4 s. The whole send meets them at 0.25; as two parts, the second at 1.25.
    start = 0.25 if oracle is chunk else 1.25
    assert timing.delivery_s == [start + 4.0 + 0.5]
    # Uneven weights: the latest path decides.
    uneven = [replace(sends[0], path=((0.25, (0, 1, 3)), (0.75, (0, 2, 3))))]
    assert chunk.emulate(uneven, 2, [4.0, 1.0, 1.0, 4.0], [0.25] * 4).delivery_s == [6.75]


def random_ports(rng, ranks, rails):
    network = ports(ranks, rails, 50 * GB, 0.5 * US)
    links = range(len(network.latency_s))
    network.capacity_bytes_per_s = [50 * GB * rng.uniform(0.5, 1.0) for _ in links]
    network.latency_s = [rng.uniform(0.2, 20) * US for _ in links]
    return network, list(rng.uniform(0, 1, ranks) * MS)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("switching", chunk.SWITCHING)
def test_where_no_link_is_shared_the_two_orders_agree(seed, switching):
    """In a ring each link has one feeder, so its order cannot depend on the rule."""
    rng = np.random.default_rng(seed)
    network, late = random_ports(rng, int(rng.integers(2, 9)), 2)
    sends = ring_sends(network, 80e6, channels=2)
    options = {
        "late_s": late,
        "switching": switching,
        "endpoint_latency_s": 2 * US,
        "reduction_bytes_per_s": 100 * GB,
    }
    a = timed(chunk, sends, network, **options)
    b = timed(event, sends, network, **options)
    assert a.delivery_s == pytest.approx(b.delivery_s, rel=EXACT)
    assert a.finish_s == pytest.approx(b.finish_s, rel=EXACT)
    assert a.link_bytes == pytest.approx(b.link_bytes, rel=EXACT)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    ("collective", "is_late", "faster", "slower"),
    [
        # Without late ranks a reduce-scatter ends when its busiest port does, in any order.
        ("reduce_scatter", False, 1e-9, 1e-9),
        # Round order lets the reduce-scatter pass before the gather of those who are ahead.
        ("all_reduce", False, 0.05, 1e-9),
        # The chunks of ranks in time wait for those of late ones, up to a fifth of the whole.
        ("reduce_scatter", True, 1e-9, 0.2),
        ("all_reduce", True, 0.1, 0.2),
    ],
)
def test_how_far_round_order_is_from_arrival_order(seed, collective, is_late, faster, slower):
    """Ports of 25 to 50 GB/s; ranks late by up to half the time the collective takes."""
    rng = np.random.default_rng(seed)
    network, late = random_ports(rng, int(rng.integers(3, 12)), 2)
    sends = direct_sends(network, 80e6, 2, collective=collective)
    late_s = late if is_late else None
    in_rounds = timed(chunk, sends, network, late_s=late_s)
    as_they_come = timed(event, sends, network, late_s=late_s)
    assert -faster <= in_rounds.completion_s / as_they_come.completion_s - 1 <= slower
    for timing in (in_rounds, as_they_come):
        busy_s = np.divide(timing.link_bytes, network.capacity_bytes_per_s)
        assert timing.completion_s >= max(busy_s)
        assert all(np.array(timing.link_free_s) >= busy_s * (1 - EXACT))


@both_oracles
def test_bytes_and_capacities_scale_together(oracle):
    network, late = random_ports(np.random.default_rng(3), 5, 1)
    sends = direct_sends(network, 80e6)
    before = timed(oracle, sends, network, late_s=late).delivery_s
    sends = [replace(send, bytes=send.bytes * 4) for send in sends]
    network.capacity_bytes_per_s = [rate * 4 for rate in network.capacity_bytes_per_s]
    assert timed(oracle, sends, network, late_s=late).delivery_s == before


# ---- data


def no_path(src, dst, lane):
    return ()


@settings(max_examples=40, deadline=None)
@given(
    groups=st.sampled_from([(1, 1, 1), (3, 3, 1), (8, 4, 2), (12, 3, 4), (12, 3, 2), (7, 7, 1)]),
    lanes=st.integers(1, 4),
    elements=st.sampled_from([1, 2, 5, 8, 24, 31]),
    algorithm=st.sampled_from(["direct", "stripe", "ring"]),
    collective=st.sampled_from(["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]),
)
def test_collectives_are_right(groups, lanes, elements, algorithm, collective):
    ranks, size, stride = groups
    members = groups_of(ranks, size, stride)
    if algorithm == "ring":
        if collective == "all_to_all":
            return
        sends = ring(collective, members, lanes, elements, 4.0, no_path)
    else:
        stripe = algorithm == "stripe"
        sends = direct(collective, members, lanes, elements, 4.0, no_path, stripe=stripe)
    check(collective, sends, ranks, elements, members)
    shards = cut((0, elements), size)
    # Every rank but the owner sends or gets each shard once per phase: all of S but one's own.
    phases = 2 if collective == "all_reduce" else 1
    for rank in range(ranks):
        got = sum(send.bytes for send in sends if send.dst == rank)
        given_away = sum(send.bytes for send in sends if send.src == rank)
        assert got + given_away <= 2 * phases * 4.0 * (elements * size - min(shards)[1])
    assert sum(send.bytes for send in sends) == phases * 4.0 * elements * (size - 1) * len(members)


def test_groups():
    assert groups_of(8, 2, 4) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert groups_of(8, 2, 2) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    with pytest.raises(ValueError, match="multiple of size x stride = 12, got 8"):
        groups_of(8, 4, 3)


@pytest.mark.parametrize("between", ["ring", "direct"])
@pytest.mark.parametrize("stripe", [False, True])
@pytest.mark.parametrize(("nodes", "node_size"), [(1, 4), (4, 1), (3, 2), (2, 4), (4, 3)])
@pytest.mark.parametrize("elements", [1, 23, 48])
def test_hierarchical_is_right(between, stripe, nodes, node_size, elements):
    options = {"between": between, "stripe": stripe}
    sends = hierarchical(nodes, node_size, 2, elements, 4.0, no_path, **options)
    check("all_reduce", sends, nodes * node_size, elements)


@pytest.mark.parametrize("elements", [1, 19, 32])
@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_halving_doubling_is_right(ranks, elements):
    check(
        "all_reduce", halving_doubling(all_groups(ranks), elements, 4.0, no_path), ranks, elements
    )


@both_oracles
def test_halving_doubling_time(oracle):
    network = ports(8, 1, 50 * GB, 0.5 * US)
    sends = halving_doubling(all_groups(8), 8, 12.5e6, network.path)
    expected = 2 * (7 / 8 * 100e6 / (50 * GB) + 3 * US)
    assert timed(oracle, sends, network).completion_s == pytest.approx(expected, rel=EXACT)


@both_oracles
@pytest.mark.parametrize("between", ["ring", "direct"])
def test_hierarchical_time(oracle, between):
    """Add up the four phases: equal ranks finish each of them together."""
    nodes, g, rails, size = 3, 4, 2, 96e6
    network = nodes_on_rails(nodes, g, rails, 450 * GB, 50 * GB, 0.5 * US)
    elements = nodes * g * rails
    sends = hierarchical(
        nodes, g, rails, elements, size / elements, network.path, between=between, stripe=True
    )
    in_node = (g - 1) * size / g / (450 * GB) + 1 * US
    c = size / (g * nodes * rails) / (50 * GB)
    scale_out = 2 * (nodes - 1) * c + (2 * (nodes - 1) if between == "ring" else 2) * US
    timing = timed(oracle, sends, network)
    assert timing.completion_s == pytest.approx(2 * in_node + scale_out, rel=EXACT)


def test_floats_and_plain_objects():
    """Objects without `needs` read what arrived in earlier rounds."""
    first = SimpleNamespace(phase=0, round=0, src=0, lane=0, dst=1, pieces=[(0, 2)], op="reduce")
    second = SimpleNamespace(phase=0, round=1, src=1, lane=0, dst=2, pieces=[(0, 1)], op="copy")
    buffers = execute([second, first], [np.full(2, x) for x in (0.5, 1.0, 2.0)])
    assert [b.tolist() for b in buffers] == [[0.5, 0.5], [1.5, 1.5], [1.5, 2.0]]


def test_sends_of_a_round_read_before_its_writes_land():
    swap = [Send(0, 0, 0, 0, 1, ((0, 1),), "reduce"), Send(0, 0, 1, 0, 0, ((0, 1),), "reduce")]
    assert [b.tolist() for b in execute(swap, [np.array([1]), np.array([2])])] == [[3], [3]]
    check("all_reduce", swap, 2, 1)


def test_relayed_all_to_all_names_the_origin():
    """A line 0 - 1 - 2: rank 1 hands on what the ends send to each other."""
    hops = [
        Send(0, 0, 0, 0, 1, ((1, 1), (2, 1))),
        Send(0, 0, 2, 0, 1, ((0, 1), (1, 1))),
        Send(0, 1, 1, 0, 2, ((2, 1), (0, 2, 1)), needs="rank"),
        Send(0, 1, 1, 1, 0, ((0, 1), (2, 0, 1)), needs="rank"),
    ]
    check("all_to_all", hops, 3, 3)
    with pytest.raises(WrongResult, match=r"all_to_all: rank 0, element \(1, 0\)"):
        check("all_to_all", [hop for hop in hops if hop.dst != 0], 3, 3)


def test_broadcast_and_reduce():
    down = [Send(0, 0, 1, 0, 0, ((0, 3),)), Send(0, 1, 1, 0, 2, ((0, 3),))]
    check("broadcast", down, 3, 3, root=1)
    up = [Send(0, 0, 2, 0, 1, ((0, 3),), "reduce"), Send(0, 1, 0, 0, 1, ((0, 3),), "reduce")]
    check("reduce", up, 3, 3, root=1)
    with pytest.raises(WrongResult, match="broadcast: rank 2, element 0"):
        check("broadcast", down[:1], 3, 3, root=1)
    with pytest.raises(WrongResult, match="reduce: rank 1, element 0"):
        check("reduce", up[1:], 3, 3, root=1)


# ---- schedules that are wrong must be called wrong


def broken_schedules():
    good = direct("all_reduce", all_groups(4), 2, 10, 4.0, no_path)
    ring_good = ring("all_reduce", all_groups(4), 2, 10, 4.0, no_path)
    gather = [i for i, send in enumerate(good) if send.phase == 1]

    def changed(sends, index, **fields):
        return [*sends[:index], replace(sends[index], **fields), *sends[index + 1 :]]

    shifted = ((good[3].pieces[0][0] - 1, good[3].pieces[0][1]),)
    yield "a send is missing", good[:-1]
    yield "a send counts twice", [*good, replace(good[0], round=9)]
    yield "a reduction overwrites", changed(good, 0, op="copy", round=7)
    yield "a copy adds", changed(good, gather[0], op="reduce")
    yield "the wrong peer", changed(good, 0, dst=(good[0].dst + 1) % 4, round=7)
    yield "a piece is off by one", changed(good, 3, pieces=shifted)
    yield "the gather waits for nothing", [replace(s, needs="nothing") for s in good]
    yield (
        "the gather waits for its lane only",
        [replace(s, needs="channel" if s.phase else "nothing") for s in good],
    )
    yield "the ring waits for nothing", [replace(s, needs="nothing") for s in ring_good]
    yield (
        "rounds of the ring swap",
        [replace(s, round={1: 2, 2: 1}.get(s.round, s.round)) for s in ring_good],
    )
    yield "phases swap", [replace(s, phase=1 - s.phase) for s in good]


@pytest.mark.parametrize(
    "sends", [pytest.param(sends, id=name) for name, sends in broken_schedules()]
)
def test_wrong_schedules_are_found(sends):
    with pytest.raises(WrongResult, match=r"rank \d, element"):
        check("all_reduce", sends, 4, 10)


def test_the_first_wrong_element_is_named():
    sends = [
        send
        for send in direct("all_gather", all_groups(3), 1, 7, 4.0, no_path)
        if (send.src, send.dst) != (1, 2)
    ]
    with pytest.raises(WrongResult, match=r"all_gather: rank 2, element 3 is \d+, must be \d+ \(2"):
        check("all_gather", sends, 3, 7)


@pytest.mark.parametrize("collective", ["reduce_scatter", "all_gather", "all_to_all"])
def test_other_shards_are_other_results(collective):
    sends = direct(collective, all_groups(3), 1, 7, 4.0, no_path)
    check(collective, sends, 3, 7, shards=[(0, 3), (3, 2), (5, 2)])
    with pytest.raises(WrongResult):
        check(collective, sends, 3, 7, shards=[(0, 2), (2, 2), (4, 3)])


def test_groups_do_not_mix():
    sends = direct("all_reduce", groups_of(8, 4, 2), 2, 10, 4.0, no_path)
    with pytest.raises(WrongResult):
        check("all_reduce", sends, 8, 10, groups_of(8, 4, 1))
    with pytest.raises(WrongResult):
        check("all_reduce", sends, 8, 10)


def test_overwriting_twice_in_a_round_is_refused():
    sends = [Send(0, 0, 0, 0, 2, ((0, 2),)), Send(0, 0, 1, 0, 2, ((1, 2),), "reduce")]
    with pytest.raises(WrongResult, match=r"rank 2, element \[1\]: overwritten"):
        execute(sends, [np.zeros(3, int)] * 3)


@pytest.mark.parametrize(
    ("send", "message"),
    [
        (Send(0, 0, 0, 0, 1, ((2, 2),)), "a piece must lie in 3 elements, got"),
        (Send(0, 0, 0, 0, 1, ((-1, 2),)), "a piece must lie in 3 elements, got"),
        (Send(0, 0, 0, 0, 1, ((0, 0, 2),)), "only an all-to-all piece names an origin"),
        (Send(0, 0, 0, 0, 0), "src and dst must be two of 2 ranks"),
        (Send(0, 0, 0, 0, 2), "src and dst must be two of 2 ranks"),
        (Send(0, 0, 0, 0, 1, op="add"), "op must be reduce or copy, got 'add'"),
    ],
)
def test_malformed_sends_are_refused(send, message):
    with pytest.raises(ValueError, match=message):
        check("all_reduce", [send], 2, 3)


def test_malformed_timing_input_is_refused():
    send = Send(0, 0, 0, 0, 1, bytes=1.0, path=(0,))
    with pytest.raises(ValueError, match="two sends of one lane in one round"):
        chunk.emulate([send, send], 2, [1.0], [0.0])
    with pytest.raises(ValueError, match="must sum to 1"):
        chunk.emulate([replace(send, path=((0.5, (0,)),))], 2, [1.0], [0.0])
    answer = replace(send, src=1, dst=0, round=1, needs="all")
    with pytest.raises(ValueError, match="needs must be one of"):
        chunk.emulate([send, answer], 2, [1.0], [0.0])
    with pytest.raises(ValueError, match="switching must be one of"):
        chunk.emulate([send], 2, [1.0], [0.0], switching="wormhole")
    with pytest.raises(ValueError, match="rule must be one of"):
        chunk.emulate([send], 2, [1.0], [0.0], rule="fair")
