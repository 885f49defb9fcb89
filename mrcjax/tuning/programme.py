"""The least time any cut can need: a linear programme over bytes per pair and rail.

Variables are the bytes from a rank of one class to a rank of another over each rail, the shards
where those are free, and the time; every port must carry its bytes of both halves in that time.
Its dual values are prices of port seconds, and any prices at all give a bound (`priced`): what is
reported is that, so that no tolerance of the solver enters.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse

from mrcjax.tuning.classes import Classes

MOST_VARIABLES = 1_000_000


@dataclass(frozen=True)
class Demand:
    """What goes from each rank to each other, in halves that follow each other.

    halves: how often a send of each half carries its sender's shard and its receiver's: (0, 1) and
    (1, 0) for the two halves of an all-reduce one after the other, (1, 1) where they overlap.
    shard_bytes: (classes,), what a rank of each class owns; None = free, `size_bytes` in all.
    reducers: (classes,) bytes/s that a rank of each class reduces of its own shard, which it takes
    in from every other, in the first half; None = infinite. They count where shards are free.
    """

    halves: tuple[tuple[float, float], ...]
    size_bytes: float
    shard_bytes: np.ndarray | None
    reducers: np.ndarray | None = None


@dataclass(frozen=True)
class Solved:
    """The optimum: seconds, and the seconds that its prices prove to be needed."""

    time_s: float
    proven_s: float
    shard_bytes: np.ndarray | None  # (classes,) where shards were free


def priced(
    classes: Classes,
    demand: Demand,
    prices: np.ndarray,
    shares: np.ndarray | None = None,
    reducing: np.ndarray | None = None,
) -> float:
    """Seconds that any cut needs, by weak duality, for any prices >= 0 of the ports' bytes.

    A byte from c to d costs at least the cheapest rail's two ports; all ports together can carry
    (price x rate) per second. With shards free the cheapest owner owns everything. prices:
    (halves, 2, classes, rails) of a rank's egress and ingress. shares: (classes, classes, rails),
    where rails are not free. reducing: (classes,) price of what a rank reduces.
    """
    owner = np.zeros(len(classes.count))  # seconds per byte of a rank's shard
    for number, (half, (out, into)) in enumerate(zip(demand.halves, prices, strict=True)):
        worth = (classes.count[:, None] * (out * classes.egress + into * classes.ingress)).sum()
        cost = owner_cost(classes, half, out, into, shares)
        if number == 0 and reducing is not None and demand.reducers is not None:
            worth += (classes.count * reducing * demand.reducers).sum()
            cost += (classes.ranks - 1) * reducing
        if worth > 0:
            owner += cost / worth
    return least_cost(classes, demand, owner)


def owner_cost(
    classes: Classes,
    half: tuple[float, float],
    out: np.ndarray,
    into: np.ndarray,
    shares: np.ndarray | None = None,
) -> np.ndarray:
    """Least cost of one half per byte that a rank of each class owns, by the ports' prices."""
    of_sender, of_receiver = half
    price = out[:, None] + into[None]
    if shares is None:
        cheapest = np.where(classes.live, price, np.inf).min(axis=2)
    else:
        cheapest = (shares * price).sum(axis=2)
    cheapest = np.where(classes.receivers > 0, cheapest, 0.0)
    sent = (classes.receivers * cheapest).sum(axis=1)
    received = (classes.receivers * cheapest.T).sum(axis=1)
    return of_sender * sent + of_receiver * received


def least_cost(classes: Classes, demand: Demand, owner: np.ndarray) -> float:
    """What all shards cost together, each of its owner's cost per byte; free ones the least."""
    if demand.shard_bytes is None:
        return float(demand.size_bytes * owner.min())
    return float((classes.count * demand.shard_bytes * owner).sum())


