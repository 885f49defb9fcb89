"""The figures that commands leave in files."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrcjax.archive import Archive, Run, Sweep
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
    """Draw the link utilisation and the finish times of a run, and what else it has.

    That is the use of links over time where it was traced, the spread of its scenarios, and how
    its buffer is cut where it was tuned.
    """
    from mrcjax.report import plot

    def target(what: str) -> Path:
        return stem.with_name(f"{stem.name}-{what}{suffix}")

    drawn = [
        plot.link_utilisation(run, target("links"), caption),
        plot.finish_times(run, target("finish"), caption),
    ]
    if run.link_use is not None:
        title = "Use of links over time"
        drawn.append(plot.link_use(run.link_use, target("use"), caption, title=title))
    if run.scenarios is not None:
        times_s = {"": run.scenarios.times_s}
        title = f"Completion time of {len(run.scenarios.times_s):,} scenarios"
        drawn.append(
            plot.tail(times_s, target("scenarios"), caption, title=title, noun="scenarios")
        )
    if plot.has_shares(run):
        drawn.append(plot.shares(run, target("shares"), caption))
    return drawn


def draw_sweep(sweep: "Sweep", folder: Path, suffix: str, caption: str) -> list[Path]:
    """Draw all figures of a sweep."""
    from mrcjax.archive import ArchiveError
    from mrcjax.report import plot

    figures = plot.sweep_figures(sweep, caption, titled=True)
    if not figures:
        raise ArchiveError("has no axis of several numbers that are done to draw", sweep.path)
    drawn = []
    for each in figures:
        stem = figure_stem(sweep.path, each.key, folder)
        drawn.append(plot.save(each.figure, stem.with_name(stem.name + suffix)))
    return drawn


def figure_stem(file: Path, name: str, folder: Path) -> Path:
    """Return how the figures of a run of an archive are called, without suffix."""
    plain = re.sub(r"[^\w.+-]+", "_", name)
    return folder / f"{file.name.removesuffix('.h5')}-{plain}"
