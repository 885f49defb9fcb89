"""What a search came to, for a terminal."""

from mrcjax.report.table import text_table
from mrcjax.tuning.keeping import result_rows
from mrcjax.tuning.target import Reached
from mrcjax.tuning.tuned import Tuned, TunedStep
from mrcjax.units import format_bytes, format_rate, format_seconds

NEVER = "never: a link is down"


def tuned_text(found: Tuned) -> str:
    """Before, simple cuts, after and bounds, each against the lower bound."""
    outcome, bound = found.outcome, found.lower_bound_s
    rows = []
    for name, seconds, fresh in result_rows(found):
        is_never = seconds is None
        row = {"": name, "time": NEVER if is_never else format_seconds(seconds)}
        row["/ lower bound"] = "" if is_never or not bound else f"{seconds / bound:.4f}"
        if found.fresh_s:
            row["fresh scenarios"] = _fresh(found, name, fresh)
        rows.append(row)
    took = ", ".join(f"{name} {format_seconds(s)}" for name, s in found.wall_s.items())
    lines = [
        f"{outcome.collective} of {format_bytes(outcome.size_bytes)} per rank on {outcome.kind} "
        f"with {outcome.ranks:,} ranks{_of_what(found)}",
        "",
        text_table(rows),
        "",
        f"{found.gap:.3%} above the lower bound; {found.parameters:,} parameters, "
        f"{len(found.history):,} steps",
    ]
    if found.step is not None:
        lines.append(_of_step(found.step))
    if found.rounding_s is not None:
        share = found.rounding_s / bound if bound else 0.0
        lines.append(f"whole sends cost {share:.3%} of the bound by loads")
    if found.stopped:
        lines.append("stopped early; --resume goes on")
    return "\n".join([*lines, f"took {took}"])


def _of_what(found: Tuned) -> str:
    if found.step is not None:
        return ", for the training step"
    if found.objective is None:
        return ""
    what = {"mean": "the mean", "p95": "95th percentile", "worst": "the largest"}
    return f", {what[found.objective]} of {len(found.scenarios_s['after'])} scenarios"


def _of_step(step: TunedStep) -> str:
    """Utilisation and exposed communication, and what of it is to be had at all."""
    steps = {"before": step.before, "after": step.after, "at the bound": step.bound}
    known = [(name, each) for name, each in steps.items() if each is not None]
    used = ", ".join(f"{100 * each.utilisation:.2f} % {name}" for name, each in known)
    exposed = ", ".join(f"{format_seconds(each.exposed_s)} {name}" for name, each in known)
    lines = [f"utilisation {used}", f"exposed communication {exposed}"]
    if step.before is not None:
        gain = 1.0 - step.bound.step_s / step.before.step_s
        lines.append(f"no cut makes the step more than {gain:.3%} shorter than before")
        if step.before.exposed_s <= sum(step.before.bucket_times_s) * (1 + 1e-9):
            lines[-1] += ": computing hides all buckets but one of each kind"
    return "\n".join(lines)


def _fresh(found: Tuned, name: str, seconds: float | None) -> str:
    """A time in the fresh scenarios; cuts have one, bounds and programmes none."""
    if seconds is not None:
        return format_seconds(seconds)
    return NEVER if name in found.fresh_s else ""


def reached_text(found: Reached) -> str:
    """The rate that was asked for, and what it gives."""
    rates = dict.fromkeys(format_rate(rate) for rate in found.rail_bytes_per_s)
    outcome = found.outcome
    return (
        f"{outcome.collective} on {outcome.kind} with {outcome.ranks:,} ranks takes "
        f"{format_seconds(outcome.time_s)} with rails of {', '.join(rates)}, "
        f"{found.factor:.6g} times the rate of the spec"
    )
