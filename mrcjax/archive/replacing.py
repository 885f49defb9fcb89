"""Turn a file into its next version, whole or not at all, one writer at a time."""

import contextlib
import fcntl
import glob
import io
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mrcjax.archive.error import ArchiveError, reason

_LOCK_TIMEOUT_S = 60.0


def resolved(path: str | Path) -> Path:
    """Follow links: the file they point to is replaced, not the link."""
    return Path(path).expanduser().resolve()


@contextlib.contextmanager
def folder_made(target: Path) -> Iterator[None]:
    """Make the target's folder, and say what stands in the way of a file there."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise ArchiveError(
            "cannot be written: a part of its path is not a folder",
            target,
            "name a file in a folder",
        ) from error
    except OSError as error:
        raise ArchiveError(
            f"cannot be written ({reason(error)})",
            target,
            "name a file in a folder that you may write to",
        ) from error


@contextlib.contextmanager
def locked(target: Path, timeout_s: float | None = None) -> Iterator[None]:
    """Be the only writer of a file, and clear away what killed writers left.

    Another writer is waited for, `timeout_s` or else a minute long; then it is an ArchiveError. The
    lock lives in the kernel, so it dies with its process; the lock file is only its name.
    """
    name = target.with_name(f".{target.name}.lock")
    lock = _take_lock(name, target, _LOCK_TIMEOUT_S if timeout_s is None else timeout_s)
    try:
        if lock is not None:
            for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
                leftover.unlink(missing_ok=True)
        yield
    finally:
        if lock is not None:
            # still locked: whoever waits for this inode sees that its name is gone, and retries
            name.unlink(missing_ok=True)
            os.close(lock)


def _take_lock(name: Path, target: Path, timeout_s: float) -> int | None:
    give_up = time.monotonic() + timeout_s
    while True:
        lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # a writer that finished in between took the name away with it
            if os.path.exists(name) and os.path.samestat(os.stat(name), os.fstat(lock)):
                with contextlib.suppress(OSError):  # a full disk; only the message needs it
                    os.truncate(lock, 0)
                    os.write(lock, f"{os.getpid()}\n".encode())
                return lock
        except FileNotFoundError:
            pass
        except BlockingIOError:
            if time.monotonic() >= give_up:
                owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
                os.close(lock)
                raise ArchiveError(
                    f"is being written by another process (id {owner})",
                    target,
                    "wait for it to end, or name another file",
                ) from None
        except OSError:
            os.close(lock)
            warnings.warn(
                f"{target.parent} does not support locks; "
                f"see to it that one process at a time writes {target.name}",
                stacklevel=5,
            )
            return None
        os.close(lock)
        time.sleep(0.02)


class Draft(io.FileIO):
    """A file that keeps its first failure to itself until it is finished.

    HDF5 loses track of its own state when the disk is full: it crashes, or closes a broken file
    without a word. So it is not told, and the failure is raised when it is done.
    """

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of it, unless a write has failed before."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while len(rest) and self.failure is None:
                rest = rest[super().write(rest) or 0 :]
        except OSError as failure:
            self.failure = failure
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file."""
        try:
            return super().truncate(size)
        except OSError as failure:
            self.failure = self.failure or failure
            return size or 0

    def finish(self) -> None:
        """Wait until the disk has all of it, and raise what has failed."""
        if self.failure is not None:
            raise self.failure
        os.fsync(self.fileno())


@contextlib.contextmanager
def replaced(target: Path, is_kept: bool) -> Iterator[Draft]:
    """Write a draft, a copy of the target if that is kept, that takes its place when complete."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        if is_kept:
            shutil.copyfile(target, temporary)
            shutil.copymode(target, temporary)
        with Draft(temporary, "r+" if is_kept else "w+") as draft:
            yield draft
            draft.finish()
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except (OSError, RuntimeError) as error:
        raise ArchiveError(
            f"could not be written ({reason(error)})",
            target,
            "free space or name another file; earlier runs in it are as they were",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def try_folder(target: Path) -> None:
    """Make and remove a file beside the target; raises the OSError that a draft would meet."""
    # not the name of a draft: another thread may be writing one
    probe = target.with_name(f".{target.name}.{os.getpid()}.probe.tmp")
    probe.open("wb").close()
    probe.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the new name."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
