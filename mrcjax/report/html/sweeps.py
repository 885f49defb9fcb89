"""The sections of a page about a sweep."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mrcjax.archive import Column, Sweep
from mrcjax.report import plot
from mrcjax.report.html.blocks import (
    MOST_ROWS,
    Block,
    Drawn,
    Fact,
    Facts,
    Section,
    Verbatim,
    Words,
    grid,
)
from mrcjax.report.sweep import axis_column, counts, label_text
from mrcjax.report.table import time_column
from mrcjax.units import format_rate, format_seconds

_MORE = (  # shown where the sweep has them
    Column("utilisation", "utilised", "%", 0.01),
    Column("mfu", "MFU", "%", 0.01),
    Column("tokens_per_s", "tokens/s", "M/s", 1e6),
    Column("run_usd", "cost of a run", "M$", 1e6),
)
_MOST_SAID = 40


def sections_of_sweep(
    sweep: Sweep, assumptions: Sequence[Mapping[str, Any]]
) -> tuple[str, list[Section]]:
    """Return the title of the page and its sections."""
    done = list(sweep.places("done"))
    sections = [
        Section("summary", "Summary", _summary(sweep, done)),
        Section("figures", "Figures", _figures(sweep)),
        Section("points", "Points", _points(sweep, done)),
        Section("bounds", "Lower bounds", _bounds(sweep, done)),
        Section("assumptions", "Assumptions", _assumptions(assumptions)),
        Section("warnings", "Warnings", _warnings(sweep, done)),
        Section("provenance", "Provenance", _provenance(sweep)),
    ]
    return f"Sweep {sweep.path.stem}", [section for section in sections if section.blocks]


def _name(sweep: Sweep, at: tuple[int, ...]) -> str:
    """What tells a point from others: its labels on the axes with several."""
    parts = [label_text(axis, i) for axis, i in zip(sweep.axes, at, strict=True) if len(axis) > 1]
    return ", ".join(parts) or "the point"


def _summary(sweep: Sweep, done: list[tuple[int, ...]]) -> list[Block]:
    of = counts(sweep)
    excluded = sum(1 for _ in sweep.places("excluded"))
    more = [f"{n:,} {word}" for word, n in {**of, "left out": excluded}.items() if n]
    axes = ", ".join(f"{axis.name.rpartition('.')[2]} ({len(axis)})" for axis in sweep.axes)
    facts = [
        Fact("Points done", f"{of['done']:,}", ", ".join(more[1:])),
        Fact("Axes", str(len(sweep.axes)), axes),
    ]
    if not done:
        return [Facts(facts)]
    ratio = {at: float(sweep["bound_ratio"][at]) for at in done}
    near, far = min(done, key=ratio.__getitem__), max(done, key=ratio.__getitem__)
    busbw = {at: float(sweep["busbw_bytes_per_s"][at]) for at in done}
    quick = max(done, key=busbw.__getitem__)
    facts += [
        Fact("Nearest to its bound", f"{ratio[near]:.3f} ×", _name(sweep, near)),
        Fact("Farthest from its bound", f"{ratio[far]:.3f} ×", _name(sweep, far)),
        Fact("Highest bus bandwidth", format_rate(busbw[quick]), _name(sweep, quick)),
    ]
    said = []
    resources = Counter(str(sweep["binding_resource"][at]) for at in done)
    told = ", ".join(f"{word} in {number:,}" for word, number in resources.most_common())
    said.append(f"What binds: {told} of {len(done):,} points.")
    times_s = np.asarray([sweep["time_s"][at] for at in done])
    low, middle, high = (format_seconds(float(f(times_s))) for f in (np.min, np.median, np.max))
    said.append(f"Completion times reach from {low} to {high}, the median is {middle}.")
    return [Facts(facts), Words(said)]


def _figures(sweep: Sweep) -> list[Block]:
    return [
        Drawn(each.title, plot.inline(each.figure, f"f{number}", each.title), each.about)
        for number, each in enumerate(plot.sweep_figures(sweep))
    ]


def _label_columns(sweep: Sweep) -> list[Column]:
    return [axis_column(axis, key) for axis in sweep.axes for key in axis.coords]


def _points(sweep: Sweep, done: list[tuple[int, ...]]) -> list[Block]:
    labels = _label_columns(sweep)
    blocks: list[Block] = []
    if done:
        shown = done[:MOST_ROWS]
        times_s = [float(sweep["time_s"][at]) for at in shown]
        time = time_column("time_s", "time", times_s)
        columns = [
            *labels,
            time,
            Column("lower_bound_s", "lower bound", time.unit, time.scale),
            Column("bound_ratio", "time / bound"),
            Column("busbw_bytes_per_s", "busbw", "GB/s", 1e9),
            Column("binding_name", "binding"),
            Column("binding_utilisation", "busy", "%", 0.01),
        ]
        if "finish_p99_s" in sweep:
            columns.append(Column("finish_p99_s", "p99 of the ranks", time.unit, time.scale))
        columns += [column for column in _MORE if column.key in sweep]
        keys = [column.key for column in columns[len(labels) :]]
        rows = [sweep.labels(at) | {key: _plain(sweep[key][at]) for key in keys} for at in shown]
        rest = len(done) - len(shown)
        notes = [f"{rest:,} more points are in the file: mrcjax show {sweep.path.name}"]
        blocks.append(grid(rows, columns, title="All points", notes=notes if rest else ()))
    failed = list(sweep.places("failed"))
    if failed:
        rows = [sweep.labels(at) | {"reason": str(sweep.reason[at])} for at in failed]
        columns = [*labels, Column("reason", "why")]
        blocks.append(grid(rows, columns, title="Points that failed"))
    return blocks


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _bounds(sweep: Sweep, done: list[tuple[int, ...]]) -> list[Block]:
    """Which bound is the largest how often, and how far the points are from it."""
    groups: dict[str, list[float]] = {}
    for at in done:
        ratio = float(sweep["bound_ratio"][at])
        groups.setdefault(str(sweep["bound_kind"][at]), []).append(ratio)
    if not groups:
        return []
    rows = [
        {
            "bound": kind,
            "points": len(ratios),
            "least": min(ratios),
            "median": float(np.median(ratios)),
            "most": max(ratios),
        }
        for kind, ratios in groups.items()
    ]
    columns = [
        Column("bound", "lower bound"),
        Column("points", "points"),
        Column("least", "time / bound, least"),
        Column("median", "median"),
        Column("most", "most"),
    ]
    about = (
        "No schedule of any algorithm can be quicker than the lower bound on the same network. Of "
        "the bounds of a point the largest counts."
    )
    return [Words([about]), grid(rows, columns)]


def _assumptions(assumptions: Sequence[Mapping[str, Any]]) -> list[Block]:
    if not assumptions:
        return []
    keys = ("assumption", "value", "source", "mark", "runs")
    columns = [Column(key, "points" if key == "runs" else key) for key in keys]
    return [
        grid(assumptions, columns, title="Hardware and training, from the catalogue and the specs")
    ]


def _warnings(sweep: Sweep, done: list[tuple[int, ...]]) -> list[Block]:
    if "warnings" not in sweep:
        return []
    found = Counter(str(sweep["warnings"][at]) for at in done if sweep["warnings"][at])
    if not found:
        return [Words(["None of the points gave a warning."])]
    texts = [f"{text} ({number:,} points)" for text, number in found.most_common(_MOST_SAID)]
    more = len(found) - len(texts)
    return [Words([*texts, *([f"{more:,} more"] if more > 0 else [])], is_list=True)]


def _provenance(sweep: Sweep) -> list[Block]:
    header = sweep.header
    rows = [
        {
            "started": session.started,
            "ended": session.ended,
            "command": session.command,
            "versions": ", ".join(f"{name} {text}" for name, text in session.versions.items()),
        }
        for session in header.sessions
    ]
    facts = [
        {"what": "made", "is": header.created},
        {"what": "device", "is": header.device},
        {"what": "precision", "is": header.precision},
        {"what": "hash of the results", "is": header.results_hash},
        {"what": "schema", "is": str(header.schema)},
        {"what": "mrcjax", "is": header.mrcjax_version},
        *(
            {"what": f"axis {axis.name}", "is": _labels(axis.coords[axis.name])}
            for axis in sweep.axes
        ),
    ]
    return [
        grid(rows, title="When it was worked on"),
        grid(facts, [Column("what", "what"), Column("is", "is")], title="The file"),
        Verbatim([("Spec with its [sweep]", header.spec_text)]),
    ]


def _labels(labels: Sequence[Any]) -> str:
    shown = [f"{x:.6g}" if isinstance(x, float) else str(x) for x in labels]
    if len(shown) > 12:
        shown = [*shown[:6], "...", *shown[-3:]]
    return ", ".join(shown)
