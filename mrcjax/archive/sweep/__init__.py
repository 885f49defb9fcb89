"""Turn the points of a sweep into one HDF5 file that grows safely, and such a file into arrays."""

from mrcjax.archive.sweep.columns import described
from mrcjax.archive.sweep.loading import Sweep, load_sweep
from mrcjax.archive.sweep.points import At, Axis, Point
from mrcjax.archive.sweep.writer import SweepWriter, sweep_writer

__all__ = ["At", "Axis", "Point", "Sweep", "SweepWriter", "described", "load_sweep", "sweep_writer"]