def solve(classes: Classes, demand: Demand, shares: np.ndarray | None = None) -> Solved | None:
    """Solve the programme; None where it has more than a million variables.

    shares: (classes, classes, rails) part of a send on each rail where rails are not free.
    """
    if shares is not None:
        return _solve_shards(classes, demand, shares)
    live = classes.live & (classes.receivers > 0)[:, :, None]
    if live.sum() * len(demand.halves) > MOST_VARIABLES:
        return None
    flows = Flows(*np.nonzero(live))
    halves, num = len(demand.halves), len(classes.count)
    unit = 1.0 / classes.egress.max()  # seconds in which the best port carries one byte
    ports, pairs = _port_rows(classes, flows, unit), flows.pair_rows(num)
    owners = [owner_columns(flows, num, half) for half in demand.halves]
    sums: Any = _diagonal([pairs] * halves)
    if demand.shard_bytes is None:
        # columns: flows of each half, times of the halves, shards
        shards = scipy.sparse.vstack([-each for each in owners])
        no_time = scipy.sparse.csr_matrix((sums.shape[0], halves))
        total = np.append(np.zeros(sums.shape[1] + halves), classes.count)
        sums = scipy.sparse.vstack([_beside([sums, no_time, shards]), total[None]], format="csr")
        right = np.append(np.zeros(sums.shape[0] - 1), 1.0)
    else:
        shard = demand.shard_bytes / demand.size_bytes
        right = np.concatenate([each @ shard for each in owners])
        sums = _beside([sums, scipy.sparse.csr_matrix((sums.shape[0], halves))])
    flow_rows = _diagonal([ports[:, :-1]] * halves)
    time_rows = _diagonal([ports[:, -1:]] * halves)
    none = scipy.sparse.csr_matrix(
        (flow_rows.shape[0], sums.shape[1] - halves * flows.num - halves)
    )
    cost = np.zeros(sums.shape[1])
    cost[halves * flows.num :][:halves] = 1.0
    above = _beside([flow_rows, time_rows, none])
    shard_bytes, first = None, halves * (flows.num + 1)
    if demand.shard_bytes is None:
        above = _with_reducers(above, classes, demand, unit, first, first - halves)
    found = minimise(cost, above, sums, right)
    if demand.shard_bytes is None:
        shard_bytes = found.x[first:] * demand.size_bytes
    return _solved(classes, demand, found, unit, shard_bytes, None)


def _with_reducers(
    above: Any, classes: Classes, demand: Demand, unit: float, shard: int, time: int
) -> Any:
    """Rows above, and what every rank reduces of its shard in the time of the first half.

    shard, time: columns of the first shard and the first time.
    """
    if demand.reducers is None:
        return above
    num = len(classes.count)
    row, others = np.arange(num), np.full(num, classes.ranks - 1.0)
    values = np.concatenate([others, -demand.reducers * unit])
    columns = np.concatenate([shard + row, np.full(num, time)])
    rows = scipy.sparse.csr_matrix((values, (np.tile(row, 2), columns)), (num, above.shape[1]))
    return scipy.sparse.vstack([above, rows], format="csr")


@dataclass(frozen=True)
class Flows:
    """Sender's class, receiver's class and rail of each variable, (flows,) int."""

    sender: np.ndarray
    receiver: np.ndarray
    rail: np.ndarray

    @property
    def num(self) -> int:
        return len(self.rail)

    def pair_rows(self, num: int) -> Any:
        """Sum over the rails of each pair of classes, (pairs, flows)."""
        pairs, pair = np.unique(self.sender * num + self.receiver, return_inverse=True)
        ones = np.ones(self.num)
        return scipy.sparse.csr_matrix((ones, (pair, np.arange(self.num))), (len(pairs), self.num))

    def port_rows(self, classes: Classes) -> Any:
        """Bytes of a rank's ports, (2 classes rails, flows)."""
        num, rails, column = len(classes.count), classes.rails, np.arange(self.num)
        out_row = self.sender * rails + self.rail
        in_row = (num + self.receiver) * rails + self.rail
        of_pair = classes.receivers
        sends = of_pair[self.sender, self.receiver], of_pair[self.receiver, self.sender]
        values, rows = np.concatenate(sends), np.concatenate([out_row, in_row])
        shape = (2 * num * rails, self.num)
        return scipy.sparse.csr_matrix((values, (rows, np.tile(column, 2))), shape)


def _port_rows(classes: Classes, flows: Flows, unit: float) -> Any:
    """Bytes of a rank's ports less what they carry in the time, (2 classes rails, flows + 1)."""
    rates = np.concatenate([classes.egress.ravel(), classes.ingress.ravel()]) * unit
    return _beside([flows.port_rows(classes), scipy.sparse.csr_matrix(-rates[:, None])])


