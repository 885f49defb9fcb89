"""What `fluid_finish_times` refuses, in words, before anything is traced."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


def known(x: Any) -> bool:
    """Whether the values of an array can be looked at."""
    return not isinstance(x, Tracer)


def check(routes: Any, numbers: dict) -> tuple[Any, dict]:
    """Routes as (flows, paths, hops) int32, numbers as float arrays of one precision.

    numbers: by the names of the arguments of `fluid_finish_times`; `weights` may be None.

    Raises:
        ValueError: naming the argument.
    """
    given = {name: _floats(name, x) for name, x in numbers.items() if x is not None}
    capacity, size = given["capacity_bytes_per_s"], given["size_bytes"]
    for name in ("capacity_bytes_per_s", "size_bytes"):
        if given[name].ndim != 1:
            raise _shape(name, given[name], "be one-dimensional")
    links, flows = capacity.shape[0], size.shape[0]
    routes = _routes(routes, links, flows)
    shapes: dict[str, set[tuple[int, ...]]] = {
        "capacity_bytes_per_s": {(links,)},
        "size_bytes": {(flows,)},
        "start_s": {(), (flows,)},
        "latency_s": {(), (links,), (flows,)},
        "weights": {routes.shape[:2]},
        "quantum_s": {()},
    }
    for name, x in given.items():
        if x.shape not in shapes[name]:
            wanted = " or ".join(str(shape) for shape in sorted(shapes[name]))
            raise _shape(name, x, f"have shape {wanted} for {flows} flows and {links} links")
        if known(x):
            _check_values(name, np.asarray(x))
    dtypes = [given[name].dtype for name, x in numbers.items() if isinstance(x, jax.Array)]
    dtype = jnp.result_type(*dtypes) if dtypes else jnp.result_type(float)
    numbers = {name: x.astype(dtype) for name, x in given.items()}
    return routes, {"weights": None} | numbers


def _floats(name: str, x: Any) -> Any:
    if isinstance(x, jax.Array):
        is_float = jnp.issubdtype(x.dtype, jnp.floating)
        return x if is_float else x.astype(jnp.result_type(float))
    try:
        return np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, got {x!r:.60}") from None


def _check_values(name: str, x: np.ndarray) -> None:
    wrong = ~np.isfinite(x) if name == "start_s" else ~(np.isfinite(x) & (x >= 0))
    if wrong.any():
        place = np.argwhere(wrong)[0]
        where = name + "".join(f"[{i}]" for i in place)
        what = "must be finite" if name == "start_s" else "must be finite and not negative"
        raise ValueError(f"{where} {what}, got {x[tuple(place)]}")


def _routes(routes: Any, links: int, flows: int) -> Any:
    if not isinstance(routes, jax.Array):
        try:
            routes = np.asarray(routes)
        except ValueError:
            what = "routes must have rows of one length; fill shorter ones up with -1"
            raise ValueError(what) from None
        if routes.size == 0:
            routes = routes.astype(np.int32)
    if not jnp.issubdtype(routes.dtype, jnp.integer):
        raise ValueError(f"routes must be integers, got {routes.dtype}")
    if routes.ndim not in (2, 3):
        raise _shape("routes", routes, "be (flows, hops) or (flows, paths, hops)")
    if routes.shape[0] != flows:
        raise _shape("routes", routes, f"have one row for each of {flows} sizes")
    if known(routes):
        known_routes = np.asarray(routes)
        low, high = known_routes.min(initial=-1), known_routes.max(initial=-1)
        if low < -1 or high >= links:
            wrong = low if low < -1 else high
            raise ValueError(f"routes must lie in -1..{links - 1} (-1 = no link), got {wrong}")
        routes = known_routes.astype(np.int32)
    routes = routes[:, None, :] if routes.ndim == 2 else routes
    if 0 in routes.shape[1:]:
        paths, hops = (max(n, 1) for n in routes.shape[1:])
        routes = np.full((flows, paths, hops), -1, np.int32)
    return routes


def _shape(name: str, x: Any, what: str) -> ValueError:
    return ValueError(f"{name} must {what}, got shape {x.shape}")
