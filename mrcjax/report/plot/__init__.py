"""Turn rows, runs and sweeps into figures that read in grey too (PNG, SVG, PDF, or in a page).

The only package that imports matplotlib; it keeps no global state, so any thread may draw. What
draws into a file has a twin that returns the figure, for a page.
"""

from mrcjax.report.plot.bars import BARS, bars, bars_figure
from mrcjax.report.plot.runs import (
    finish_times,
    finish_times_figure,
    link_utilisation,
    link_utilisation_figure,
)
from mrcjax.report.plot.style import inline

__all__ = [
    "BARS",
    "bars",
    "bars_figure",
    "finish_times",
    "finish_times_figure",
    "inline",
    "link_utilisation",
    "link_utilisation_figure",
]
