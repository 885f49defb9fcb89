"""Ranks whose ports are alike: pairs of classes instead of pairs of ranks.

The best cut of a network is as symmetric as the network: averaging a cut over all exchanges of
ranks with equal ports leaves no port worse off. Classes are therefore exact, and 16,384 ranks of
which a tenth of the rails is slow are some 150 of them.
"""

from dataclasses import dataclass

import numpy as np

from mrcjax.case import Case
from mrcjax.spec import SpecError


@dataclass(frozen=True)
class Classes:
    """Ports by class of ranks.

    index: (ranks,) class of each rank; first: (classes,) one rank of each; count: (classes,) how
    many. egress, ingress: (classes,
    rails) bytes/s. egress_start_s, ingress_start_s: (classes, rails), the least latency that data
    through a port takes on its way.
    """

    index: np.ndarray
    first: np.ndarray
    count: np.ndarray
    egress: np.ndarray
    ingress: np.ndarray
    egress_start_s: np.ndarray
    ingress_start_s: np.ndarray

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.index)

    @property
    def rails(self) -> int:
        """Number of rails."""
        return self.egress.shape[1]

    @property
    def receivers(self) -> np.ndarray:
        """How many ranks of each class (columns) a rank of a class sends to, (classes, classes)."""
        return np.broadcast_to(self.count, (len(self.count),) * 2) - np.eye(len(self.count))

    @property
    def live(self) -> np.ndarray:
        """Whether a rail joins a sender (rows) and a receiver, (classes, classes, rails)."""
        return (self.egress > 0)[:, None] & (self.ingress > 0)[None]


def classes_of(case: Case) -> Classes:
    """Sort the ranks of a network of planes into classes; SpecError where some cannot meet."""
    key = np.concatenate(_ports_of(case), axis=1)
    _, first, index, count = np.unique(
        key, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return _classes(case, index.reshape(-1), first, count)


def one_by_one(case: Case) -> Classes:
    """Every rank a class of its own, in order."""
    everyone = np.arange(case.network.ranks)
    return _classes(case, everyone, everyone, np.ones(len(everyone)))


def _ports_of(case: Case) -> list[np.ndarray]:
    """Egress and ingress rates, egress and ingress latencies, (ranks, rails) each."""
    network = case.network
    found = []
    for values in (case.params.capacity_bytes_per_s, case.params.latency_s):
        for way in ("egress", "ingress"):
            tier = network.tier(way)
            part = np.asarray(values, np.float64)[tier.first : tier.first + tier.count]
            found.append(part.reshape(network.ports, network.ranks).T)
    return found


def _classes(case: Case, index: np.ndarray, first: np.ndarray, count: np.ndarray) -> Classes:
    egress, ingress, leaving, entering = _ports_of(case)
    end = float(case.params.endpoint_latency_s)
    found = Classes(
        index=index,
        first=first,
        count=count.astype(np.float64),
        egress=egress[first],
        ingress=ingress[first],
        egress_start_s=leaving[first] + entering.min(axis=0) + end,
        ingress_start_s=entering[first] + leaving.min(axis=0) + end,
    )
    apart = np.argwhere((found.receivers > 0) & ~found.live.any(axis=2))
    if len(apart):
        sender = int(first[apart[0, 0]])
        receiver = int(np.flatnonzero(index == apart[0, 1])[-1])
        raise SpecError(
            f"leaves no rail from rank {sender} to rank {receiver} up at both ends",
            where="faults.links",
            remedy="nothing can be tuned around that; give one rail a rate above 0",
        )
    return found
