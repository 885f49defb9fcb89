"""Jellyfish: a random regular graph of switches (Singla et al., NSDI 2012)."""

import numpy as np

from mrcjax.network import switch_sizes
from mrcjax.network.links import Wiring
from mrcjax.network.switch_graph import build_graph
from mrcjax.network.switch_sizes import SwitchSizes
from mrcjax.spec import Jellyfish, SpecError

ATTEMPTS = 100  # a graph of degree 2 is seldom in one piece, one of degree 3 nearly always


def build(spec: Jellyfish) -> Wiring:
    """Wire a Jellyfish."""
    return build_graph(
        spec,
        jellyfish_sizes(spec),
        lambda: random_graph(spec.switches, spec.network_ports, spec.wiring_seed),
    )


def jellyfish_sizes(spec: Jellyfish) -> SwitchSizes:
    """Switches and cables of a Jellyfish."""
    return switch_sizes.jellyfish(
        where="network",
        switches=spec.switches,
        network_ports=spec.network_ports,
        hosts=spec.hosts_per_switch,
        ranks=spec.ranks,
    )


def random_graph(switches: int, degree: int, seed: int) -> np.ndarray:
    """Cables between the switches of a random connected regular graph, (switches, switches) int.

    Free ports are paired at random and pairs that are joined already or one switch are paired
    anew (Steger, Wormald, Combinatorics, Probability and Computing 8, 1999). Raises SpecError
    where no attempt gives a connected graph.
    """
    rng = np.random.default_rng(seed)
    for _ in range(ATTEMPTS):
        joined = _paired(switches, degree, rng)
        if joined is not None and _in_one_piece(joined):
            return joined.astype(np.int64)
    raise SpecError(
        f"gave no connected graph of {switches} switches in {ATTEMPTS} attempts",
        where="network.network_ports",
        value=degree,
        remedy="use at least 3",
    )


def _in_one_piece(joined: np.ndarray) -> bool:
    reached = np.zeros(len(joined), bool)
    front = np.arange(len(joined)) == 0
    while front.any():
        reached |= front
        front = joined[front].any(axis=0) & ~reached
    return bool(reached.all())


def _paired(switches: int, degree: int, rng: np.random.Generator) -> np.ndarray | None:
    """Pair all ports; None where those left over can only be paired wrongly."""
    joined = np.zeros((switches, switches), bool)
    free = np.repeat(np.arange(switches), degree)
    while len(free):
        left = []
        for one, other in rng.permutation(free).reshape(-1, 2).tolist():
            if one == other or joined[one, other]:
                left += [one, other]
            else:
                joined[one, other] = joined[other, one] = True
        open_ends = np.unique(left).astype(int)
        if (
            len(open_ends)
            and (joined | np.eye(switches, dtype=bool))[np.ix_(open_ends, open_ends)].all()
        ):
            return None
        free = np.asarray(left, int)
    return joined
