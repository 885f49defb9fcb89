"""Turn comparison rows and runs into figures that read in grey too (PNG, SVG, PDF).

The only module that imports matplotlib; it keeps no global state, so any thread may draw.
"""

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from mrcjax.archive import AnyRun, Column, Run, utilisation_of_link
from mrcjax.report.table import as_columns, format_value, time_column
from mrcjax.units import format_bytes, format_seconds

# What a comparison shows where its rows have it.
BARS = (
    Column("time_s", "all-reduce", "ms", 1e-3, bound_key="lower_bound_s"),
    Column("utilisation", "utilisation", "%", 0.01, digits=3),
    Column("power_w", "network power", "kW", 1e3, digits=3),
    Column("cost_usd", "network cost", "M$", 1e6, digits=3),
)

_SUFFIXES = (".png", ".svg", ".pdf")
_INK, _MUTED, _GRID = "#1a1a1a", "#5f6670", "#d9dce1"
# of clearly different lightness, so that they also differ in grey
_FILL, _EDGE, _DARK = "#9fc1dd", "#2b5c86", "#14324d"
_ACCENT = "#c2410c"
_DPI = 160
_STEPS = (1, 2, 2.5, 5, 10)  # between ticks
_MOST_PANELS = 12
_MOST_POINTS = 1500  # of a curve; more cannot be seen and swell the SVG


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
    shown = as_columns(rows, columns) if columns else _columns_in(rows)
    if not rows or not shown:
        raise ValueError("nothing to draw: the rows hold none of the columns")
    labels = [textwrap.fill(str(row[name]), 26, break_on_hyphens=False) for row in rows]
    has_bound = any(row.get(c.bound_key) is not None for c in shown for row in rows)
    across = min(len(shown), 4)
    down = math.ceil(len(shown) / across)
    lines = sum(max(label.count("\n") + 1, 1.7) for label in labels)
    figure = _figure(
        width=2.1 + 2.4 * across if across > 1 else 6.5,
        height=down * (0.24 * lines + 0.75),
        title=title,
        caption=caption,
        legend_width=1.4 if has_bound else 0.0,
    )
    if has_bound:
        figure.legend(
            [Line2D([], [], color=_ACCENT, marker="|", ms=13, mew=2.2, linestyle="none")],
            ["lower bound"],
            loc="outside upper right",
            fontsize=8.5,
            frameon=False,
        )
    panels = figure.subplots(down, across, sharey=True, squeeze=False).ravel()
    for panel, column in zip(panels, shown, strict=False):
        _bar_panel(panel, rows, column, [bool(row.get(claim)) for row in rows])
        # all share the rows, from the top down as in the table
        panel.set_yticks(range(len(rows)), [_plain(label) for label in labels], fontsize=9)
        panel.set_ylim(len(rows) - 0.5, -0.5)
    for panel in panels[len(shown) :]:
        panel.remove()
    saved = _save(figure, path)
    figure.set_layout_engine("none")  # it stays as it is now laid out
    for other in also:
        _save(figure, other)
    return saved


def link_utilisation(run: AnyRun, path: str | Path, caption: str = "", *, title: str = "") -> Path:
    """Draw the utilisation of each tier's links, sorted, one panel per tier; return the path.

    A flat curve is a balanced tier; a steep one has few busy links and many idle ones.
    """
    utilisation = utilisation_of_link(run)
    blocks = [(t, utilisation[t.first : t.first + t.count]) for t in run.tiers if t.count]
    hidden = len(blocks) - _MOST_PANELS
    if hidden > 0:
        keep = sorted(range(len(blocks)), key=lambda i: -blocks[i][1].max())[:_MOST_PANELS]
        blocks = [blocks[i] for i in sorted(keep)]
        caption = f"The {hidden} least busy tiers are left out. {caption}".strip()
    if not blocks:
        raise ValueError("nothing to draw: the run has no links")
    across = min(len(blocks), 4)
    down = math.ceil(len(blocks) / across)
    figure = _figure(
        width=max(2.0 + 2.3 * across, 7.2),
        height=2.6 * down + 0.3,
        title=title or f"Link utilisation by tier: {_what(run)}",
        caption=caption,
    )
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, (tier, values) in zip(panels, blocks, strict=False):
        _curve_panel(panel, values)
        panel.set_title(
            _plain(f"{textwrap.fill(tier.name, 24)}\n{tier.count:,} links"), fontsize=9, color=_INK
        )
    for i, panel in enumerate(panels[: len(blocks)]):
        # under the last panel of each column, which a half-filled last row may leave higher up
        if i + across >= len(blocks):
            panel.set_xlabel("links, busiest first", fontsize=9)
            panel.tick_params(labelbottom=True)
        if i % across == 0:
            panel.set_ylabel("utilisation (busy / total time)", fontsize=9)
    for panel in panels[len(blocks) :]:
        panel.remove()
    return _save(figure, path)


