"""A search in files: its history and its best in an archive, the best as a spec to run."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from mrcjax import archive
from mrcjax.archive import Column, Table
from mrcjax.spec import Spec, SpecError, load_spec, spec_to_toml
from mrcjax.tuning.tuned import Step, Tuned
from mrcjax.tuning.weights import Weights, weights_of_spec

RUN, HISTORY, RESULT = "tuned", "tuned-history", "tuned-result"
SCENARIOS = "tuned-scenarios"
HEADING = "# Written by `mrcjax tune`"


def keep(path: Path, found: Tuned, *, command: str, started: datetime | None = None) -> None:
    """Add the best run, the result and every step to an archive."""
    tables = {HISTORY: _history(found), RESULT: _result(found)}
    if found.scenarios_s:
        tables[SCENARIOS] = _scenarios(found)
    archive.write(path, {RUN: found.outcome}, command=command, tables=tables, started=started)


def write_spec(path: Path, best: Spec, *, command: str) -> None:
    """Write what was found as a spec; SpecError where something else stands there."""
    check_spec_file(path)
    text = f"{HEADING}: {command}\n\n{spec_to_toml(best)}"
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None


def check_spec_file(path: Path) -> None:
    """Refuse a file that is no tuned spec, before hours of computing."""
    try:
        is_ours = not path.exists() or path.read_text(encoding="utf-8").startswith(HEADING)
    except (OSError, UnicodeDecodeError) as error:
        raise _unwritable(path, error) from None
    if not is_ours:
        raise SpecError(
            f"{path} is there already, and no tuned spec",
            remedy="name another file with --tuned",
        )


def kept(path: Path, spec: Spec) -> tuple[Weights, list[Step]]:
    """The best cut and all steps of the last search in an archive, to go on from.

    Raises SpecError where that search was for another network, collective or damage.
    """
    stored = archive.load_runs(path)
    runs = [name for name in stored.runs if name.split("-")[0] == RUN]
    if not runs:
        raise SpecError(
            f"{path} holds no search to go on with", remedy="leave --resume out to begin one"
        )
    before = load_spec(stored.runs[runs[-1]].spec_text)
    if _subject(before, asked=spec) != _subject(spec, asked=spec):
        raise SpecError(
            f"{path} holds a search for another network, collective, step or damage",
            remedy="name its archive with --out, or leave --resume out",
        )
    tables = [table for name, table in stored.tables.items() if name.startswith(HISTORY)]
    steps = [
        Step(row["stage"], row["number"], row["smooth_s"], row["exact_s"])
        for row in (tables[-1].rows if tables else ())
    ]
    return weights_of_spec(before), steps


def _subject(spec: Spec, asked: Spec) -> tuple:
    """What a search is about; of a training step the buckets follow from the rest."""
    network = msgspec.structs.replace(spec.network, channels=None)  # which a search may change
    about = network, spec.faults
    if asked.tune is not None and asked.tune.objective == "step":
        return *about, spec.training
    return *about, spec.the_collective.kind, spec.the_collective.size


def _history(found: Tuned) -> Table:
    columns = (
        Column("stage", "stage"),
        Column("number", "step"),
        Column("smooth_s", "smooth", "s"),
        Column("exact_s", "time", "s"),
    )
    return Table([vars(step) for step in found.history], columns, "Steps of the search")


def _result(found: Tuned) -> Table:
    columns = [Column("what", "what"), Column("seconds", "time", "s", digits=6)]
    title = "Before and after, and what no cut can beat"
    if found.step is not None:
        title += ": the training step"
    elif found.objective is not None:
        columns.append(Column("fresh_s", "in fresh scenarios", "s", digits=6))
        title += f": {found.objective} of {len(found.fresh_s['after'])} scenarios"
    rows = [
        {"what": name, "seconds": seconds, "fresh_s": fresh}
        for name, seconds, fresh in result_rows(found)
    ]
    return Table(rows, tuple(columns), title)


def result_rows(found: Tuned) -> Sequence[tuple[str, float | None, float | None]]:
    """What a search is about, in the order to read it: name, seconds, seconds in fresh scenarios.

    None for never, and where there is no such thing.
    """
    fresh = found.fresh_values_s
    rows = [("before", found.before_s, fresh.get("before"))]
    rows += [(name, value, fresh.get(name)) for name, value in found.heuristics_s.items()]
    rows += [(f"after ({found.found_by})", found.after_s, fresh.get("after"))]
    rows += [(f"lower bound ({found.bound_kind})", found.lower_bound_s, None)]
    rows += [(name, value, None) for name, value in found.optima_s.items()]
    return [(name, _finite(value), again and _finite(again)) for name, value, again in rows]


def _scenarios(found: Tuned) -> Table:
    """Every scenario's time before and after."""
    columns = [Column("scenario", "scenario")]
    names = {"before": "before", "equal": "equal", "after": "after"}
    series = {}
    for key, name in names.items():
        for kind, times in (("", found.scenarios_s), (", fresh", found.fresh_s)):
            series[f"{key}{kind}"] = times[name]
            columns.append(Column(f"{key}{kind}", f"{name}{kind}", "s", digits=6))
    rows = [
        {"scenario": s} | {key: _finite(times[s]) for key, times in series.items()}
        for s in range(len(found.scenarios_s["after"]))
    ]
    return Table(rows, tuple(columns), "Times of all scenarios")


def _finite(value: float) -> float | None:
    return float(value) if value < float("inf") else None  # NumPy's floats are no JSON


def _unwritable(path: Path, error: Exception) -> SpecError:
    reason = getattr(error, "strerror", None) or "not text"
    return SpecError(
        f"{path} cannot be written ({reason})", remedy="name another file with --tuned"
    )
