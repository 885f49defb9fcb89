"""Random flows, once as arrays for the engine and once as exact fractions for its twin."""

from dataclasses import dataclass
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
from oracle.maxmin import Flow, emulate, finish_times

from mrcjax.engine.fluid import Sends


@dataclass
class Flows:
    """Arguments of `fluid_finish_times`, of fixed shapes so that one program serves all."""

    routes: np.ndarray
    capacity: np.ndarray
    size: np.ndarray
    start: np.ndarray
    latency: np.ndarray
    weights: np.ndarray

    @property
    def arguments(self):
        return self.routes, self.capacity, self.size, self.start, self.latency, self.weights

    def exact(self) -> np.ndarray:
        """What the twin says."""
        flows = [
            Flow(paths(rows, weights), Fraction(size))
            for rows, weights, size in zip(self.routes, self.weights, self.size, strict=True)
        ]
        numbers = (fractions(x) for x in (self.start, self.capacity, self.latency))
        return np.array([float(t) for t in finish_times(flows, *numbers)])


def fractions(x) -> list[Fraction]:
    return [Fraction(float(v)) for v in x]


def paths(rows, weights):
    """(weight, links) of every path that has a link."""
    return [
        (Fraction(float(w)), [int(k) for k in row if k >= 0])
        for row, w in zip(rows, weights, strict=True)
        if (row >= 0).any()
    ]


def random_flows(seed: int, flows: int, most_paths: int, hops: int, links: int) -> Flows:
    """Flows at random: half of the numbers coarse, so that ties happen, half of them fine."""
    rng = np.random.default_rng(seed)
    routes = np.full((flows, most_paths, hops), -1)
    weights = np.zeros((flows, most_paths))
    for i in range(flows):
        count = rng.integers(1, most_paths + 1)
        for p in range(count):
            length = rng.integers(1, hops + 1)
            routes[i, p, :length] = rng.choice(links, length, replace=rng.random() < 0.2)
        weights[i, :count] = rng.integers(1, 4, count) / 4
    fine = rng.random() < 0.5

    def numbers(low, high, count):
        return rng.uniform(low, high, count) if fine else rng.integers(low, high + 1, count) / 1.0

    return Flows(
        routes=routes,
        capacity=1e9 * numbers(1, 4, links),
        size=1e6 * numbers(1, 5, flows) * (rng.random(flows) > 0.1),
        start=1e-3 * numbers(0, 6, flows) * (rng.random() < 0.8),
        latency=1e-4 * numbers(0, 3, links),
        weights=weights,
    )


def random_sends(seed: int, lanes: int, steps: int, gates: int, links: int):
    """A random schedule without cycles, as arrays and as what its twin takes.

    Sends are numbered in an order in which all can run: a send waits only for a gate that is fed by
    sends of lower number in it.
    """
    rng = np.random.default_rng(seed)
    sends, paths_, hops, feeds = lanes * steps - 2, 2, 2, 2
    lane_of = np.concatenate([np.tile(np.arange(lanes), steps)[:sends]])
    rows = np.full((lanes, steps), -1)
    for lane in range(lanes):
        mine = np.flatnonzero(lane_of == lane)
        rows[lane, : mine.size] = mine
    routes = np.full((sends, paths_, hops), -1)
    weights = np.zeros((sends, paths_))
    for i in range(sends):
        for p in range(rng.integers(1, paths_ + 1)):
            routes[i, p, : rng.integers(0, hops + 1)] = rng.integers(links)
            weights[i, p] = rng.integers(1, 3) / 2
    # gate g is fed from the first half before its mark and waited for after it
    mark = np.sort(rng.integers(1, sends, gates))
    fed = np.full((sends, feeds), -1)
    for i in range(sends):
        for f in range(feeds):
            later = np.flatnonzero(mark > i)
            if later.size and rng.random() < 0.6:
                fed[i, f] = rng.choice(later)
    waits = np.full(sends, -1)
    for i in range(sends):
        before = np.flatnonzero(mark <= i)
        if before.size and rng.random() < 0.6:
            waits[i] = rng.choice(before)
    needs = np.array([(fed == g).sum() for g in range(gates)])
    fine = rng.random() < 0.5

    def numbers(low, high, count):
        return rng.uniform(low, high, count) if fine else rng.integers(low, high + 1, count) / 1.0

    return Schedule(
        routes=routes,
        weights=weights,
        size=1e6 * numbers(1, 5, sends) * (rng.random(sends) > 0.1),
        extra=1e-4 * numbers(0, 2, sends),
        lanes=rows,
        waits=waits,
        delay=1e-4 * numbers(0, 2, sends),
        feeds=fed,
        delivered=rng.random((sends, feeds)) < 0.5,
        needs=needs,
        start=1e-3 * numbers(0, 3, lanes),
        capacity=1e9 * numbers(1, 4, links),
        latency=1e-4 * numbers(0, 3, links),
    )


@dataclass
class Schedule:
    """A schedule in NumPy."""

    routes: np.ndarray
    weights: np.ndarray
    size: np.ndarray
    extra: np.ndarray
    lanes: np.ndarray
    waits: np.ndarray
    delay: np.ndarray
    feeds: np.ndarray
    delivered: np.ndarray
    needs: np.ndarray
    start: np.ndarray
    capacity: np.ndarray
    latency: np.ndarray

    def sends(self) -> Sends:
        """As the engine takes it."""

        def ints(x):
            return jnp.asarray(x, jnp.int32)

        return Sends(
            routes=ints(self.routes),
            weights=jnp.asarray(self.weights),
            size_bytes=jnp.asarray(self.size),
            extra_latency_s=jnp.asarray(self.extra),
            lanes=ints(self.lanes),
            waits=ints(self.waits),
            delay_s=jnp.asarray(self.delay),
            feeds=ints(self.feeds),
            feeds_delivered=jnp.asarray(self.delivered),
            gate_needs=ints(self.needs),
            lane_start_s=jnp.asarray(self.start),
        )

    def exact(self) -> tuple[np.ndarray, np.ndarray]:
        """Left and delivered as the twin says."""
        flows = [
            Flow(
                paths(self.routes[i], self.weights[i]),
                Fraction(float(self.size[i])),
                Fraction(float(self.extra[i])),
                int(self.waits[i]),
                Fraction(float(self.delay[i])),
                [
                    (int(g), bool(d))
                    for g, d in zip(self.feeds[i], self.delivered[i], strict=True)
                    if g >= 0
                ],
            )
            for i in range(len(self.size))
        ]
        lanes = [[int(i) for i in row if i >= 0] for row in self.lanes]
        numbers = (fractions(x) for x in (self.start, self.capacity, self.latency))
        left, delivered = emulate(flows, lanes, *numbers, [int(n) for n in self.needs])
        return np.array(left, float), np.array(delivered, float)