def finish_times(run: AnyRun, path: str | Path, caption: str = "", *, title: str = "") -> Path:
    """Draw how many ranks have finished by when, with the lower bound; return the path.

    Where the ranks finish close together for the distance to the bound, a second panel shows
    them alone.
    """
    finish_s = np.sort(np.asarray(run.finish_s, dtype=np.float64))
    if not finish_s.size:
        raise ValueError("nothing to draw: the run has no ranks")
    first_s, last_s = float(finish_s[0]), float(finish_s[-1])
    low_s = min(first_s, run.lower_bound_s)
    high_s = max(last_s, run.time_s)
    is_narrow = 0 < last_s - first_s < 0.25 * (high_s - low_s)
    figure = _figure(
        width=9.6 if is_narrow else 7.2,
        height=3.6,
        title=title or f"When ranks finish: {_what(run)}",
        caption=caption,
    )
    panels = figure.subplots(1, 2 if is_narrow else 1, sharey=True, squeeze=False).ravel()
    _finish_panel(panels[0], finish_s, low_s, high_s)
    column = time_column("", "", [high_s])
    lines = (
        panels[0].axvline(
            run.lower_bound_s / column.scale,
            color=_ACCENT,
            linestyle=(0, (5, 2)),
            linewidth=1.6,
            label=_plain(
                textwrap.fill(
                    f"lower bound {format_seconds(run.lower_bound_s)} ({run.bound_kind})", 44
                )
            ),
        ),
        panels[0].axvline(
            run.time_s / column.scale,
            color=_MUTED,
            linestyle=":",
            linewidth=1.6,
            label=f"completion {format_seconds(run.time_s)} = {run.bound_ratio:.4g} x bound",
        ),
    )
    panels[0].legend(
        handles=lines,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.3,
        borderpad=0,
        fontsize=8.5,
        frameon=False,
    )
    panels[0].set_ylabel("ranks that have finished", fontsize=9)
    if is_narrow:
        _finish_panel(panels[1], finish_s, first_s, last_s)
        panels[1].set_title("from the first rank to the last", fontsize=9, color=_INK)
    return _save(figure, path)


def _columns_in(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    return [c for c in BARS if any(row.get(c.key) is not None for row in rows)]


def _what(run: AnyRun) -> str:
    name = f"{run.name}, " if isinstance(run, Run) else ""
    return (
        f"{name}{run.collective} of {format_bytes(run.size_bytes)} by {run.algorithm}, "
        f"{run.kind}, {run.ranks:,} ranks"
    )


def _bar_panel(
    panel: Axes, rows: Sequence[Mapping[str, Any]], column: Column, is_claim: Sequence[bool]
) -> None:
    values = [_number(row.get(column.key), column) for row in rows]
    bounds = [_number(row.get(column.bound_key), column) for row in rows]
    places = np.arange(len(rows))
    drawn = panel.barh(
        places, np.nan_to_num(values), height=0.62, color=_FILL, edgecolor=_EDGE, linewidth=0.8
    )
    for bar, is_hollow in zip(drawn, is_claim, strict=True):
        if is_hollow:
            bar.set(facecolor="none", edgecolor=_MUTED, linestyle=(0, (3, 2)))
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
            color=_INK,
        )
    panel.vlines(
        bounds, places - 0.42, places + 0.42, color=_ACCENT, linewidth=2.2, label="lower bound"
    )
    # room for the longest text beside the longest bar; a character takes 4 % of a panel
    panel.set_xlim(0, reach / (1 - min(0.04 * max(map(len, texts)) + 0.04, 0.6)))
    panel.xaxis.set_major_locator(MaxNLocator(4 if reach < 1e4 else 2, steps=_STEPS))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_value(x, Column("", ""))))
    heading = textwrap.fill(column.title, 24, break_on_hyphens=False)
    panel.set_title(_plain(heading), fontsize=10, color=_INK, loc="left")
    panel.set_xlabel(_plain(column.unit), fontsize=9)
    _tidy(panel, grid="x")
    panel.tick_params(axis="y", length=0)


def _number(value: Any, column: Column) -> float:
    if value is None or isinstance(value, str):
        return math.nan
    number = float(value) / column.scale
    return number if math.isfinite(number) else math.nan


