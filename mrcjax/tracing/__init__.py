"""Every send of some ranks and the use of some links over time, as data and as a trace to open."""

from mrcjax.tracing.events import trace_events
from mrcjax.tracing.recording import RANKS, Recording, Sends, Uses, record
from mrcjax.tracing.use import use_over_time
from mrcjax.tracing.writing import EVENTS, write_trace

__all__ = [
    "EVENTS",
    "RANKS",
    "Recording",
    "Sends",
    "Uses",
    "record",
    "trace_events",
    "use_over_time",
    "write_trace",
]
