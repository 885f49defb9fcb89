"""One program for all numbers of a shape: traces, batches, and single precision."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from runs import all_reduce, case_of, flat, with_random_numbers

from mrcjax.engine import Config, emulate

NODE = {"node_size": 4, "node_rate": "200 GB/s"}
ECMP = {"kind": "fat_tree", "ranks": 12, "radix": 8, "link_rate": "50 GB/s"}
ECMP |= {"load_balancing": "ecmp"}
SCATTER = {"kind": "reduce_scatter", "algorithm": "direct", "size": "100 MB"}


class Counted:
    """`emulate`, jitted, with the number of times JAX had to trace it."""

    def __init__(self):
        self.traces = 0

        def traced(params, network, schedule, config):
            self.traces += 1
            return emulate(params, network, schedule, config=config)

        self.jitted = jax.jit(traced, static_argnames="config")

    def __call__(self, case, params=None, config=None):
        return self.jitted(
            params or case.params, case.network, case.schedule, config=config or case.config
        )


def late(rank, by):
    return f'late = [{{rank = {rank}, by = "{by}"}}]'


def test_new_numbers_take_no_new_trace():
    run = Counted()
    run(case_of(flat(7, 2), all_reduce("ring")))
    for network, size, fault in (
        (flat(7, 2), "1 GB", None),
        (flat(7, 2, "100 GB/s"), "100 MB", None),
        (flat(7, 2, ["10 GB/s", "100 GB/s"], ["1 us", "5 us"]), "100 MB", None),
        (flat(7, 2, endpoint_latency="4 us", goodput=0.9), "0 B", None),
        (flat(7, 2), "100 MB", late(3, "3 ms")),
        (flat(7, 2), "100 MB", 'links = [{match = "rank 5 *", rate = 0.5, add_latency = "1 us"}]'),
    ):
        run(case_of(network, all_reduce("ring", size), {}, fault))
    assert run.traces == 1


def test_a_rebuilt_equal_spec_and_a_new_seed_take_no_new_trace():
    run = Counted()
    used = {}
    for seed in (0, 1, 2, 1, 0):
        link_bytes = np.asarray(run(case_of({**ECMP, "seed": seed}, SCATTER)).link_bytes)
        np.testing.assert_array_equal(link_bytes, used.setdefault(seed, link_bytes))
    assert run.traces == 1
    assert (used[0] != used[1]).any(), "the seed must choose other paths"


def test_a_new_mode_takes_one_trace():
    run = Counted()
    case = case_of(flat(7, 2), all_reduce("ring"))
    run(case)
    for _ in range(2):
        run(case, config=Config(switching="store_and_forward"))
    assert run.traces == 2
    with_reducers = case_of(flat(7, 2, reduction_rate="1 TB/s"), all_reduce("ring"))
    run(with_reducers)
    assert run.traces == 3


def test_the_same_spec_gives_the_same_result():
    case = case_of(ECMP, SCATTER)
    again = case_of(ECMP, SCATTER)
    run = Counted()
    np.testing.assert_array_equal(run(case).finish_s, run(again).finish_s)


@pytest.mark.parametrize(
    ("network", "collective"),
    [
        (flat(6, 2), all_reduce("ring")),
        (ECMP, SCATTER),
        ({**ECMP, "load_balancing": "spray", "paths": 4}, SCATTER),
        (flat(8, 1, **NODE), SCATTER),
    ],
    ids=["ring", "ecmp", "spray", "nodes"],
)
def test_a_batch_of_capacities_equals_a_loop(network, collective):
    case = case_of(network, collective)
    params = with_random_numbers(case, 0)
    factors = np.random.default_rng(1).uniform(0.5, 1.5, (64, case.network.num_links))
    capacities = jnp.asarray(factors) * params.capacity_bytes_per_s

    def times(capacity):
        numbers = replace(params, capacity_bytes_per_s=capacity)
        return emulate(numbers, case.network, case.schedule, config=case.config)

    batch = jax.jit(jax.vmap(times))(capacities)
    one = jax.jit(times)
    for i, capacity in enumerate(capacities):
        np.testing.assert_allclose(batch.finish_s[i], one(capacity).finish_s, rtol=1e-12)
    np.testing.assert_array_equal(batch.link_bytes, np.tile(batch.link_bytes[:1], (64, 1)))


def test_a_batch_of_networks_of_equal_shape():
    """Index arrays are leaves: seeds of ECMP and late ranks batch like any number."""
    cases = [case_of({**ECMP, "seed": seed}, SCATTER) for seed in range(4)]
    networks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(c.network for c in cases))

    def time(network):
        first = cases[0]
        return emulate(first.params, network, first.schedule, config=first.config).time_s

    batch = jax.jit(jax.vmap(time))(networks)
    one = jax.jit(time)
    loop = [one(case.network) for case in cases]
    np.testing.assert_allclose(batch, loop, rtol=1e-12)


def test_a_batch_of_gradients():
    case = case_of(flat(6, 2), SCATTER)
    params = with_random_numbers(case, 0)

    def time(capacity):
        numbers = replace(params, capacity_bytes_per_s=capacity)
        return emulate(numbers, case.network, case.schedule, config=case.config).time_s

    capacities = params.capacity_bytes_per_s * jnp.asarray([[0.5], [1.0], [1.5]])
    batch = jax.jit(jax.vmap(jax.grad(time)))(capacities)
    one = jax.jit(jax.grad(time))
    loop = jnp.stack([one(capacity) for capacity in capacities])
    np.testing.assert_allclose(batch, loop, rtol=1e-12)


# ---- float32

# Each round rounds the clock once or twice by up to 6e-8 of it, mostly one way where all rounds add
# the same number: rounds x 6e-8 at worst, doubled for the few hops of a round. Numbers are random,
# as rounding settles ties between chunks that meet on a link either way.
SINGLE = 1.2e-7


@pytest.mark.parametrize(
    ("network", "collective"),
    [
        (flat(64, 2), all_reduce("ring")),
        (flat(64, 3), all_reduce("direct")),
        (flat(8, 2, **NODE, reduction_rate="1 TB/s"), all_reduce("hierarchical")),
        (ECMP, SCATTER),
    ],
    ids=["ring", "direct", "hierarchical", "ecmp"],
)
def test_single_precision_is_close(network, collective):
    double = case_of(network, collective)
    single = case_of(network, collective, {"precision": "float32"})
    rounds = sum(phase.rounds for phase in double.schedule.phases)
    run = Counted()
    params = with_random_numbers(double, 0)
    exact = run(double, params)
    rough = run(single, jax.tree.map(lambda leaf: leaf.astype(jnp.float32), params))
    assert rough.time_s.dtype == rough.finish_s.dtype == rough.link_bytes.dtype == jnp.float32
    np.testing.assert_allclose(rough.finish_s, exact.finish_s, rtol=SINGLE * rounds)
    np.testing.assert_allclose(rough.link_bytes, exact.link_bytes, rtol=SINGLE * rounds)
