"""What one run did to its links, and when its ranks finished."""

import math
import textwrap
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from mrcjax.archive import AnyRun, Run, utilisation_of_link
from mrcjax.report.plot import style
from mrcjax.report.table import time_column
from mrcjax.units import format_bytes, format_seconds

_MOST_PANELS = 12
_MOST_POINTS = 1500  # of a curve; more cannot be seen and swell the SVG


def link_utilisation(run: AnyRun, path: str | Path, caption: str = "", *, title: str = "") -> Path:
    """Draw the utilisation of each tier's links, sorted, one panel per tier; return the path.

    A flat curve is a balanced tier; a steep one has few busy links and many idle ones.
    """
    drawn = link_utilisation_figure(
        run, caption, title=title or f"Link utilisation by tier: {_what(run)}"
    )
    return style.save(drawn, path)


def link_utilisation_figure(run: AnyRun, caption: str = "", *, title: str = "") -> Figure:
    """Draw what `link_utilisation` saves."""
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
    figure = style.figure(
        width=max(2.0 + 2.3 * across, 7.2),
        height=2.6 * down + 0.3,
        title=title,
        caption=caption,
    )
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, (tier, values) in zip(panels, blocks, strict=False):
        _curve_panel(panel, values)
        panel.set_title(
            style.plain(f"{textwrap.fill(tier.name, 24)}\n{tier.count:,} links"),
            fontsize=9,
            color=style.INK,
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
    return figure


def finish_times(run: AnyRun, path: str | Path, caption: str = "", *, title: str = "") -> Path:
    """Draw how many ranks have finished by when, with the lower bound; return the path.

    Where the ranks finish close together for the distance to the bound, a second panel shows
    them alone.
    """
    drawn = finish_times_figure(run, caption, title=title or f"When ranks finish: {_what(run)}")
    return style.save(drawn, path)


def finish_times_figure(run: AnyRun, caption: str = "", *, title: str = "") -> Figure:
    """Draw what `finish_times` saves."""
    finish_s = np.sort(np.asarray(run.finish_s, dtype=np.float64))
    if not finish_s.size:
        raise ValueError("nothing to draw: the run has no ranks")
    first_s, last_s = float(finish_s[0]), float(finish_s[-1])
    low_s = min(first_s, run.lower_bound_s)
    high_s = max(last_s, run.time_s)
    is_narrow = 0 < last_s - first_s < 0.25 * (high_s - low_s)
    figure = style.figure(
        width=9.6 if is_narrow else 7.2,
        height=3.6,
        title=title,
        caption=caption,
    )
    panels = figure.subplots(1, 2 if is_narrow else 1, sharey=True, squeeze=False).ravel()
    _finish_panel(panels[0], finish_s, low_s, high_s)
    column = time_column("", "", [high_s])
    lines = (
        panels[0].axvline(
            run.lower_bound_s / column.scale,
            color=style.ACCENT,
            linestyle=(0, (5, 2)),
            linewidth=1.6,
            label=style.plain(
                textwrap.fill(
                    f"lower bound {format_seconds(run.lower_bound_s)} ({run.bound_kind})", 44
                )
            ),
        ),
        panels[0].axvline(
            run.time_s / column.scale,
            color=style.MUTED,
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
        panels[1].set_title("from the first rank to the last", fontsize=9, color=style.INK)
    return figure


def _what(run: AnyRun) -> str:
    name = f"{run.name}, " if isinstance(run, Run) else ""
    return (
        f"{name}{run.collective} of {format_bytes(run.size_bytes)} by {run.algorithm}, "
        f"{run.kind}, {run.ranks:,} ranks"
    )


def _curve_panel(panel: Axes, utilisation: np.ndarray) -> None:
    falling = np.sort(utilisation)[::-1]
    if falling.size > _MOST_POINTS:
        falling = falling[np.linspace(0, falling.size - 1, _MOST_POINTS).round().astype(int)]
    # each link is a step of its own width
    edges = np.linspace(0, 1, falling.size + 1)
    panel.stairs(falling, edges, fill=True, color=style.FILL)
    panel.stairs(falling, edges, baseline=None, color=style.DARK, linewidth=1.5)
    mean = float(utilisation.mean())
    panel.axhline(mean, color=style.ACCENT, linestyle=(0, (5, 2)), linewidth=1.2)
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
        color=style.INK,
    )
    panel.set_yticks(np.linspace(0, 1, 5))
    panel.set_xticks([0, 0.5, 1])
    panel.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    # the outer labels point inwards, away from those of the next panel
    for tick, side in zip(panel.xaxis.get_major_ticks(3), ("left", "center", "right"), strict=True):
        tick.label1.set_horizontalalignment(side)
    panel.spines["left"].set_bounds(0, 1)
    panel.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    style.tidy(panel, grid="y")


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
    panel.fill_between(times, heights, step="post", color=style.FILL, alpha=0.55, linewidth=0)
    panel.step(times, heights, where="post", color=style.DARK, linewidth=1.7)
    if num_ranks <= 40 and finish_s[0] < finish_s[-1]:
        panel.plot(times[1:-1], heights[1:-1], "o", color=style.DARK, markersize=3.5)
    panel.set_xlim((low_s - room_s) / column.scale, (high_s + room_s) / column.scale)
    panel.set_ylim(0, 1.04)
    panel.set_yticks(np.linspace(0, 1, 5))
    panel.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    panel.xaxis.set_major_locator(MaxNLocator(5, steps=style.STEPS))
    panel.ticklabel_format(axis="x", useOffset=False)
    panel.set_xlabel(f"time / {column.unit}", fontsize=9)
    style.tidy(panel, grid="both")
