"""Max-min fair flows and schedules: exact fractions, reference cases, odd input, refusals."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fluids import random_flows, random_sends

import mrcjax
from mrcjax.engine import emulate_sends, fluid_finish_times, lay_out_sends, simulate_flows

CASES = Path(__file__).parents[2] / "shared" / "cases"
EXACT = 1e-9

jitted = jax.jit(simulate_flows)
jitted_sends = jax.jit(emulate_sends)


def padded(array, *shape, fill=0.0):
    """An array in the corner of a larger one, so that cases of many shapes share one program."""
    array = np.asarray(array)
    out = np.full(shape, fill, array.dtype)
    out[tuple(slice(n) for n in array.shape)] = array
    return out


def finish_of(routes, capacity, size, start, latency, shape):
    """Finish times by one program per `shape` (flows, hops, links)."""
    flows, hops, links = shape
    table = np.full((flows, hops), -1)
    for i, route in enumerate(routes):
        table[i, : len(route)] = route
    finish = jitted(
        table,
        padded(np.array(capacity, float), links),
        padded(np.array(size, float), flows),
        padded(np.array(start, float), flows),
        latency,
    ).finish_s
    return np.asarray(finish)[: len(routes)]


# ---- reference cases


def test_max_min_cases():
    path = CASES / "maxmin-cases-open.json"
    if not path.exists():
        pytest.skip("no reference cases here")
    for case in json.loads(path.read_text())["cases"]:
        flows = case["flows"]
        finish = finish_of(
            [flow["route"] for flow in flows],
            [link["capacity_Bps"] for link in case["links"]],
            [flow["bytes"] for flow in flows],
            [flow["start_s"] for flow in flows],
            0.0,
            (64, 8, 32),
        )
        exact = case["result"]["finish_exact_s"]
        np.testing.assert_allclose(finish, exact, rtol=EXACT, err_msg=case["id"])


def test_topology_cases():
    paths = sorted((CASES / "simgrid").glob("*.json"))
    if not paths:
        pytest.skip("no reference cases here")
    for path in paths:
        case = json.loads(path.read_text())
        flows = case["flows"]
        finish = finish_of(
            [flow["route"] for flow in flows],
            np.full(len(case["link_names"]), case["link_bandwidth_Bps"]),
            [flow["bytes"] for flow in flows],
            [flow["start_s"] for flow in flows],
            case["link_latency_s"],
            (400, 8, 700),
        )
        exact = [flow["finish_s"] for flow in flows]
        np.testing.assert_allclose(finish, exact, rtol=EXACT, err_msg=path.name)


# ---- against the twin


@pytest.mark.parametrize("shape", [(12, 1, 4, 6), (7, 3, 3, 8), (20, 2, 2, 5)])
def test_random_flows_equal_exact_fractions(shape):
    for seed in range(70):
        case = random_flows(seed, *shape)
        exact = case.exact()
        times = jitted(*case.arguments)
        np.testing.assert_allclose(times.finish_s, exact, rtol=EXACT, atol=1e-15)
        if seed < 2:  # routes that are known beforehand are laid out otherwise
            known = fluid_finish_times(*case.arguments)
            np.testing.assert_allclose(known, exact, rtol=EXACT, atol=1e-15)


def times_of(schedule, **options):
    numbers = jnp.asarray(schedule.capacity), jnp.asarray(schedule.latency)
    return jitted_sends(schedule.sends(), *numbers, **options)


def test_random_schedules_equal_exact_fractions():
    for seed in range(70):
        schedule = random_sends(seed, lanes=4, steps=5, gates=5, links=6)
        left, delivered = schedule.exact()
        times = times_of(schedule)
        np.testing.assert_allclose(times.delivered_s, delivered, rtol=EXACT)
        np.testing.assert_allclose(times.left_s, left, rtol=EXACT, atol=1e-15)


def test_sends_laid_out_beforehand_take_the_same_times():
    schedule = random_sends(3, lanes=4, steps=5, gates=5, links=6)
    sends, expected = schedule.sends(), times_of(schedule)
    numbers = jnp.asarray(schedule.capacity), jnp.asarray(schedule.latency)
    layout = lay_out_sends(sends, schedule.capacity.size)
    for times in (
        emulate_sends(sends, *numbers),
        jax.jit(emulate_sends)(sends, *numbers, layout=layout),
    ):
        np.testing.assert_allclose(times.delivered_s, expected.delivered_s, rtol=EXACT)
        np.testing.assert_allclose(times.link_bytes, expected.link_bytes, rtol=EXACT)


# ---- by hand


def test_one_flow_takes_its_bytes_over_its_rate():
    finish = fluid_finish_times([[0, 1]], [2e9, 1e9], [3e9], 1.0, [0.25, 0.5])
    np.testing.assert_allclose(finish, [1 + 0.75 + 3], rtol=EXACT)
    assert np.asarray(finish).dtype == np.float64


def test_three_flows_on_a_line():
    """The textbook case: a long flow over both links, a short one on each."""
    routes = [[0, 1], [0, -1], [1, -1]]
    times = simulate_flows(routes, [1.0, 2.0], [1.0, 1.0, 3.0])
    # rates 1/2, 1/2, 3/2: all end at 2
    np.testing.assert_allclose(times.finish_s, [2, 2, 2], rtol=EXACT)
    np.testing.assert_allclose(times.link_bytes, [2, 4], rtol=EXACT)
    assert int(times.events) == 2
    assert int(times.passes) == 2


def test_odd_flows():
    routes = [[-1, -1], [0, -1], [0, 0], [1, -1], [1, -1], [2, -1]]
    capacity = [1.0, 0.0, 1.0]
    finish = fluid_finish_times(routes, capacity, [5, 0, 1, 1, 0, 2], 1.0, 0.5)
    # no link; no bytes; one link twice; a link that is down; the same without bytes; one alone
    np.testing.assert_allclose(finish, [1, 1.5, 4, np.inf, 1.5, 3.5], rtol=EXACT)


def test_no_flows_and_no_hops():
    assert fluid_finish_times(np.zeros((0, 2), int), [1.0], []).shape == (0,)
    np.testing.assert_array_equal(fluid_finish_times(np.zeros((2, 0), int), [1.0], [1, 2]), [0, 0])


def test_default_weights_leave_out_paths_without_links():
    routes = [[[0, -1], [1, -1], [-1, -1]], [[2, -1], [-1, -1], [-1, -1]]]
    finish = fluid_finish_times(routes, [1.0, 1.0, 1.0], [2.0, 2.0])
    np.testing.assert_allclose(finish, [1, 2], rtol=EXACT)


def test_a_flow_waits_for_its_longest_path_that_it_uses():
    routes = [[[0, -1], [1, 2]]]
    latency = [0.1, 0.2, 0.4]
    for weights, expected in (([[0.5, 0.5]], 1.6), ([[1.0, 0.0]], 2.1)):
        finish = fluid_finish_times(routes, [1.0, 1.0, 1.0], [2.0], None, latency, weights)
        np.testing.assert_allclose(finish, [expected], rtol=EXACT)


def test_latency_of_flows():
    finish = fluid_finish_times([[0], [1]], [1.0, 1.0, 1.0], [1.0, 1.0], None, [0.5, 0.25])
    np.testing.assert_allclose(finish, [1.5, 1.25], rtol=EXACT)


@pytest.mark.parametrize("peers", [1, 5])
def test_direct_pays_the_latency_once(peers):
    """A lane to several peers: its drains without a gap, and one latency."""
    sends = chain(np.stack([np.zeros(peers), 1 + np.arange(peers)], 1), np.full(peers, 2.0))
    capacity, latency = jnp.ones(1 + peers), jnp.full(1 + peers, 0.25)
    times = emulate_sends(sends, capacity, latency)
    np.testing.assert_allclose(times.delivered_s, 0.5 + 2.0 * (1 + np.arange(peers)), rtol=EXACT)
    np.testing.assert_allclose(times.left_s, 2.0 * (1 + np.arange(peers)), rtol=EXACT)


def chain(routes, size, **changes):
    """Sends of one lane one after the other, with no gates."""
    sends = len(size)
    none = np.zeros((sends, 0), np.int32)
    fields = {
        "routes": np.asarray(routes, np.int32)[:, None, :],
        "weights": np.ones((sends, 1)),
        "size_bytes": np.asarray(size),
        "extra_latency_s": np.zeros(sends),
        "lanes": np.arange(sends, dtype=np.int32)[None],
        "waits": np.full(sends, -1, np.int32),
        "delay_s": np.zeros(sends),
        "feeds": none,
        "feeds_delivered": none.astype(bool),
        "gate_needs": np.zeros(0, np.int32),
        "lane_start_s": np.zeros(1),
    }
    return mrcjax.engine.Sends(**jax.tree.map(jnp.asarray, fields | changes))


def test_a_ring_takes_its_closed_form():
    """Every rank sends n - 1 times what it has just received: (n - 1) (S / b + a)."""
    ranks, steps = 4, 3
    number = np.arange(ranks * steps).reshape(steps, ranks)
    gate = number[:-1].ravel()
    waits = np.full(ranks * steps, -1, np.int32)
    waits[number[1:]] = np.roll(number[:-1], 1, axis=1)
    feeds = np.full((ranks * steps, 1), -1, np.int32)
    feeds[gate, 0] = gate
    rank = np.tile(np.arange(ranks), steps)
    sends = chain(
        np.stack([rank, ranks + (rank + 1) % ranks], 1),
        np.full(ranks * steps, 2.0),
        lanes=number.T.astype(np.int32),
        waits=waits,
        feeds=feeds,
        feeds_delivered=np.ones((1, 1), bool),
        gate_needs=np.ones(gate.size, np.int32),
        lane_start_s=np.zeros(ranks),
    )
    times = emulate_sends(sends, jnp.ones(2 * ranks), jnp.asarray(0.25))
    np.testing.assert_allclose(np.max(times.delivered_s), steps * (2.0 + 0.5), rtol=EXACT)
    assert int(times.events) <= 2 * steps
    assert int(times.passes) <= steps, "links of one lane need one pass"


def test_a_wait_in_a_circle_ends_at_infinity():
    waits, feeds = np.array([1, 0, -1], np.int32), np.array([[0], [1], [-1]], np.int32)
    sends = chain(
        [[0], [0], [0]],
        [1.0, 1.0, 1.0],
        lanes=np.array([[0], [1], [2]], np.int32),
        waits=waits,
        feeds=feeds,
        feeds_delivered=np.ones((3, 1), bool),
        gate_needs=np.ones(2, np.int32),
        lane_start_s=np.zeros(3),
    )
    times = emulate_sends(sends, jnp.ones(1), jnp.asarray(0.0))
    np.testing.assert_array_equal(times.delivered_s, [np.inf, np.inf, 1.0])
    np.testing.assert_array_equal(times.link_bytes, [1.0])


# ---- what is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"routes": [[0.5], [1.0]]}, "routes must be integers"),
        ({"routes": [[0], [2]]}, r"routes must lie in -1..1 .*got 2"),
        ({"routes": [[0], [-2]]}, r"routes must lie in -1..1 .*got -2"),
        ({"routes": [[0], [1, 0]]}, "one length; fill shorter ones up with -1"),
        ({"routes": [[0]]}, "routes must have one row for each of 2 sizes"),
        ({"routes": [0, 1]}, r"routes must be \(flows, hops\)"),
        ({"capacity_bytes_per_s": [1.0, -1.0]}, r"capacity_bytes_per_s\[1\] must .*not negative"),
        ({"capacity_bytes_per_s": [1.0, np.inf]}, "must be finite"),
        ({"capacity_bytes_per_s": 1.0}, "capacity_bytes_per_s must be one-dimensional"),
        ({"size_bytes": [1.0, np.nan]}, r"size_bytes\[1\] must be finite"),
        ({"size_bytes": ["a", "b"]}, "size_bytes must be numbers"),
        ({"start_s": [0.0, 0.0, 0.0]}, "start_s must have shape"),
        ({"latency_s": [-1.0, 0.0]}, r"latency_s\[0\]"),
        ({"weights": [0.5, 0.5]}, "weights must have shape"),
        ({"weights": [[-0.5], [0.5]]}, r"weights\[0\]\[0\]"),
        ({"quantum_s": -1.0}, "quantum_s"),
    ],
)
def test_refusals(change, words):
    given = {"routes": [[0], [1]], "capacity_bytes_per_s": [1.0, 1.0], "size_bytes": [1.0, 1.0]}
    with pytest.raises(ValueError, match=words):
        fluid_finish_times(**given | change)


# ---- merged events


def test_merging_takes_fewer_events_and_errs_within_its_bound():
    fewer = 0
    for seed in range(20):
        case = random_flows(seed, 20, 2, 2, 5)
        exact, merged = jitted(*case.arguments), jitted(*case.arguments, quantum_s=2e-3)
        error = np.abs(merged.finish_s - exact.finish_s).max()
        assert error <= float(merged.merge_error_s) + 1e-12
        assert float(exact.merge_error_s) == 0
        assert float(merged.merge_error_s) > 0 or error < 1e-12
        fewer += int(merged.events) < int(exact.events)
        schedule = random_sends(seed, lanes=4, steps=5, gates=5, links=6)
        exact, merged = times_of(schedule), times_of(schedule, quantum_s=2e-3)
        error = np.abs(merged.delivered_s - exact.delivered_s).max()
        assert error <= float(merged.merge_error_s) + 1e-12
        fewer += int(merged.events) < int(exact.events)
    assert fewer == 40


def test_merging_moves_ends_of_equal_flows_together():
    """Two pairs, the second 2 ms behind: with a quantum of that they change rates together."""
    routes = [[0], [0], [1], [1]]
    arguments = routes, [1.0, 1.0], [1.0, 2.0, 1.001, 2.0]
    exact = simulate_flows(*arguments)
    merged = simulate_flows(*arguments, quantum_s=2.5e-3)
    assert (int(exact.events), int(merged.events)) == (5, 3)
    np.testing.assert_allclose(merged.finish_s, [2.0, 3.001, 2.002, 3.001], rtol=EXACT)
