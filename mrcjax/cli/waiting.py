"""Work that takes long, interrupts, and errors as one line."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

INTERRUPTED, PIPE_CLOSED = 130, 141  # exit statuses, as shells count them

T = TypeVar("T")


def at_once(work: Callable[[], T], what: str) -> T:
    """Do the work in a thread, so that Ctrl-C is answered even while compiled code runs."""
    done: list[tuple[T | None, BaseException | None]] = []

    def target():
        try:
            done.append((work(), None))
        except BaseException as error:
            done.append((None, error))

    thread = threading.Thread(target=target, daemon=True)
    progress(what)
    try:
        thread.start()
        thread.join()
    except KeyboardInterrupt:
        # compiled code cannot be stopped, only left
        os._exit(interrupted())
    finally:
        progress("")
    result, error = done[0]
    if error is not None:
        raise error
    return result  # pyright: ignore[reportReturnType]


def until_interrupted(
    work: Callable[[Callable[[], bool]], T], what: str, ending: str = "with the best so far"
) -> T:
    """Do work that asks whether to stop; Ctrl-C makes it stop, a second one ends the process."""
    stop = threading.Event()

    def ask(_: int, __: Any) -> None:
        if stop.is_set():
            os._exit(interrupted())
        print(f"\nmrcjax: ending {ending}; Ctrl-C again ends at once", file=sys.stderr)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        return work(stop.is_set)
    before = signal.signal(signal.SIGINT, ask)
    try:
        return at_once(lambda: work(stop.is_set), what)
    finally:
        signal.signal(signal.SIGINT, before)


def progress(text: str) -> None:
    """Show what is being done, where someone watches; no text takes it away."""
    if sys.stderr.isatty():
        import shutil

        # a line that wraps could not be taken away
        line = f"{text} ..."[: shutil.get_terminal_size().columns - 1] if text else ""
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


@contextmanager
def importing() -> Iterator[None]:
    """Have Ctrl-C end the process at once while modules are imported: there is nothing to lose.

    Left to itself, it is an error of whatever is being imported, and a page of calls.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(interrupted()))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error comes of Ctrl-C, which code that it met made another error of."""
    seen: set[int] = set()  # errors can come of each other
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def interrupted() -> int:
    """Say that a command was interrupted and return the exit status for it."""
    print("mrcjax: interrupted", file=sys.stderr, flush=True)
    return INTERRUPTED


def pipe_closed() -> int:
    """Keep quiet when whoever read the output has gone, also at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def message_of(error: Exception) -> str | None:
    """Return what to tell the user; None for what is a bug."""
    from mrcjax.units import SpecError

    # an archive's error cannot come from a command that has not imported it
    archive = sys.modules.get("mrcjax.archive")
    if isinstance(error, SpecError) or (archive and isinstance(error, archive.ArchiveError)):
        return str(error)
    # XLA has an error of its own
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "out of memory; use fewer ranks or rails, or a machine with more memory"
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        return place + error.strerror.lower()
    return None
