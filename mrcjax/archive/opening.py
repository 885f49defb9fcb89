"""Turn a path into an archive that is open to read, or into what is wrong with the file there."""

import contextlib
import io
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from mrcjax.archive.error import ArchiveError, reason
from mrcjax.archive.layout import SCHEMA

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# what h5py raises on bytes that are none of HDF5's, a size beyond all memory among them
_DAMAGED = (
    *(OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError),
    *(ArithmeticError, MemoryError),
)
_REMEDY_FOREIGN = "name an archive that mrcjax wrote"


@contextlib.contextmanager
def opened(path: Path, remedy_foreign: str = _REMEDY_FOREIGN) -> Iterator[Any]:
    """Open an archive to read, after all checks; whatever fails inside is a damaged file."""
    with Snapshot(path, remedy_foreign).opened() as file:
        yield file


class Snapshot:
    """An archive as it is when this is made, even if a writer puts its next version in its place.

    Raises:
        ArchiveError: there is no such file, or it is damaged, newer, or not an archive.
    """

    def __init__(self, path: Path, remedy_foreign: str = _REMEDY_FOREIGN):
        self.path = path
        if path.is_dir():
            raise ArchiveError("is a folder, not an archive", path, "name the HDF5 file in it")
        try:
            self._number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._number)
            signature = os.pread(self._number, len(_SIGNATURE), 0)
        except FileNotFoundError as error:
            raise ArchiveError(
                "does not exist", path, "`mrcjax run SPEC --out FILE.h5` writes an archive"
            ) from error
        except OSError as error:
            raise ArchiveError(f"cannot be read ({reason(error)})", path) from error
        if signature != _SIGNATURE:
            what = "is not an HDF5 file" if signature else "is empty"
            raise ArchiveError(what, path, remedy_foreign)
        with self.opened() as file:
            _check_schema(file, path, remedy_foreign)

    @contextlib.contextmanager
    def opened(self) -> Iterator[Any]:
        """Open it to read; whatever fails inside is a damaged file."""
        # through Python's file: HDF5 would lock the path, and refuse it if it is open otherwise
        stream = io.FileIO(self._number, closefd=False)
        with reading(self.path), h5py.File(stream, "r") as file:
            yield file


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever fails inside into an ArchiveError about a damaged file."""
    try:
        yield
    except ArchiveError:
        raise
    except _DAMAGED as error:
        raise ArchiveError(
            f"is damaged or cut short ({reason(error)})",
            path,
            "restore it from a copy, or move it away and run again",
        ) from error


def kind_of(file: Any) -> str:
    """Say what an open archive holds: "runs", "sweep" or "segment" (a piece of a sweep)."""
    # before schema 2 there were only runs
    return str(file.attrs.get("kind", "runs"))


def _check_schema(file: Any, path: Path, remedy_foreign: str) -> None:
    if not {"schema", "mrcjax_version", "created"} <= set(file.attrs):
        raise ArchiveError(
            "is an HDF5 file, but not one that mrcjax wrote",
            path,
            remedy_foreign,
        )
    schema = int(file.attrs["schema"])
    if schema > SCHEMA:
        raise ArchiveError(
            f"has schema {schema}, written by mrcjax {file.attrs['mrcjax_version']}; "
            f"this version knows up to schema {SCHEMA}",
            path,
            "upgrade mrcjax",
        )
