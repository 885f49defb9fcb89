"""How values are spread: which part of them is at most so large, with its last per cents."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from mrcjax.report.plot import style
from mrcjax.report.table import time_column
from mrcjax.units import format_seconds

PERCENTILES = (50, 95, 99)
_MOST_POINTS = 1500  # of a curve
_MOST_CURVES = len(style.SERIES)
_LEAST_FOR_LAST = 20  # values; the last per cents of fewer are a step or two


def tail(
    values_s: Mapping[str, Sequence[float] | np.ndarray],
    path: str | Path,
    caption: str = "",
    *,
    title: str = "",
    noun: str = "values",
) -> Path:
    """Draw what part of some times is at most so long, and the part that is longer; save it.

    Left the whole, with the median, 95 and 99 per cent of the first curve; right, on a logarithmic
    scale, what part takes longer, where the tail is seen.

    Args:
        values_s: name -> (values,) seconds; a single curve needs no name.
        path: the file. caption, title: printed below and above.
        noun: what the values are of.
    """
    return style.save(tail_figure(values_s, caption, title=title, noun=noun), path)


def tail_figure(
    values_s: Mapping[str, Sequence[float] | np.ndarray],
    caption: str = "",
    *,
    title: str = "",
    noun: str = "values",
) -> Figure:
    """Draw what `tail` saves."""
    curves = {name: np.sort(np.asarray(v, np.float64)) for name, v in values_s.items()}
    curves = {name: v[np.isfinite(v)] for name, v in curves.items()}
    curves = {name: v for name, v in curves.items() if v.size}
    if not curves:
        raise ValueError("nothing to draw: there are no values")
    if len(curves) > _MOST_CURVES:
        more = len(curves) - _MOST_CURVES
        caption = f"{more} more curves are left out. {caption}".strip()
        curves = dict(list(curves.items())[:_MOST_CURVES])
    has_tail = max(v.size for v in curves.values()) >= _LEAST_FOR_LAST
    figure = style.figure(width=9.6 if has_tail else 7.2, height=3.6, title=title, caption=caption)
    panels = figure.subplots(1, 2 if has_tail else 1, squeeze=False).ravel()
    unit = time_column("", "", [max(v[-1] for v in curves.values())])
    for number, (name, values) in enumerate(curves.items()):
        look = _look(number, len(curves), name)
        points, share = _points(values)
        panels[0].step(points / unit.scale, share, where="post", **look)
        if has_tail:
            # the share that is longer falls to zero at the last value, which a logarithm has not
            longer = np.append(1 - share[:-1], 1 - share[-2])
            panels[1].step(points / unit.scale, longer, where="post", **look)
    if len(curves) == 1:
        _mark(panels[0], next(iter(curves.values())), unit.scale)
    else:
        panels[0].legend(fontsize=8.5, frameon=False, loc="lower right", labelcolor=style.INK)
    _finish(panels[0], unit.unit, f"{noun} at most so long")
    panels[0].set_ylim(0, 1.04)
    if has_tail:
        _finish(panels[1], unit.unit, f"{noun} that take longer")
        panels[1].set_yscale("log")
        panels[1].yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y * 100:g} %"))
    return figure


def _look(number: int, count: int, name: str) -> dict:
    if count == 1:
        return {"color": style.DARK, "linewidth": 1.7}
    return {"color": style.SERIES[number], "linewidth": 1.6, "label": style.plain(name)}


def _points(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and heights of the steps; of very many values as many as can be seen."""
    share = np.arange(1, values.size + 1) / values.size
    if values.size > _MOST_POINTS:
        # closer and closer to the last, where the tail is
        back = np.unique(np.geomspace(1, values.size, _MOST_POINTS // 2).astype(int))
        even = np.linspace(0, values.size - 1, _MOST_POINTS // 2).astype(int)
        kept = np.unique(np.concatenate([values.size - back, even]))
        values, share = values[kept], share[kept]
    return np.concatenate([values[:1], values]), np.concatenate([[0.0], share])


def _mark(panel: Axes, values: np.ndarray, scale: float) -> None:
    """Lines at the percentiles, told in a legend above so that close ones can be read."""
    for at, dashes in zip(PERCENTILES, ("-", (0, (5, 2)), ":"), strict=True):
        value = float(np.percentile(values, at))
        panel.axvline(
            value / scale,
            color=style.ACCENT,
            linestyle=dashes,
            linewidth=1.4,
            label=f"p{at} {format_seconds(value)}",
        )
    panel.plot([], [], " ", label=f"largest {format_seconds(float(values[-1]))}")
    panel.legend(
        fontsize=8.5,
        frameon=False,
        ncols=2,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.3,
        labelcolor=style.INK,
    )


def _finish(panel: Axes, unit: str, label: str) -> None:
    panel.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    panel.xaxis.set_major_locator(MaxNLocator(5, steps=style.STEPS))
    panel.ticklabel_format(axis="x", useOffset=False)
    panel.set_xlabel(f"time / {unit}", fontsize=9, color=style.INK)
    panel.set_ylabel(style.plain(label), fontsize=9, color=style.INK)
    style.tidy(panel, grid="both")
