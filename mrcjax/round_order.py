"""What the order of rounds costs in a run of engine `chunk`, where that can be told cheaply.

Round order, the engine's rule, lets chunks of a later round wait behind slower ones of an earlier
round. Nobody waits for nothing where the run comes within 2 % of its schedule's own bound (the
busiest link, the longest way): no order is quicker than that, and nothing more is computed. Else
small runs are repeated in order of arrival, which compiles and runs a second program, seconds in
all; where that order is not to be had, or the sends are too many, only the distance to the bound
is known, and the warning says so.
"""

from collections.abc import Callable
from dataclasses import replace

from mrcjax.case import Case
from mrcjax.engine import Config
from mrcjax.engine.plan import bound_to_ports, in_arrival_order

WORTH_SAYING = 1.02  # time over the time without the cost of the order
MOST_SENDS = 50_000  # of a run that is repeated


def order_warning(
    case: Case,
    time_s: float,
    schedule_bound_s: float,
    again: Callable[[Config], float] | None = None,
) -> str | None:
    """Say what round order costs, if it may be more than 2 %; None if not.

    again: emulates the case with another Config and gives the completion time, s; None: only the
    distance to the bound is told.
    """
    cables = [tier.name for tier in case.network.tiers if tier.sharing == "cable"]
    # a lane on a line of its own meets no other
    phases = [p for p in case.schedule.phases if p.rounds and p.domain != "node" and not p.lines]
    if not cables or not phases or case.config.order == "arrival":
        return None
    if time_s <= WORTH_SAYING * schedule_bound_s:
        return None
    sends = sum(p.rounds * p.lanes * case.network.ranks for p in phases)
    names = ", ".join(cables)
    by_arrival = replace(case.config, order="arrival")
    can_arrive = all(
        bound_to_ports(p, case.network) and in_arrival_order(case.network, p, by_arrival)
        for p in phases
    )
    if again is not None and can_arrive and sends <= MOST_SENDS:
        free_s = again(by_arrival)
        if time_s <= WORTH_SAYING * free_s:
            return None
        return (
            f"{names}: links serve their chunks round by round, which costs "
            f"{time_s / free_s - 1:.1%} here: in order of arrival it is {free_s:.6g} s "
            '(engine.order = "arrival")'
        )
    remedy = 'engine.order = "arrival"' if can_arrive else 'engine.kind = "fluid"'
    return (
        f"{names}: links serve their chunks round by round; what that costs was not computed, but "
        f"is at most {time_s / schedule_bound_s - 1:.1%}, the distance to this schedule's bound "
        f"({remedy} tells more)"
    )