def owner_columns(flows: Flows, num: int, half: tuple[float, float]) -> Any:
    """Bytes of each pair per byte of each class's shard, (pairs, classes)."""
    pairs = np.unique(flows.sender * num + flows.receiver)
    row, size = np.arange(len(pairs)), (len(pairs), num)
    values = np.repeat(half, len(pairs))
    ends = np.concatenate([pairs // num, pairs % num])
    return scipy.sparse.csr_matrix((values, (np.tile(row, 2), ends)), size)


def _solve_shards(classes: Classes, demand: Demand, shares: np.ndarray) -> Solved:
    """The programme with the rails given: shards and times alone are variables."""
    halves, num = len(demand.halves), len(classes.count)
    unit = 1.0 / classes.egress.max()
    sends = classes.receivers[:, :, None] * shares  # (sender, receiver, rail)
    takes = classes.receivers.T[:, :, None] * shares
    own = np.eye(num)
    matrix = []  # bytes of a port by whose shard they are: (ports, owners) of each half
    for of_sender, of_receiver in demand.halves:
        out = of_sender * np.einsum("cdr,ce->cre", sends, own)
        out += of_receiver * np.einsum("cdr,de->cre", sends, own)
        into = of_sender * np.einsum("cdr,ce->dre", takes, own)
        into += of_receiver * np.einsum("cdr,de->dre", takes, own)
        matrix.append(np.concatenate([out.reshape(-1, num), into.reshape(-1, num)]))
    rates = np.concatenate([classes.egress.ravel(), classes.ingress.ravel()]) * unit
    if demand.shard_bytes is not None:
        loads = [each @ (demand.shard_bytes / demand.size_bytes) for each in matrix]
        with np.errstate(divide="ignore", invalid="ignore"):
            times = [np.where(load > 0, load / rates, 0.0).max() for load in loads]
        time_s = float(sum(times)) * unit * demand.size_bytes
        return Solved(time_s, time_s, None)
    time_rows = _diagonal([-rates[:, None]] * halves)
    ports = _beside([np.concatenate(matrix), time_rows])
    ports = _with_reducers(ports, classes, demand, unit, 0, num)
    total = scipy.sparse.csr_matrix(np.append(classes.count, np.zeros(halves))[None])
    cost = np.append(np.zeros(num), np.ones(halves))
    found = minimise(cost, ports, total, np.ones(1))
    return _solved(classes, demand, found, unit, found.x[:num] * demand.size_bytes, shares)


def _solved(classes: Classes, demand: Demand, found, unit: float, shard_bytes, shares) -> Solved:
    """Read a solution; its dual values price the ports of all ranks of a class together."""
    grid = (len(demand.halves), 2, len(classes.count), classes.rails)
    every, num = np.maximum(-found.ineqlin.marginals, 0.0), int(np.prod(grid))
    prices = every[:num].reshape(grid) / classes.count[:, None]
    reducing = every[num:] / classes.count if len(every) > num else None
    proven = priced(classes, demand, prices, shares, reducing)
    return Solved(float(found.fun) * demand.size_bytes * unit, proven, shard_bytes)


def _diagonal(blocks: list) -> Any:
    return scipy.sparse.block_diag(blocks, format="csr")


def _beside(blocks: list) -> Any:
    return scipy.sparse.hstack(blocks, format="csr")


def minimise(
    cost: np.ndarray,
    ports: Any,
    sums: Any,
    right: np.ndarray,
    *,
    method: str = "",
    bounds: Any = (0, None),
) -> Any:
    """HiGHS, by interior points where the simplex would take minutes."""
    method = method or ("highs" if len(cost) < 20_000 else "highs-ipm")
    found = scipy.optimize.linprog(
        cost, ports, np.zeros(ports.shape[0]), sums, right, bounds=bounds, method=method
    )
    if found.x is None:
        raise RuntimeError(f"the linear programme was not solved: {found.message}")
    return found


def water_filled(rate: np.ndarray, start_s: np.ndarray, size_bytes: np.ndarray) -> np.ndarray:
    """Least time T with sum over rails of rate x max(0, T - start) = size, (...,).

    rate, start_s: (..., rails); size_bytes: (...,). Rails that start later than T get nothing.
    """
    order = np.argsort(start_s, axis=-1)
    start = np.take_along_axis(start_s, order, axis=-1)
    rate = np.take_along_axis(np.broadcast_to(rate, start.shape), order, axis=-1)
    rates = np.cumsum(rate, axis=-1)
    carried = np.cumsum(rate * start, axis=-1)
    with np.errstate(divide="ignore"):
        times = np.where(rates > 0, (np.asarray(size_bytes)[..., None] + carried) / rates, np.inf)
    # with one rail more than the best number, that rail would have to start after the end
    return times.min(axis=-1)
