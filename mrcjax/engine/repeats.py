"""Phases that repeat: chunks of a pipeline go through the same phases, so they share one loop."""

from dataclasses import replace

from mrcjax.collective.schedule import Phase

LONGEST = 16  # phases of a period that is looked for
LEAST = 3  # periods that are worth a loop


def alike(one: Phase, other: Phase) -> bool:
    """Whether two phases are one piece of code, whatever they wait for."""
    return replace(one, name="", after=-1) == replace(other, name="", after=-1)


def rebased(phases: tuple[Phase, ...], first: int) -> tuple[Phase, ...]:
    """Count `after` from the phases of the period before; phases: a period from number `first`."""
    back = len(phases) - first
    return tuple(p if p.after < 0 else replace(p, after=p.after + back) for p in phases)


def repeated(phases: tuple[Phase, ...]) -> list[tuple[int, int, int]]:
    """Cut phases in stretches: first phase, phases of a period, how many periods follow.

    In a stretch of several periods each phase is alike the one a period before, and waits for
    what comes a period later than what that one waits for, in its own period or the one before.
    Later phases wait for none of its phases but those of the first and the last period.
    """
    stretches, first, plain = [], 0, 0
    while first < len(phases):
        period, repeats = _longest(phases, first)
        if repeats < LEAST:
            first += 1
            continue
        if plain < first:
            stretches.append((plain, first - plain, 1))
        stretches.append((first, period, repeats))
        first = plain = first + period * repeats
    if plain < len(phases):
        stretches.append((plain, len(phases) - plain, 1))
    return stretches


def _longest(phases: tuple[Phase, ...], first: int) -> tuple[int, int]:
    """Period and number of periods of the longest stretch from here."""
    best = (1, 1)
    for period in range(2, min(LONGEST, (len(phases) - first) // LEAST) + 1):
        repeats = 1
        while _repeats(phases, first, period, first + period * repeats):
            repeats += 1
        while repeats > 1 and _is_awaited(phases, first + period, first + period * repeats, period):
            repeats -= 1
        if period * repeats > best[0] * best[1] and repeats >= LEAST:
            best = (period, repeats)
    return best


def _repeats(phases: tuple[Phase, ...], first: int, period: int, start: int) -> bool:
    """Whether the period from `start` is the one before over again."""
    if start + period > len(phases):
        return False
    for number in range(start, start + period):
        phase, before = phases[number], phases[number - period]
        none = phase.after < 0 and before.after < 0
        follows = before.after >= 0 and phase.after == before.after + period
        near = none or phase.after >= start - period
        if not (alike(phase, before) and (none or follows) and near):
            return False
    return True


def _is_awaited(phases: tuple[Phase, ...], first: int, end: int, period: int) -> bool:
    """Whether a phase from `end` on waits for one between `first` and the last period."""
    return any(first <= phase.after < end - period for phase in phases[end:])
