"""Ranks whose ports are alike: pairs of classes instead of pairs of ranks.

The best cut of a network is as symmetric as the network: averaging a cut over all exchanges of
ranks with equal ports leaves no port worse off. Classes are therefore exact, and 16,384 ranks of
which a tenth of the rails is slow are some 150 of them. Over many scenarios hardly two ranks fare
alike, but those with the same chances are one class if they are to be cut alike: what every port
of a class carries takes as long as on the slowest of them.
"""

from dataclasses import dataclass, replace

import msgspec
import numpy as np

from mrcjax.case import Case, numbers
from mrcjax.spec import SpecError


@dataclass(frozen=True)
class Ports:
    """The ports in every scenario, (scenarios, classes, rails): bytes/s, and least latencies."""

    egress: np.ndarray
    ingress: np.ndarray
    egress_start_s: np.ndarray
    ingress_start_s: np.ndarray


@dataclass(frozen=True)
class Classes:
    """Ports by class of ranks.

    index: (ranks,) class of each rank; first: (classes,) one rank of each; count: (classes,) how
    many. egress, ingress: (classes, rails) bytes/s, of several scenarios the least.
    egress_start_s, ingress_start_s: (classes, rails), the least latency that data through a port
    takes on its way. reduction: (classes,) bytes/s of a lane's reducer; None = infinite. lanes:
    the most on a rail of any cut that is tried. scenarios: the same ports one
    scenario at a time, each the worst of its class; None where there is one. alike: whether ranks
    were put together by their chances, though their ports differ.
    """

    index: np.ndarray
    first: np.ndarray
    count: np.ndarray
    egress: np.ndarray
    ingress: np.ndarray
    egress_start_s: np.ndarray
    ingress_start_s: np.ndarray
    reduction: np.ndarray | None = None
    scenarios: Ports | None = None
    alike: bool = False
    lanes: int = 1

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
        """Whether a rail joins a sender (rows) and a receiver, (classes, classes, rails).

        Of several scenarios in all of them, since one cut has to serve.
        """
        return (self.egress > 0)[:, None] & (self.ingress > 0)[None]

    @property
    def reducers(self) -> np.ndarray | None:
        """What all lanes of a rank of each class reduce together, (classes,) bytes/s."""
        return None if self.reduction is None else self.reduction * self.rails * self.lanes

    def on_average(self) -> "Classes":
        """The ports with their mean rates over the scenarios; 0 where one has them down."""
        if self.scenarios is None:
            return self
        means = {
            key: np.where(least > 0, getattr(self.scenarios, key).mean(axis=0), 0.0)
            for key, least in (("egress", self.egress), ("ingress", self.ingress))
        }
        return replace(self, scenarios=None, **means)


def classes_of(case: Case) -> Classes:
    """Sort the ranks of a network of planes into classes; SpecError where some cannot meet."""
    ports = _ports_of(case)
    columns = [np.concatenate(values, axis=1) for values in ports.values()]
    return _classes(case, ports, *_sorted(columns, case))


def alike(case: Case) -> Classes:
    """Sort ranks by what their ports are without random faults, and by which may hit them."""
    network, draws = case.network, case.draws
    fixed = draws.fixed.capacity(case.wiring), case.wiring.latency_s + draws.fixed.add_latency_s
    chances = np.zeros((len(draws.pools), network.num_links))
    for place, (pool, those) in enumerate(draws.pools):
        for each in those:
            links, cables = pool.cables(int(each))
            chances[place, links] += cables
    columns = _by_port(case, np.stack([*fixed, *chances]))
    flat = [np.concatenate(values, axis=1) for values in columns]
    return replace(_classes(case, _ports_of(case), *_sorted(flat, case)), alike=True)


def one_by_one(case: Case) -> Classes:
    """Every rank a class of its own, in order."""
    everyone = np.arange(case.network.ranks)
    return _classes(case, _ports_of(case), everyone, everyone, np.ones(len(everyone)))


