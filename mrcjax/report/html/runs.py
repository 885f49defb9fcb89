"""The sections of a page about runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from mrcjax.archive import Archive, Column, Run
from mrcjax.report.html import figures
from mrcjax.report.html.blocks import (
    Block,
    Fact,
    Facts,
    Section,
    Verbatim,
    Words,
    grid,
    grid_of,
    titles_of,
)
from mrcjax.report.search import is_search
from mrcjax.report.table import runs_table, tier_table, time_column
from mrcjax.units import format_bytes, format_rate, format_seconds

MOST_RUNS = 200  # that are read in full; of more the tables say only what the file lists
MOST_SPECS = 50

# what a rule of a tier means; a rule may have a number in brackets, and several are joined by "+"
_RULES = {
    "single": "at most one chunk per link and round: exact",
    "slots": "a few lanes share a link, served in the order of their heads: exact",
    "sort": "chunks queue in the order of their heads, round after round",
    "sort by arrival": "chunks queue in the order in which they arrive",
    "share": "chunks of a round share a link without order: off by its work of a round at most",
    "max-min": "sends share a link at max-min fair rates",
    "unused": "nothing crosses",
}


def sections_of_runs(
    stored: Archive, assumptions: Sequence[Mapping[str, Any]]
) -> tuple[str, list[Section]]:
    """Return the title of the page and its sections."""
    runs = list(stored.runs.values())[:MOST_RUNS]
    rows = stored.table()
    left_out = len(rows) - len(runs)
    sections = [
        Section("summary", "Summary", _summary(stored, rows)),
        Section("tables", "Tables", _tables(stored, rows)),
        Section("figures", "Figures", figures.of_archive(stored, runs)),
    ]
    if runs:
        sections += [
            Section("bounds", "Lower bounds", _bounds(runs, left_out)),
            Section("assumptions", "Assumptions", _assumptions(runs, assumptions)),
            Section("warnings", "Warnings", _warnings(runs)),
            Section("provenance", "Provenance", _provenance(stored, runs, left_out)),
        ]
    return _title(stored), [section for section in sections if section.blocks]


def _title(stored: Archive) -> str:
    if len(stored.runs) != 1:
        return stored.path.stem
    run = stored.run()
    return (
        f"{run.collective} of {format_bytes(run.size_bytes)} by {run.algorithm} on {run.kind}, "
        f"{run.ranks:,} ranks"
    )


# ---- summary


def _summary(stored: Archive, rows: list[dict[str, Any]]) -> list[Block]:
    if not rows:
        count = len(stored.tables)
        return [Words([f"No runs; {count} table{'' if count == 1 else 's'}."])]
    if len(rows) == 1:
        return [_facts_of_run(stored.run())]
    return [_facts_of_runs(rows), Words(_said_of_runs(rows))]


def _facts_of_run(run: Run) -> Facts:
    busy = f"busiest link busy {run.binding.utilisation:.1%} of the time"
    binding = {"none": "nothing", "latency": "latency"}.get(run.binding.resource, run.binding.name)
    facts = [
        Fact("Completion time", format_seconds(run.time_s)),
        Fact(
            "Lower bound", format_seconds(run.lower_bound_s), f"{run.bound_kind}, for any schedule"
        ),
        Fact("Time over lower bound", f"{run.bound_ratio:.3f} ×"),
        Fact("Binding resource", binding, busy if run.binding.resource != "none" else ""),
        Fact(
            "Bus bandwidth",
            format_rate(run.busbw_bytes_per_s),
            f"algorithm bandwidth {format_rate(run.algbw_bytes_per_s)}",
        ),
    ]
    if run.scenarios is not None:
        spread = run.scenarios.spread_s()
        facts.append(
            Fact(
                f"{len(run.scenarios.times_s):,} scenarios",
                f"p99 {format_seconds(spread['p99'])}",
                f"median {format_seconds(spread['median'])}, "
                f"largest {format_seconds(spread['max'])}",
            )
        )
    return Facts(facts)


def _facts_of_runs(rows: list[dict[str, Any]]) -> Facts:
    sent = [row for row in rows if row["time_s"] > 0] or rows
    best, worst = (f(sent, key=lambda row: row["bound_ratio"]) for f in (min, max))
    ranks = [row["ranks"] for row in rows]
    low, high = min(ranks), max(ranks)
    kinds = list(dict.fromkeys(row["network"] for row in rows))
    return Facts(
        [
            Fact("Runs", f"{len(rows):,}"),
            Fact("Networks", f"{len(kinds)}", ", ".join(kinds[:6]) + (" ..." * (len(kinds) > 6))),
            Fact("Ranks", f"{low:,}" if low == high else f"{low:,} to {high:,}"),
            Fact("Nearest to its bound", f"{best['bound_ratio']:.3f} ×", str(best["run"])),
            Fact("Farthest from its bound", f"{worst['bound_ratio']:.3f} ×", str(worst["run"])),
        ]
    )


def _said_of_runs(rows: list[dict[str, Any]]) -> list[str]:
    """For each collective that several runs do: the quickest, and how far the slowest is."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["collective"], row["size_bytes"]), []).append(row)
    said = []
    for (collective, size), group in groups.items():
        quickest, slowest = (f(group, key=lambda row: row["time_s"]) for f in (min, max))
        if len(group) > 1 and quickest["time_s"] > 0:
            times = slowest["time_s"] / quickest["time_s"]
            said.append(
                f"{collective} of {format_bytes(size)}: of {len(group):,} runs "
                f"“{quickest['run']}” is the quickest with "
                f"{format_seconds(quickest['time_s'])}; “{slowest['run']}” takes "
                f"{format_seconds(slowest['time_s'])}, {times:.4g} times as long."
            )
    if len(said) > _MOST_SAID:
        said = [*said[:_MOST_SAID], f"{len(said) - _MOST_SAID} more sizes: see the table of runs."]
    return said


