"""Max-min fair flows, event by event: the engine in which concurrent sends share links."""

from mrcjax.engine.fluid.flows import FlowTimes, fluid_finish_times, simulate_flows
from mrcjax.engine.fluid.sends import Sends, SendTimes, emulate_sends, lay_out_sends

__all__ = [
    "FlowTimes",
    "SendTimes",
    "Sends",
    "emulate_sends",
    "fluid_finish_times",
    "lay_out_sends",
    "simulate_flows",
]