def in_scenario(case: Case, scenario: int) -> tuple[Case, Classes]:
    """The case in one of its scenarios, and its ports, every rank a class of its own."""
    drawn = numbers(case.draws, scenario, case.params.capacity_bytes_per_s.dtype)
    faults = msgspec.structs.replace(case.spec.faults, scenarios=1)
    spec = msgspec.structs.replace(case.spec, faults=faults)
    here = replace(case, spec=spec, params=replace(case.params, **drawn))
    return here, one_by_one(here)


def _sorted(columns: list[np.ndarray], case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class of each rank, first rank and number of each class; columns: (ranks, any) each."""
    key = np.concatenate([*columns, _reduction(case)[:, None]], axis=1)
    _, first, index, count = np.unique(
        key, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return index.reshape(-1), first, count


def _ports_of(case: Case) -> dict[str, np.ndarray]:
    """Egress and ingress rates and latencies, (scenarios, ranks, rails) each."""
    count = case.spec.faults.scenarios
    drawn = [case.params] if count == 1 else [case.draws.scenario(s) for s in range(count)]
    found = {}
    for suffix, what in (("", "capacity_bytes_per_s"), ("_start_s", "latency_s")):
        values = np.stack([np.asarray(getattr(each, what), np.float64) for each in drawn])
        found["egress" + suffix], found["ingress" + suffix] = _by_port(case, values)
    return found


def _by_port(case: Case, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of links, (any, links), of egress and of ingress ports, (any, ranks, rails) each."""
    network = case.network
    tiers = network.tier("egress"), network.tier("ingress")
    grid = (len(values), network.ports, network.ranks)
    parts = [values[:, tier.first : tier.first + tier.count].reshape(grid) for tier in tiers]
    return np.moveaxis(parts[0], 1, 2), np.moveaxis(parts[1], 1, 2)


def _reduction(case: Case) -> np.ndarray:
    """Rate of a lane's reducer, (ranks,) bytes/s, infinite where reducing takes no time."""
    rate = case.params.reduction_bytes_per_s
    return np.broadcast_to(np.inf if rate is None else np.asarray(rate), (case.network.ranks,))


def _classes(
    case: Case, ports: dict[str, np.ndarray], index: np.ndarray, first: np.ndarray, count
) -> Classes:
    end = float(case.params.endpoint_latency_s)
    leaving, entering = ports["egress_start_s"], ports["ingress_start_s"]
    starts = (
        leaving + entering.min(axis=1, keepdims=True),
        entering + leaving.min(axis=1, keepdims=True),
    )
    each = Ports(
        egress=_of_class(np.minimum, ports["egress"], index),
        ingress=_of_class(np.minimum, ports["ingress"], index),
        egress_start_s=_of_class(np.maximum, starts[0], index) + end,
        ingress_start_s=_of_class(np.maximum, starts[1], index) + end,
    )
    reduction = _reduction(case)[first]
    found = Classes(
        index=index,
        first=first,
        count=count.astype(np.float64),
        **{key: values.min(axis=0) for key, values in vars(each).items()},
        reduction=reduction if np.isfinite(reduction).all() else None,
        scenarios=each if len(each.egress) > 1 else None,
    )
    _refuse_apart(case, found)
    return found


def _of_class(worst: np.ufunc, values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The worst of each class, (scenarios, classes, rails)."""
    order = np.argsort(index, kind="stable")
    begins = np.searchsorted(index[order], np.arange(index.max() + 1))
    return worst.reduceat(values[:, order], begins, axis=1)


def _refuse_apart(case: Case, found: Classes) -> None:
    apart = np.argwhere((found.receivers > 0) & ~found.live.any(axis=2))
    if not len(apart):
        return
    where, when = "faults.links", ""
    if case.spec.faults.random:
        where, when = "faults.random", " in all scenarios" if found.scenarios else ""
    raise SpecError(
        f"leaves no rail from rank {int(found.first[apart[0, 0]])} to rank "
        f"{int(np.flatnonzero(found.index == apart[0, 1])[-1])} up at both ends{when}",
        where=where,
        remedy="nothing can be tuned around that; give one rail a rate above 0",
    )
