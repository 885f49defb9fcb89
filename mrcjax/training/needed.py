"""Turn a training step around: what would have to be true for another efficiency."""

import math
from collections.abc import Callable

import msgspec

from mrcjax.spec import TrainingSpec
from mrcjax.training.step_time import TrainingStep, step


def bucket_factor(training: TrainingSpec, done: TrainingStep, utilisation: float) -> float | None:
    """Times as long as the buckets of a step would have to take for this utilisation.

    Both kinds of bucket change by one factor; all else stays. None where the step has no buckets,
    or where it would not get there without any.

    Raises:
        ValueError: utilisation is not between 0 and 1.
    """
    _check(utilisation)

    def excess(factor: float) -> float:
        times_s = (factor * done.gradient_bucket_s, factor * done.parameter_bucket_s)
        return step(training, done.ranks, *times_s).utilisation - utilisation

    if not done.gradient_bucket_s or excess(0.0) < 0:
        return None
    high = 1.0
    while excess(high) > 0:
        high *= 2
    return _crossing(lambda factor: -excess(factor), 0.0, high)


def achievable_fraction(training: TrainingSpec, done: TrainingStep, mfu: float) -> float | None:
    """Fraction of peak while computing that this MFU would take, with the buckets as they are.

    Faster computing also hides less. None where even all of the peak would not be enough.

    Raises:
        ValueError: mfu is not between 0 and 1.
    """
    _check(mfu)

    def excess(fraction: float) -> float:
        faster = msgspec.structs.replace(training, achievable_fraction=fraction)
        times_s = (done.gradient_bucket_s, done.parameter_bucket_s)
        return step(faster, done.ranks, *times_s).mfu - mfu

    return None if excess(1.0) < 0 else _crossing(excess, 0.0, 1.0)


def batch_factor(done: TrainingStep, utilisation: float) -> float:
    """Times as many micro-batches per replica as this step for this utilisation.

    Bubble, exposed communication and optimiser are the same however many there are. The number of
    micro-batches that it comes to need not be whole. 0 where the step does nothing but compute.

    Raises:
        ValueError: utilisation is not between 0 and 1.
    """
    _check(utilisation)
    lost_s = done.step_s - done.computing_s
    return lost_s / done.computing_s * utilisation / (1 - utilisation)


def _crossing(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that only rises, with kinks, passes zero; halving until nothing is left."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if rising(middle) >= 0 else (middle, high)
    return high


def _check(utilisation: float) -> None:
    if not (math.isfinite(utilisation) and 0 < utilisation < 1):
        raise ValueError(f"must be between 0 and 1, got {utilisation}")
