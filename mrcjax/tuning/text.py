"""What a search came to, for a terminal."""

from mrcjax.report.table import text_table
from mrcjax.tuning.keeping import result_rows
from mrcjax.tuning.target import Reached
from mrcjax.tuning.tuned import Tuned
from mrcjax.units import format_bytes, format_rate, format_seconds


def tuned_text(found: Tuned) -> str:
    """Before, simple cuts, after and bounds, each against the lower bound."""
    outcome, bound = found.outcome, found.lower_bound_s
    rows = [
        {
            "": name,
            "time": "never: a link is down" if seconds is None else format_seconds(seconds),
            "/ lower bound": "" if seconds is None or not bound else f"{seconds / bound:.4f}",
        }
        for name, seconds in result_rows(found)
    ]
    took = ", ".join(f"{name} {format_seconds(s)}" for name, s in found.wall_s.items())
    lines = [
        f"{outcome.collective} of {format_bytes(outcome.size_bytes)} per rank on {outcome.kind} "
        f"with {outcome.ranks:,} ranks",
        "",
        text_table(rows),
        "",
        f"{found.gap:.3%} above the lower bound; {found.parameters:,} parameters, "
        f"{len(found.history):,} steps",
    ]
    if found.rounding_s is not None:
        share = found.rounding_s / bound if bound else 0.0
        lines.append(f"whole sends cost {share:.3%} of the bound by loads")
    if found.stopped:
        lines.append("stopped early; --resume goes on")
    return "\n".join([*lines, f"took {took}"])


def reached_text(found: Reached) -> str:
    """The rate that was asked for, and what it gives."""
    rates = dict.fromkeys(format_rate(rate) for rate in found.rail_bytes_per_s)
    outcome = found.outcome
    return (
        f"{outcome.collective} on {outcome.kind} with {outcome.ranks:,} ranks takes "
        f"{format_seconds(outcome.time_s)} with rails of {', '.join(rates)}, "
        f"{found.factor:.6g} times the rate of the spec"
    )
