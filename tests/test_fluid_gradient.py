"""Derivatives of fluid flows and schedules, batches, traces, and single precision."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fluids import random_flows, random_sends

from mrcjax.engine import emulate_sends, fluid_finish_times, simulate_flows

STEP = 1e-6
CLOSE = 1e-5  # of the largest derivative; differences of 1e-6 are good to about 1e-8

NAMES = ("capacity", "size", "start", "latency", "weights")
UNITS = {"capacity": 1e9, "size": 1e6, "start": 1e-3, "latency": 1e-3, "weights": 1.0}


def differences(function, arguments, name):
    """Central differences of a scalar function of a dict in all elements of one entry."""
    base = np.asarray(arguments[name], float)
    out = np.zeros(base.size)
    for i in range(base.size):
        moved = [base.copy(), base.copy()]
        moved[0].flat[i] += STEP
        moved[1].flat[i] -= STEP
        high, low = (function({**arguments, name: x}) for x in moved)
        out[i] = (high - low) / (2 * STEP)
    return out.reshape(base.shape)


def flows_away_from_ties(seed):
    """A scalar of the finish times in units near one, and its arguments."""
    rng = np.random.default_rng(seed)
    case = random_flows(seed, 8, 2, 3, 6)
    arguments = {}
    for name in NAMES:
        value = getattr(case, name)
        arguments[name] = value / UNITS[name] * rng.uniform(0.95, 1.05, value.shape)
    arguments["start"] += 0.1 * rng.random(8)
    arguments["size"] = np.maximum(arguments["size"], 0.5 + rng.random(8))
    factor = rng.random(8)

    def score(arguments, routes=case.routes):
        numbers = {name: value * UNITS[name] for name, value in arguments.items()}
        finish = fluid_finish_times(
            routes,
            numbers["capacity"],
            numbers["size"],
            numbers["start"],
            numbers["latency"],
            numbers["weights"],
        )
        return 1e3 * jnp.sum(factor * finish)

    return jax.jit(score), arguments, case.routes


@pytest.mark.parametrize("seed", [1, 2])
def test_flows_in_both_modes_against_differences(seed):
    score, arguments, routes = flows_away_from_ties(seed)
    reverse = jax.jit(jax.grad(score))(arguments)
    forward = jax.jit(jax.jacfwd(score))(arguments)
    traced = jax.jit(jax.grad(score))(arguments, jnp.asarray(routes))
    for name in NAMES:
        expected = differences(score, arguments, name)
        used = arguments["weights"] > 0 if name == "weights" else slice(None)
        error = CLOSE * max(np.abs(expected).max(), 1.0)
        for found in (reverse, forward, traced):
            np.testing.assert_allclose(found[name][used], expected[used], rtol=0, atol=error)


@pytest.mark.parametrize("seed", [2, 7])
def test_schedules_in_both_modes_against_differences(seed):
    rng = np.random.default_rng(seed)
    schedule = random_sends(seed, lanes=3, steps=4, gates=4, links=5)
    base = schedule.sends()
    units = {
        "size_bytes": 1e6,
        "extra_latency_s": 1e-3,
        "delay_s": 1e-3,
        "lane_start_s": 1e-3,
    }
    arguments = {
        name: np.asarray(getattr(base, name)) / unit + 0.1 * rng.random(getattr(base, name).shape)
        for name, unit in units.items()
    }
    arguments["capacity"] = schedule.capacity / 1e9 * rng.uniform(0.95, 1.05, 5)
    arguments["latency"] = schedule.latency / 1e-3 + 0.1 * rng.random(5)
    factor = rng.random((2, base.size_bytes.size))

    @jax.jit
    def score(arguments):
        fields = {name: arguments[name] * unit for name, unit in units.items()}
        sends = replace(base, **fields)
        times = emulate_sends(sends, arguments["capacity"] * 1e9, arguments["latency"] * 1e-3)
        return 1e3 * jnp.sum(factor[0] * times.left_s + factor[1] * times.delivered_s)

    reverse = jax.jit(jax.grad(score))(arguments)
    forward = jax.jit(jax.jacfwd(score))(arguments)
    for name in arguments:
        expected = differences(score, arguments, name)
        error = CLOSE * max(np.abs(expected).max(), 1.0)
        for found in (reverse, forward):
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=error)


def test_batches_equal_loops():
    """Also of gradients, and gradients of batches."""
    score, arguments, _ = flows_away_from_ties(3)
    factors = np.random.default_rng(0).uniform(0.5, 1.5, (5, arguments["capacity"].size))
    capacities = jnp.asarray(factors * arguments["capacity"])

    def of_capacity(capacity):
        return score({**arguments, "capacity": capacity})

    one = jax.jit(jax.value_and_grad(of_capacity))
    loop = [one(capacity) for capacity in capacities]
    batch = jax.jit(jax.vmap(jax.value_and_grad(of_capacity)))(capacities)
    np.testing.assert_allclose(batch[0], [value for value, _ in loop], rtol=1e-12)
    np.testing.assert_allclose(batch[1], np.stack([grad for _, grad in loop]), rtol=1e-9, atol=1e-9)
    total = jax.jit(jax.grad(lambda c: jnp.sum(jax.vmap(of_capacity)(c))))(capacities)
    np.testing.assert_allclose(total, batch[1], rtol=1e-9, atol=1e-9)


def test_equal_groups_have_derivatives_of_their_own():
    """What ends at the same time elsewhere is not felt: each flow follows its own link."""
    routes = np.array([[0], [1], [1], [2], [2]])

    def finish(capacity):
        return fluid_finish_times(routes, capacity, jnp.array([1.0, 1.0, 1.0, 1.0, 1.0]))

    jacobian = jax.jit(jax.jacrev(finish))(jnp.array([0.5, 1.0, 1.0]))
    expected = np.zeros((5, 3))
    expected[0, 0], expected[1:3, 1], expected[3:, 2] = -4.0, -2.0, -2.0
    np.testing.assert_allclose(jacobian, expected, atol=1e-12)


def test_there_is_no_second_derivative():
    def total(capacity):
        return jnp.sum(fluid_finish_times([[0], [0]], capacity, [1.0, 2.0]))

    with pytest.raises(NotImplementedError, match="first derivatives only"):
        jax.hessian(total)(jnp.array([1.0]))


def test_new_numbers_take_no_new_trace():
    traces = 0

    @jax.jit
    def run(*arguments):
        nonlocal traces
        traces += 1
        return simulate_flows(*arguments).finish_s

    for seed in range(3):
        run(*random_flows(seed, 8, 2, 3, 6).arguments)
    assert traces == 1


def test_single_precision_is_close():
    """Away from ties, which rounding may settle either way; an event rounds the clock by 6e-8."""
    _, arguments, routes = flows_away_from_ties(5)
    numbers = [jnp.asarray(arguments[name], jnp.float32) for name in NAMES]
    rough = simulate_flows(routes, *numbers)
    exact = simulate_flows(routes, *(np.asarray(x, float) for x in numbers))
    assert rough.finish_s.dtype == rough.link_bytes.dtype == jnp.float32
    np.testing.assert_allclose(rough.finish_s, exact.finish_s, rtol=1e-5)
