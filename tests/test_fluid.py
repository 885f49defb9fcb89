"""Max-min fair flows: exact fractions, reference cases, gradients, odd input."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fluids import random_flows, random_sends

import mrcjax
from mrcjax.engine import emulate_sends, simulate_flows

CASES = Path(__file__).parents[2] / "shared" / "cases"
EXACT = 1e-9

jitted = jax.jit(simulate_flows)
jitted_sends = jax.jit(emulate_sends)


def padded(routes):
    hops = max(map(len, routes))
    return np.array([route + [-1] * (hops - len(route)) for route in routes])


# ---- reference cases


def test_max_min_cases():
    path = CASES / "maxmin-cases-open.json"
    if not path.exists():
        pytest.skip("no reference cases here")
    for case in json.loads(path.read_text())["cases"]:
        flows = case["flows"]
        finish = mrcjax.fluid_finish_times(
            padded([flow["route"] for flow in flows]),
            [link["capacity_Bps"] for link in case["links"]],
            [flow["bytes"] for flow in flows],
            [flow["start_s"] for flow in flows],
        )
        exact = case["result"]["finish_exact_s"]
        np.testing.assert_allclose(finish, exact, rtol=EXACT, err_msg=case["id"])


def simgrid_cases():
    return sorted((CASES / "simgrid").glob("*.json"))


def test_topology_cases():
    if not simgrid_cases():
        pytest.skip("no reference cases here")
    for path in simgrid_cases():
        case = json.loads(path.read_text())
        flows = case["flows"]
        finish = mrcjax.fluid_finish_times(
            padded([flow["route"] for flow in flows]),
            np.full(len(case["link_names"]), case["link_bandwidth_Bps"]),
            [flow["bytes"] for flow in flows],
            [flow["start_s"] for flow in flows],
            case["link_latency_s"],
        )
        exact = [flow["finish_s"] for flow in flows]
        np.testing.assert_allclose(finish, exact, rtol=EXACT, err_msg=path.name)


# ---- against the twin


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (12, 1, 4, 6), (7, 3, 3, 8), (20, 2, 2, 5)])
def test_random_flows_equal_exact_fractions(shape):
    for seed in range(50):
        case = random_flows(seed, *shape)
        exact = case.exact()
        times = jitted(*case.arguments)
        np.testing.assert_allclose(times.finish_s, exact, rtol=EXACT, atol=1e-15)
        assert int(times.events) <= 2 * shape[0]
        if seed < 3:  # routes that are known beforehand are laid out otherwise
            np.testing.assert_allclose(
                simulate_flows(*case.arguments).finish_s, exact, rtol=EXACT, atol=1e-15
            )


def times_of(schedule):
    numbers = jnp.asarray(schedule.capacity), jnp.asarray(schedule.latency)
    return jitted_sends(schedule.sends(), *numbers)


def test_random_schedules_equal_exact_fractions():
    for seed in range(50):
        schedule = random_sends(seed, lanes=4, steps=5, gates=5, links=6)
        left, delivered = schedule.exact()
        times = times_of(schedule)
        np.testing.assert_allclose(times.delivered_s, delivered, rtol=EXACT)
        np.testing.assert_allclose(times.left_s, left, rtol=EXACT, atol=1e-15)
