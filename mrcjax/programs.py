"""Compiled programs, each compiled once however many threads ask for it."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import jax

MOST_MAPPINGS = 32_000
"""Mappings of memory this process may hold before what is compiled is forgotten.

A program holds some hundred of them on a CPU, and Linux grants a process 65,530
(`vm.max_map_count`): without this a sweep over a thousand kinds of network dies of a segmentation
fault.
"""

LOOK_EVERY = 16  # compilations, as counting thousands of mappings takes some milliseconds

_made: dict[Hashable, Future] = {}
_lock = threading.Lock()
_compiled = 0


def compiled(
    key: Hashable, lower: Callable[[], Any], options: dict[str, str | bool] | None = None
) -> Any:
    """Return the program known by this key; the first who asks lowers and compiles it.

    Others who ask meanwhile wait. Where compiling fails all of them fail alike, and the next one
    tries again.
    """
    global _compiled
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
        with _lock:
            _compiled += 1
            is_time_to_look = _compiled % LOOK_EVERY == 0
        if is_time_to_look and mappings() > MOST_MAPPINGS:
            forget()
    return made.result()


def mappings() -> int:
    """Return how many mappings of memory this process holds; 0 where the system does not tell."""
    try:
        with open("/proc/self/maps", "rb") as lines:
            return sum(1 for _ in lines)
    except OSError:
        return 0


def structure(arrays: Any) -> Hashable:
    """What pytrees have in common for which one program will do: their structure and shapes."""
    leaves, tree = jax.tree.flatten(arrays)
    return tree, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def known() -> list[Any]:
    """Return the programs compiled so far, those that are forgotten left out."""
    with _lock:
        return [made.result() for made in _made.values() if made.done()]


def count() -> int:
    """Return how many programs this process has compiled, those that are forgotten, too."""
    return _compiled


def forget() -> None:
    """Forget what is compiled, here and in JAX, which would keep hold of it.

    Who is using or awaiting a program keeps it.
    """
    with _lock:
        for key in [key for key, made in _made.items() if made.done()]:
            del _made[key]
    jax.clear_caches()
