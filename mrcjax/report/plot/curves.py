"""Curves over one axis, one line per category, and maps over two."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from mrcjax.archive import Column
from mrcjax.report.plot import style
from mrcjax.report.table import format_value

_MOST_TICKS = 9  # that stand at the values themselves
_MOST_LINES = len(style.SERIES)
_DECADES = 100.0
_WIDE = 8.0  # largest over smallest: from here on an axis is logarithmic


def curves(
    x: Sequence[float] | np.ndarray,
    lines: Mapping[str, Sequence[float] | np.ndarray],
    path: str | Path,
    caption: str = "",
    *,
    across: Column,
    up: Column,
    dashed: Mapping[str, Sequence[float] | np.ndarray] | None = None,
    title: str = "",
) -> Path:
    """Draw lines over one axis, such as times over ranks, and save it.

    Args:
        x: (points,) values of the axis.
        lines: name -> (points,) values; NaN leaves a point out.
        path: the file. caption, title: printed below and above.
        across, up: how x and the values are headed and scaled.
        dashed: name -> (points,) values that belong to the line of that name, such as its bound.
    """
    drawn = curves_figure(x, lines, caption, across=across, up=up, dashed=dashed, title=title)
    return style.save(drawn, path)


def curves_figure(
    x: Sequence[float] | np.ndarray,
    lines: Mapping[str, Sequence[float] | np.ndarray],
    caption: str = "",
    *,
    across: Column,
    up: Column,
    dashed: Mapping[str, Sequence[float] | np.ndarray] | None = None,
    title: str = "",
) -> Figure:
    """Draw what `curves` saves."""
    at = np.asarray(x, np.float64) / across.scale
    shown = {name: np.asarray(y, np.float64) / up.scale for name, y in lines.items()}
    shown = {name: y for name, y in shown.items() if np.isfinite(y).any()}
    if not shown:
        raise ValueError("nothing to draw: there are no values")
    left_out = len(shown) - _MOST_LINES
    if left_out > 0:
        caption = f"{left_out} more lines are left out. {caption}".strip()
        shown = dict(list(shown.items())[:_MOST_LINES])
    figure = style.figure(width=7.2, height=3.8, title=title, caption=caption)
    panel = figure.subplots()
    order = np.argsort(at)
    for number, (name, y) in enumerate(shown.items()):
        look = {"color": style.SERIES[number], "linewidth": 1.6}
        panel.plot(
            at[order],
            y[order],
            marker=style.MARKS[number],
            markersize=5,
            label=style.plain(name) if name else None,
            **look,
        )
        if dashed is not None and name in dashed:
            under = np.asarray(dashed[name], np.float64) / up.scale
            panel.plot(at[order], under[order], linestyle=(0, (4, 2)), alpha=0.8, **look)
    if dashed:
        panel.plot([], [], color=style.MUTED, linestyle=(0, (4, 2)), label="lower bound")
    if any(shown) or dashed:
        # beside the panel: inside, lines and legend get in each other's way
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        panel.legend(fontsize=8.5, frameon=False, labelcolor=style.INK, **place)
    _scale(panel, "x", at, across)
    _scale(panel, "y", np.concatenate(list(shown.values())), up)
    style.tidy(panel, grid="both")
    return figure


def heat_map(
    x: Sequence[float | str],
    y: Sequence[float | str],
    values: np.ndarray,
    path: str | Path,
    caption: str = "",
    *,
    across: Column,
    up: Column,
    colour: Column,
    title: str = "",
) -> Path:
    """Draw a map of values over two axes, and save it.

    Args:
        x: (columns,), y: (rows,) labels or numbers of the axes.
        values: (rows, columns); NaN leaves a cell empty.
        path: the file. caption, title: printed below and above.
        across, up, colour: how x, y and the values are headed and scaled.
    """
    drawn = heat_map_figure(x, y, values, caption, across=across, up=up, colour=colour, title=title)
    return style.save(drawn, path)


def heat_map_figure(
    x: Sequence[float | str],
    y: Sequence[float | str],
    values: np.ndarray,
    caption: str = "",
    *,
    across: Column,
    up: Column,
    colour: Column,
    title: str = "",
) -> Figure:
    """Draw what `heat_map` saves."""
    shown = np.asarray(values, np.float64) / colour.scale
    if not np.isfinite(shown).any():
        raise ValueError("nothing to draw: there are no values")
    rows, columns = shown.shape
    figure = style.figure(
        width=min(2.6 + 0.62 * columns, 9.6) if columns > 4 else 5.2,
        height=min(1.1 + 0.34 * rows, 6.0),
        title=title,
        caption=caption,
    )
    panel = figure.subplots()
    drawn = panel.imshow(
        shown, aspect="auto", cmap=style.HEAT, interpolation="nearest", origin="lower"
    )
    for axis, labels, column in ((panel.xaxis, x, across), (panel.yaxis, y, up)):
        step = -(-len(labels) // 12)
        axis.set_ticks(
            range(0, len(labels), step),
            [style.plain(format_value(_plain_number(v), column)) for v in labels[::step]],
        )
    if rows * columns <= 120:
        _write_in(panel, drawn, shown, colour)
    panel.set_xlabel(_headed(across), fontsize=9, color=style.INK)
    panel.set_ylabel(_headed(up), fontsize=9, color=style.INK)
    style.tidy(panel, grid="both")
    panel.grid(False)
    style.colour_bar(figure, panel, drawn, None, _headed(colour))
    return figure


def _plain_number(value: float | str) -> float | str:
    return value if isinstance(value, str) else float(value)


def _write_in(panel: Axes, drawn, shown: np.ndarray, colour: Column) -> None:
    """Write every value into its cell, in black or white as the cell asks for."""
    low, high = drawn.get_clim()
    for (row, column), value in np.ndenumerate(shown):
        if not np.isfinite(value):
            continue
        is_light = high > low and (value - low) / (high - low) > 0.6
        panel.text(
            column,
            row,
            format_value(float(value), Column("", "", digits=min(colour.digits, 3))),
            ha="center",
            va="center",
            fontsize=7.5,
            # no colours of a page: they stand on those of the map
            color="#0b0b0b" if is_light else "#ffffff",
        )


def _headed(column: Column) -> str:
    return style.plain(f"{column.title} / {column.unit}" if column.unit else column.title)


def _scale(panel: Axes, way: str, values: np.ndarray, column: Column) -> None:
    """Logarithmic where the values span much, with ticks that read as numbers."""
    axis = panel.xaxis if way == "x" else panel.yaxis
    known = np.unique(values[np.isfinite(values)])
    wide = _WIDE if way == "y" else _WIDE / 2
    is_wide = known.size > 1 and known[0] > 0 and known[-1] / known[0] >= wide
    if is_wide:
        (panel.set_xscale if way == "x" else panel.set_yscale)("log")
        # within a decade or two ten is not enough to read by
        many = known[-1] / known[0] > _DECADES
        axis.set_major_locator(LogLocator(subs=(1,) if many else (1, 2, 5)))
    else:
        axis.set_major_locator(MaxNLocator(6, steps=style.STEPS))
        if way == "y" and known.size and known[0] >= 0:
            panel.set_ylim(0, 1.08 * known[-1] if known[-1] > 0 else 1.0)
    if way == "x" and known.size <= (_MOST_TICKS if is_wide else 2):
        axis.set_ticks(known)
    plain = Column("", "", digits=column.digits)
    axis.set_major_formatter(FuncFormatter(lambda v, _: format_value(float(v), plain)))
    axis.set_minor_formatter(NullFormatter())
    label = panel.set_xlabel if way == "x" else panel.set_ylabel
    label(_headed(column), fontsize=9, color=style.INK)
