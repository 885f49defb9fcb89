"""`compare SPEC ...`: networks of the reader's own, side by side, of any kind."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mrcjax.archive import Column, Table
from mrcjax.case import build
from mrcjax.comparison.compared import Compared
from mrcjax.comparison.rows import step_spec
from mrcjax.emulation import precision, run
from mrcjax.network.inventory import Inventory, inventory
from mrcjax.outcome import Outcome
from mrcjax.spec import Spec, SpecError
from mrcjax.step import TrainingOutcome, train
from mrcjax.units import format_bytes

_MS, _PERCENT, _KW, _MUSD, _MILLION = 1e-3, 0.01, 1e3, 1e6, 1e6


@dataclass(frozen=True)
class _Row:
    name: str
    spec: Spec
    outcome: Outcome
    materials: Inventory
    trained: TrainingOutcome | None


def compare_specs(
    specs: Mapping[str, Spec], progress: Callable[[str], None] | None = None
) -> Compared:
    """Emulate each spec's collective, and its training step where it has `[training]`.

    Args:
        specs: by the name of their row.
        progress: told what is being done.

    Raises:
        SpecError: for the first spec that cannot be built, before anything is emulated; its
            message starts with the name of the row.
    """
    started = datetime.now(UTC)
    for name, spec in specs.items():
        _named(name, _check, spec)
    rows = []
    for number, (name, spec) in enumerate(specs.items()):
        if progress is not None:
            progress(f"{number} of {len(specs)} emulated, now {name}")
        trained = None if spec.training is None else _named(name, train, step_spec(spec))
        rows.append(_Row(name, spec, _named(name, run, spec), inventory(spec.network), trained))
    runs: dict[str, Outcome] = {}
    for row in rows:
        runs[row.name] = row.outcome
        if row.trained is not None:
            runs |= {f"{row.name}-bucket-{k}": each for k, each in row.trained.outcomes.items()}
    tables = {"collective": _collectives(rows), "hardware": _hardware(rows)}
    if any(row.trained is not None for row in rows):
        tables["step"] = _steps(rows)
    return Compared(runs=runs, tables=tables, bars={"compare_own": _bars(rows)}, started=started)


def _check(spec: Spec) -> None:
    with precision(spec.engine.precision):
        build(spec)
    inventory(spec.network)


def _named(name: str, work: Callable[[Spec], Any], spec: Spec) -> Any:
    try:
        return work(spec)
    except SpecError as error:
        raise SpecError(f"{name}: {error}") from error


def _collectives(rows: list[_Row]) -> Table:
    lines = [
        {
            "name": row.name,
            "kind": row.outcome.kind,
            "ranks": row.outcome.ranks,
            "rate": math.fsum(row.spec.network.port_rates),
            "collective": f"{row.outcome.collective} of {format_bytes(row.outcome.size_bytes)}",
            "algorithm": row.outcome.algorithm,
            "time_s": row.outcome.time_s,
            "bound_s": row.outcome.lower_bound_s,
            "ratio": row.outcome.bound_ratio,
            "binding": row.outcome.binding.name,
        }
        for row in rows
    ]
    columns = (
        Column("name", "network"),
        Column("kind", "kind"),
        Column("ranks", "ranks"),
        Column("rate", "per rank", "GB/s", 1e9),
        Column("collective", "collective"),
        Column("algorithm", "algorithm"),
        Column("time_s", "time", "ms", _MS, bound_key="bound_s"),
        Column("bound_s", "lower bound", "ms", _MS),
        Column("ratio", "time / bound"),
        Column("binding", "busiest resource"),
    )
    notes = [f"- {row.name}: {said}" for row in rows for said in row.outcome.warnings]
    return Table(lines, columns, title="The collective on each network", notes=notes)


def _steps(rows: list[_Row]) -> Table:
    lines, notes = [], []
    for row in rows:
        if row.trained is None:
            continue
        step, cost = row.trained.step, row.trained.cost
        lines.append(
            {
                "name": row.name,
                "bucket_s": row.trained.t_rs_s,
                "exposed_s": step.exposed_s,
                "step_s": step.step_s,
                "utilisation": step.utilisation,
                "mfu": step.mfu,
                "tokens_per_s": step.tokens_per_s,
                "run_usd": None if cost is None else cost.total_usd,
            }
        )
        said = [w for w in row.trained.warnings if w not in row.outcome.warnings]
        notes += [f"- {row.name}: {each}" for each in said]
    columns = (
        Column("name", "network"),
        Column("bucket_s", "bucket", "ms", _MS),
        Column("exposed_s", "exposed", "ms", _MS, digits=3),
        Column("step_s", "step", "s"),
        Column("utilisation", "utilised", "%", _PERCENT, digits=3),
        Column("mfu", "MFU", "%", _PERCENT, digits=3),
        Column("tokens_per_s", "tokens/s", "M/s", _MILLION),
        Column("run_usd", "run", "M$", _MUSD, digits=3),
    )
    return Table(lines, columns, title="The training step", notes=notes)


def _hardware(rows: list[_Row]) -> Table:
    lines, notes = [], []
    for row in rows:
        of = row.materials
        lines.append(
            {
                "name": row.name,
                "realisation": of.realisation,
                "switches": of.switches,
                "cables": of.cables,
                "network_w": of.watts_without_nics,
                "with_nics_w": of.watts_with_nics,
                "network_usd": of.usd_without_nics,
                "with_nics_usd": of.usd_with_nics,
            }
        )
        notes += [f"- {row.name}: {note}" for note in of.notes]
    columns = (
        Column("name", "network"),
        Column("realisation", "hardware"),
        Column("switches", "switches"),
        Column("cables", "cables"),
        Column("network_w", "power", "kW", _KW, digits=3),
        Column("with_nics_w", "with NICs", "kW", _KW, digits=3),
        Column("network_usd", "price", "M$", _MUSD, digits=3),
        Column("with_nics_usd", "with NICs", "M$", _MUSD, digits=3),
    )
    return Table(lines, columns, title="What it is built of, power and price", notes=notes)


def _bars(rows: list[_Row]) -> Table:
    lines = [
        {
            "name": row.name,
            "time_s": row.outcome.time_s,
            "bound_s": row.outcome.lower_bound_s,
            "utilisation": None if row.trained is None else row.trained.step.utilisation,
            "network_w": row.materials.watts_without_nics,
            "with_nics_usd": row.materials.usd_with_nics,
        }
        for row in rows
    ]
    columns = [
        Column("time_s", "collective", "ms", _MS, "bound_s"),
        Column("utilisation", "utilisation", "%", _PERCENT, digits=3),
        Column("network_w", "switches + modules", "kW", _KW, digits=3),
        Column("with_nics_usd", "price with NICs", "M$", _MUSD, digits=3),
    ]
    known = [c for c in columns if any(line[c.key] is not None for line in lines)]
    notes = ["Lower bounds hold for any algorithm."]
    return Table(lines, tuple(known), title="Networks side by side", notes=notes)
