"""Turn outcomes into one HDF5 file of many runs, and such a file back into runs."""

from mrcjax.archive.contents import Archive, load
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.layout import SCHEMA
from mrcjax.archive.run import AnyRun, Run, utilisation_of_link
from mrcjax.archive.table import Column, Table
from mrcjax.archive.writing import LINK_NAMES_UP_TO, check_writable, write

__all__ = [
    "LINK_NAMES_UP_TO",
    "SCHEMA",
    "AnyRun",
    "Archive",
    "ArchiveError",
    "Column",
    "Run",
    "Table",
    "check_writable",
    "load",
    "utilisation_of_link",
    "write",
]
