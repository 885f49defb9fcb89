"""What one cut could reach in many scenarios: linear programmes over the ports' totals.

Variables are the bytes per pair and rail (one cut serves all scenarios), the shards where those
are free, and a time of every scenario, in which its ports must carry their bytes of both halves.
What a rank reduces of its shard takes the same time in all of them.
The largest time asks for no more than the programme with every port's least rate. A percentile is
not convex: its programmes are those of the mean of the worst part of the scenarios (Rockafellar
and Uryasev, J. Risk 2, 2000), each followed by that of the largest of the scenarios within the
percentile; what is reported is the least percentile of the cuts so found, which is reachable by
loads but no bound.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from mrcjax.tuning.batch import DEFAULT, PERCENTILE, value_of
from mrcjax.tuning.classes import Classes
from mrcjax.tuning.programme import (
    MOST_VARIABLES,
    Demand,
    Flows,
    least_cost,
    minimise,
    owner_columns,
    owner_cost,
    solve,
)

TAILS = (0.05, 0.1, 0.2, 0.4, 1.0)  # worst parts of the scenarios to begin from
REFINEMENTS = 3


@dataclass(frozen=True)
class Reachable:
    """What the programme's cut makes of the objective, and what no cut can beat; seconds."""

    value_s: float
    proven_s: float | None  # None: the objective has no proof


def solve_scenarios(classes: Classes, demand: Demand, objective: str) -> Reachable | None:
    """Solve for one cut for all scenarios; None where it has more than a million variables.

    demand: of both halves together.
    """
    if objective == "worst":
        found, least_s = (
            solve(replace(classes, scenarios=None), demand),
            reducing_s(classes, demand),
        )
        if found is None:
            return None
        return Reachable(max(found.time_s, least_s), max(found.proven_s, least_s))
    model = _model(classes, demand)
    if model is None:
        return None
    if objective == "mean":
        cut = model.minimised(tail=None)
        return Reachable(cut.value("mean"), cut.proven_s)
    cuts = [_refined(model, model.minimised(tail=tail)) for tail in TAILS]
    return Reachable(min(cut.value(objective) for cut in cuts), None)


def reducing_s(classes: Classes, demand: Demand) -> float:
    """Seconds that given shards take to be reduced; 0 where shards are free."""
    if demand.reducers is None or demand.shard_bytes is None:
        return 0.0
    return float(((classes.ranks - 1) * demand.shard_bytes / demand.reducers).max())


def _refined(model: "_Model", cut: "_Cut") -> "_Cut":
    """Make the largest of the scenarios within the percentile small, while that helps."""
    within = int(np.ceil(PERCENTILE / 100.0 * (len(cut.times_s) - 1))) + 1
    for _ in range(REFINEMENTS):
        better = model.minimised(tail=None, among=np.argsort(cut.times_s)[:within])
        if better.value(DEFAULT) >= cut.value(DEFAULT) * (1 - 1e-9):
            break
        cut = better
    return cut


@dataclass(frozen=True)
class _Cut:
    """A solution: times of all scenarios by loads, and what the mean cannot fall below."""

    times_s: np.ndarray
    proven_s: float | None

    def value(self, objective: str) -> float:
        return value_of(objective, self.times_s)


