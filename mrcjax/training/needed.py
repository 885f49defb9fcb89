"""Turn a training step around: what would have to be true for another utilisation."""

import math

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
    low, high = 0.0, 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
    # the curve has kinks, but only falls; halving ends when nothing is between
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


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


def _check(utilisation: float) -> None:
    if not (math.isfinite(utilisation) and 0 < utilisation < 1):
        raise ValueError(f"utilisation must be between 0 and 1, got {utilisation}")
