"""Dragonfly: routes by a third group, and what they do for traffic from each group to the next."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import all_reduce, case_of, times_of, with_random_numbers, with_table
from test_engine_oracle import ECMP, SPRAY, assert_equals_twin, dragonfly, scatter

from mrcjax.network.detour import even_detours, minimal_part
from mrcjax.spec import SpecError

# balanced: p = h = 2 ranks and global links on each of a = 4 routers, g = a h + 1 = 9 groups
P, A, H, G = 2, 4, 2, 9
RANKS = P * A * G
CHUNK_S = 1e-3  # a chunk on a link


def balanced(**more):
    keys = {"kind": "dragonfly", "ranks": RANKS, "hosts_per_router": P, "routers_per_group": A}
    keys |= {"global_links_per_router": H, "groups": G, "link_rate": "50 GB/s"}
    return {**keys, **more}


def to_the_next_group(rounds=1, **more):
    """Every rank sends one chunk a round to the rank of its place in the next group."""
    plain = case_of(balanced(latency="0 s", **more), all_reduce("direct"))
    peer = (np.arange(RANKS) + P * A) % RANKS
    peer = np.tile(peer[None, :, None], (rounds, 1, 1))
    case, params = with_table(plain, peer, CHUNK_S * 50e9)
    return case, times_of(case, params)


def test_minimal_routing_collapses_to_one_over_a_h():
    _, times = to_the_next_group()
    assert float(times.time_s) == pytest.approx(A * H * CHUNK_S, rel=1e-9)


def test_valiant_recovers():
    """Each of the a h - 1 other cables of a group carries p a / (a h - 1) chunks, twice."""
    case, times = to_the_next_group(routing="valiant")
    assert case.network.fabric.paths == G - 2
    assert float(times.time_s) == pytest.approx(2 * P * A / (A * H - 1) * CHUNK_S, rel=1e-9)


def test_ugal_uses_both():
    """Direct cable and detours end together at 2 n / (C + c), to within a path of 16 per send."""
    case, times = to_the_next_group(routing="ugal")
    level = 2 * P * A / (A * H + 1)
    assert float(times.time_s) == pytest.approx(level * CHUNK_S, rel=0.1)
    tier = case.network.tier("global")
    chunks = np.asarray(times.link_bytes)[tier.first : tier.first + tier.count] / (CHUNK_S * 50e9)
    direct = chunks.reshape(G, G - 1)[:, 0]
    # every send rounds 16 paths up or down, and 8 of them meet
    assert abs(direct - level).max() <= P * A / 16
    assert chunks.sum() == pytest.approx(direct.sum() + 2 * (RANKS - direct.sum()), rel=1e-9)


def test_detours_by_hash_help_too():
    minimal, valiant, ugal = (
        float(to_the_next_group(routing=way, load_balancing="spray", paths=64)[1].time_s)
        for way in ("minimal", "valiant", "ugal")
    )
    assert minimal >= A * H * CHUNK_S * (1 - 1e-9)
    assert valiant < 0.6 * minimal
    assert ugal < 0.6 * minimal


@pytest.mark.parametrize("routing", ["valiant", "ugal"])
@pytest.mark.parametrize("balancing", [ECMP, SPRAY], ids=["ecmp", "spray"])
def test_detours_are_ways(routing, balancing):
    """Names of the links on every path chain up from the sender's router to the receiver's."""
    case = case_of(balanced(routing=routing, **balancing), all_reduce("direct"))
    fabric, network = case.network.fabric, case.network
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, RANKS, (2, 300))
    zero = jnp.zeros(300, jnp.int32)
    hops = jax.jit(fabric.inner)(jnp.asarray(src), jnp.asarray(dst), zero, zero)
    hops = [np.broadcast_to(np.atleast_2d(hop), (fabric.paths, 300)) for hop in hops]
    ports = {}  # global cables by the ends that the table of ports gives
    table, counts = np.asarray(fabric.port_of_cable), np.asarray(fabric.num_cables)
    first = network.tier("global").first
    for group in range(G):
        for offset in range(1, G):
            for t in range(counts[offset - 1]):
                far = (group + offset) % G
                own, other = table[offset - 1, t], table[G - offset - 1, t]
                ports[first + group * A * H + own] = (group * A + own // H, far * A + other // H)
    thirds = set()
    for number in range(300):
        for path in range(fabric.paths):
            here, far = src[number] // P, 0
            for hop in hops:
                link = int(hop[path, number])
                if link == network.no_link:
                    continue
                if link in ports:
                    start, end = ports[link]
                    far += 1
                else:
                    words = case.wiring.link_name(link).split()
                    start, end = (int(words[1]) * A + int(words[i]) for i in (3, 6))
                assert start == here
                here = end
                if far == 1:
                    thirds.add(here // A)
            assert here == dst[number] // P
            leaves = src[number] // (P * A) != dst[number] // (P * A)
            assert far in ({0} if not leaves else {2} if routing == "valiant" else {1, 2})
    assert thirds == set(range(G))


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("valiant trunks", {"routing": "valiant"}),
        ("valiant ecmp", {"routing": "valiant", **ECMP}),
        pytest.param("ugal ecmp", {"routing": "ugal", **ECMP}, marks=pytest.mark.slow),
        pytest.param("ugal trunks", {"routing": "ugal"}, marks=pytest.mark.slow),
        pytest.param("ugal spray", {"routing": "ugal", **SPRAY}, marks=pytest.mark.slow),
    ],
)
def test_engine_equals_the_twin(name, more):
    case = case_of(dragonfly(groups=4, ranks=14, global_links_per_router=3, **more), scatter())
    for seed in range(2):
        assert_equals_twin(case, with_random_numbers(case, seed))


@pytest.mark.parametrize("ranks", [1, 3, 13])
@pytest.mark.parametrize("routing", ["valiant", "ugal"])
def test_odd_numbers_of_ranks_and_single_routers(ranks, routing):
    keys = dragonfly(
        ranks=ranks, groups=7, hosts_per_router=2, routers_per_group=1, global_links_per_router=6
    )
    time_s = float(times_of(case_of({**keys, "routing": routing}, all_reduce("direct"))).time_s)
    assert np.isfinite(time_s)
    assert time_s >= 2 * (ranks - 1) / ranks * 2e-3


# ---- how much goes by a third group


@pytest.mark.parametrize(("groups", "cables"), [(3, 4), (5, 2), (9, 1)])
def test_minimal_part_of_traffic_to_the_next_group(groups, cables):
    """f n / c = 2 (1 - f) n / (C - c), so f = 2 c / (C + c)."""
    group = jnp.repeat(jnp.arange(groups), 6)
    width = jnp.full((groups - 1,), cables)
    part = minimal_part(group, (group + 1) % groups, width, groups)
    all_cables = cables * (groups - 1)
    np.testing.assert_allclose(part, 2 * cables / (all_cables + cables), rtol=1e-5)


def test_even_traffic_stays_on_the_minimal_way():
    group = jnp.repeat(jnp.arange(5), 4)
    target = (group + jnp.tile(jnp.arange(1, 5), 5)) % 5
    np.testing.assert_allclose(minimal_part(group, target, jnp.full((4,), 2), 5), 1.0)


def test_traffic_inside_groups_fills_no_global_cable():
    group = jnp.concatenate([jnp.zeros(50, jnp.int32), jnp.arange(5)])
    target = jnp.concatenate([jnp.zeros(50, jnp.int32), (jnp.arange(5) + 1) % 5])
    alone = minimal_part(group[50:], target[50:], jnp.ones(4, jnp.int32), 5)
    np.testing.assert_array_equal(
        minimal_part(group, target, jnp.ones(4, jnp.int32), 5)[50:], alone
    )


def test_idle_sends_of_a_table_do_not_count():
    case, params = with_table(
        case_of(balanced(routing="ugal", latency="0 s"), all_reduce("direct")),
        np.where(np.arange(RANKS) == 60, 70, -1)[None, :, None],
        CHUNK_S * 50e9,
    )
    times = times_of(case, params)
    # one send: the level is 2 / 9 of a chunk; 16 paths round it to 3 or 4
    assert float(times.time_s) == pytest.approx(CHUNK_S, rel=1e-9)
    tier = case.network.tier("global")
    load = np.asarray(times.link_bytes)[tier.first : tier.first + tier.count].max()
    assert load / (CHUNK_S * 50e9) in (3 / 16, 4 / 16)


def test_even_detours_reach_all_groups_alike():
    pair = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, 40), jnp.uint32)
    takes, nth = even_detours(pair, jnp.zeros(40), 7, 7)
    assert takes.all()
    np.testing.assert_array_equal(np.sort(nth, axis=0), np.tile(np.arange(7)[:, None], 40))


def test_two_groups_have_no_third():
    with pytest.raises(SpecError, match=r"network\.routing needs a third group.*\"ugal\""):
        case_of(balanced(groups=2, ranks=16, routing="ugal"), all_reduce("direct"))
