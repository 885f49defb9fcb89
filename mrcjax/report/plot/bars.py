"""Bars: one panel per column, one bar per row."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mrcjax.archive import Column, Table
from mrcjax.report.plot import style
from mrcjax.report.table import as_columns, format_value

# What a comparison shows where its rows have it.
BARS = (
    Column("time_s", "all-reduce", "ms", 1e-3, bound_key="lower_bound_s"),
    Column("utilisation", "utilisation", "%", 0.01, digits=3),
    Column("power_w", "network power", "kW", 1e3, digits=3),
    Column("cost_usd", "network cost", "M$", 1e6, digits=3),
)


def bars(
    rows: Sequence[Mapping[str, Any]],
    path: str | Path,
    caption: str = "",
    *,
    columns: Sequence[Column | tuple[str, str, str]] = (),
    title: str = "",
    name: str = "name",
    claim: str = "",
    also: Sequence[str | Path] = (),
) -> Path:
    """Draw one panel of horizontal bars per column, a bar per row, and return the path.

    A column with a `bound_key` gets a mark at that value of the row. A missing value leaves its
    bar out and says "-".

    Args:
        rows: what `compare` prints; `name` is the key of a row's label.
        columns: what to draw: Column, or (key, title, unit). None: time, utilisation, power and
            cost, as far as the rows have them.
        caption: printed below; say the command that made the figure.
        claim: key of the rows that are claims, not results; their bars are hollow.
        also: further files to save the same figure in, quicker than drawing it again.
    """
    drawn = bars_figure(rows, caption, columns=columns, title=title, name=name, claim=claim)
    saved = style.save(drawn, path)
    drawn.set_layout_engine("none")  # it stays as it is now laid out
    for other in also:
        style.save(drawn, other)
    return saved


def bars_figure(
    rows: Sequence[Mapping[str, Any]],
    caption: str = "",
    *,
    columns: Sequence[Column | tuple[str, str, str]] = (),
    title: str = "",
    name: str = "name",
    claim: str = "",
) -> Figure:
    """Draw what `bars` saves."""
    shown = as_columns(rows, columns) if columns else _columns_in(rows)
    if not rows or not shown:
        raise ValueError("nothing to draw: the rows hold none of the columns")
    labels = [textwrap.fill(str(row[name]), 26, break_on_hyphens=False) for row in rows]
    has_bound = any(row.get(c.bound_key) is not None for c in shown for row in rows)
    across = min(len(shown), 4)
    down = math.ceil(len(shown) / across)
    lines = sum(max(label.count("\n") + 1, 1.7) for label in labels)
    figure = style.figure(
        width=2.1 + 2.4 * across if across > 1 else 6.5,
        height=down * (0.24 * lines + 0.75),
        title=title,
        caption=caption,
        legend_width=1.4 if has_bound else 0.0,
    )
    if has_bound:
        figure.legend(
            [Line2D([], [], color=style.ACCENT, marker="|", ms=13, mew=2.2, linestyle="none")],
            ["lower bound"],
            loc="outside upper right",
            fontsize=8.5,
            frameon=False,
        )
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, column in zip(panels, shown, strict=False):
        _bar_panel(panel, rows, column, [bool(row.get(claim)) for row in rows])
        # all share the rows, from the top down as in the table
        panel.set_yticks(range(len(rows)), [style.plain(label) for label in labels], fontsize=9)
        panel.set_ylim(len(rows) - 0.5, -0.5)
    for panel in panels[len(shown) :]:
        panel.remove()
    return figure


def bars_of(table: Table) -> tuple[list[dict[str, Any]], list[Column]]:
    """Return a stored table's rows, named by their texts under "label", and its number columns."""
    shown = as_columns(table.rows, table.columns)
    marks = {column.bound_key for column in shown}
    numbers = [c for c in shown if c.key not in marks and _is_numeric(table, c.key)]
    texts = [c.key for c in shown if not _is_numeric(table, c.key)]
    labels = _labels(table.rows, texts)
    return [{**row, "label": x} for row, x in zip(table.rows, labels, strict=True)], numbers


def _is_numeric(table: Table, key: str) -> bool:
    values = [row[key] for row in table.rows if row.get(key) is not None]
    return bool(values) and all(type(value) in (int, float) for value in values)


def _labels(rows: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> list[str]:
    """Name each row by its first text, and by further ones until no two rows are named alike."""
    labels = [""] * len(rows)
    for key in texts:
        labels = [f"{label}, {row.get(key)}" for label, row in zip(labels, rows, strict=True)]
        if len(set(labels)) == len(labels):
            break
    return [label.removeprefix(", ") for label in labels]


def _columns_in(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    return [c for c in BARS if any(row.get(c.key) is not None for row in rows)]


def _bar_panel(
    panel: Axes, rows: Sequence[Mapping[str, Any]], column: Column, is_claim: Sequence[bool]
) -> None:
    values = [_number(row.get(column.key), column) for row in rows]
    bounds = [_number(row.get(column.bound_key), column) for row in rows]
    places = np.arange(len(rows))
    drawn = panel.barh(
        places,
        np.nan_to_num(values),
        height=0.62,
        color=style.FILL,
        edgecolor=style.EDGE,
        linewidth=0.8,
    )
    for bar, is_hollow in zip(drawn, is_claim, strict=True):
        if is_hollow:
            bar.set(facecolor="none", edgecolor=style.MUTED, linestyle=(0, (3, 2)))
    # bounds may exceed what is drawn only by a bug, which must be seen
    reach = np.nanmax([0.0, *values, *bounds])
    reach = reach if reach > 0 else 1.0
    texts = [format_value(row.get(column.key), column) for row in rows]
    for place, text, value, bound in zip(places, texts, values, bounds, strict=True):
        panel.annotate(
            text,
            (np.nan_to_num(np.nanmax([0.0, value, bound])), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=style.INK,
        )
    panel.vlines(
        bounds, places - 0.42, places + 0.42, color=style.ACCENT, linewidth=2.2, label="lower bound"
    )
    # room for the longest text beside the longest bar; a character takes 4 % of a panel
    panel.set_xlim(0, reach / (1 - min(0.04 * max(map(len, texts)) + 0.04, 0.6)))
    panel.xaxis.set_major_locator(MaxNLocator(4 if reach < 1e4 else 2, steps=style.STEPS))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_value(x, Column("", ""))))
    heading = textwrap.fill(column.title, 24, break_on_hyphens=False)
    panel.set_title(style.plain(heading), fontsize=10, color=style.INK, loc="left")
    panel.set_xlabel(style.plain(column.unit), fontsize=9)
    style.tidy(panel, grid="x")
    panel.tick_params(axis="y", length=0)


def _number(value: Any, column: Column) -> float:
    if value is None or isinstance(value, str):
        return math.nan
    number = float(value) / column.scale
    return number if math.isfinite(number) else math.nan
