"""The only jitted code: links, schedule and numbers in, completion times out."""

from mrcjax.engine.chunk import emulate
from mrcjax.engine.fluid import FlowTimes, fluid_finish_times, simulate_flows
from mrcjax.engine.params import Config, Params, Times

__all__ = [
    "Config",
    "FlowTimes",
    "Params",
    "Times",
    "emulate",
    "fluid_finish_times",
    "simulate_flows",
]
