'''How long a collective takes on a GPU network, what binds it, how to make it faster.

A spec says what to run, `run` does all of it:

    >>> import mrcjax
    >>> spec = mrcjax.load_spec("""
    ... [network]
    ... kind = "flat_rails"
    ... ranks = 16
    ... rails = 5
    ... rail_rate = "400 Gbit/s"
    ... latency = "500 ns"
    ... [collective]
    ... kind = "all_reduce"
    ... size = "16 MB"
    ... [engine]
    ... precision = "float32"
    ... """)
    >>> outcome = mrcjax.run(spec)
    >>> print(f"{outcome.time_s * 1e6:.1f} us, {outcome.bound_ratio:.3f} x the lower bound")
    122.0 us, 1.017 x the lower bound

`emulate`, inside it, is a pure function of arrays, to be compiled, batched and differentiated:

    >>> import dataclasses, jax, jax.numpy as jnp
    >>> case = mrcjax.build(spec)
    >>> @jax.jit
    ... def time_s(latency_s):
    ...     latencies = jnp.full_like(case.params.latency_s, latency_s)
    ...     params = dataclasses.replace(case.params, latency_s=latencies)
    ...     return mrcjax.emulate(params, case.network, case.schedule, config=case.config).time_s
    >>> [f"{t * 1e6:.1f} us" for t in jax.vmap(time_s)(jnp.array([0.0, 1e-6, 5e-6]))]
    ['120.0 us', '124.0 us', '140.0 us']
    >>> print(f"{jax.grad(time_s)(1e-6):.3f} seconds per second of a link's latency")
    4.000 seconds per second of a link's latency

Importing `mrcjax` is quick: JAX is imported when a name that needs it is first used.
'''

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrcjax.archive import load, write
    from mrcjax.bound import lower_bounds
    from mrcjax.case import Case, build
    from mrcjax.collective import table_schedule
    from mrcjax.comparison import compare
    from mrcjax.emulation import run
    from mrcjax.engine import Config, Params, Times, emulate, fluid_finish_times
    from mrcjax.outcome import Outcome
    from mrcjax.spec import Spec, SpecError, load_spec
    from mrcjax.step import train
    from mrcjax.sweeping import sweep
    from mrcjax.tuning import Tuned, tune

__version__ = "0.1.0"

__all__ = [
    "Case",
    "Config",
    "Outcome",
    "Params",
    "Spec",
    "SpecError",
    "Times",
    "Tuned",
    "build",
    "compare",
    "emulate",
    "fluid_finish_times",
    "load",
    "load_spec",
    "lower_bounds",
    "run",
    "sweep",
    "table_schedule",
    "train",
    "tune",
    "write",
]

_MODULE_OF_NAME = {
    "Case": "case",
    "Config": "engine",
    "Outcome": "outcome",
    "Params": "engine",
    "Spec": "spec",
    "SpecError": "spec",
    "Times": "engine",
    "Tuned": "tuning",
    "build": "case",
    "compare": "comparison",
    "emulate": "engine",
    "fluid_finish_times": "engine",
    "load": "archive",
    "load_spec": "spec",
    "lower_bounds": "bound",
    "run": "emulation",
    "sweep": "sweeping",
    "table_schedule": "collective",
    "train": "step",
    "tune": "tuning",
    "write": "archive",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULE_OF_NAME[name]}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
