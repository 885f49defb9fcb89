"""Tuning: bounds against closed forms and brute force, what is reached, what is refused."""

import itertools
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import chunk
from runs import case_of, expand, flat, times_of, toml, with_random_numbers, with_table
from scipy.optimize import linprog

import mrcjax
from mrcjax.engine import Shares, emulate
from mrcjax.spec import RailShares, SpecError, load_spec, spec_to_toml
from mrcjax.tuning import Weights, reach, tune
from mrcjax.tuning.classes import Classes, one_by_one
from mrcjax.tuning.descent import adam, annealed, descend
from mrcjax.tuning.emulated import emulated_of, emulated_time
from mrcjax.tuning.programme import Demand, priced, solve, water_filled
from mrcjax.tuning.surrogate import (
    Cutting,
    load_of,
    load_time,
    port_bytes,
    port_seconds,
    smooth_max,
)

BOTH = ((1.0, 1.0),)
APART = ((0.0, 1.0), (1.0, 0.0))
QUICK = {"steps": 200, "engine_steps": 10}


def spec_of(network: dict, size: str = "1 GB", faults=(), options=None, **collective):
    collective = {"kind": "all_reduce", "size": size, **collective}
    links = ", ".join(f'{{ match = "{match}", rate = {rate} }}' for match, rate in faults)
    text = toml(network=network, collective=collective, tune={**QUICK, **(options or {})})
    return load_spec(f"{text}\n[faults]\nlinks = [{links}]")


def classes(out, into, count=None) -> Classes:
    """Ports by class without latency."""
    out, into = np.asarray(out, float), np.asarray(into, float)
    count = np.ones(len(out)) if count is None else np.asarray(count, float)
    index = np.repeat(np.arange(len(out)), count.astype(int))
    first = np.searchsorted(index, np.arange(len(out)))
    return Classes(index, first, count, out, into, np.zeros_like(out), np.zeros_like(out))


# --- how sends are cut on the engine -----------------------------------------------------------


def by_hand(case, source, destination):
    """A reduce-scatter cut by weights, as a table of sends: peer, bytes (rounds, ranks, lanes)."""
    ranks, lanes = case.network.ranks, len(source)
    peer = np.full((ranks - 1, ranks, lanes), -1)
    sent = np.zeros(peer.shape)
    shards = np.broadcast_to(np.asarray(case.params.chunk_bytes[0])[0], ranks)
    for k, i in itertools.product(range(ranks - 1), range(ranks)):
        j = (i + k + 1) % ranks
        weight = source[:, i] * destination[:, j]
        sent[k, i] = shards[j] * weight / weight.sum()
        peer[k, i] = np.where(weight > 0, j, -1)
    return peer, sent


