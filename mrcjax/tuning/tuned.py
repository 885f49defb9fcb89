"""What a search gives back."""

from dataclasses import dataclass, field

import numpy as np

from mrcjax.outcome import Outcome
from mrcjax.spec import Spec
from mrcjax.training import TrainingStep
from mrcjax.tuning.batch import value_of
from mrcjax.tuning.weights import Weights


@dataclass(frozen=True)
class Step:
    """One step down: the objective's smooth value and the exact one, seconds."""

    stage: str  # "loads" | "engine"; of a training step behind its bucket: "all_gather: loads"
    number: int
    smooth_s: float
    exact_s: float


@dataclass(frozen=True)
class TunedStep:
    """The training step before and after, and the one that no cut can beat.

    before is None where the spec as it stands sends over a link that is down. buckets: by
    collective what was tuned, each an own search; two that are the same sends share one.
    """

    before: TrainingStep | None
    after: TrainingStep
    bound: TrainingStep  # of buckets that take their lower bounds
    buckets: dict[str, "Tuned"]

    def to_json(self) -> dict:
        """The object under "training" of `mrcjax tune --json`."""
        steps = {"before": self.before, "after": self.after, "bound": self.bound}
        times = {
            "before_s": self.before and self.before.bucket_times_s,
            "after_s": self.after.bucket_times_s,
            "lower_bound_s": self.bound.bucket_times_s,
        }
        return {
            **{
                name: step and vars(step) | {"exposed_s": step.exposed_s}
                for name, step in steps.items()
            },
            "buckets": {
                kind: {key: each and each[number] for key, each in times.items()}
                | {"bound_kind": found.bound_kind}
                for number, (kind, found) in enumerate(self.buckets.items())
            },
        }


@dataclass(frozen=True)
class Tuned:
    """The best cut found, what it is measured against, and the way there.

    Every time is what `objective` makes of those of all scenarios, where there are several; with
    "step" it is the training step's, `outcome` is of its gradient bucket and `history` of buckets.
    before_s is infinite where the spec as it stands sends over a link that is down. scenarios_s,
    fresh_s: (scenarios,) times of "before", the heuristics and "after", in the scenarios that were
    tuned for and in as many others.
    """

    spec: Spec  # what was asked
    best: Spec  # the best, to be run as it is
    outcome: Outcome  # of the best
    before_s: float
    found_by: str  # "before", a heuristic's name, "loads", "engine", "whole"
    heuristics_s: dict[str, float]  # infinite where one sends over a link that is down
    bounds_s: dict[str, float]  # all hold for what was free
    optima_s: dict[str, float]  # of the linear programmes; bounds, not schedules
    parameters: int
    history: tuple[Step, ...]
    wall_s: dict[str, float]
    stopped: bool = False  # before all steps were done
    rounding_s: float | None = None  # whole sends: loads' time after rounding less that before
    objective: str | None = None  # "mean" | "p95" | "worst" of several scenarios, or "step"
    scenarios_s: dict[str, np.ndarray] = field(default_factory=dict)
    fresh_s: dict[str, np.ndarray] = field(default_factory=dict)
    cuts: dict[str, Weights | None] = field(default_factory=dict)  # all tried; None: as in spec
    step: TunedStep | None = None  # with objective "step"

    @property
    def after_s(self) -> float:
        """Time of the best."""
        if self.step is not None:
            return self.step.after.step_s
        if self.objective is None or self.outcome.scenarios is None:
            return self.outcome.time_s
        return value_of(self.objective, self.outcome.scenarios.times_s)

    @property
    def fresh_values_s(self) -> dict[str, float]:
        """The objective in the fresh scenarios, by name of the cut."""
        assert self.objective is not None or not self.fresh_s
        return {name: value_of(self.objective or "", each) for name, each in self.fresh_s.items()}

    @property
    def bound_kind(self) -> str:
        """Name of the largest bound."""
        return max(self.bounds_s, key=lambda name: self.bounds_s[name])

    @property
    def lower_bound_s(self) -> float:
        """The largest bound."""
        return self.bounds_s[self.bound_kind]

    @property
    def gap(self) -> float:
        """How far the best is above the bound, as a part of the bound."""
        bound = self.lower_bound_s
        return self.after_s / bound - 1.0 if bound > 0 else 0.0

    def to_json(self) -> dict:
        """The object of `mrcjax tune --json`; null stands for infinite."""
        return {
            "schema": 1,
            "network": {"kind": self.outcome.kind, "ranks": self.outcome.ranks},
            "collective": {
                "kind": self.outcome.collective,
                "algorithm": self.outcome.algorithm,
                "bytes": self.outcome.size_bytes,
            },
            "objective": self.objective,
            "before_s": _finite(self.before_s),
            "after_s": self.after_s,
            "found_by": self.found_by,
            "heuristics_s": {name: _finite(value) for name, value in self.heuristics_s.items()},
            "lower_bound_s": self.lower_bound_s,
            "bound_kind": self.bound_kind,
            "bounds_s": self.bounds_s,
            "lp_s": self.optima_s.get("programme"),
            "optima_s": self.optima_s,
            "gap": self.gap,
            "rounding_s": self.rounding_s,
            "fresh_s": {name: _finite(value) for name, value in self.fresh_values_s.items()},
            "parameters": self.parameters,
            "iterations": len(self.history),
            "stopped": self.stopped,
            **({"training": self.step.to_json()} if self.step is not None else {}),
            "device": self.outcome.device,
            "wall_s": self.wall_s,
        }


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
