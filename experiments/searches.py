"""What experiments that tune do alike: the ways down, cuts as images, and their files."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import Asked
from mrcjax.report.table import text_table
from mrcjax.tuning import Tuned
from mrcjax.tuning.keeping import keep


def ways_down(panel: Axes, found: Mapping[str, Tuned], *, stage: str = "") -> None:
    """Draw time over that of equal cuts by step, of one stage if given; bounds are dashed."""
    for name, each in found.items():
        equal = each.heuristics_s["equal"]
        steps = [step.exact_s / equal for step in each.history if stage in ("", step.stage)]
        (line,) = panel.plot(steps, label=name)
        panel.axhline(each.lower_bound_s / equal, color=line.get_color(), ls="--", lw=0.8)
    panel.set_xlabel("step")


def image(
    panel: Axes, values: Any, title: str, *, x: str, y: str = "", most: float | None = None
) -> None:
    """Draw (rows, columns) of parts as colours from 0 to ``most``, with their scale beside."""
    drawn = panel.imshow(np.asarray(values), aspect="auto", vmin=0, vmax=most)
    panel.set(xlabel=x, ylabel=y, title=title)
    panel.figure.colorbar(drawn)


def finish(
    given: Asked, rows: Sequence[Mapping[str, Any]], found: Mapping[str, Tuned], drawn: Figure
) -> None:
    """Print the table, write it to NAME.txt, the searches to NAME.h5 and the figure to NAME.png."""
    text = f"{given.command}\n{text_table(rows)}"
    print(text)
    given.path(".txt").write_text(text + "\n", encoding="utf-8")
    given.path(".h5").unlink(missing_ok=True)
    for each in found.values():
        keep(given.path(".h5"), each, command=given.command)
    drawn.text(0.01, 0.01, given.command, fontsize=7)
    drawn.tight_layout()
    drawn.savefig(given.path(".png"), dpi=120)
