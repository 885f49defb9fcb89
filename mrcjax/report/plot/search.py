"""What a search came to: its steps, and the parts into which it cuts a buffer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from mrcjax.archive import AnyRun
from mrcjax.report.plot import style
from mrcjax.report.table import time_column
from mrcjax.units import SpecError

_MOST_LINES = 4  # rails that are drawn as lines; more as a map


def search(
    steps: Sequence[Mapping[str, Any]],
    path: str | Path,
    caption: str = "",
    *,
    title: str = "",
    bound_s: float | None = None,
) -> Path:
    """Draw the time of every step of a search, smooth and exact, and save it.

    steps: rows with the keys stage, number, smooth_s and exact_s. bound_s: a lower bound.
    """
    return style.save(search_figure(steps, caption, title=title, bound_s=bound_s), path)


def search_figure(
    steps: Sequence[Mapping[str, Any]],
    caption: str = "",
    *,
    title: str = "",
    bound_s: float | None = None,
) -> Figure:
    """Draw what `search` saves."""
    if not steps:
        raise ValueError("nothing to draw: the search has no steps")
    exact, smooth = (
        np.array([np.nan if row[key] is None else row[key] for row in steps], np.float64)
        for key in ("exact_s", "smooth_s")
    )
    best = np.fmin.accumulate(exact)
    unit = time_column("", "", [float(np.nanmax(exact))])
    figure = style.figure(width=7.2, height=3.2, title=title, caption=caption)
    panel = figure.subplots()
    place = np.arange(len(steps))
    panel.plot(
        place, smooth / unit.scale, color=style.MUTED, linewidth=1, linestyle=":", label="smooth"
    )
    panel.plot(place, exact / unit.scale, color=style.EDGE, linewidth=1, label="emulated")
    panel.step(
        place, best / unit.scale, where="post", color=style.DARK, linewidth=2, label="best so far"
    )
    if bound_s is not None:
        panel.axhline(
            bound_s / unit.scale,
            color=style.ACCENT,
            linestyle=(0, (5, 2)),
            linewidth=1.4,
            label="lower bound",
        )
    panel.set_xlabel("step", fontsize=9, color=style.INK)
    panel.set_ylabel(f"time / {unit.unit}", fontsize=9, color=style.INK)
    panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    panel.ticklabel_format(axis="y", useOffset=False)
    panel.legend(fontsize=8.5, frameon=False, labelcolor=style.INK)
    style.tidy(panel, grid="both")
    return figure


def shares(run: AnyRun, path: str | Path, caption: str = "", *, title: str = "") -> Path:
    """Draw how a run cuts its buffer: over the ranks, and over the rails; save it."""
    drawn = shares_figure(run, caption, title=title or "How the buffer is cut")
    return style.save(drawn, path)


def has_shares(run: AnyRun) -> bool:
    """Whether a run's spec says how its buffer is cut; not where it can no longer be read."""
    try:
        return bool(_parts_of(run))
    except SpecError:
        return False


def shares_figure(run: AnyRun, caption: str = "", *, title: str = "") -> Figure:
    """Draw what `shares` saves."""
    parts = _parts_of(run)
    if not parts:
        raise ValueError("nothing to draw: the run's buffer is cut in equal parts")
    figure = style.figure(
        width=4.8 * max(len(parts), 1.5), height=3.2, title=title, caption=caption
    )
    panels = figure.subplots(1, len(parts), squeeze=False).ravel()
    for panel, (label, weights) in zip(panels, parts.items(), strict=True):
        if weights.shape[0] > _MOST_LINES:
            _map(figure, panel, weights)
        else:
            _lines(panel, weights)
        panel.set_title(style.plain(label), fontsize=9, color=style.INK, loc="left")
        panel.set_xlabel("rank", fontsize=9, color=style.INK)
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return figure


def _parts_of(run: AnyRun) -> dict[str, np.ndarray]:
    """Title -> parts that sum to 1, (1, ranks) over the ranks or (rails, ranks) over the rails."""
    asked = run.spec.collective
    parts: dict[str, np.ndarray] = {}
    if asked is None:
        return parts
    if asked.shards is not None:
        owned = np.asarray(asked.shards, np.float64)[None]
        parts["part of the buffer that a rank owns"] = owned / owned.sum()
    cut = asked.rail_shares
    for key in ("source", "destination"):
        weights = None if cut is None else getattr(cut, key)
        if weights is not None:
            table = np.asarray(weights, np.float64)
            total = table.sum(axis=0)
            what = "sender" if key == "source" else "receiver"
            parts[f"part of each rail, weight of the {what}"] = np.divide(
                table, total, out=np.zeros_like(table), where=total > 0
            )
    return parts


def _lines(panel: Axes, weights: np.ndarray) -> None:
    ranks = np.arange(weights.shape[1])
    is_rails = weights.shape[0] > 1
    for number, row in enumerate(weights):
        panel.plot(
            ranks,
            row,
            color=style.SERIES[number] if is_rails else style.DARK,
            marker=style.MARKS[number] if len(ranks) <= 64 else None,
            markersize=4,
            linewidth=1.3,
            label=f"rail {number}" if is_rails else None,
        )
    equal = 1 / (weights.shape[0] if is_rails else weights.shape[1])
    panel.axhline(
        equal, color=style.ACCENT, linestyle=(0, (5, 2)), linewidth=1.2, label="equal parts"
    )
    panel.set_ylim(0, None)
    panel.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    panel.legend(fontsize=8.5, frameon=False, labelcolor=style.INK)
    style.tidy(panel, grid="both")


def _map(figure: Figure, panel: Axes, weights: np.ndarray) -> None:
    drawn = panel.imshow(
        weights, aspect="auto", cmap=style.HEAT, vmin=0, interpolation="nearest", origin="lower"
    )
    panel.set_ylabel("rail", fontsize=9, color=style.INK)
    panel.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    style.tidy(panel, grid="both")
    panel.grid(False)
    style.colour_bar(figure, panel, drawn, PercentFormatter(1, symbol=" %"))
