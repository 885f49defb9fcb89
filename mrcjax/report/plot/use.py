"""How much of each link is in use over time."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from mrcjax.outcome import LinkUse
from mrcjax.report.plot import style
from mrcjax.report.table import time_column

_MOST_NAMES = 48


def link_use(use: LinkUse, path: str | Path, caption: str = "", *, title: str = "") -> Path:
    """Draw a row per link, coloured by the share of its capacity in use over time; save it."""
    return style.save(link_use_figure(use, caption, title=title), path)


def link_use_figure(use: LinkUse, caption: str = "", *, title: str = "") -> Figure:
    """Draw what `link_use` saves."""
    if not use.links:
        raise ValueError("nothing to draw: no link was looked at")
    rows = len(use.links)
    names = [style.plain(name) for name in use.links]
    longest = max(map(len, names))
    unit = time_column("", "", [float(use.edges_s[-1])])
    figure = style.figure(
        width=min(6.2 + 0.065 * longest, 9.6),
        height=0.9 + 0.17 * rows if rows > 4 else 1.6,
        title=title,
        caption=caption,
    )
    panel = figure.subplots()
    drawn = panel.imshow(
        use.share,
        aspect="auto",
        cmap=style.HEAT,
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(0, float(use.edges_s[-1]) / unit.scale or 1.0, rows - 0.5, -0.5),
    )
    step = -(-rows // _MOST_NAMES)
    panel.set_yticks(np.arange(0, rows, step), names[::step])
    panel.xaxis.set_major_locator(MaxNLocator(6, steps=style.STEPS))
    panel.set_xlabel(f"time / {unit.unit}", fontsize=9, color=style.INK)
    style.tidy(panel, grid="both")
    panel.grid(False)
    panel.tick_params(axis="y", labelsize=7.5, length=0)
    style.colour_bar(figure, panel, drawn, PercentFormatter(1, symbol=" %"), "share in use")
    return figure
