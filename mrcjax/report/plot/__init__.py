"""Turn rows, runs and sweeps into figures that read in grey too (PNG, SVG, PDF, or in a page).

The only package that imports matplotlib; it keeps no global state, so any thread may draw. What
draws into a file has a twin that returns the figure, for a page.
"""

from mrcjax.report.plot.bars import BARS, bars, bars_figure, bars_of
from mrcjax.report.plot.curves import curves, curves_figure, heat_map, heat_map_figure
from mrcjax.report.plot.runs import (
    finish_times,
    finish_times_figure,
    link_utilisation,
    link_utilisation_figure,
)
from mrcjax.report.plot.search import (
    has_shares,
    search,
    search_figure,
    shares,
    shares_figure,
)
from mrcjax.report.plot.style import Figure, check_name, inline, save
from mrcjax.report.plot.sweep import SweepFigure, sweep_figures
from mrcjax.report.plot.tail import tail, tail_figure
from mrcjax.report.plot.use import link_use, link_use_figure

__all__ = [
    "BARS",
    "Figure",
    "SweepFigure",
    "bars",
    "bars_figure",
    "bars_of",
    "check_name",
    "curves",
    "curves_figure",
    "finish_times",
    "finish_times_figure",
    "has_shares",
    "heat_map",
    "heat_map_figure",
    "inline",
    "link_use",
    "link_use_figure",
    "link_utilisation",
    "link_utilisation_figure",
    "save",
    "search",
    "search_figure",
    "shares",
    "shares_figure",
    "sweep_figures",
    "tail",
    "tail_figure",
]