@pytest.mark.parametrize(
    ("switching", "lanes"), [("cut_through", 3), ("store_and_forward", 3), ("store_and_forward", 6)]
)
def test_weights_cut_like_the_same_sends_written_out(switching, lanes):
    rng = np.random.default_rng(3)
    source, destination = rng.uniform(0.2, 2, (2, 3, 5))
    source[1, 2] = destination[0, 4] = 0.0  # no part of these sends on that rail
    cut = {"source": source.tolist(), "destination": destination.tolist()}
    weights = ", ".join(f"{key} = {value}" for key, value in cut.items())
    text = (
        'kind = "reduce_scatter"\nsize = "100 MB"\nstripe = true\n'
        f"shards = [1, 2, 3, 0.5, 2.5]\nrail_shares = {{ {weights} }}"
    )
    engine, network = {"switching": switching}, flat(5, 3, channels=lanes)
    text = toml(network=network, collective=text, engine=engine)
    case = mrcjax.build(load_spec(text))
    rates = jnp.asarray(rng.uniform(0.3, 1, case.params.capacity_bytes_per_s.shape) * 50e9)
    case = replace(case, params=replace(case.params, capacity_bytes_per_s=rates))
    weights = (np.tile(each, (lanes // 3, 1)) for each in (source, destination))
    peer, sent = by_hand(case, *weights)
    other, params = with_table(case, peer, sent)
    params = replace(params, shares=None)
    found, wanted = times_of(case), times_of(other, params)
    np.testing.assert_allclose(found.finish_s, wanted.finish_s, rtol=1e-12)
    np.testing.assert_allclose(found.link_bytes, wanted.link_bytes, rtol=1e-12)


def test_equal_weights_are_no_weights():
    network = flat(7, 3)
    keys = {"kind": "all_reduce", "size": "100 MB", "stripe": True}
    plain = times_of(case_of(network, keys))
    cut = {**keys, "shards": [2.0] * 7}
    np.testing.assert_allclose(times_of(case_of(network, cut)).finish_s, plain.finish_s, rtol=1e-12)


def test_a_rail_without_weight_costs_nothing_not_even_its_latency():
    text = 'kind = "all_reduce"\nsize = "1 MB"\nstripe = true\n'
    cut = "rail_shares = { source = [[1, 1, 1], [0, 0, 0]] }"
    network = flat(3, 2, latency=["1 us", "10 ms"])
    two = mrcjax.build(load_spec(toml(network=network, collective=text + cut)))
    one = case_of(flat(3, 1, latency="1 us"), {"kind": "all_reduce", "size": "1 MB"})
    assert float(times_of(two).time_s) == pytest.approx(float(times_of(one).time_s), rel=1e-12)


def test_whole_sends_keep_to_their_rail():
    rail = "[[0, 1, 0], [1, 0, 0], [1, 1, 0]]"
    text = 'kind = "all_gather"\nsize = "3 MB"\nstripe = true\n'
    text += f"rail_shares = {{ rail = {rail} }}"
    case = mrcjax.build(load_spec(toml(network=flat(3, 2), collective=text)))
    sent = np.asarray(times_of(case).link_bytes)[: 2 * 3].reshape(2, 3) / 1e6
    np.testing.assert_array_equal(sent, [[1, 1, 0], [1, 1, 2]])


@pytest.mark.parametrize("what", ["source", "destination", "shards"])
def test_derivatives_in_the_weights_agree_with_differences(what):
    rng = np.random.default_rng(5)
    keys = {"kind": "all_reduce", "size": "100 MB", "stripe": True, "shards": [1.0] * 5}
    case = case_of(flat(5, 3), keys)
    rates = rng.uniform(0.3, 1, case.params.capacity_bytes_per_s.shape) * 50e9
    params = replace(case.params, capacity_bytes_per_s=jnp.asarray(rates))
    case = replace(case, params=params)
    source, destination = jnp.asarray(rng.normal(size=(2, 3, 5)))
    here = Cutting(source, destination, None, jnp.asarray(rng.normal(size=5)))
    along = jnp.asarray(rng.normal(size=getattr(here, what).shape))

    def time(step):
        moved = here._replace(**{what: getattr(here, what) + step * along})
        return emulated_time(emulated_of(case), moved, jnp.asarray(0.01))[0]

    slope = float(jax.jit(jax.grad(time))(0.0))
    timed = jax.jit(time)
    difference = float(timed(1e-6) - timed(-1e-6)) / 2e-6
    assert abs(slope) > 1e-6
    assert slope == pytest.approx(difference, rel=1e-4)


@pytest.mark.parametrize("chunks", [1, 3])
def test_the_engines_objective_is_the_time_of_that_cut(chunks):
    rng = np.random.default_rng(9)
    source, destination = rng.uniform(0.5, 1, (2, 2, 4))
    shards = rng.uniform(0.5, 1, 4)
    keys = {"kind": "all_reduce", "size": "100 MB", "stripe": True, "chunks": chunks}
    plain = case_of(flat(4, 2), keys)
    here = Cutting(jnp.log(source), jnp.log(destination), None, jnp.log(shards))
    smooth, exact = emulated_time(emulated_of(plain), here, jnp.asarray(1e-3))
    cut = Weights(source, destination, shards=shards).into(plain.spec)
    assert float(exact) == pytest.approx(mrcjax.run(cut).time_s, rel=1e-12)
    assert exact <= smooth <= exact * (1 + 1e-3 * math.log(4))


def test_other_weights_are_no_new_program():
    keys = {"kind": "all_reduce", "size": "100 MB", "stripe": True, "shards": [1.0] * 4}
    case, traces = case_of(flat(4, 2), keys), []

    @jax.jit
    def time(shares: Shares):
        traces.append(1)
        params = replace(case.params, shares=shares)
        return emulate(params, case.network, case.schedule, config=case.config).time_s

    for seed in range(3):
        weights = jnp.asarray(np.random.default_rng(seed).uniform(0, 1, (2, 2, 4)))
        time(Shares(weights[0], weights[1]))
    assert len(traces) == 1


def test_pieces_are_gathered_behind_the_scattering_of_the_next():
    """Against the slow twin, send by send, with unequal ports and shards."""
    rng = np.random.default_rng(8)
    keys = {"kind": "all_reduce", "size": "100 MB", "stripe": True, "chunks": 4}
    case = case_of(flat(4, 2), keys)
    params = with_random_numbers(case, 3)
    found, wanted = times_of(case, params), expand(case, params).by(chunk)
    np.testing.assert_allclose(found.finish_s, wanted.finish_s, rtol=1e-12)
    weights = {"shards": rng.uniform(0.5, 1, 4).tolist()}
    cut = case_of(flat(4, 2), {**keys, **weights})
    single = case_of(flat(4, 2), {**keys, **weights, "chunks": 1})
    sent = [np.asarray(times_of(c, None).link_bytes) for c in (cut, single)]
    np.testing.assert_allclose(*sent, rtol=1e-12)


WIRED = {"kind": "flat_rails", "ranks": 6, "rail_rate": "50 GB/s", "reach": [2, 3]}
NODES = flat(4, 2, node_size=2, node_rate="100 GB/s")


@pytest.mark.parametrize("network", [WIRED, NODES], ids=["wired", "nodes"])
def test_pieces_on_other_paths(network):
    case = case_of(network, {"kind": "all_reduce", "size": "100 MB", "chunks": 3})
    params = with_random_numbers(case, 5)
    found, wanted = times_of(case, params), expand(case, params).by(chunk)
    np.testing.assert_allclose(found.finish_s, wanted.finish_s, rtol=1e-12)


@pytest.mark.parametrize("match", ["rank 0 ingress*", "rank 0 *gress*"])
def test_pipelined_a_slow_rank_costs_what_its_port_must_carry(match):
    # own nothing: (1 + 1/chunks) S/(fB) at most, where equal shards take 18.75 S/B
    options = {"chunks": [1, 64], "steps": 600, "engine_steps": 0}
    found = tune(spec_of(flat(16), faults=[(match, 0.1)], options=options))
    assert found.best.collective.chunks == 64
    assert found.lower_bound_s == pytest.approx(0.2, rel=1e-9)
    assert found.gap < 0.03
    assert again(found) == found.after_s


# --- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("halves", "part"), [(BOTH, 8 / 15), (APART, (1 - 1 / 151) * 11 / 18.75)])
def test_a_slow_receiver_owns_less(halves, part):
    # n = 16, f = 0.1: S/(fB) + little, or s = S/(1 + (n - 1)/f) and (S - s)(1 + 1/f)/B; equal
    # shards take 2 (n - 1)/n S/(fB) = 18.75 S/B.
    slow = classes([[1], [1]], [[0.1], [1]], [1, 15])
    equal = solve(slow, Demand(halves, 1.0, np.full(2, 1 / 16)))
    free = solve(slow, Demand(halves, 1.0, None))
    assert equal.proven_s == pytest.approx(18.75, rel=1e-9)
    assert free.proven_s == pytest.approx(18.75 * part, rel=1e-9)
    if halves is APART:
        np.testing.assert_allclose(free.shard_bytes[0], 1 / 151, rtol=1e-6)


def test_a_rank_slow_both_ways_gains_nothing_without_overlap():
    slow = classes([[0.1], [1]], [[0.1], [1]], [1, 15])
    assert solve(slow, Demand(APART, 1.0, None)).proven_s == pytest.approx(18.75, rel=1e-9)
    assert solve(slow, Demand(BOTH, 1.0, None)).proven_s == pytest.approx(10, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("free", [False, True])
def test_classes_give_what_every_pair_of_ranks_gives(seed, free):
    """Against the programme over all pairs, written down plainly."""
    rng = np.random.default_rng(seed)
    kinds = classes(*rng.choice([0.25, 0.5, 1.0], (2, 2, 2)), [2, 2])
    found = solve(kinds, Demand(BOTH, 1.0, None if free else np.full(2, 0.25)))
    out, into = kinds.egress[kinds.index], kinds.ingress[kinds.index]
    wanted = plain_programme(out, into, free)
    assert found.time_s == pytest.approx(wanted, rel=1e-7)
    assert found.proven_s == pytest.approx(wanted, rel=1e-7)


def plain_programme(out, into, free):
    ranks, rails = out.shape
    flows = [(i, j, r) for i in range(ranks) for j in range(ranks) if i != j for r in range(rails)]
    num = len(flows) + ranks + 1  # flows, shards, time
    above, sums, right = [], [], []
    for i, r in itertools.product(range(ranks), range(rails)):
        for end, rate in ((0, out), (1, into)):
            row = np.zeros(num)
            row[: len(flows)] = [f[end] == i and f[2] == r for f in flows]
            row[-1] = -rate[i, r]
            above.append(row)
    for i, j in itertools.permutations(range(ranks), 2):
        row = np.zeros(num)
        row[: len(flows)] = [f[:2] == (i, j) for f in flows]
        row[len(flows) + np.array([i, j])] -= 1
        sums.append(row)
        right.append(0.0)
    shards = np.eye(num)[len(flows) : -1]
    sums += [shards.sum(axis=0)] if free else list(shards)
    right += [1.0] if free else [1 / ranks] * ranks
    cost = np.eye(num)[-1]
    return linprog(cost, above, np.zeros(len(above)), np.array(sums), right).fun


@pytest.mark.parametrize("free", [False, True])
def test_any_prices_prove_a_bound(free):
    rng = np.random.default_rng(2)
    kinds = classes(*rng.uniform(0.2, 1, (2, 3, 2)), [2, 1, 3])
    demand = Demand(APART, 1.0, None if free else np.full(3, 1 / 6))
    best = solve(kinds, demand)
    assert best.proven_s == pytest.approx(best.time_s, rel=1e-7)
    for _ in range(200):
        prices = rng.exponential(size=(2, 2, 3, 2)) ** 2
        assert priced(kinds, demand, prices) <= best.time_s * (1 + 1e-9)


def test_water_filling_is_the_least_of_all_cuts():
    rng = np.random.default_rng(1)
    for _ in range(20):
        rate, start, size = rng.uniform(0.2, 1, 3), rng.exponential(2, 3), rng.exponential(4)
        time = float(water_filled(rate, start, np.asarray(size)))
        assert (rate * np.maximum(time - start, 0)).sum() == pytest.approx(size, rel=1e-12)
    # one rail alone, and a second that starts too late to help
    assert water_filled(np.array([2.0, 1.0]), np.array([1.0, 9.0]), np.array(4.0)) == 3.0


def test_a_programme_too_large_is_left_out():
    many = classes(np.ones((800, 2)), np.ones((800, 2)))
    assert solve(many, Demand(BOTH, 1.0, np.full(800, 1 / 800))) is None


# --- the surrogate and the descent -------------------------------------------------------------


def some_load():
    rng = np.random.default_rng(4)
    kinds = classes(*rng.uniform(0.2, 1, (2, 4, 3)), [1, 2, 3, 2])
    source, destination = jnp.asarray(rng.normal(size=(2, 4, 3)))
    return kinds, Cutting(source, destination, None, jnp.asarray(rng.normal(size=4)))


def test_loads_are_those_of_the_links_of_an_emulation():
    rng = np.random.default_rng(6)
    case = case_of(flat(5, 2), {"kind": "all_reduce", "size": "1 GB", "stripe": True})
    kinds = one_by_one(case)
    source, destination = rng.uniform(0.2, 1, (2, 5, 2))
    cutting = Cutting(*(jnp.log(jnp.asarray(w)) for w in (source, destination)))
    load = load_of(kinds, 1e9, (True, False))
    keys = {"kind": "all_reduce", "size": "1 GB", "stripe": True, "shards": [1.0] * 5}
    cut = case_of(flat(5, 2), keys)
    shares = Shares(jnp.asarray(source.T), jnp.asarray(destination.T))
    times = times_of(cut, replace(cut.params, shares=shares))
    busy = np.asarray(times.link_bytes / cut.params.capacity_bytes_per_s).reshape(2, 2, 5)
    found = np.asarray(port_seconds(load, port_bytes(load, cutting))).sum(axis=0)
    np.testing.assert_allclose(found, np.moveaxis(busy, 1, 2), rtol=1e-12)


def test_a_rank_may_send_and_receive_by_different_rails():
    kinds = classes([[1, 0], [1, 1]], [[0, 1], [1, 1]], [1, 3])
    load = load_of(kinds, 1.0, (True, False))
    here = Cutting(jnp.zeros((2, 2)), jnp.zeros((2, 2)))
    value, slope = jax.value_and_grad(lambda c: load_time(load, c, jnp.asarray(0.1))[0])(here)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))
    bound = solve(kinds, Demand(BOTH, 1.0, np.full(4, 0.25)[:2]))
    assert bound.proven_s == pytest.approx(bound.time_s, rel=1e-9)


def test_smooth_maximum_is_within_its_error():
    values = jnp.asarray(np.random.default_rng(0).uniform(size=(3, 50)))
    for width in (1e-4, 1e-2, 1.0):
        over = np.asarray(smooth_max(values, jnp.asarray(width)) - values.max(axis=1))
        assert (over >= 0).all()
        assert (over <= width * math.log(50) + 1e-15).all()


def test_derivatives_of_the_loads_agree_with_differences():
    kinds, here = some_load()
    load = load_of(kinds, 1.0, (True, False))
    along = jax.tree.map(lambda x: jnp.asarray(np.random.default_rng(1).normal(size=x.shape)), here)

    def time(step):
        moved = jax.tree.map(lambda x, way: x + step * way, here, along)
        # the width follows the time without a part in its derivative
        return load_time(load, moved, jnp.asarray(1e-9))[0]

    slope = float(jax.jit(jax.grad(time))(0.0))
    timed = jax.jit(time)
    assert slope == pytest.approx(float(timed(1e-7) - timed(-1e-7)) / 2e-7, rel=1e-5)


def test_a_descent_keeps_the_best_and_stops_when_told():
    def bowl(centre, x, temperature):
        del temperature
        return ((x - centre) ** 2).sum() + 1.0, ((x - centre) ** 2).sum() + 1.0

    centre, start, steps = jnp.asarray(3.0), jnp.zeros(2), 200
    found = descend(bowl, centre, start, annealed(1.0, 0.1, steps), adam(0.2, steps))
    assert found.best_s == pytest.approx(1.0, abs=1e-3)
    assert found.best_s <= min(found.exact_s)
    stopped = descend(
        bowl,
        centre,
        start,
        annealed(1.0, 0.1, steps),
        adam(0.2, steps),
        on_block=lambda n, _: n < 50,
    )
    assert stopped.stopped
    assert len(stopped.exact_s) == 50
    np.testing.assert_array_equal(stopped.exact_s, found.exact_s[:50])


def test_pipelined_halves_share_the_ports():
    kinds, here = some_load()
    loads = [load_of(kinds, 1.0, (True, False), pipelined=way) for way in (False, True)]
    apart, both = (float(load_time(load, here, jnp.asarray(1e-6))[1]) for load in loads)
    seconds = np.asarray(port_seconds(loads[0], port_bytes(loads[0], here)))
    assert both == pytest.approx(seconds.sum(axis=0).max(), rel=1e-12)
    assert apart == pytest.approx(seconds.max(axis=(1, 2, 3)).sum(), rel=1e-12)
    assert both < apart


# --- whole searches ----------------------------------------------------------------------------


def again(found) -> float:
    """Time of the tuned spec run from its text."""
    return mrcjax.run(load_spec(spec_to_toml(found.best))).time_s


def test_unequal_rails_carry_the_sum_of_their_rates():
    rates = {"rail_rate": ["400 Gbit/s", "234 Gbit/s"]}
    network = {**flat(8, 2), **rates}
    found = tune(spec_of(network, "10 GB", options={"shards": False}, stripe=True))
    moved = 2 * 7 / 8 * 10e9
    assert moved / found.before_s == pytest.approx(2 * 234e9 / 8, rel=1e-3)
    assert moved / found.after_s == pytest.approx(634e9 / 8, rel=1e-3)
    assert found.lower_bound_s <= found.after_s
    assert again(found) == found.after_s


def test_a_late_rail_is_filled_like_water():
    rates = {"rail_rate": ["400 Gbit/s", "234 Gbit/s"], "latency": ["1 us", "150 us"]}
    found = tune(spec_of({**flat(8, 2), **rates}, "20 MB", options={"shards": False}))
    filled = water_filled(np.array([50e9, 29.25e9]), np.array([2e-6, 300e-6]), np.array(17.5e6))
    assert found.after_s == pytest.approx(2 * float(filled), rel=1e-3)
    assert found.lower_bound_s == pytest.approx(2 * float(filled), rel=1e-9)


def test_a_slow_receiver_is_given_a_smaller_shard():
    spec = spec_of(flat(16), faults=[("rank 0 ingress*", 0.1)], options={"steps": 600})
    found = tune(spec)
    equal, best = 0.375, (1 - 1 / 151) * 11 / 50
    assert found.before_s == pytest.approx(equal, rel=1e-3)
    assert found.after_s == pytest.approx(best, rel=1e-2)
    assert found.lower_bound_s == pytest.approx(0.2, rel=1e-9)
    assert found.optima_s["programme, with a barrier between the halves"] == pytest.approx(
        best, rel=1e-6
    )
    assert found.best.collective.shards[0] < 0.2
    assert again(found) == found.after_s


def test_a_rank_slow_both_ways_is_left_alone():
    found = tune(spec_of(flat(16), faults=[("rank 0 *gress*", 0.1)]))
    assert found.after_s == found.before_s == pytest.approx(0.375, rel=1e-3)
    assert found.found_by == "before"


def damaged(ranks: int, rails: int, worst: int) -> list[tuple[str, float]]:
    """Rails at half rate both ways with probability 0.1, the worst rank with so many of them."""
    for seed in itertools.count():
        slow = np.random.default_rng(seed).random((rails, ranks)) < 0.1
        if slow.sum(axis=0).max() == worst:
            return [(f"rank {i} *gress rail {r}", 0.5) for r, i in np.argwhere(slow)]


@pytest.mark.slow
def test_damaged_rails_come_within_a_third_of_a_percent_of_the_bound():
    options = {"shards": False, "steps": 400, "engine_steps": 0}
    spec = spec_of(flat(256, 8), faults=damaged(256, 8, 4), options=options, stripe=True)
    found = tune(spec)
    assert found.before_s == pytest.approx(1.5 * found.lower_bound_s, rel=1e-3)
    heuristics = {name: time / found.lower_bound_s for name, time in found.heuristics_s.items()}
    assert 1.01 < heuristics["source x destination"] < 1.02
    assert heuristics["source"] > 1.49
    assert found.gap < 3e-3
    assert found.parameters == 2 * 256 * 8


def test_whole_sends_get_round_a_failed_port():
    faults = [("rank 5 *gress rail 2", 0.0)]
    options = {"rails": "whole", "shards": False}
    found = tune(spec_of(flat(64, 4), faults=faults, options=options))
    assert found.before_s == math.inf
    assert found.after_s <= 1.03 * found.optima_s["programme"]
    rail = np.asarray(found.best.collective.rail_shares.rail)
    assert (rail[5] != 2)[np.arange(64) != 5].all()
    assert (rail[:, 5] != 2)[np.arange(64) != 5].all()
    for rank in range(64):
        used = np.delete(rail[rank], rank)
        assert len(set(used.tolist())) == (3 if rank == 5 else 4)
    assert again(found) == found.after_s


@pytest.mark.slow
def test_a_table_is_tuned_pair_by_pair():
    faults = [("rank 1 *gress rail 0", 0.3), ("rank 2 egress rail 1", 0.5)]
    found = tune(spec_of(flat(4, 2), faults=faults, options={"rails": "table", "shards": False}))
    assert found.parameters == 2 * 4 * 2 + 4 * 4 * 2
    assert found.lower_bound_s <= found.after_s < found.before_s
    assert again(found) == found.after_s


FUZZED = [  # ranks, rails, kind, more of the network, options: as many shapes as are compiled
    (4, 2, "all_reduce", {}, {"engine_steps": 5}),
    (5, 3, "all_reduce", {}, {"shards": False}),
    (3, 2, "reduce_scatter", {}, {}),
    (4, 2, "all_reduce", {"reduction_rate": "100 GB/s"}, {}),
]


def random_network(rng: np.random.Generator, ranks, rails, kind, more, options):
    """Ports of any rate, some down, any latency, a late rank, now and then a slow one."""
    network = flat(ranks, rails, latency=f"{rng.integers(0, 30)} us", **more)
    ports = itertools.product(range(ranks), range(rails), ("egress", "ingress"))
    faults = []
    for rank, rail, way in ports:
        is_down = rail > 0 and rng.random() < 0.1
        rate = 0 if is_down else rng.choice([1.0, 0.5, rng.uniform(0.05, 1)])
        faults.append(f'{{ match = "rank {rank} {way} rail {rail}", rate = {rate} }}')
    faults = f"links = [{', '.join(faults)}]"
    faults += f'\nlate = [{{ rank = {rng.integers(ranks)}, by = "{rng.integers(0, 500)} us" }}]'
    if more:
        faults += f"\nslow = [{{ rank = {rng.integers(ranks)}, factor = {rng.uniform(1, 20)} }}]"
    size = rng.choice(["10 kB", "10 MB", "1 GB"])
    collective = {"kind": kind, "size": str(size), "stripe": True}
    options = {"steps": 50, "engine_steps": 0, **options}
    text = toml(network=network, collective=collective, tune=options, faults=faults)
    return load_spec(text)


@pytest.mark.parametrize("shape", FUZZED, ids=lambda shape: f"{shape[0]}x{shape[1]}-{shape[2]}")
def test_never_worse_than_simple_never_below_the_bound(shape):
    """100 random small networks in all; an infinite time is a link that is down."""
    for seed in range(25):
        found = tune(random_network(np.random.default_rng(seed), *shape))
        assert found.after_s <= min(found.before_s, *found.heuristics_s.values()), seed
        assert found.after_s >= found.lower_bound_s * (1 - 1e-12), seed
        assert found.outcome.time_s >= found.outcome.lower_bound_s * (1 - 1e-12), seed


@pytest.mark.parametrize(("rails", "chunks", "gap"), [(1, 1, 0.08), (2, 32, 0.01)])
def test_a_rank_that_reduces_slowly_owns_less(rails, chunks, gap):
    """Equal shards keep it busy for 15/16 S at a tenth of the rate."""
    network = flat(16, rails, reduction_rate="50 GB/s")
    collective = {"kind": "all_reduce", "size": "1 GB", "stripe": True, "chunks": chunks}
    options = {"steps": 400, "engine_steps": 0}
    text = toml(network=network, collective=collective, tune=options)
    found = tune(load_spec(f"{text}\n[faults]\nslow = [{{ rank = 3, factor = 10 }}]"))
    assert found.heuristics_s["equal"] > 15 / 16 / 5 / rails
    assert found.lower_bound_s <= found.after_s < 0.25 * found.heuristics_s["equal"]
    assert found.gap < gap
    shards = np.asarray(found.best.collective.shards)
    assert (shards[3] < 0.3 * np.delete(shards, 3)).all()
    assert again(found) == found.after_s


def test_what_a_rank_reduces_binds_free_shards():
    """Against the programme of one slow reducer by hand: two kinds of shards, one time."""
    slow = classes([[1], [1]], [[1], [1]], [1, 15])
    reducers = np.array([0.1, 1.0])
    for halves in (BOTH, APART):
        found = solve(slow, Demand(halves, 1.0, None, reducers))
        # columns: own shard, others' shard, times
        times = len(halves)
        rows = []
        for kind in (0, 1):
            own = np.eye(2)[kind]
            rest = np.array([1.0, 15.0]) - own
            out = [15 * of_sender * own + of_receiver * rest for of_sender, of_receiver in halves]
            into = [of_sender * rest + 15 * of_receiver * own for of_sender, of_receiver in halves]
            for half, (sent, taken) in enumerate(zip(out, into, strict=True)):
                time = -np.eye(times)[half]
                rows += [np.append(sent, time), np.append(taken, time)]
            rows.append(np.append(15 * own, -reducers[kind] * np.eye(times)[0]))
        cost = np.append([0.0, 0.0], np.ones(times))
        total = np.append([1.0, 15.0], np.zeros(times))[None]
        wanted = linprog(cost, np.array(rows), np.zeros(len(rows)), total, [1.0]).fun
        assert found.time_s == pytest.approx(wanted, rel=1e-9)
        assert found.proven_s == pytest.approx(wanted, rel=1e-9)


def test_it_stops_with_the_best_so_far():
    calls = []
    spec = spec_of(flat(8, 2), faults=[("rank 1 *gress rail 0", 0.5)], options={"steps": 500})
    found = tune(spec, is_stopped=lambda: bool(calls.append(1)) or len(calls) > 2)
    assert found.stopped
    assert len(found.history) < 500
    assert found.after_s <= found.before_s


@pytest.mark.slow
def test_a_search_can_start_from_a_cut():
    from mrcjax.tuning.weights import weights_of_spec

    faults = [("rank 1 *gress rail 0", 0.5), ("rank 2 ingress rail 1", 0.25)]
    options = {"steps": 100, "engine_steps": 0}
    spec = spec_of(flat(6, 2), faults=faults, options=options)
    first = tune(spec)
    loads = [s.exact_s for s in first.history]
    second = tune(spec, start=weights_of_spec(first.best))
    assert second.history[0].exact_s == pytest.approx(min(loads), rel=1e-3)
    assert second.history[0].exact_s < loads[0]


def test_striped_shards_are_refused_where_lanes_are_not_rails():
    text = 'kind = "all_reduce"\nsize = "1 GB"\nstripe = true\nshards = [1, 2, 3, 4]'
    for network in (NODES, flat(4, 2, channels=3)):
        with pytest.raises(SpecError, match="collective.shards with stripe"):
            load_spec(toml(network=network, collective=text))


# --- lanes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("switching", ["cut_through", "store_and_forward"])
def test_weights_cut_over_several_lanes_of_a_rail(switching):
    """The same bytes on every link; of what is stored first a part waits, not all."""
    rng = np.random.default_rng(4)
    source, destination = rng.uniform(0.2, 2, (2, 2, 4))
    weights = ", ".join(f"{k} = {v.tolist()}" for k, v in {"source": source}.items())
    weights += f", destination = {destination.tolist()}"
    text = (
        'kind = "all_reduce"\nsize = "100 MB"\nstripe = true\n'
        f"shards = [1, 2, 3, 0.5]\nrail_shares = {{ {weights} }}"
    )
    engine, network = {"switching": switching}, flat(4, 2, channels=6)
    case = mrcjax.build(load_spec(toml(network=network, collective=text, engine=engine)))
    one = mrcjax.build(load_spec(toml(network=flat(4, 2), collective=text, engine=engine)))
    found, plain = times_of(case), times_of(one)
    np.testing.assert_allclose(found.link_bytes, plain.link_bytes, rtol=1e-12)
    assert found.time_s <= plain.time_s * (1 + 1e-12)
    if switching == "store_and_forward":
        assert found.time_s < 0.95 * plain.time_s


def test_more_lanes_reduce_faster():
    """A lane's reducer binds until there are enough of them for the ports."""
    options = {"channels": [2, 16], "steps": 100, "engine_steps": 2, "shards": False}
    network = flat(4, 2, reduction_rate="10 GB/s")
    found = tune(spec_of(network, faults=[("rank 1 *gress rail 0", 0.5)], options=options))
    assert found.best.network.channels == 16
    # 2 lanes take 3/4 GB at 20 GB/s, 16 of them are no limit
    assert found.before_s > 0.75 / 20
    assert found.lower_bound_s <= found.after_s < 0.8 * found.before_s
    # what arrives last is reduced last: 1/16 of a shard by each lane, beside 20 ms of port
    assert found.after_s - found.lower_bound_s < 0.25e9 / 16 / 10e9 + 1e-3
    assert {step.stage for step in found.history} >= {"loads, 2 channels", "loads, 16 channels"}
    assert again(found) == found.after_s


@pytest.mark.parametrize(
    ("network", "options", "where"),
    [
        ({}, {"channels": [2, 3]}, "tune.channels"),
        ({"channels": 3}, {}, "network.channels"),
        ({}, {"channels": [4], "rails": "whole"}, "tune.channels"),
        ({"node_size": 2, "node_rate": "100 GB/s"}, {"channels": [4]}, "network.kind"),
    ],
)
def test_lanes_that_make_no_sense_are_refused(network, options, where):
    with pytest.raises(SpecError) as error:
        tune(spec_of(flat(4, 2, **network), options=options))
    assert error.value.where == where


# --- a target ---------------------------------------------------------------------------------


def test_the_rate_that_makes_a_time_true():
    # all but the latencies is inversely proportional to the rate
    spec = spec_of(
        {**flat(8, 2, latency="1 us"), "rail_rate": ["400 Gbit/s", "200 Gbit/s"]}, "10 MB"
    )
    time, latency = mrcjax.run(spec).time_s, 4e-6
    options = {"target_time": "2.5 ms"}
    asked = spec_of(
        {**flat(8, 2, latency="1 us"), "rail_rate": ["400 Gbit/s", "200 Gbit/s"]},
        "10 MB",
        options=options,
    )
    found = reach(asked)
    assert found.outcome.time_s == pytest.approx(2.5e-3, rel=1e-12)
    assert found.factor == pytest.approx((time - latency) / (2.5e-3 - latency), rel=1e-9)
    np.testing.assert_allclose(found.rail_bytes_per_s, np.array([50e9, 25e9]) * found.factor)
    assert mrcjax.run(load_spec(spec_to_toml(found.best))).time_s == found.outcome.time_s


def test_a_time_below_latency_is_refused():
    asked = spec_of(flat(4, latency="1 us"), "10 MB", options={"target_time": "3 us"})
    with pytest.raises(SpecError, match="left at any rate") as error:
        reach(asked)
    assert error.value.where == "tune.target_time"


# --- refusals ----------------------------------------------------------------------------------

TREE = {"kind": "fat_tree", "ranks": 8, "radix": 8, "link_rate": "50 GB/s"}


@pytest.mark.parametrize(
    ("network", "more", "where"),
    [
        (TREE, {}, "network.kind"),
        (flat(8, 2), {"algorithm": "ring"}, "collective.algorithm"),
        (flat(8, 2), {"element_bytes": 4}, "collective.element_bytes"),
        (flat(8, 2), {"options": {"rails": "fixed"}}, "tune.rails"),
        (flat(8), {"options": {"shards": False}}, "tune.rails"),
        (flat(8, 2), {"kind": "all_gather", "options": {"shards": True}}, "tune.shards"),
        (flat(1, 2), {}, "network.ranks"),
        (flat(4), {"faults": [("rank 1 ingress*", 0.0)]}, "faults.links"),
    ],
)
def test_what_cannot_be_tuned_is_refused(network, more, where):
    with pytest.raises(SpecError) as error:
        tune(spec_of(network, **more))
    assert error.value.where == where


UNKNOWN = [
    ('links = [{ match = "rank 1 *", loss = 0.01 }]', "faults.links[0].loss"),
    ('random = [{ what = "port", count = 1, loss = 0.01 }]', "faults.random[0].loss"),
    ('jitter = [{ at = "start", mean = "1 us" }]', "faults.jitter"),
    ('reroute = "spread"', "faults.reroute"),
]
MANY = ('scenarios = 3\nrandom = [{ what = "port", count = 1, left = 0.5 }]', "faults.scenarios")
TARGET = {"target_time": "1 s"}


@pytest.mark.parametrize(
    ("look", "options", "faults", "where"),
    [
        *((look, o, *each) for look, o in ((tune, QUICK), (reach, TARGET)) for each in UNKNOWN),
        (reach, TARGET, *MANY),
    ],
)
def test_faults_that_it_does_not_know_are_refused(look, options, faults, where):
    collective = {"kind": "all_reduce", "size": "1 GB"}
    text = toml(network=flat(4, 2), collective=collective, tune=options)
    with pytest.raises(SpecError, match="not known to tune") as error:
        look(load_spec(f"{text}\n[faults]\n{faults}"))
    assert error.value.where == where


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ('[engine]\nkind = "fluid"', "engine.kind"),
        ("[faults]\n" + UNKNOWN[0][0], UNKNOWN[0][1]),
        ("[faults]\n" + UNKNOWN[3][0], UNKNOWN[3][1]),
    ],
)
def test_weights_are_refused_where_nothing_is_cut_by_them(more, where):
    text = 'kind = "all_reduce"\nsize = "1 GB"\nstripe = true\nshards = [1, 2, 3, 4]'
    with pytest.raises(SpecError, match="collective.shards and stripe") as error:
        load_spec(toml(network=flat(4, 2), collective=text) + "\n" + more)
    assert error.value.where == where


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("stripe = true\nrail_shares = { source = [[1, 1]] }", "collective.rail_shares.source"),
        ("stripe = true\nrail_shares = { rail = [[0, 2], [0, 0]] }", "collective.rail_shares.rail"),
        ("stripe = true\nrail_shares = { source = [[0, 1], [0, 1]] }", "collective.rail_shares"),
        ("rail_shares = { source = [[1, 1], [1, 1]] }", "collective.rail_shares"),
        ("shards = [1, 2, 3]", "collective.shards"),
        ("shards = [0, 0]", "collective.shards"),
        ('shards = [1, 2]\nalgorithm = "ring"', "collective.shards"),
        (
            "stripe = true\nrail_shares = { rail = [[0, 1], [0, 0]], table = [] }",
            "collective.rail_shares",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(text, where):
    text = f'kind = "all_reduce"\nsize = "1 GB"\n{text}'
    with pytest.raises(SpecError) as error:
        mrcjax.build(load_spec(toml(network=flat(2, 2), collective=text)))
    assert error.value.where.startswith(where)


def test_shares_of_a_spec_are_written_back():
    cut = RailShares(source=((1.0, 0.1), (2.0, 1 / 3)))
    text = toml(
        network=flat(2, 2), collective={"kind": "all_gather", "size": "1 GB", "stripe": True}
    )
    spec = load_spec(text)
    import msgspec

    spec = msgspec.structs.replace(
        spec, collective=msgspec.structs.replace(spec.collective, rail_shares=cut)
    )
    assert load_spec(spec_to_toml(spec)) == spec
