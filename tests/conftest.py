"""All tests run on the CPU in 64-bit mode: oracles and closed forms are compared to 1e-9.

Most of their time is compilation, much of it optimisation of programs that run once: it is left
out, unless XLA_FLAGS says otherwise.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

from mrcjax import programs

flags = "--xla_backend_optimization_level=0"
if jax.__version_info__ < (0, 11):  # XLA ends a process that is given a flag it does not know
    # the emitters by MLIR take twice as long to compile
    flags += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", flags)
jax.config.update("jax_enable_x64", True)
# A command that runs in this process would have all later tests keep their compiled code on disk,
# which is worth nothing here, and writing it has crashed once.
jax.config.update("jax_enable_compilation_cache", False)


@pytest.fixture(scope="module", autouse=True)
def _room_for_programs():
    """Forget between files what is compiled, before there is too much of it for one process.

    In a test `programs` would do so, too, but not for what tests compile themselves, and some
    count compilations.
    """
    yield
    if programs.mappings() > programs.MOST_MAPPINGS / 2:
        programs.forget()
