"""Loops around the engine that find how a collective is best cut, and prove how good that is."""

from mrcjax.tune.tuned import Step, Tuned
from mrcjax.tune.tuning import tune
from mrcjax.tune.weights import Weights

__all__ = ["Step", "Tuned", "Weights", "tune"]
