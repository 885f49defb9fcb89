"""The physical graph of a network, cable by cable, from the definition of its family.

A graph is {(one, other): cables} over hashable vertices, both directions listed; rank i is
("rank", i). Nothing is imported from mrcjax.
"""

import itertools
from collections import Counter

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow


def join(graph, one, other, cables=1):
    """Add cables between two vertices."""
    graph[one, other] += cables
    graph[other, one] += cables


def hosts(graph, ranks, per_switch, name):
    """Put ranks on switches 0, 1, ... in order."""
    for rank in range(ranks):
        join(graph, ("rank", rank), (name, rank // per_switch))


def two_tiers(ranks, down, up, spines, planes=1):
    """Every leaf has `up` cables, dealt to the spines in turn."""
    graph = Counter()
    for plane in range(planes):
        hosts(graph, ranks, down, ("leaf", plane))
        for leaf in range(-(-ranks // down)):
            for cable in range(up):
                join(graph, (("leaf", plane), leaf), ("spine", plane, cable % spines))
    return graph


def three_tiers(ranks, down, up, leaves_per_pod, pods, agg_up, cores):
    """A leaf has one cable to each of its pod's `up` switches, these `agg_up` to their cores."""
    graph = Counter()
    hosts(graph, ranks, down, "leaf")
    for leaf in range(-(-ranks // down)):
        for agg in range(up):
            join(graph, ("leaf", leaf), ("agg", leaf // leaves_per_pod, agg))
    for pod, agg, cable in itertools.product(range(pods), range(up), range(agg_up)):
        join(graph, ("agg", pod, agg), ("core", agg, cable % cores))
    return graph


def dragonfly(ranks, p, a, h, g):
    """One cable between any two groups (g = a h + 1), the o-th port to the o-th next group."""
    graph = Counter()
    hosts(graph, ranks, p, "router")
    for group in range(g):
        for one, other in itertools.combinations(range(a), 2):
            join(graph, ("router", group * a + one), ("router", group * a + other))
        for offset in range(1, g):
            far = (group + offset) % g
            if group < far:
                own, theirs = (offset - 1) // h, (g - offset - 1) // h
                join(graph, ("router", group * a + own), ("router", far * a + theirs))
    return graph


def grid(ranks, per_switch, dims, cables=1):
    """Switches that differ in one coordinate are joined; the first coordinate varies fastest."""
    graph = Counter()
    hosts(graph, ranks, per_switch, "switch")
    for (one, a), (other, b) in itertools.combinations(enumerate(np.ndindex(dims[::-1])), 2):
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1:
            join(graph, ("switch", one), ("switch", other), cables)
    return graph


def direct(dims):
    """The same with ranks in the place of switches."""
    graph = Counter()
    for (one, a), (other, b) in itertools.combinations(enumerate(np.ndindex(dims[::-1])), 2):
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1:
            join(graph, ("rank", one), ("rank", other))
    return graph


def of_matrix(ranks, per_switch, matrix):
    """Ranks on the switches of a matrix of cables."""
    graph = Counter()
    hosts(graph, ranks, per_switch, "switch")
    for one, other in itertools.combinations(range(len(matrix)), 2):
        if matrix[one, other]:
            join(graph, ("switch", one), ("switch", other), int(matrix[one, other]))
    return graph


def flow(graph, half):
    """Most cables' worth that the ranks of `half` can send to all others at once."""
    number = {v: i for i, v in enumerate({v for pair in graph for v in pair})}
    source, sink = len(number), len(number) + 1
    edges = {(number[a], number[b]): cables for (a, b), cables in graph.items()}
    for vertex, i in number.items():
        if vertex[0] == "rank":
            edges[(source, i) if vertex[1] in half else (i, sink)] = 10**6
    ends = np.array(list(edges)).T
    matrix = csr_array((np.array(list(edges.values()), np.int32), tuple(ends)), (sink + 1,) * 2)
    return int(maximum_flow(matrix, source, sink).flow_value)
