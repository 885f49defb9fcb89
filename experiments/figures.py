"""How figures of experiments look: colours that all can tell apart, names at the lines' ends."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

INK, MUTED, GRID = "#1a1a1a", "#5f6670", "#d9dce1"
CLAIM = "#c2410c"
# Okabe and Ito, darkened where thin lines would be too pale, each with a mark of its own
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#8f4f86", "#b07d00", "#2f9fd0", "#3a3a3a", "#7a7a7a")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


def figure(
    title: str, command: str, *, width: float = 9.0, height: float = 4.2, caption: str = ""
) -> Figure:
    """Make a figure with a title on the left, caption and command below it."""
    caption = f"{caption}\nMade by: {command}".strip()
    headline = textwrap.fill(title, int(width * 10.5))
    below = "\n".join(textwrap.fill(line, int(width * 15.5)) for line in caption.splitlines())
    extra = 0.2 * (headline.count("\n") + 1) + 0.15 * (below.count("\n") + 1)
    drawn = Figure(figsize=(width, height + extra), layout="constrained", dpi=160)
    drawn.get_layout_engine().set(w_pad=0.08, h_pad=0.06, wspace=0.05)  # pyright: ignore
    drawn.suptitle(plain(headline), x=0.012, ha="left", fontsize=11, fontweight="bold", color=INK)
    drawn.supxlabel(plain(below), x=0.012, ha="left", fontsize=8, color=MUTED)
    return drawn


def tidy(panel: Axes, *, x: str = "", y: str = "", title: str = "") -> None:
    """Name the axes and leave out what says nothing."""
    panel.set_xlabel(plain(x), fontsize=9.5, color=INK)
    panel.set_ylabel(plain(y), fontsize=9.5, color=INK)
    if title:
        panel.set_title(plain(title), fontsize=10, color=INK, loc="left")
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color(MUTED)
    panel.grid(axis="both", color=GRID, linewidth=0.7)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=9, color=MUTED, labelcolor=INK)


def line(panel: Axes, x: Sequence[float], y: Sequence[float], number: int, **more: Any) -> Any:
    """Draw one line in the colour and with the mark of its number."""
    style = {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKS[number % len(MARKS)],
        "markersize": 4.5,
        "linewidth": 1.7,
    }
    return panel.plot(x, y, **{**style, **more})[0]


def name_ends(
    panel: Axes, ends: Sequence[tuple[float, float, str, str]], *, gap: float = 0.055
) -> None:
    """Write names beside the ends (x, y, name, colour) of lines, moved apart where they meet.

    ``gap`` is the least distance of two names as a share of the panel's height. Call it once the
    panel's limits are final.
    """
    to_share = panel.transData + panel.transAxes.inverted()
    places = [(*to_share.transform((x, y)), name, colour) for x, y, name, colour in ends]
    places.sort(key=lambda each: each[1])
    heights = _apart([each[1] for each in places], gap)
    right = max(each[0] for each in places)
    for (x, y, name, colour), height in zip(places, heights, strict=True):
        panel.annotate(
            plain(name),
            (x, y),
            (right + 0.03, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            fontsize=8.5,
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkB": 2},
        )


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Heights, rising, moved as little as keeps them ``gap`` apart."""
    found = np.asarray(heights, float)
    for _ in range(200):
        close = np.diff(found) < gap - 1e-9
        if not close.any():
            break
        for i in np.flatnonzero(close):
            push = (gap - (found[i + 1] - found[i])) / 2
            found[i] -= push
            found[i + 1] += push
    return list(found)


def claim(panel: Axes, y: float, text: str, *, x: float = 0.02, above: bool = True) -> None:
    """Draw a claim as a dashed line across the panel, with its words on it."""
    panel.axhline(y, color=CLAIM, linestyle=(0, (5, 2)), linewidth=1.4, zorder=1)
    panel.annotate(
        plain(text),
        (x, y),
        (0, 3 if above else -3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize=8.5,
        color=CLAIM,
        va="bottom" if above else "top",
    )


def log_axis(axis: Any, values: Sequence[float] = (), write: Any = None) -> None:
    """Make an axis logarithmic; with values, they are its ticks, written by ``write``."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    if len(values):
        axis.set_ticks(list(values), [write(v) if write else f"{v:,g}" for v in values])
    else:
        axis.set_major_locator(LogLocator(10, (1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="minor", length=0)


def plain(text: str) -> str:
    """Text in which a dollar opens no formula."""
    return text.replace("$", r"\$")


def save(drawn: Figure, stem: Path) -> None:
    """Save as PNG and SVG; the same runs give the same files."""
    with matplotlib.rc_context({"svg.hashsalt": "mrcjax"}):
        drawn.savefig(stem.with_suffix(".png"))
        drawn.set_layout_engine("none")
        drawn.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
