"""What no cut can beat: bounds for exactly what is free in a run."""

import numpy as np

from mrcjax.bound import lower_bounds
from mrcjax.case import Case
from mrcjax.tuning.classes import Classes
from mrcjax.tuning.programme import Demand, solve, water_filled

# of each kind of collective: for every half, how often a send carries its sender's and its
# receiver's shard
HALVES = {
    "all_reduce": ((0.0, 1.0), (1.0, 0.0)),
    "reduce_scatter": ((0.0, 1.0),),
    "all_gather": ((1.0, 0.0),),
    "all_to_all": ((0.0, 1.0),),
}


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
    both = (sum(h[0] for h in halves), sum(h[1] for h in halves))
    if shard_bytes is not None:
        bounds |= _port_bounds(classes, shard_bytes, halves, both, in_halves)
    optima: dict[str, float] = {}
    if programme:
        solved = solve(classes, Demand((both,), size, shard_bytes), shares)
        if solved is not None:
            optima["programme"] = solved.time_s
            bounds["linear programme"] = solved.proven_s
        apart = solve(classes, Demand(halves, size, shard_bytes), shares)
        if apart is not None and len(halves) > 1:
            optima["programme, with a barrier between the halves"] = apart.time_s
    return bounds, optima


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
