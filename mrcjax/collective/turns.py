"""How many messages of a schedule come in turn: each is sent when the one before has arrived."""

import numpy as np

from mrcjax.collective.schedule import Phase, Schedule


def messages_in_turn(schedule: Schedule) -> int:
    """Most messages of which each waits for the one before.

    A rank waits on a lane, or on all of them, for what it was sent; a lane that is idle in a phase
    goes on from what it had before. That a port is busy is no waiting of this kind.
    """
    turns: list[np.ndarray] = []  # of each phase (lanes,): most messages in turn to its end
    for phase in schedule.phases:
        rounds = _active_rounds(phase, schedule)
        own = rounds if phase.needs == "lane" else np.minimum(rounds, 1)
        turns.append(own + _turns_before(phase, turns))
    return max((int(each.max(initial=0)) for each in turns), default=0)


def _turns_before(phase: Phase, turns: list[np.ndarray]) -> np.ndarray:
    """Messages in turn before the first send of each lane; one number where lanes share them."""
    if phase.after < 0:
        return np.zeros(1, int)
    before = turns[phase.after]
    if phase.after_scope == "lane" and len(before) == phase.lanes:
        return before
    return before.max(initial=0, keepdims=True)


def _active_rounds(phase: Phase, schedule: Schedule) -> np.ndarray:
    """Rounds in which each lane sends, (lanes,)."""
    if phase.table >= 0 or phase.tree >= 0:
        return np.full(phase.lanes, phase.rounds)
    if phase.offsets >= 0:
        return (np.asarray(schedule.offsets[phase.offsets]) > 0).sum(axis=0)
    if phase.lines:
        return np.asarray([line.size - 1 for line in phase.lines])
    shifts = phase.first + phase.per_round * np.arange(phase.rounds)[:, None]
    return (shifts + phase.per_lane * np.arange(phase.lanes) < phase.layout[1]).sum(axis=0)
