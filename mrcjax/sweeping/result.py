"""What a sweep keeps of one point: numbers and words, and its ranks' finish times."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mrcjax.archive import scalars_of
from mrcjax.outcome import Outcome
from mrcjax.spec import SpecError
from mrcjax.step import TrainingOutcome

_SPREAD = {"min": 0, "median": 50, "p95": 95, "p99": 99, "max": 100}


@dataclass(frozen=True)
class Result:
    """A point that is done: its values by name, and (ranks,) finish times where they are kept.

    Of one that failed there is only the reason.
    """

    values: dict[str, Any] = field(default_factory=dict)
    finish_s: np.ndarray | None = None
    reason: str = ""


def failed(error: SpecError) -> Result:
    """The result of a spec that cannot be run."""
    return Result(reason=str(error))


def result_of(
    outcome: Outcome, keep: tuple[str, ...], trained: TrainingOutcome | None = None
) -> Result:
    """What is kept of a run."""
    values = scalars_of(outcome)
    spread = np.percentile(outcome.finish_s, list(_SPREAD.values()))
    values |= {f"finish_{name}_s": float(x) for name, x in zip(_SPREAD, spread, strict=True)}
    values["wall_s"] = sum(outcome.wall_s.values())
    values["warnings"] = "; ".join(outcome.warnings)
    if outcome.scenarios is not None:
        found = outcome.scenarios.spread_s()
        values |= {f"scenario_{name}_s": value for name, value in found.items()}
    if trained is not None:
        values |= _training(trained)
    return Result(values, outcome.finish_s if "finish" in keep else None)


def _training(trained: TrainingOutcome) -> dict[str, float]:
    step, cost = trained.step, trained.cost
    values = {
        "step_s": step.step_s,
        "exposed_s": step.exposed_s,
        "utilisation": step.utilisation,
        "mfu": step.mfu,
        "tokens_per_s": step.tokens_per_s,
    }
    if cost is not None:
        values |= {
            "run_usd": cost.total_usd,
            "run_hours": cost.hours,
            "energy_kwh": cost.energy_kwh,
        }
    return {name: float(value) for name, value in values.items()}