_MOST_SAID = 6


# ---- tables


def _tables(stored: Archive, rows: list[dict[str, Any]]) -> list[Block]:
    titles = titles_of(stored.tables)
    blocks: list[Block] = [
        grid_of(table, titles[name])
        for name, table in stored.tables.items()
        if not is_search(table)
    ]
    if len(rows) > 1:
        blocks.append(grid(*runs_table(rows), title="All runs"))
    elif rows:
        run = stored.run()
        if run.tiers:
            blocks.append(grid(*tier_table(run), title="Links by tier"))
    return blocks


# ---- bounds


def _bounds(runs: list[Run], left_out: int) -> list[Block]:
    names = list(dict.fromkeys(name for run in runs for name in run.bounds_s))
    times_s = [run.time_s for run in runs]
    unit = time_column("", "", times_s)
    rows = [
        {
            "run": run.name,
            "time_s": run.time_s,
            "lower_bound_s": run.lower_bound_s,
            "kind": run.bound_kind,
            "ratio": run.bound_ratio,
            "schedule_s": run.schedule_bound_s,
            "binding": run.binding.name or run.binding.resource,
            "busy": run.binding.utilisation,
        }
        | {f"bound {name}": run.bounds_s.get(name) for name in names}
        for run in runs
    ]
    columns = [
        Column("run", "run"),
        Column("time_s", "time", unit.unit, unit.scale),
        Column("lower_bound_s", "lower bound", unit.unit, unit.scale),
        Column("kind", "by"),
        Column("ratio", "time / bound"),
        Column("schedule_s", "bound of this schedule", unit.unit, unit.scale),
        Column("binding", "binding resource"),
        Column("busy", "busy", "%", 0.01),
        *(Column(f"bound {name}", f"by {name}", unit.unit, unit.scale) for name in names),
    ]
    return [
        Words(
            [
                "No schedule of any algorithm can be quicker than the lower bound on the same "
                "network; it is the largest of the bounds to the right. The bound of the schedule "
                "is also what its busiest link needs for its bytes. The binding resource is what "
                "that link is, or latency where links wait most of the time."
            ]
        ),
        grid(rows, columns, notes=_note_left_out(left_out)),
    ]


# ---- assumptions and warnings


def _assumptions(runs: list[Run], assumptions: Sequence[Mapping[str, Any]]) -> list[Block]:
    rules = dict.fromkeys((tier.name, tier.rule) for run in runs for tier in run.tiers)
    rows = [{"tier": tier, "rule": rule, "meaning": _meaning(rule)} for tier, rule in sorted(rules)]
    columns = [Column("tier", "tier"), Column("rule", "rule"), Column("meaning", "what it means")]
    blocks: list[Block] = []
    if assumptions:
        blocks.append(
            grid(
                assumptions,
                [(key, key, "") for key in ("assumption", "value", "source", "mark", "runs")],
                title="Hardware and training, from the catalogue and the specs",
            )
        )
    if rows:
        blocks.append(grid(rows, columns, title="How chunks share the links of a tier"))
    return blocks


def _meaning(rule: str) -> str:
    known = [_RULES.get(part.split("(")[0], "") for part in rule.split("+")]
    return "; or ".join(part for part in known if part)


def _warnings(runs: list[Run]) -> list[Block]:
    by_text: dict[str, list[str]] = {}
    for run in runs:
        for text in run.warnings:
            by_text.setdefault(text, []).append(run.name)
    if not by_text:
        return [Words(["None of the runs gave a warning."])]
    return [
        Words(
            [
                text if len(runs) == 1 else f"{text} ({_some(names, len(runs))})"
                for text, names in by_text.items()
            ],
            is_list=True,
        )
    ]


def _some(names: Sequence[str], of: int) -> str:
    if len(names) == of:
        return f"all {of:,} runs"
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


# ---- provenance


def _provenance(stored: Archive, runs: list[Run], left_out: int) -> list[Block]:
    rows = [
        {
            "run": run.name,
            "engine": run.engine,
            "precision": run.precision,
            "device": run.device,
            "started": run.started or None,
            "written": run.written,
            "seeds": ", ".join(f"{name} {seed}" for name, seed in run.seeds.items()) or None,
            "took": sum(run.wall_s.values()),
            "versions": ", ".join(f"{name} {text}" for name, text in run.versions.items()),
            "command": run.command,
        }
        for run in runs
    ]
    columns = [
        Column(key, key) for key in ("run", "engine", "precision", "device", "started", "written")
    ]
    columns += [
        Column("seeds", "seeds"),
        Column("took", "took", "s", digits=3),
        Column("versions", "versions"),
        Column("command", "command"),
    ]
    about = f"The file has schema {stored.schema} and was made {stored.created}."
    specs = [(f"Spec of {run.name}", run.spec_text) for run in runs[:MOST_SPECS]]
    notes = _note_left_out(left_out)
    if len(runs) > MOST_SPECS:
        more = len(runs) - MOST_SPECS
        notes = [*notes, f"Specs of {more:,} more runs are in the file."]
    return [Words([about]), grid(rows, columns, notes=notes), Verbatim(specs)]


def _note_left_out(count: int) -> list[str]:
    return [f"{count:,} more runs are in the file but not in this table."] if count > 0 else []
