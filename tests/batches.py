"""Work for the tests of workers, done in other processes."""

import os
import signal
import time
from pathlib import Path


def double(batch: tuple[int, str]) -> tuple[int, int]:
    """Double a number, and say who did it."""
    return 2 * batch[0], os.getpid()


def die_once(batch: tuple[int, str]) -> int:
    """Triple a number; whoever does the number 3 first is killed."""
    number, folder = batch
    mark = Path(folder) / "killed"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 3 * number


def die_always(batch: tuple[int, str]) -> int:
    """Return a number; whoever does the number 3 is killed."""
    number, folder = batch
    if number == 3:
        with open(Path(folder) / "deaths", "a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail(batch: tuple[int, str]) -> None:
    """Fail as code with a mistake does."""
    raise ZeroDivisionError(batch[0])


def linger(batch: tuple[int, str]) -> int:
    """Leave a mark with the process's number, and stay much longer than any test waits."""
    number, folder = batch
    if number == 0:
        return 0
    (Path(folder) / f"pid{os.getpid()}").touch()
    time.sleep(600)
    return number
