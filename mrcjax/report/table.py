"""Turn runs, archives and comparison tables into aligned text for a terminal."""

import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tabulate

from mrcjax.archive import AnyRun, Archive, Column, Run, Table, utilisation_of_link
from mrcjax.units import format_bytes, format_rate, format_seconds

WIDTH = 110  # characters that a table should keep to

_LABEL = 22  # width of the left column of a run's summary
# a path or a link's name must stay in one piece, to be copied
_WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
_TIME_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def run_text(run: AnyRun) -> str:
    """Return what one run came to, over some twenty lines."""
    amount = f"{format_bytes(run.size_bytes)} {'in all' if run.flows else 'per rank'}"
    heading = (
        f"{run.collective} of {amount} by {run.algorithm}, "
        f"on {run.kind} with {run.ranks:,} ranks and {run.num_links:,} links"
    )
    if isinstance(run, Run):
        heading = f"{run.name}: {heading}"
    finish_s = run.finish_s
    lines = textwrap.wrap(heading, WIDTH) + [
        "",
        _line("completion time", format_seconds(run.time_s)),
        _line(
            "lower bound",
            f"{format_seconds(run.lower_bound_s)} ({run.bound_kind})",
        ),
        _line("time / lower bound", f"{run.bound_ratio:.4g}"),
        _line("schedule's bound", format_seconds(run.schedule_bound_s)),
        _line("binding", _binding(run)),
        _line("algbw, busbw", _pair(format_rate, run.algbw_bytes_per_s, run.busbw_bytes_per_s)),
    ]
    if finish_s.size:
        low, middle, high = (
            format_seconds(float(f(finish_s))) for f in (np.min, np.median, np.max)
        )
        lines.append(_line("ranks finish", f"first {low}, median {middle}, last {high}"))
    if run.scenarios is not None:
        spread = run.scenarios.spread_s()
        said = ", ".join(f"{name} {format_seconds(s)}" for name, s in spread.items())
        lines.append(_line("scenarios", f"{len(run.scenarios.times_s):,}: {said}"))
    lines += _lines("lower bounds", [f"{format_seconds(s)} {k}" for k, s in run.bounds_s.items()])
    took = ", ".join(f"{name} {format_seconds(s)}" for name, s in run.wall_s.items())
    lines.append(_line("engine", f"{run.engine}, {run.precision}, on {run.device}"))
    if run.fluid is not None:
        lines.append(_line("fluid", ", ".join(f"{k} {v:,.6g}" for k, v in run.fluid.items())))
    if took:
        lines.append(_line("took", took))
    if run.seeds:
        lines.append(_line("seeds", ", ".join(f"{k} {v}" for k, v in run.seeds.items())))
    if isinstance(run, Run):
        lines.append(_line("command", run.command))
        lines.append(_line("archived", run.written))
    if run.tiers:
        lines += ["", text_table(*tier_table(run))]
    if run.warnings:
        lines.append("")
        for warning in run.warnings:
            lines += textwrap.wrap(warning, WIDTH, initial_indent="warning: ", **_hanging(9))
    return "\n".join(lines)


def archive_text(archive: Archive) -> str:
    """Return what a file holds: its tables, then its runs; of a single run the whole summary."""
    count = len(archive.runs)
    heading = (
        f"{archive.path}: {count} run{'' if count == 1 else 's'}, "
        f"made {archive.created} by mrcjax {archive.mrcjax_version}, schema {archive.schema}"
    )
    blocks = [heading] + [table_text(table) for table in archive.tables.values()]
    if count == 1:
        blocks.append(run_text(archive.run()))
    elif count:
        blocks.append(text_table(*runs_table(archive.table())))
    return "\n\n".join(blocks)


def table_text(table: Table, width: int = WIDTH) -> str:
    """Return a table with its title above and its notes below."""
    lines = textwrap.wrap(table.title, width)
    lines += [text_table(table.rows, table.columns, width=width)]
    for note in table.notes:
        lines += textwrap.wrap(note, width)
    return "\n".join(lines)


def text_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column | tuple[str, str, str]] = (),
    *,
    width: int = WIDTH,
    lead: int = 1,
) -> str:
    """Return rows as aligned columns, each headed by its title and, on a line of its own, unit.

    Text is wrapped to keep to the width; where that is not enough, the columns that do not fit
    follow in further blocks, led by what tells the rows apart again.

    Args:
        rows: one mapping per line; a missing value, None or NaN stands as "-".
        columns: what to show: Column, or (key, title, unit). None: every key as it is.
        width: characters.
        lead: how many of the first columns tell the rows apart; one if they take most of the width.
    """
    if not rows:
        return "(nothing)"
    shown = as_columns(rows, columns)
    cells = [[format_value(row.get(c.key), c) for row in rows] for c in shown]
    for wrap_at in (36, 30, 24, 20, 16):
        text = _aligned(shown, cells, wrap_at)
        if _width(text) <= width or len(shown) <= lead + 1:
            return text
    if 3 * _width(_aligned(shown[:lead], cells, 16)) > 2 * width:
        lead = 1
    fitting = len(shown) - 1
    while fitting > lead + 1 and _width(_aligned(shown[:fitting], cells, 16)) > width:
        fitting -= 1
    rest = [*shown[:lead], *shown[fitting:]]
    return (
        _aligned(shown[:fitting], cells[:fitting], 16)
        + "\n\n"
        + text_table(rows, rest, width=width, lead=lead)
    )


def as_columns(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column | tuple[str, str, str]]
) -> list[Column]:
    """Return the columns as Column; without any, one for each key of the rows."""
    if not columns:
        keys = dict.fromkeys(key for row in rows for key in row)
        return [Column(key, key.replace("_", " ")) for key in keys]
    return [c if isinstance(c, Column) else Column(*c[:3]) for c in columns]


