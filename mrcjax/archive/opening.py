"""Turn a path into an archive that is open to read, or into what is wrong with the file there."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from mrcjax.archive.error import ArchiveError, reason
from mrcjax.archive.layout import SCHEMA

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_REMEDY_FOREIGN = "name an archive that mrcjax wrote"


@contextlib.contextmanager
def opened(path: Path, remedy_foreign: str = _REMEDY_FOREIGN) -> Iterator[Any]:
    """Open an archive to read, after all checks; whatever fails inside is a damaged file."""
    if path.is_dir():
        raise ArchiveError("is a folder, not an archive", path, "name the HDF5 file in it")
    try:
        with path.open("rb") as stream:
            signature = stream.read(len(_SIGNATURE))
    except FileNotFoundError as error:
        raise ArchiveError(
            "does not exist", path, "`mrcjax run SPEC --out FILE.h5` writes an archive"
        ) from error
    except OSError as error:
        raise ArchiveError(f"cannot be read ({reason(error)})", path) from error
    if signature != _SIGNATURE:
        what = "is not an HDF5 file" if signature else "is empty"
        raise ArchiveError(what, path, remedy_foreign)
    try:
        # a complete archive never changes in place, so there is nothing to lock
        with h5py.File(path, "r", locking=False) as file:
            _check_schema(file, path, remedy_foreign)
            yield file
    except ArchiveError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise ArchiveError(
            f"is damaged or cut short ({reason(error)})",
            path,
            "restore it from a copy, or move it away and run again",
        ) from error


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
