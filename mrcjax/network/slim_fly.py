"""Slim Fly: McKay-Miller-Siran graphs (Besta, Hoefler, SC 2014, section II.B; Hafner, 2004)."""

import numpy as np

from mrcjax.network import switch_sizes
from mrcjax.network.galois import field
from mrcjax.network.links import Wiring
from mrcjax.network.switch_graph import build_graph
from mrcjax.network.switch_sizes import SwitchSizes
from mrcjax.spec import SlimFly


def build(spec: SlimFly) -> Wiring:
    """Wire a Slim Fly."""
    size = slim_fly_sizes(spec)
    switch_sizes.check_slim_fly_exists("network", spec.q)
    return build_graph(spec, size, lambda: mms_graph(spec.q))


def slim_fly_sizes(spec: SlimFly) -> SwitchSizes:
    """Switches and cables of a Slim Fly."""
    return switch_sizes.slim_fly(
        where="network", q=spec.q, hosts=spec.hosts_per_switch, ranks=spec.ranks
    )


def mms_graph(q: int) -> np.ndarray:
    """Cables between the switches, (2 q^2, 2 q^2) int, for a prime power q = 4 w + d.

    Switch (half, x, y) has number (half * q + x) * q + y. Within column x of half 0 the switches
    whose y differ by an element of one set are joined, within those of half 1 by an element of
    another; (0, x, y) and (1, m, c) where y = m x + c over GF(q).
    """
    gf = field(q)
    element = np.arange(q)
    graph = np.zeros((2, q, q, 2, q, q), np.int64)
    for half, generators in enumerate(_generators(q, gf.powers)):
        for g in generators:
            graph[half, :, element, half, :, gf.plus[element, g]] = np.eye(q)
    x, m, c = np.meshgrid(element, element, element, indexing="ij")
    y = gf.plus[gf.times[m, x], c]
    graph[0, x, y, 1, m, c] = graph[1, m, c, 0, x, y] = 1
    return graph.reshape(2 * q * q, 2 * q * q)


def _generators(q: int, powers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sets of differences that join the switches of a column, by the remainder of q by 4."""
    if q % 4 == 3:
        w = (q + 1) // 4
        even = [*range(0, 2 * w - 1, 2), *range(2 * w - 1, 4 * w - 2, 2)]
        odd = [*range(1, 2 * w, 2), *range(2 * w, 4 * w - 1, 2)]
        return powers[even], powers[np.asarray(odd) % (q - 1)]
    exponents = np.arange(0, q - 1, 2)
    return powers[exponents], powers[(exponents + 1) % (q - 1)]
