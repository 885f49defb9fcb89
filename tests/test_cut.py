"""Sends cut by weights: the short derivative against the one of all rounds, and what it keeps."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import case_of, flat

from mrcjax.engine import Params, Shares, emulate, ports


def cut_case(kind="all_reduce", shards=False, ranks=5, rails=3, **more):
    """A case with random rates, latencies and weights, some zero, a port down, a late rank."""
    engine = {"switching": more.pop("switching", "cut_through")}
    keys = {"kind": kind, "size": "100 MB", "stripe": True, **more}
    if shards:
        keys["shards"] = np.random.default_rng(7).uniform(0.2, 1, ranks).tolist()
    case = case_of(flat(ranks, rails), keys, engine)
    rng = np.random.default_rng(11)
    source, destination = rng.uniform(0.2, 1, (2, rails, ranks))
    source[1, 2] = destination[0, 1] = 0.0
    rates = rng.uniform(0.3, 1, case.params.capacity_bytes_per_s.shape) * 50e9
    rates[case.network.tier("egress").first + ranks + 2] = 0.0  # rail 1 of rank 2
    late = np.zeros(ranks)
    late[3] = 1e-3
    whole = jnp.full((1, 1), 100e6 / ranks / case.spec.the_collective.chunks)
    return case, replace(
        case.params,
        capacity_bytes_per_s=jnp.asarray(rates),
        latency_s=jnp.asarray(rng.uniform(0, 1e-4, rates.shape)),
        late_s=jnp.asarray(late),
        shares=Shares(jnp.asarray(source), jnp.asarray(destination)),
        chunk_bytes=case.params.chunk_bytes if shards else (whole,),
    )


def every_round(monkeypatch):
    """From here on all goes through the rounds and their checkpointed scan."""
    monkeypatch.setattr(ports, "_is_cut_straight", lambda *args: False)


CASES = [
    {"kind": "all_gather"},
    {"kind": "reduce_scatter", "shards": True, "switching": "store_and_forward"},
    pytest.param({"chunks": 3, "shards": True}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("keys", CASES, ids=str)
def test_times_and_derivatives_are_those_of_all_rounds(keys, monkeypatch):
    case, params = cut_case(**keys)
    along = jnp.asarray(np.random.default_rng(1).normal(size=case.network.ranks))

    def value(params: Params):
        times = emulate(params, case.network, case.schedule, config=case.config)
        return (along * times.finish_s).sum(), times

    def both():
        slope, times = jax.jit(jax.grad(value, has_aux=True))(params)
        plain = jax.jit(lambda p: value(p)[1])(params)
        return slope, times, plain

    slope, times, plain = both()
    every_round(monkeypatch)
    slope_of_rounds, _, plain_of_rounds = both()
    np.testing.assert_array_equal(plain.finish_s, plain_of_rounds.finish_s)
    np.testing.assert_array_equal(plain.link_bytes, plain_of_rounds.link_bytes)
    np.testing.assert_allclose(times.finish_s, plain.finish_s, rtol=1e-14)
    wanted = jax.tree_util.tree_leaves_with_path(slope_of_rounds)
    for (name, each), found in zip(wanted, jax.tree.leaves(slope), strict=True):
        # what cancels is as exact as the largest
        tolerance = 1e-12 * np.abs(each).max()
        np.testing.assert_allclose(found, each, rtol=1e-9, atol=tolerance, err_msg=str(name))
    assert sum(np.count_nonzero(leaf) for leaf in jax.tree.leaves(slope)) > 20


@pytest.mark.parametrize("switching", ["cut_through", "store_and_forward"])
def test_both_modes_batches_and_differences_agree(switching):
    case, params = cut_case("reduce_scatter", shards=True, switching=switching)
    rng = np.random.default_rng(2)

    def time(shares: Shares, rates):
        moved = replace(params, shares=shares, capacity_bytes_per_s=rates)
        return emulate(moved, case.network, case.schedule, config=case.config).finish_s.sum()

    assert params.shares is not None
    here = (params.shares, params.capacity_bytes_per_s)
    along = jax.tree.map(lambda x: x * jnp.asarray(rng.normal(size=x.shape)), here)
    forward = jax.jit(lambda h, a: jax.jvp(time, h, a)[1])(here, along)
    slope = jax.jit(jax.grad(time, argnums=(0, 1)))
    reverse = sum(
        (a * g).sum() for a, g in zip(*map(jax.tree.leaves, (along, slope(*here))), strict=True)
    )
    assert float(forward) == pytest.approx(float(reverse), rel=1e-11)

    def moved(step):
        return jax.tree.map(lambda x, a: x + step * a, here, along)

    timed = jax.jit(time)
    difference = float(timed(*moved(1e-6)) - timed(*moved(-1e-6))) / 2e-6
    assert float(forward) == pytest.approx(difference, rel=1e-5)
    if switching == "store_and_forward":
        return
    # second derivatives: forward over reverse
    twice = jax.jit(lambda h, a: jax.jvp(lambda *x: slope(*x)[0].source, h, a)[1])(here, along)
    change = (slope(*moved(1e-6))[0].source - slope(*moved(-1e-6))[0].source) / 2e-6
    np.testing.assert_allclose(twice, change, rtol=1e-3, atol=1e-6 * np.abs(change).max())

    many = jax.tree.map(lambda x: jnp.stack([x, 0.9 * x, 0.5 * x]), here[1])
    batch = jax.jit(jax.vmap(jax.grad(time, argnums=(0, 1)), (None, 0)))(here[0], many)
    for number, rates in enumerate(many):
        alone = slope(here[0], rates)
        for one, all_ in zip(*map(jax.tree.leaves, (alone, batch)), strict=True):
            np.testing.assert_allclose(all_[number], one, rtol=1e-12)


def test_a_derivative_keeps_nothing_per_round():
    """Four times the ranks are four times the rounds and four times as large clocks."""

    def kept(ranks: int) -> int:
        case, params = cut_case("reduce_scatter", ranks=ranks)

        def time(params: Params):
            return emulate(params, case.network, case.schedule, config=case.config).time_s

        analysis = jax.jit(jax.grad(time)).lower(params).compile().memory_analysis()
        return analysis.temp_size_in_bytes

    assert kept(256) < 5 * kept(64)
