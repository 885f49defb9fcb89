"""The figures that commands leave in files."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrcjax.archive import Archive, Run
    from mrcjax.outcome import Outcome


def draw_tables(stored: "Archive", folder: Path, suffix: str, caption: str) -> list[Path]:
    """Draw every table that holds numbers: the way of a search, or a panel for each column."""
    from mrcjax.report import plot
    from mrcjax.report.search import is_search, lower_bound_s

    drawn = []
    for name, table in stored.tables.items():
        stem = figure_stem(stored.path, name, folder)
        target, title = stem.with_name(stem.name + suffix), table.title or name
        if is_search(table):
            bound_s = lower_bound_s(stored, name)
            drawn.append(plot.search(table.rows, target, caption, title=title, bound_s=bound_s))
            continue
        rows, numbers = plot.bars_of(table)
        if numbers:
            drawn.append(
                plot.bars(rows, target, caption, columns=numbers, title=title, name="label")
            )
    return drawn


def draw_run(run: "Outcome | Run", stem: Path, suffix: str, caption: str) -> list[Path]:
    """Draw the link utilisation and the finish times of a run."""
    from mrcjax.report import plot

    return [
        plot.link_utilisation(run, stem.with_name(f"{stem.name}-links{suffix}"), caption),
        plot.finish_times(run, stem.with_name(f"{stem.name}-finish{suffix}"), caption),
    ]


def figure_stem(file: Path, name: str, folder: Path) -> Path:
    """Return how the figures of a run of an archive are called, without suffix."""
    plain = re.sub(r"[^\w.+-]+", "_", name)
    return folder / f"{file.name.removesuffix('.h5')}-{plain}"
