"""What one run gives back: times, bounds, what binds, and the bytes of every link."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mrcjax.spec import Spec


@dataclass(frozen=True)
class Binding:
    """What limits the run: the busiest link, or latency."""

    resource: str  # "link" | "latency" | "none" (nothing is sent)
    name: str  # the link's name, or what the latency is made of
    utilisation: float  # busy time of the busiest link over the completion time, 0..1


@dataclass(frozen=True)
class Tier:
    """A block of links of one kind, contiguous in every link array."""

    name: str  # e.g. "egress", "leaf up"
    first: int  # index of its first link
    count: int
    rule: str  # how chunks share a link: "single" | "slots" | "share" | "sort" | "unused"


@dataclass(frozen=True)
class FlowTimes:
    """The flows of a run of traffic, (flows,) each: ranks, bytes, when they have arrived."""

    src: np.ndarray
    dst: np.ndarray
    size_bytes: np.ndarray
    finish_s: np.ndarray


@dataclass(frozen=True)
class Scenarios:
    """Completion times of many scenarios; scenario s takes every seed of the run + s."""

    times_s: np.ndarray  # (scenarios,)

    def spread_s(self) -> dict[str, float]:
        """Smallest, median, 95 and 99 per cent, largest, in seconds."""
        parts = {"min": 0, "median": 50, "p95": 95, "p99": 99, "max": 100}
        return {name: float(np.percentile(self.times_s, at)) for name, at in parts.items()}

    def to_json(self) -> dict:
        """The object under "scenarios" of `mrcjax run --json`."""
        return {"count": len(self.times_s), "time_s": self.spread_s()}


@dataclass(frozen=True)
class LinkUse:
    """How much of some links is in use over time.

    edges_s: (bins + 1,) of the parts of the time. links: names. share: (links, bins) of the
    capacity, 0..1.
    """

    edges_s: np.ndarray
    links: tuple[str, ...]
    share: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """The result of one run; every engine gives the same.

    Arrays are NumPy, SI units. `bounds_s` maps the name of each lower bound to its seconds;
    `lower_bound_s` is the largest of those that hold for any schedule, `bound_kind` its name. Of
    many scenarios all but `scenarios` is the first's, the run of the seeds as they stand.
    """

    spec: Spec
    kind: str  # network kind
    ranks: int
    num_links: int  # physical directed links (two per cable)
    collective: str
    algorithm: str
    size_bytes: float
    engine: str
    precision: str  # "float64" | "float32"
    device: str
    time_s: float
    finish_s: np.ndarray  # (ranks,) s
    tiers: tuple[Tier, ...]
    link_bytes: np.ndarray  # (links,) bytes carried
    link_capacity_bytes_per_s: np.ndarray  # (links,)
    link_name: Callable[[int], str]
    bounds_s: dict[str, float]
    lower_bound_s: float
    bound_kind: str
    schedule_bound_s: float  # of this schedule: also the busiest link's bytes over its capacity
    binding: Binding
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    wall_s: dict[str, float]  # build, compile, run
    warnings: tuple[str, ...] = ()
    seeds: dict[str, int] = field(default_factory=dict)
    fluid: dict[str, float] | None = None  # engine fluid: sends, events, passes, quantum and error
    flows: FlowTimes | None = None  # traffic
    scenarios: Scenarios | None = None
    link_use: LinkUse | None = None  # where sends were traced

    @property
    def bound_ratio(self) -> float:
        """Completion time over the lower bound; 1 where both are zero."""
        if self.lower_bound_s == 0:
            return 1.0 if self.time_s == 0 else float("inf")
        return self.time_s / self.lower_bound_s

    @property
    def link_busy_s(self) -> np.ndarray:
        """Seconds each link needs for its bytes, (links,)."""
        used = self.link_bytes > 0
        return np.divide(
            self.link_bytes,
            self.link_capacity_bytes_per_s,
            out=np.zeros_like(self.link_bytes),
            where=used,
        )

    def to_json(self) -> dict:
        """The object of `mrcjax run --json`."""
        more = {} if self.fluid is None else {"fluid": self.fluid}
        if self.flows is not None:
            more["flow_finish_s"] = self.flows.finish_s.tolist()
        return more | {
            "schema": 1,
            "network": {"kind": self.kind, "ranks": self.ranks, "links": self.num_links},
            "collective": {
                "kind": self.collective,
                "algorithm": self.algorithm,
                "bytes": self.size_bytes,
            },
            "engine": self.engine,
            "precision": self.precision,
            "device": self.device,
            "time_s": self.time_s,
            "lower_bound_s": self.lower_bound_s,
            "bound_ratio": self.bound_ratio,
            "bound_kind": self.bound_kind,
            "bounds_s": self.bounds_s,
            "schedule_bound_s": self.schedule_bound_s,
            "binding": {
                "resource": self.binding.resource,
                "name": self.binding.name,
                "utilisation": self.binding.utilisation,
            },
            "algbw_bytes_per_s": self.algbw_bytes_per_s,
            "busbw_bytes_per_s": self.busbw_bytes_per_s,
            "finish_s": {
                "min": float(np.min(self.finish_s)),
                "median": float(np.median(self.finish_s)),
                "max": float(np.max(self.finish_s)),
            },
            "rules": {tier.name: tier.rule for tier in self.tiers},
            "seeds": self.seeds,
            **({} if self.scenarios is None else {"scenarios": self.scenarios.to_json()}),
            "wall_s": self.wall_s,
            "warnings": list(self.warnings),
        }
