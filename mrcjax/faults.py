"""Faults of a spec turned into numbers: capacities, latencies, losses and starts of one scenario.

A scenario is what one seed draws; scenario s of a batch takes every seed + s.
"""

from dataclasses import dataclass, fields

import jax
import numpy as np

from mrcjax.engine.jitter import from_uniform
from mrcjax.network import Wiring
from mrcjax.network.component import Cables, Components
from mrcjax.network.components import components, find
from mrcjax.spec import FaultsSpec, LinkFault, RandomFault, SpecError


@dataclass(frozen=True)
class Scenario:
    """The numbers of one scenario, NumPy.

    capacity_bytes_per_s, latency_s, loss: (links,); late_s: (ranks,).
    """

    capacity_bytes_per_s: np.ndarray
    latency_s: np.ndarray
    loss: np.ndarray
    late_s: np.ndarray


@dataclass(frozen=True)
class Weakening:
    """What is left of every link, (links,) each: a factor, cables lost of it, latency, loss."""

    factor: np.ndarray
    lost_cables: np.ndarray
    add_latency_s: np.ndarray
    kept: np.ndarray  # share of packets that come through

    @classmethod
    def none(cls, links: int) -> "Weakening":
        """Everything as built."""
        return cls(np.ones(links), np.zeros(links), np.zeros(links), np.ones(links))

    def copy(self) -> "Weakening":
        """The same, to be weakened further."""
        return Weakening(*(getattr(self, field.name).copy() for field in fields(self)))

    def weaken(self, total: np.ndarray, hit: Cables, left: float, latency_s: float, loss: float):
        """Take cables `hit` of links that have `total` cables down to a fraction of their rate.

        A cable of a trunk takes its share of the trunk's capacity and losses along, and all of its
        latency: what is sprayed over the trunk waits for its slowest cable. A link that is hit
        twice is weakened twice.
        """
        links, cables = hit
        whole = cables == total[links]
        np.multiply.at(self.factor, links[whole], left)
        np.add.at(self.lost_cables, links[~whole], cables[~whole] * (1.0 - left))
        np.add.at(self.add_latency_s, links, latency_s)
        np.multiply.at(self.kept, links, 1.0 - loss * cables / total[links])

    def capacity(self, wiring: Wiring) -> np.ndarray:
        """Capacities that are left, (links,) bytes/s."""
        cables_left = np.maximum(wiring.cables - self.lost_cables, 0.0) / wiring.cables
        return wiring.capacity_bytes_per_s * self.factor * cables_left


class Draws:
    """All scenarios of a spec on a network; what is not random is worked out once."""

    def __init__(
        self, faults: FaultsSpec, wiring: Wiring, parts: dict[str, Components] | None = None
    ):
        """Find every component that is named; raises SpecError for names that mean nothing.

        parts: `components` of the network, where they are known.
        """
        self.faults, self.wiring = faults, wiring
        self.fixed = Weakening.none(wiring.network.num_links)
        for number, fault in enumerate(faults.links):
            hit = _named(wiring, fault, number)
            latency_s = float(fault.add_latency)
            self.fixed.weaken(wiring.cables, hit, fault.left, latency_s, fault.loss)
        known = (parts or components(wiring)) if faults.random else {}
        self.pools = [_pool(known, fault, number) for number, fault in enumerate(faults.random)]
        self.late_s = np.zeros(wiring.network.ranks)
        for late in faults.late:
            self.late_s[late.rank] = float(late.by)

    def scenario(self, number: int = 0) -> Scenario:
        """Draw one scenario."""
        weak = self.fixed.copy()
        for place, (fault, (pool, those)) in enumerate(
            zip(self.faults.random, self.pools, strict=True)
        ):
            rng = np.random.default_rng([fault.seed + number, place])
            if fault.count is not None:
                hit = rng.choice(those, fault.count, replace=False)
            else:
                hit = those[rng.random(len(those)) < (fault.rate or 0.0)]
            state = fault.rate_left, float(fault.add_latency), fault.loss
            weak.weaken(self.wiring.cables, pool.cables_of(hit), *state)
        capacity = weak.capacity(self.wiring)
        latency = self.wiring.latency_s + weak.add_latency_s
        return Scenario(capacity, latency, 1.0 - weak.kept, self._late(number))

    def _late(self, number: int) -> np.ndarray:
        late = self.late_s.copy()
        for place, jitter in enumerate(self.faults.jitter):
            if jitter.at == "start":
                rng = np.random.default_rng([jitter.seed + number, place, 1])
                mean = float(jitter.mean)
                sigma = mean if jitter.sigma is None else float(jitter.sigma)
                uniform = (rng.integers(0, 2**53, len(late)) + 0.5) * 2.0**-53
                numbers = (np.asarray(x) for x in (uniform, mean, sigma))
                late += np.asarray(from_uniform(jitter.kind, *map(_array, numbers)), np.float64)
        return late

    @property
    def is_lossy(self) -> bool:
        """Whether packets get lost in any scenario."""
        given = (*self.faults.links, *self.faults.random)
        return any(fault.loss > 0 for fault in given)

    @property
    def may_be_down(self) -> bool:
        """Whether a link outside the nodes may be down in a scenario."""
        down = self.fixed.capacity(self.wiring) <= 0
        for tier in self.wiring.network.tiers:
            if tier.name.startswith("node"):
                down[tier.first : tier.first + tier.count] = False
        return bool(down.any()) or any(f.rate_left == 0 for f in self.faults.random)


def _array(x: np.ndarray) -> jax.Array:
    return jax.numpy.asarray(x)


def _named(wiring: Wiring, fault: LinkFault, number: int) -> Cables:
    hit = find(wiring, fault.match)
    if not len(hit[0]):
        names = ", ".join(f'"{wiring.link_name(t.first)}"' for t in wiring.network.tiers)
        kinds = components(wiring)
        firsts = {kinds[kind].name(0): None for kind in kinds if kind not in ("link", "switch")}
        parts = ", ".join(f'"{name}"' for name in firsts)
        raise SpecError(
            f'faults.links[{number}].match: "{fault.match}" names no link of this network; '
            f"its links are called for example {names}, what they belong to {parts}"
        )
    return hit


def _pool(
    known: dict[str, Components], fault: RandomFault, number: int
) -> tuple[Components, np.ndarray]:
    """The components a random fault draws from, and the indices of those that match."""
    where = f"faults.random[{number}]"
    if fault.what not in known:
        kinds = [kind for kind in RandomFault.kinds() if kind in known]
        raise SpecError(
            "is not a kind of component of this network",
            where=f"{where}.what",
            value=fault.what,
            remedy=f"use one of {', '.join(kinds)}",
        )
    pool = known[fault.what]
    those = pool.matching(fault.match)
    if not len(those):
        raise SpecError(
            f"names no {fault.what} of this network",
            where=f"{where}.match",
            value=fault.match,
            remedy=f'they are called for example "{pool.name(0)}"',
        )
    if fault.count is not None and fault.count > len(those):
        raise SpecError(
            f"is more than the {len(those)} there are",
            where=f"{where}.count",
            value=fault.count,
            remedy=f"use at most {len(those)}",
        )
    return pool, those
