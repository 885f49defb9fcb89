"""A search under way: the cuts tried so far, the best of them, and the steps taken."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from mrcjax.case import Case, recut
from mrcjax.emulation import scenarios_of, times_of
from mrcjax.engine import Times
from mrcjax.outcome import Scenarios
from mrcjax.spec import Spec, TuneSpec
from mrcjax.tuning.batch import DEFAULT, EmulatedBatch, Loads, value_of
from mrcjax.tuning.classes import Classes
from mrcjax.tuning.descent import BLOCK, Descent, Objective, adam, annealed, descend
from mrcjax.tuning.emulated import Emulated
from mrcjax.tuning.surrogate import Cutting, Load
from mrcjax.tuning.tuned import Step
from mrcjax.tuning.weights import Weights
from mrcjax.units import format_seconds

T = TypeVar("T")
Report = Callable[[str], None]


@dataclass(frozen=True)
class Tried:
    """A cut and what the engine says to it."""

    name: str
    time_s: float
    case: Case
    times: Times
    weights: Weights | None
    scenarios: Scenarios | None


@dataclass
class Search:
    """A search under way."""

    spec: Spec
    options: TuneSpec
    case: Case
    classes: Classes
    report: Report
    is_stopped: Callable[[], bool]
    history: list[Step] = field(default_factory=list)
    tried: dict[str, Tried] = field(default_factory=dict)
    best: Tried | None = None
    wall_s: dict[str, float] = field(default_factory=dict)
    stopped: bool = False

    @property
    def objective(self) -> str | None:
        """What is made of the times of several scenarios; None where there is one."""
        if self.spec.faults.scenarios == 1:
            return None
        return self.options.objective or DEFAULT

    @property
    def pieces(self) -> tuple[int, ...]:
        """Numbers of pieces to try."""
        return self.options.chunks or (self.spec.the_collective.chunks,)

    def emulate(self, name: str, weights: Weights | None) -> float:
        """Time a cut on the engine and keep the best; None is the spec as it stands."""
        self.report(f"emulating {name}")
        case = self.case if weights is None else recut(self.case, weights.into(self.spec))
        times, scenarios = times_of(case), scenarios_of(case)
        time_s = float(times.time_s)
        time_s = time_s if math.isfinite(time_s) else math.inf
        is_finite = math.isfinite(time_s)
        if scenarios is not None and self.objective is not None:
            time_s = value_of(self.objective, scenarios.times_s)
            is_finite = bool(np.isfinite(scenarios.times_s).all())
        self.tried[name] = found = Tried(name, time_s, case, times, weights, scenarios)
        is_whole = weights.rail is not None if weights else not self.spec.the_collective.stripe
        is_wanted = is_whole or self.options.rails != "whole" or self.case.network.ports == 1
        # what never ends in one scenario is no spec to run
        is_wanted &= is_finite or self.best is None
        if is_wanted and (self.best is None or time_s < self.best.time_s):
            self.best = found
        return time_s

    def timed(self, name: str, work: Callable[..., T], *args, **kwargs) -> T:
        """Do the work and note how long it took."""
        before = time.perf_counter()
        found = work(*args, **kwargs)
        self.wall_s[name] = time.perf_counter() - before
        return found

    def descend(
        self,
        stage: str,
        objective: Objective,
        constants: Load | Loads | Emulated | EmulatedBatch,
        first: Cutting,
        steps: int,
        rate: float,
    ) -> Descent:
        """Go down an objective, from where the steps of this stage left off, and note the steps."""

        def look(more: int, best_s: float) -> bool:
            self.report(f"{stage}: step {done + more} of {steps}, {format_seconds(best_s)}")
            return not self.is_stopped()

        done = min(steps, sum(step.stage == stage for step in self.history))
        warm, cold = self.options.temperature
        if stage == "engine":  # which begins where the loads ended
            warm = math.sqrt(warm * cold)
        found = descend(
            objective,
            constants,
            first,
            annealed(warm, cold, steps)[done:],
            adam(rate, steps, done),
            on_block=look,
            block=5 if stage == "engine" else BLOCK,
        )
        values = zip(found.smooth_s, found.exact_s, strict=True)
        self.history += [
            Step(stage, done + n, smooth, exact) for n, (smooth, exact) in enumerate(values)
        ]
        self.stopped = self.stopped or found.stopped
        return found
