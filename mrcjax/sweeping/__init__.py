"""Sweeps: all points of a grid of specs, many at once, resumed and kept as they come."""

from mrcjax.sweeping.batch import emulate_batch
from mrcjax.sweeping.handing import Workers
from mrcjax.sweeping.plan import Plan, make_plan
from mrcjax.sweeping.running import sweep

__all__ = ["Plan", "Workers", "emulate_batch", "make_plan", "sweep"]
