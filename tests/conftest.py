"""All tests run on the CPU in 64-bit mode: oracles and closed forms are compared to 1e-9."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_x64", True)
