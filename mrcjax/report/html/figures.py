"""The figures of a page about runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from mrcjax.archive import Archive, Column, Run
from mrcjax.report import plot
from mrcjax.report.html.blocks import Block, Drawn, Words, titles_of
from mrcjax.report.search import is_search, lower_bound_s
from mrcjax.report.table import time_column
from mrcjax.units import format_bytes

MOST_BARS = 40  # rows of a figure
MOST_DRAWN = 4  # runs of many that are drawn one by one


class Figures:
    """The figures of one page: each gets ids of its own."""

    def __init__(self):
        self.blocks: list[Block] = []

    def add(self, figure: plot.Figure, title: str, about: str = "") -> None:
        """Add a figure under its title."""
        svg = plot.inline(figure, f"f{len(self.blocks)}", title)
        self.blocks.append(Drawn(title, svg, about))


def of_archive(stored: Archive, runs: Sequence[Run]) -> list[Block]:
    """Return what the tables and runs of an archive look like."""
    drawn = Figures()
    titles = titles_of(stored.tables)
    for name, table in stored.tables.items():
        title = titles[name]
        if is_search(table):
            bound_s = lower_bound_s(stored, name)
            drawn.add(plot.search_figure(table.rows, bound_s=bound_s), title)
            continue
        rows, numbers = plot.bars_of(table)
        if numbers and len(rows) <= MOST_BARS:
            drawn.add(plot.bars_figure(rows, columns=numbers, name="label"), title)
    if len(runs) > 1:
        _of_several(drawn, stored.table())
    chosen = sorted(runs, key=lambda run: run.bound_ratio, reverse=True)
    for run in chosen[:MOST_DRAWN] if len(runs) > MOST_DRAWN else runs:
        _of_run(drawn, run, "" if len(runs) == 1 else f"{run.name}: ")
    if len(runs) > MOST_DRAWN:
        drawn.blocks.append(
            Words(
                [
                    f"Of {len(runs):,} runs the {MOST_DRAWN} farthest from their lower bound are "
                    f"drawn one by one; mrcjax plot {stored.path.name} --run NAME draws any other."
                ]
            )
        )
    return drawn.blocks


def _of_several(drawn: Figures, rows: list[dict[str, Any]]) -> None:
    """Bars of the runs that do the same, beside each other with their bounds."""
    groups: dict[tuple[str, float], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["collective"], row["size_bytes"]), []).append(row)
    for (collective, size), group in groups.items():
        if not 1 < len(group) <= MOST_BARS:
            continue
        time = time_column("time_s", "completion time", [row["time_s"] for row in group])
        columns = [
            Column("time_s", time.title, time.unit, time.scale, bound_key="lower_bound_s"),
            Column("busbw_bytes_per_s", "bus bandwidth", "GB/s", 1e9),
            Column("binding_utilisation", "busiest link busy", "%", 0.01),
        ]
        drawn.add(
            plot.bars_figure(group, columns=columns, name="run"),
            f"{collective} of {format_bytes(size)}: {len(group)} runs",
        )


def _of_run(drawn: Figures, run: Run, prefix: str) -> None:
    if run.finish_s.size:
        drawn.add(plot.finish_times_figure(run), f"{prefix}When ranks finish")
    if run.scenarios is not None:
        drawn.add(
            plot.tail_figure({"": run.scenarios.times_s}, noun="scenarios"),
            f"{prefix}Completion time of {len(run.scenarios.times_s):,} scenarios",
        )
    if any(tier.count for tier in run.tiers):
        drawn.add(plot.link_utilisation_figure(run), f"{prefix}Link utilisation by tier")
    if run.link_use is not None:
        drawn.add(
            plot.link_use_figure(run.link_use),
            f"{prefix}Use of links over time",
            "Ports of the traced ranks, and the busiest of the other links.",
        )
    if plot.has_shares(run):
        drawn.add(plot.shares_figure(run), f"{prefix}How the buffer is cut")
