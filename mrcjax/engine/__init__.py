"""The only jitted code: links, schedule and numbers in, completion times out."""

from mrcjax.engine.chunk import emulate
from mrcjax.engine.fluid import (
    FlowTimes,
    Sends,
    SendTimes,
    emulate_sends,
    fluid_finish_times,
    lay_out_sends,
    simulate_flows,
)
from mrcjax.engine.params import Config, Params, Shares, Times
from mrcjax.engine.watching import Seen, Watch

__all__ = [
    "Config",
    "FlowTimes",
    "Params",
    "Seen",
    "SendTimes",
    "Sends",
    "Shares",
    "Times",
    "Watch",
    "emulate",
    "emulate_sends",
    "fluid_finish_times",
    "lay_out_sends",
    "simulate_flows",
]