@dataclass(frozen=True)
class _Model:
    """Bytes of the ports, in units of the buffer, as sums over flows and shards.

    Columns: flows, shards where free, loads of the ports (2 classes rails). rates: (scenarios,
    ports) in buffers per unit of time. sums, right: what the columns must satisfy.
    """

    classes: Classes
    demand: Demand
    unit_s: float
    rates: np.ndarray
    others: int  # columns before the loads
    sums: Any
    right: np.ndarray

    def minimised(self, *, tail: float | None, among: np.ndarray | None = None) -> _Cut:
        """The cut with the least mean time, or mean of the worst part `tail` of the scenarios.

        among: only those scenarios, of which the largest then counts.
        """
        rates = self.rates if among is None else self.rates[among].min(axis=0, keepdims=True)
        scenarios, ports = rates.shape
        full, used = rates.max(axis=0), np.flatnonzero(self.rates.min(axis=0) > 0)
        # a port as fast as ever needs no row of its own in that scenario: all wait for `least`
        hit, port = np.nonzero((rates < full) & (self.rates.min(axis=0) > 0))
        least = self.others + ports  # its column, then those of the times
        times = least + 1 + np.arange(scenarios)
        columns = least + 1 + (scenarios if tail is None else 2 * scenarios + 1)
        shards, pace = self.reducing
        rows = [
            _rows(self.others + used, 1 / full[used], least, columns),
            _rows(shards, pace, least, columns),
            _rows(least, np.ones(scenarios), times, columns),
            _rows(self.others + port, 1 / rates[hit, port], times[hit], columns),
        ]
        cost, bounds = np.zeros(columns), np.tile([0.0, np.inf], (columns, 1))
        floor = reducing_s(self.classes, self.demand) / self.unit_s
        bounds[least, 0] = floor
        if tail is None:
            cost[times] = 1.0 / scenarios
        else:
            quantile = times[-1] + 1
            cost[quantile], cost[quantile + 1 :] = 1.0, 1.0 / (tail * scenarios)
            bounds[quantile, 0] = -np.inf
            rows.append(_excess_rows(times, columns))
        above = scipy.sparse.vstack(rows, format="csr")
        no_more = scipy.sparse.csr_matrix((self.sums.shape[0], columns - self.sums.shape[1]))
        sums = scipy.sparse.hstack([self.sums, no_more], format="csr")
        found = minimise(cost, above, sums, self.right, method="highs-ipm", bounds=bounds)
        loads, proven = found.x[self.others : least][used], None
        seconds = (loads / self.rates[:, used]).max(axis=1)
        seconds = np.maximum(seconds, max(floor, (found.x[shards] * pace).max(initial=0.0)))
        if tail is None and among is None:
            prices = np.maximum(-found.ineqlin.marginals, 0.0)
            proven = max(self._priced(prices, used, full, (hit, port)), floor * self.unit_s)
        return _Cut(seconds * self.unit_s, proven)

    @property
    def reducing(self) -> tuple[np.ndarray, np.ndarray]:
        """Columns of free shards that are reduced in time, and the time that each unit takes."""
        if self.demand.reducers is None or self.demand.shard_bytes is not None:
            return np.zeros(0, int), np.zeros(0)
        num = len(self.classes.count)
        pace = (self.classes.ranks - 1) / self.demand.reducers
        return self.others - num + np.arange(num), pace * self.demand.size_bytes / self.unit_s

    def _priced(self, prices: np.ndarray, used: np.ndarray, full: np.ndarray, hit) -> float:
        """Seconds that the mean of any cut needs, by weak duality, for any prices >= 0.

        They are scaled so that no scenario counts for more than its part of the mean.
        """
        scenario, port = hit
        scenarios, ports = self.rates.shape
        shards, pace = self.reducing
        of_port, of_shard, rest = np.split(prices, [len(used), len(used) + len(shards)])
        of_least, of_hit = rest[:scenarios], rest[scenarios : scenarios + len(port)]
        weight = of_least + np.bincount(scenario, of_hit, scenarios)
        scale = np.minimum(1.0, 1.0 / (scenarios * np.maximum(weight, 1e-300)))
        price = np.bincount(port, of_hit * scale[scenario] / self.rates[scenario, port], ports)
        least = (of_least * scale).sum()
        waited = of_port.sum() + of_shard.sum()
        part = min(1.0, least / waited) if waited > 0 else 0.0
        price[used] += of_port * part / full[used]
        grid = price.reshape(2, len(self.classes.count), -1) / self.classes.count[:, None]
        owner = owner_cost(self.classes, self.demand.halves[0], *grid)
        if len(shards):
            owner += of_shard * part * pace / self.classes.count
        return least_cost(self.classes, self.demand, owner) / self.demand.size_bytes * self.unit_s


def _excess_rows(times: np.ndarray, columns: int) -> Any:
    """Rows time - quantile - excess <= 0; columns: the times, the quantile, every excess."""
    count, row = len(times), np.arange(len(times))
    quantile = times[-1] + 1
    place = np.concatenate([times, np.full(count, quantile), quantile + 1 + row])
    values = np.repeat([1.0, -1.0, -1.0], count)
    return scipy.sparse.csr_matrix((values, (np.tile(row, 3), place)), (count, columns))


def _rows(column, value: np.ndarray, time, columns: int) -> Any:
    """Rows value x column - time <= 0, (values, columns)."""
    row = np.arange(len(value))
    values = np.concatenate([value, np.full(len(row), -1.0)])
    place = np.concatenate([np.broadcast_to(each, row.shape) for each in (column, time)])
    return scipy.sparse.csr_matrix((values, (np.tile(row, 2), place)), (len(row), columns))


def _model(classes: Classes, demand: Demand) -> _Model | None:
    """Lay out the programme; None where it is too large."""
    assert classes.scenarios is not None
    num, rails = len(classes.count), classes.rails
    live = classes.live & (classes.receivers > 0)[:, :, None]
    each = classes.scenarios
    scenarios = len(each.egress)
    rates = np.stack([each.egress, each.ingress], axis=1).reshape(scenarios, -1)
    if live.sum() + rates.size > MOST_VARIABLES:
        return None
    flows = Flows(*np.nonzero(live))
    ports, own = 2 * num * rails, 0 if demand.shard_bytes is not None else num
    pairs, owners = flows.pair_rows(num), owner_columns(flows, num, demand.halves[0])
    no_loads = scipy.sparse.csr_matrix((pairs.shape[0], ports))
    shard = None if demand.shard_bytes is None else demand.shard_bytes / demand.size_bytes
    wanted = [pairs, no_loads] if shard is not None else [pairs, -owners, no_loads]
    sums = [scipy.sparse.hstack(wanted)]
    right = [owners @ shard if shard is not None else np.zeros(pairs.shape[0])]
    if shard is None:
        total = np.concatenate([np.zeros(flows.num), classes.count, np.zeros(ports)])
        sums.append(scipy.sparse.csr_matrix(total[None]))
        right.append(np.ones(1))
    carried = flows.port_rows(classes)
    no_shards = scipy.sparse.csr_matrix((ports, own))
    sums.append(scipy.sparse.hstack([carried, no_shards, -scipy.sparse.eye(ports)]))
    right.append(np.zeros(ports))
    fastest = rates.max()
    return _Model(
        classes,
        demand,
        demand.size_bytes / fastest,
        rates / fastest,
        flows.num + own,
        scipy.sparse.vstack(sums, format="csr"),
        np.concatenate(right),
    )
