"""Loops around the engine that find how a collective is best cut, and prove how good that is."""

from mrcjax.tuning.search import tune
from mrcjax.tuning.target import Reached, reach
from mrcjax.tuning.tuned import Step, Tuned
from mrcjax.tuning.weights import Weights

__all__ = ["Reached", "Step", "Tuned", "Weights", "reach", "tune"]
