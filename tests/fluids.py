"""Random flows, once as arrays for the engine and once as exact fractions for its twin."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from oracle.maxmin import Flow, finish_times


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