def format_value(value: Any, column: Column) -> str:
    """Write one value in its column's unit and digits."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    number = float(value) / column.scale
    if math.isnan(number):
        return "-"
    if math.isinf(number):
        return f"{number}"
    if number.is_integer() and abs(number) < 1e15:
        return f"{number:,.0f}"
    text = f"{number:.{column.digits}g}"
    # %g would write 123456.7 as 1.235e+05
    return f"{number:,.0f}" if "e+" in text and abs(number) < 1e15 else text


def time_column(key: str, title: str, values_s: Sequence[float]) -> Column:
    """Return a column of times in the largest unit that leaves the median at 1 or more."""
    usable = [abs(v) for v in values_s if math.isfinite(v) and v != 0]
    middle = statistics.median(usable) if usable else 1.0
    unit, scale = next(((u, s) for u, s in _TIME_UNITS if middle >= s), _TIME_UNITS[-1])
    return Column(key, title, unit, scale)


def runs_table(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Column]]:
    """Return the rows and columns that list runs: what, how long, how near to the bound."""
    shown = [
        row
        | {
            "what": f"{row['collective']} {format_bytes(row['size_bytes'])} {row['algorithm']}",
            "binding": f"{row['binding_name']} ({row['binding_utilisation'] * 100:.3g} %)",
        }
        for row in rows
    ]
    times_s = [row["time_s"] for row in rows]
    bound = time_column("time_s", "", times_s)
    columns = [
        Column("run", "run"),
        Column("network", "network"),
        Column("ranks", "ranks"),
        Column("what", "collective"),
        time_column("time_s", "time", times_s),
        # in the unit of the time, to be compared with it
        Column("lower_bound_s", "lower bound", bound.unit, bound.scale),
        Column("bound_ratio", "time / bound"),
        Column("busbw_bytes_per_s", "busbw", "GB/s", 1e9),
        Column("binding", "binding (busy)"),
    ]
    return shown, columns


def tier_table(run: AnyRun) -> tuple[list[dict[str, Any]], list[Column]]:
    """Return the rows and columns of a run's tiers: links, rule, bytes and utilisation."""
    utilisation = utilisation_of_link(run)
    rows = []
    for tier in run.tiers:
        block = slice(tier.first, tier.first + tier.count)
        busy, carried = utilisation[block], run.link_bytes[block]
        is_empty = busy.size == 0
        rows.append(
            {
                "tier": tier.name,
                "links": tier.count,
                "rule": tier.rule,
                "capacity": _span(run.link_capacity_bytes_per_s[block]),
                "carried": None if is_empty else float(carried.mean()) / 1e6,
                "mean": None if is_empty else float(busy.mean()),
                "max": None if is_empty else float(busy.max()),
            }
        )
    return rows, [
        Column("tier", "tier"),
        Column("links", "links"),
        Column("rule", "link rule"),
        Column("capacity", "capacity of a link"),
        Column("carried", "mean carried", "MB"),
        Column("mean", "mean utilisation", "%", 0.01),
        Column("max", "highest utilisation", "%", 0.01),
    ]


def _span(capacity_bytes_per_s: Any) -> str:
    if len(capacity_bytes_per_s) == 0:
        return "-"
    low, high = (format_rate(float(f(capacity_bytes_per_s))) for f in (np.min, np.max))
    return low if low == high else f"{low} - {high}"


def _binding(run: AnyRun) -> str:
    binding = run.binding
    if binding.resource == "none":
        return "nothing: nothing is sent"
    busy = f"{binding.utilisation * 100:.4g} %"
    if binding.resource == "link":
        return f"link {binding.name}, busy {busy} of the time"
    return f"{binding.resource} ({binding.name}); the busiest link is busy {busy} of the time"


def _pair(write: Any, first: float, second: float) -> str:
    return f"{write(first)}, {write(second)}"


def _line(label: str, text: str) -> str:
    return "\n".join(
        textwrap.wrap(text, WIDTH, initial_indent=f"  {label:<{_LABEL}}", **_hanging(_LABEL + 2))
    )


def _lines(label: str, texts: Sequence[str]) -> list[str]:
    return [_line(label if i == 0 else "", text) for i, text in enumerate(texts)]


def _hanging(indent: int) -> dict[str, Any]:
    return {"subsequent_indent": " " * indent, **_WHOLE_WORDS}


def _aligned(columns: Sequence[Column], cells: Sequence[Sequence[str]], wrap_at: int) -> str:
    headers, bodies, alignments = [], [], []
    # every unit on the last line of the heads, whatever the titles take
    titles = []
    for column, texts in zip(columns, cells, strict=False):
        room = max(min(wrap_at, max(map(len, texts))), 9)
        titles.append(textwrap.wrap(column.title, room, **_WHOLE_WORDS) or [""])
        bodies.append([textwrap.fill(text, wrap_at, **_WHOLE_WORDS) for text in texts])
        alignments.append("decimal" if all(map(_is_number, texts)) else "left")
    tallest = max(map(len, titles))
    has_units = any(column.unit for column in columns)
    for column, title in zip(columns, titles, strict=True):
        lines = title + [""] * (tallest - len(title)) + ([column.unit] if has_units else [])
        headers.append("\n".join(lines))
    return tabulate.tabulate(
        [list(row) for row in zip(*bodies, strict=True)],
        headers,
        tablefmt="simple",
        disable_numparse=True,
        colalign=alignments,
        headersalign=["right" if a == "decimal" else "left" for a in alignments],
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return text == "-"
    return True


def _width(text: str) -> int:
    return max(map(len, text.splitlines()))
