"""Turn outcomes into one HDF5 file of many runs, or of a sweep, and such a file back into them."""

from mrcjax.archive.comparing import Comparison, Difference, differ
from mrcjax.archive.contents import Archive, load, load_runs
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.layout import SCHEMA, scalars_of
from mrcjax.archive.run import AnyRun, Run, utilisation_of_link
from mrcjax.archive.sweep import (
    Axis,
    Point,
    Sweep,
    SweepWriter,
    described,
    load_sweep,
    sweep_writer,
)
from mrcjax.archive.table import Column, Table
from mrcjax.archive.writing import LINK_NAMES_UP_TO, check_writable, write

__all__ = [
    "LINK_NAMES_UP_TO",
    "SCHEMA",
    "AnyRun",
    "Archive",
    "Axis",
    "Point",
    "Sweep",
    "SweepWriter",
    "ArchiveError",
    "Column",
    "Comparison",
    "Difference",
    "Run",
    "Table",
    "check_writable",
    "described",
    "differ",
    "load",
    "load_runs",
    "load_sweep",
    "scalars_of",
    "sweep_writer",
    "utilisation_of_link",
    "write",
]