def _curve_panel(panel: Axes, utilisation: np.ndarray) -> None:
    falling = np.sort(utilisation)[::-1]
    if falling.size > _MOST_POINTS:
        falling = falling[np.linspace(0, falling.size - 1, _MOST_POINTS).round().astype(int)]
    # each link is a step of its own width
    edges = np.linspace(0, 1, falling.size + 1)
    panel.stairs(falling, edges, fill=True, color=_FILL)
    panel.stairs(falling, edges, baseline=None, color=_DARK, linewidth=1.5)
    mean = float(utilisation.mean())
    panel.axhline(mean, color=_ACCENT, linestyle=(0, (5, 2)), linewidth=1.2)
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1.32)
    panel.text(
        0.97,
        0.97,
        f"highest {falling[0] * 100:.1f} %\nmean (dashed) {mean * 100:.1f} %"
        if falling[0] > 0
        else "idle",
        transform=panel.transAxes,
        ha="right",
        va="top",
        fontsize=8,
        color=_INK,
    )
    panel.set_yticks(np.linspace(0, 1, 5))
    panel.set_xticks([0, 0.5, 1])
    panel.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    # the outer labels point inwards, away from those of the next panel
    for tick, side in zip(panel.xaxis.get_major_ticks(3), ("left", "center", "right"), strict=True):
        tick.label1.set_horizontalalignment(side)
    panel.spines["left"].set_bounds(0, 1)
    panel.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    _tidy(panel, grid="y")


def _finish_panel(panel: Axes, finish_s: np.ndarray, low_s: float, high_s: float) -> None:
    column = time_column("", "", [high_s])
    room_s = 0.06 * (high_s - low_s) or 0.06 * high_s or 1e-9
    num_ranks = finish_s.size
    share = np.arange(1, num_ranks + 1) / num_ranks
    if num_ranks > _MOST_POINTS:
        kept = np.linspace(0, num_ranks - 1, _MOST_POINTS).round().astype(int)
        finish_s, share = finish_s[kept], share[kept]
    # from nobody, left of the first, to everybody, right of the last
    times = np.concatenate([[low_s - room_s], finish_s, [high_s + room_s]]) / column.scale
    heights = np.concatenate([[0.0], share, [1.0]])
    panel.fill_between(times, heights, step="post", color=_FILL, alpha=0.55, linewidth=0)
    panel.step(times, heights, where="post", color=_DARK, linewidth=1.7)
    if num_ranks <= 40 and finish_s[0] < finish_s[-1]:
        panel.plot(times[1:-1], heights[1:-1], "o", color=_DARK, markersize=3.5)
    panel.set_xlim((low_s - room_s) / column.scale, (high_s + room_s) / column.scale)
    panel.set_ylim(0, 1.04)
    panel.set_yticks(np.linspace(0, 1, 5))
    panel.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    panel.xaxis.set_major_locator(MaxNLocator(5, steps=_STEPS))
    panel.ticklabel_format(axis="x", useOffset=False)
    panel.set_xlabel(f"time / {column.unit}", fontsize=9)
    _tidy(panel, grid="both")


def _tidy(panel: Axes, *, grid: Any) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color(_MUTED)
    panel.grid(axis=grid, color=_GRID, linewidth=0.7)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8.5, color=_MUTED, labelcolor=_INK)


def _figure(
    *, width: float, height: float, title: str, caption: str, legend_width: float = 0.0
) -> Figure:
    """Make a figure with room for its title and caption beside the given height, in inches."""
    headline = textwrap.fill(title, int((width - legend_width) * 11), break_on_hyphens=False)
    # a paragraph per line of the caption; 8 points, about 15 characters an inch
    below = "\n".join(
        textwrap.fill(line, int(width * 14), break_on_hyphens=False)
        for line in caption.splitlines()
    )
    extra = 0.2 * _height(headline) + 0.14 * _height(below)
    figure = Figure(figsize=(width, height + extra + 0.25), layout="constrained", dpi=_DPI)
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06, wspace=0.04)  # pyright: ignore
    if headline:
        figure.suptitle(
            _plain(headline), x=0.012, ha="left", fontsize=10.5, fontweight="bold", color=_INK
        )
    if below:
        figure.supxlabel(_plain(below), x=0.012, ha="left", fontsize=8, color=_MUTED)
    return figure


def _height(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _plain(text: str) -> str:
    # a dollar would open a formula
    return text.replace("$", r"\$")


def _save(figure: Figure, path: str | Path) -> Path:
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise ValueError(
            f'cannot draw a figure as "{target.name}"; let its name end in {", ".join(_SUFFIXES)}'
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    # no date and no random ids: the same run gives the same file
    is_svg = target.suffix.lower() == ".svg"
    with matplotlib.rc_context({"svg.hashsalt": "mrcjax"}):
        figure.savefig(target, metadata={"Date": None} if is_svg else None)
    return target
