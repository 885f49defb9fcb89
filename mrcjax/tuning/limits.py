"""What no cut can beat: bounds for exactly what is free in a run."""

from dataclasses import replace

import numpy as np

from mrcjax.bound import lower_bounds
from mrcjax.case import Case
from mrcjax.tuning.batch import value_of
from mrcjax.tuning.classes import Classes, in_scenario
from mrcjax.tuning.programme import Demand, solve, water_filled
from mrcjax.tuning.scenario_programme import solve_scenarios

# of each kind of collective: for every half, how often a send carries its sender's and its
# receiver's shard
HALVES = {
    "all_reduce": ((0.0, 1.0), (1.0, 0.0)),
    "reduce_scatter": ((0.0, 1.0),),
    "all_gather": ((1.0, 0.0),),
    "all_to_all": ((0.0, 1.0),),
}
REDUCING = ("all_reduce", "reduce_scatter")  # what arrives in the first half is reduced


def limits(
    case: Case,
    classes: Classes,
    shard_bytes: np.ndarray | None,
    shares: np.ndarray | None,
    *,
    programme: bool = True,
    in_halves: bool = True,
) -> tuple[dict[str, float], dict[str, float]]:
    """Bounds in seconds by name, and the optima of the programmes by name (none where too large).

    shard_bytes: (classes,), None where shards are free. shares: (classes, classes, rails), None
    where rails are free. in_halves: whether a rank begins its second half when its first is done
    (no pipelined pieces), which water filling asks for. The programme "with a barrier between the
    halves" is no bound of an emulation, where ranks that have their data go on while others still
    wait for theirs; it tells by and large what is to be had without pipelining.
    """
    size = float(case.spec.the_collective.size)
    halves = HALVES[case.spec.the_collective.kind]
    bounds = lower_bounds(case)
    both = both_of(halves)
    reducers = classes.reducers if case.spec.the_collective.kind in REDUCING else None
    if shard_bytes is not None:
        bounds |= _port_bounds(classes, shard_bytes, halves, both, in_halves)
        if reducers is not None:
            taken = (classes.ranks - 1) * shard_bytes
            bounds["reducers, given shards"] = float((taken / reducers).max())
    optima: dict[str, float] = {}
    if programme:
        solved = solve(classes, Demand((both,), size, shard_bytes, reducers), shares)
        if solved is not None:
            optima["programme"] = solved.time_s
            bounds["linear programme"] = solved.proven_s
        apart = solve(classes, Demand(halves, size, shard_bytes, reducers), shares)
        if apart is not None and len(halves) > 1:
            optima["programme, with a barrier between the halves"] = apart.time_s
    return bounds, optima


def scenario_limits(
    case: Case,
    classes: Classes,
    shard_bytes: np.ndarray | None,
    shares: np.ndarray | None,
    objective: str,
    *,
    are_alike: bool,
    programme: bool = True,
    in_halves: bool = True,
) -> tuple[dict[str, float], dict[str, float]]:
    """The same for what an objective makes of the times of several scenarios, one cut for all.

    Each scenario's bound holds in it for any cut, so that their mean, percentile and largest hold.
    Where rails are free the programme bounds the mean and the largest of the cuts that treat ranks
    of a class alike (are_alike: whether all that are tried do); of a percentile it tells what is
    reachable by loads, which is no bound.
    """
    shards = None if shard_bytes is None else given_bytes(case)
    alone = []
    for scenario in range(case.spec.faults.scenarios):
        here, ports = in_scenario(case, scenario)
        ports = replace(ports, lanes=classes.lanes)
        free = {"programme": False, "in_halves": in_halves}
        alone.append(max(limits(here, ports, shards, None, **free)[0].values()))
    bounds = {"every scenario on its own": value_of(objective, np.asarray(alone))}
    if not programme or shares is not None:
        return bounds, {}
    halves = HALVES[case.spec.the_collective.kind]
    reducers = classes.reducers if case.spec.the_collective.kind in REDUCING else None
    size = float(case.spec.the_collective.size)
    demand = Demand((both_of(halves),), size, shard_bytes, reducers)
    solved = solve_scenarios(classes, demand, objective)
    if solved is None:
        return bounds, {}
    if solved.proven_s is not None and are_alike:
        bounds["linear programme"] = solved.proven_s
    return bounds, {"programme": solved.value_s}


def given_bytes(case: Case) -> np.ndarray:
    """What each rank owns by the spec, (ranks,) bytes."""
    spec, ranks = case.spec.the_collective, case.network.ranks
    weights = np.ones(ranks) if spec.shards is None else np.asarray(spec.shards, np.float64)
    return float(spec.size) * weights / weights.sum()


def both_of(halves: tuple[tuple[float, float], ...]) -> tuple[float, float]:
    """How often a send carries its sender's shard and its receiver's in all halves together."""
    return sum(half[0] for half in halves), sum(half[1] for half in halves)


def _port_bounds(classes: Classes, shard_bytes, halves, both, in_halves: bool) -> dict[str, float]:
    """All ports of a rank together, for given shards; and with the latency of each rail."""
    total = (classes.count * shard_bytes).sum()
    others, peers = total - shard_bytes, classes.ranks - 1
    out = both[0] * peers * shard_bytes + both[1] * others
    into = both[0] * others + both[1] * peers * shard_bytes
    seconds = [out / classes.egress.sum(axis=1), into / classes.ingress.sum(axis=1)]
    found = {"ports, given shards": float(np.max(seconds))}
    if not in_halves:
        return found
    # a rank has its data of one half before it sends any of the next
    filled = np.zeros(len(shard_bytes))
    for of_sender, of_receiver in halves:
        first = of_receiver > 0 and len(halves) > 1
        size = peers * shard_bytes
        if first:
            filled += water_filled(classes.ingress, classes.ingress_start_s, size)
        elif len(halves) > 1:
            filled += water_filled(classes.egress, classes.egress_start_s, size)
        else:
            size = peers * shard_bytes if of_sender else others
            filled += water_filled(classes.egress, classes.egress_start_s, size)
    found["water filling"] = float(filled.max())
    return found
