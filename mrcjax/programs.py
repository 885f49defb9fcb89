"""Compiled programs, each compiled once however many threads ask for it."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import jax

_made: dict[Hashable, Future] = {}
_lock = threading.Lock()


def compiled(
    key: Hashable, lower: Callable[[], Any], options: dict[str, str | bool] | None = None
) -> Any:
    """Return the program known by this key; the first who asks lowers and compiles it.

    Others who ask meanwhile wait. Where compiling fails all of them fail alike, and the next one
    tries again.
    """
    with _lock:
        is_new = key not in _made
        made = _made.setdefault(key, Future())
    if is_new:
        try:
            made.set_result(lower().compile(compiler_options=options or None))
        except BaseException as error:
            with _lock:
                del _made[key]
            made.set_exception(error)
            raise
    return made.result()


def structure(arrays: Any) -> Hashable:
    """What pytrees have in common for which one program will do: their structure and shapes."""
    leaves, tree = jax.tree.flatten(arrays)
    return tree, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def known() -> list[Any]:
    """Return the programs compiled so far, those that are forgotten left out."""
    with _lock:
        return [made.result() for made in _made.values() if made.done()]


def count() -> int:
    """Return how many programs are known."""
    return len(known())


def forget() -> None:
    """Compile everything anew from now on."""
    with _lock:
        _made.clear()
