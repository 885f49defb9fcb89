"""Derivatives of the completion time: forward and reverse mode against finite differences.

Time is made of max, sums and quotients, so away from ties it is smooth; links, starts and sizes
are random here, and no two chunks tie. At a tie (every symmetric network) the derivative is that
of one winner: finite, and still the whole change along the common scale of all capacities.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import all_reduce, case_of, flat, times_of, with_random_numbers, with_table

from mrcjax.engine import Params, emulate

# Central differences with a step of 1e-4 of a value err by the third derivative, about 1e-8.
STEP = 1e-4
CLOSE = 1e-6

NODE = {"node_size": 4, "node_rate": "200 GB/s"}
TREE = {"kind": "fat_tree", "ranks": 12, "radix": 8, "link_rate": "50 GB/s"}
SCATTER = {"kind": "reduce_scatter", "algorithm": "direct", "size": "100 MB"}
ENDS = {"reduction_rate": "40 GB/s", "endpoint_latency": "3 us"}

CASES = {
    "direct": (flat(6, 2), all_reduce("direct")),
    "ring": (flat(6, 2, **ENDS), all_reduce("ring")),
    "channels share a port": (flat(6, 1, channels=2), SCATTER),
    "elements": (flat(7, 2), {**SCATTER, "size": "100 kB", "element_bytes": 4}),
    "hierarchical": (flat(8, 2, **NODE, **ENDS), all_reduce("hierarchical")),
    "tree ecmp": ({**TREE, "load_balancing": "ecmp"}, SCATTER),
    "tree spray": ({**TREE, "load_balancing": "spray", "paths": 5}, SCATTER),
    "tree trunks": (TREE, SCATTER),
    "nodes direct": (flat(8, 2, **NODE), SCATTER),
    "wired": ({"kind": "flat_rails", "ranks": 6, "rail_rate": "50 GB/s", "reach": [2, 3]}, SCATTER),
    "torus rings": (
        {"kind": "torus", "dims": [2, 3], "link_rate": "50 GB/s"},
        all_reduce("rings"),
    ),
    "torus direct": ({"kind": "torus", "dims": [2, 3], "link_rate": "50 GB/s"}, SCATTER),
    "table": (flat(6, 2), SCATTER),
}
SLOW = ("wired", "torus direct", "nodes direct", "channels share a port", "tree trunks", "elements")
SLOW_SYMMETRIC = [pytest.param(n, marks=pytest.mark.slow) for n in ("hierarchical", "tree spray")]
ALL = [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES]


def case_and_numbers(name, seed=None):
    case = case_of(*CASES[name])
    params = case.params
    if name == "table":
        rng = np.random.default_rng(7)
        shape = (4, 6, 2)
        peer = (np.arange(6)[:, None] + rng.integers(1, 6, shape)) % 6
        case, params = with_table(case, peer, rng.uniform(1e6, 1e7, shape), np.full(shape, 2))
    return case, params if seed is None else with_random_numbers(case, seed, params)


def as_vector(params: Params):
    """Give the numbers as factors around 1, and the way back."""
    leaves, tree = jax.tree.flatten(params)
    ends = np.cumsum([leaf.size for leaf in leaves])

    def back(factors: jax.Array) -> Params:
        parts = jnp.split(factors, ends[:-1])
        scaled = [leaf * f.reshape(leaf.shape) for leaf, f in zip(leaves, parts, strict=True)]
        return jax.tree.unflatten(tree, scaled)

    return jnp.ones(ends[-1]), back


def time_of(case, back):
    def time(factors):
        params = back(factors)
        return emulate(params, case.network, case.schedule, config=case.config).time_s

    return time


@pytest.mark.parametrize("name", ALL)
def test_forward_reverse_and_differences_agree(name):
    """Along three random directions of all numbers at once, and link by link for the two modes."""
    case, params = case_and_numbers(name, seed=1)
    ones, back = as_vector(params)
    time = time_of(case, back)
    reverse = jax.jit(jax.grad(time))(ones)
    assert np.isfinite(reverse).all()
    assert np.abs(reverse).max() > 0

    directions = np.random.default_rng(2).normal(size=(3, ones.size))
    directions = jnp.asarray(directions)
    # One program gives time and derivative: the differences need no compilation of their own.
    both = jax.jit(lambda at, along: jax.jvp(time, (at,), (along,)))
    for along in directions:
        value, forward = both(ones, along)
        assert forward == pytest.approx(float(reverse @ along), rel=1e-9, abs=1e-12 * float(value))
        after, before = (both(ones + sign * STEP * along, along)[0] for sign in (1, -1))
        difference = (after - before) / (2 * STEP)
        assert forward == pytest.approx(float(difference), rel=CLOSE, abs=CLOSE * float(value))


@pytest.mark.parametrize("name", ["direct", "ring", "tree trunks", *SLOW_SYMMETRIC])
def test_symmetric_networks_have_finite_derivatives(name):
    """All ties: scaling every rate and size by one factor changes time by what Euler says."""
    case, params = case_and_numbers(name)
    gradient = jax.jit(
        jax.grad(lambda p: emulate(p, case.network, case.schedule, config=case.config).time_s)
    )(params)
    leaves = jax.tree.leaves(gradient)
    assert all(np.isfinite(leaf).all() for leaf in leaves)
    # Time is homogeneous: doubling latencies, starts and sizes doubles it.
    sized = replace(params, capacity_bytes_per_s=params.capacity_bytes_per_s * 0)
    scaled = [float(jnp.vdot(g, v)) for g, v in zip(leaves, jax.tree.leaves(sized), strict=True)]
    reducers = 0.0
    if params.reduction_bytes_per_s is not None:
        reducers = float(gradient.reduction_bytes_per_s * params.reduction_bytes_per_s)
    time = float(times_of(case, params).time_s)
    assert sum(scaled) - reducers == pytest.approx(time, rel=1e-9)


def test_jacobian_of_the_finish_of_every_rank():
    case, params = case_and_numbers("direct", seed=3)

    def finish(capacity):
        numbers = replace(params, capacity_bytes_per_s=capacity)
        return emulate(numbers, case.network, case.schedule, config=case.config).finish_s

    capacity = params.capacity_bytes_per_s
    forward, reverse = (jax.jit(mode(finish))(capacity) for mode in (jax.jacfwd, jax.jacrev))
    np.testing.assert_allclose(forward, reverse, rtol=1e-9, atol=1e-25)
    assert (np.asarray(forward) <= 0).all()


def test_a_slow_port_is_what_time_depends_on():
    """d T / d capacity = - 2 (n - 1) / n S / B^2 at the one slow egress port, and 0 elsewhere."""
    case = case_of(flat(8), all_reduce("ring"))
    capacity = case.params.capacity_bytes_per_s.at[3].set(10e9)

    def time(capacity):
        numbers = replace(case.params, capacity_bytes_per_s=capacity)
        return emulate(numbers, case.network, case.schedule, config=case.config).time_s

    gradient = np.asarray(jax.jit(jax.grad(time))(capacity))
    assert gradient[3] == pytest.approx(-2 * 7 / 8 * 100e6 / 10e9**2, rel=1e-9)
    assert np.count_nonzero(np.delete(gradient, 3)) <= 1  # the last hop of the last chunk


def test_reverse_mode_through_skipped_rounds():
    """Fast-forward has no part in a derivative: more rounds than it looks at, on and off."""
    case = case_of(flat(260), {**SCATTER, "algorithm": "ring"})
    params = with_random_numbers(case, 5)

    def gradient(fast_forward):
        config = replace(case.config, fast_forward=fast_forward)

        def time(p):
            return emulate(p, case.network, case.schedule, config=config).time_s

        return jax.tree.leaves(jax.jit(jax.grad(time))(params))

    for on, off in zip(gradient(True), gradient(False), strict=True):
        np.testing.assert_array_equal(on, off)
