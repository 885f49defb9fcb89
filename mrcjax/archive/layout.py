"""Say what every run has in the file, and under which names runs and tables stand there."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from mrcjax.outcome import Outcome

# 1: runs. 2: sweeps too; a file says which it is. What was written as 1 reads as runs.
SCHEMA = 2


@dataclass(frozen=True)
class Scalar:
    """One number or text of a run: a root dataset over the runs and an attribute of the run."""

    key: str
    attribute: str  # of Outcome, dotted
    dtype: type
    units: str
    long_name: str


SCALARS = (
    Scalar("network", "kind", str, "", "network kind"),
    Scalar("ranks", "ranks", int, "1", "number of ranks"),
    Scalar("num_links", "num_links", int, "1", "number of physical directed links"),
    Scalar("collective", "collective", str, "", "collective"),
    Scalar("algorithm", "algorithm", str, "", "algorithm"),
    Scalar("size_bytes", "size_bytes", float, "byte", "buffer of a rank"),
    Scalar("engine", "engine", str, "", "engine"),
    Scalar("precision", "precision", str, "", "floating-point type"),
    Scalar("device", "device", str, "", "device that computed the run"),
    Scalar("time_s", "time_s", float, "s", "completion time"),
    Scalar("lower_bound_s", "lower_bound_s", float, "s", "lower bound for any schedule"),
    Scalar("bound_kind", "bound_kind", str, "", "name of the lower bound"),
    Scalar("bound_ratio", "bound_ratio", float, "1", "completion time over lower bound"),
    Scalar("schedule_bound_s", "schedule_bound_s", float, "s", "lower bound for this schedule"),
    Scalar("algbw_bytes_per_s", "algbw_bytes_per_s", float, "byte/s", "algorithm bandwidth"),
    Scalar("busbw_bytes_per_s", "busbw_bytes_per_s", float, "byte/s", "bus bandwidth"),
    Scalar("binding_resource", "binding.resource", str, "", "kind of the binding resource"),
    Scalar("binding_name", "binding.name", str, "", "binding resource"),
    Scalar(
        "binding_utilisation",
        "binding.utilisation",
        float,
        "1",
        "busy time of the busiest link over the completion time",
    ),
)


def scalars_of(outcome: Outcome) -> dict[str, Any]:
    """Return the numbers and texts of a run by key."""
    return {scalar.key: scalar.dtype(attrgetter(scalar.attribute)(outcome)) for scalar in SCALARS}


def free_name(name: str, taken: set[str]) -> str:
    """Return the name, with a suffix if it is taken, and take it."""
    number, free = 2, name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    taken.add(free)
    return free


def group_name(name: str) -> str:
    """Escape what HDF5 cannot have in the name of a group or dataset."""
    inner = name.replace("%", "%25").replace("/", "%2F")
    return {"": "%", ".": "%2E", "..": "%2E%2E"}.get(inner, inner)
