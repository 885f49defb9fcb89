"""What rate of the rails would make a completion time true."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import scipy.optimize

from mrcjax.emulation import run
from mrcjax.outcome import Outcome
from mrcjax.spec import FlatRails, RatesPerPort, Spec, SpecError
from mrcjax.tuning.damage import check_faults
from mrcjax.units import BytesPerSecond, format_seconds

WIDEST = 2.0**40  # factors of the rate beyond that are no answer


@dataclass(frozen=True)
class Reached:
    """Rates of the rails at which a spec takes as long as it should."""

    target_s: float
    factor: float  # of the rates that the spec has
    rail_bytes_per_s: tuple[float, ...]  # of each rail
    best: Spec
    outcome: Outcome  # of `best`

    def to_json(self) -> dict:
        """The object of `mrcjax tune --json` with a target."""
        return {
            "schema": 1,
            "target_s": self.target_s,
            "after_s": self.outcome.time_s,
            "factor": self.factor,
            "rail_rate_bytes_per_s": list(self.rail_bytes_per_s),
            "lower_bound_s": self.outcome.lower_bound_s,
            "bound_kind": self.outcome.bound_kind,
        }


def reach(spec: Spec, *, report: Callable[[str], None] = lambda text: None) -> Reached:
    """Scale the rates of all rails until the spec takes tune.target_time.

    Time falls as rates rise, so there is one answer or none. Raises SpecError where there is no
    rate to scale, and where latency alone takes longer.
    """
    network = spec.network
    assert spec.tune is not None
    assert spec.tune.target_time is not None
    target = float(spec.tune.target_time)
    if not isinstance(network, FlatRails):
        raise SpecError(
            "has no rails whose rate could be found",
            where="network.kind",
            value=network.kind,
            remedy='use kind = "flat_rails", or leave tune.target_time out',
        )
    check_faults(spec)

    def at(log_factor: float) -> tuple[Spec, Outcome]:
        rates = tuple(BytesPerSecond(rate * math.exp(log_factor)) for rate in network.port_rates)
        scaled = msgspec.structs.replace(network, rail_rate=RatesPerPort(rates), rail=None)
        best = msgspec.structs.replace(spec, network=scaled, tune=None)
        outcome = run(best)
        report(f"at {math.exp(log_factor):.6g} of the rate {format_seconds(outcome.time_s)}")
        return best, outcome

    def excess(log_factor: float) -> float:
        return math.log(at(log_factor)[1].time_s / target)

    low, high = _bracket(excess)
    if high is None:
        raise SpecError(
            f"is below the {format_seconds(at(low)[1].time_s)} that are left at any rate",
            where="tune.target_time",
            value=spec.tune.target_time,
            remedy="latency takes those; ask for more time",
        )
    root: Any = scipy.optimize.brentq(excess, low, high, xtol=1e-15)
    best, outcome = at(float(root))
    rates = best.network.port_rates
    return Reached(target, math.exp(float(root)), tuple(rates), best, outcome)


def _bracket(excess: Callable[[float], float]) -> tuple[float, float | None]:
    """Logarithms of factors around the answer; None where no rate is high enough."""
    here, step = 0.0, math.log(4.0)
    too_slow = excess(here) > 0
    while abs(here) < math.log(WIDEST):
        there = here + (step if too_slow else -step)
        if (excess(there) > 0) != too_slow:
            return min(here, there), max(here, there)
        here, step = there, 2 * step
    return here, None
