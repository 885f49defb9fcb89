"""Max-min fair flows, event by event: the engine in which concurrent sends share links."""

from mrcjax.engine.fluid.flows import FlowTimes, fluid_finish_times, simulate_flows

__all__ = ["FlowTimes", "fluid_finish_times", "simulate_flows"]
