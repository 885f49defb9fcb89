"""What a sweep shows: scaling curves, maps over two axes, and tails over seeds and ranks."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from mrcjax.archive import Axis, Column, Sweep
from mrcjax.report.plot import style
from mrcjax.report.plot.curves import curves_figure, heat_map_figure
from mrcjax.report.plot.tail import tail_figure
from mrcjax.report.sweep import axis_column, label_text
from mrcjax.report.table import time_column

MOST_LINES = len(style.SERIES)
_MOST_ALIKE = 4  # figures of one sort
_NOTED = 1.001  # of the last rank's time over the median's: less is no tail
_PARTS = ("median rank", "95 % of the ranks", "99 % of the ranks", "last rank")
_CURVES = (
    Column("bound_ratio", "time / lower bound"),
    Column("busbw_bytes_per_s", "bus bandwidth", "GB/s", 1e9),
    Column("utilisation", "utilised by training", "%", 0.01),
)


@dataclass(frozen=True)
class SweepFigure:
    """A figure of a sweep. key: for the name of a file. about: what it leaves to say."""

    key: str
    title: str
    figure: Figure
    about: str = ""


@dataclass(frozen=True)
class _Layout:
    """What each axis is drawn as. Axes of one label are drawn as nothing."""

    across: int | None  # numbers from left to right
    up: int | None  # numbers of a map's other axis
    lines: tuple[int, ...]  # a line for each
    seeds: tuple[int, ...]  # draws of the same
    rest: tuple[int, ...]  # a figure for each


def sweep_figures(sweep: Sweep, caption: str = "", *, titled: bool = False) -> list[SweepFigure]:
    """Return the figures of a sweep; none where there is nothing to compare.

    titled: put titles into the figures too, for files.
    """
    layout = _layout(sweep.axes)
    return list(_Figures(sweep, layout, caption, titled).all())


def _layout(axes: Sequence[Axis]) -> _Layout:
    long = [i for i, axis in enumerate(axes) if len(axis) > 1]
    seeds = tuple(i for i in long if axes[i].name.endswith("seed"))
    numbers = [i for i in long if i not in seeds and is_numeric(axes[i])]
    numbers.sort(key=lambda i: axes[i].name != "network.ranks")
    texts = [i for i in long if i not in seeds and i not in numbers]
    across, up = (*numbers, None, None)[:2]
    lines = list(texts)
    # a second axis of few numbers is read best as lines, beside the map
    for extra in numbers[1:]:
        if np.prod([len(axes[i]) for i in [*lines, extra]]) <= MOST_LINES:
            lines.append(extra)
    rest = tuple(i for i in long if i not in (across, *lines, *seeds))
    return _Layout(across, up, tuple(lines), seeds, rest)


def is_numeric(axis: Axis) -> bool:
    """Whether an axis has numbers."""
    return all(
        isinstance(x, int | float) and not isinstance(x, bool) for x in axis.coords[axis.name]
    )


class _Figures:
    def __init__(self, sweep: Sweep, layout: _Layout, caption: str, titled: bool):
        self.sweep, self.layout = sweep, layout
        self.caption, self.titled = caption, titled

    def all(self) -> Iterator[SweepFigure]:
        yield from self._scaling()
        yield from self._maps()
        yield from self._tails_of_ranks()
        yield from self._tails_of_seeds()

    def _headed(self, title: str) -> str:
        return title if self.titled else ""

    def _values(self, key: str) -> np.ndarray:
        """A variable over all axes, NaN where a point is not done."""
        values = np.asarray(self.sweep[key], np.float64)
        return np.where(self.sweep.status.astype(str) == "done", values, np.nan)

    def _typical(self, key: str) -> np.ndarray:
        """The same with the median over the seeds, whose axes keep one place."""
        values, seeds = self._values(key), self.layout.seeds
        if not seeds:
            return values
        moved = np.moveaxis(values, seeds, range(-len(seeds), 0))
        flat = moved.reshape(*moved.shape[: -len(seeds)], -1)
        known = np.isfinite(flat).any(axis=-1)
        middle = np.full(flat.shape[:-1], np.nan)
        middle[known] = np.nanmedian(flat[known], axis=-1)
        return np.expand_dims(middle, seeds)

    def _places(self, axes: Sequence[int]) -> Iterator[tuple[dict[int, int], str]]:
        """Every choice of labels of some axes, with a name."""
        for chosen in itertools.product(*(range(len(self.sweep.axes[i])) for i in axes)):
            at = dict(zip(axes, chosen, strict=True))
            yield at, ", ".join(label_text(self.sweep.axes[i], n) for i, n in at.items())

    def _line(self, values: np.ndarray, at: dict[int, int], along: Sequence[int]) -> np.ndarray:
        """Values along some axes at the places of others; all else has one place."""
        index = tuple(
            slice(None) if i in along else min(at.get(i, 0), values.shape[i] - 1)
            for i in range(values.ndim)
        )
        found = values[index]
        order = np.argsort(np.argsort(along))
        return np.transpose(found, order) if found.ndim > 1 else found

    def _panels(self) -> tuple[list[tuple[dict[int, int], str]], str]:
        panels = list(self._places(self.layout.rest))
        left_out = len(panels) - _MOST_ALIKE
        if left_out <= 0:
            return panels, ""
        kept = np.linspace(0, len(panels) - 1, _MOST_ALIKE).round().astype(int)
        return [panels[i] for i in kept], f"As many for {left_out} more labels are left out."

    def _scaling(self) -> Iterator[SweepFigure]:
        x = self.layout.across
        if x is None:
            return
        axis = self.sweep.axes[x]
        across, labels = axis_column(axis), np.asarray(axis.coords[axis.name], np.float64)
        times_s = self._typical("time_s")
        time = time_column("time_s", "completion time", times_s[np.isfinite(times_s)].tolist())
        said = "Medians over the seeds." if self.layout.seeds else ""
        panels, left_out = self._panels()
        for where, name in panels:
            for column in (time, *_CURVES):
                is_repeated = column.key == "busbw_bytes_per_s" and len(panels) > 1
                if column.key not in self.sweep or is_repeated:
                    continue
                values = self._typical(column.key)
                lines = {
                    text: self._line(values, where | at, [x])
                    for at, text in self._places(self.layout.lines)
                }
                if not any(np.isfinite(line).any() for line in lines.values()):
                    continue
                dashed = None
                if column.key == "time_s":
                    bounds = self._typical("lower_bound_s")
                    dashed = {
                        text: self._line(bounds, where | at, [x])
                        for at, text in self._places(self.layout.lines)
                    }
                title = f"{column.title} against {across.title}".capitalize()
                title += f": {name}" if name else ""
                figure = curves_figure(
                    labels,
                    lines,
                    across=across,
                    up=column,
                    dashed=dashed,
                    caption=self.caption,
                    title=self._headed(title),
                )
                is_last = where is panels[-1][0] and column is _CURVES[0]
                about = f"{said} {left_out if is_last else ''}".strip()
                yield SweepFigure(f"{column.key}{_suffix(name)}", title, figure, about)

    def _maps(self) -> Iterator[SweepFigure]:
        x, y = self.layout.across, self.layout.up
        if x is None or y is None:
            return
        values = self._typical("bound_ratio")
        others = [i for i in (*self.layout.lines, *self.layout.rest) if i not in (x, y)]
        choices = list(self._places(others))
        for at, name in choices[:_MOST_ALIKE]:
            shown = self._line(values, at, [y, x])
            if not np.isfinite(shown).any():
                continue
            across, up = (self.sweep.axes[i] for i in (x, y))
            title = "Time over lower bound" + (f": {name}" if name else "")
            figure = heat_map_figure(
                [label_text(across, i, brief=True) for i in range(len(across))],
                [label_text(up, i, brief=True) for i in range(len(up))],
                shown,
                across=Column("", across.name.rpartition(".")[2]),
                up=Column("", up.name.rpartition(".")[2]),
                colour=Column("bound_ratio", "time / lower bound", digits=3),
                caption=self.caption,
                title=self._headed(title),
            )
            left_out = len(choices) - _MOST_ALIKE
            about = f"{left_out} more maps are left out." if left_out > 0 else ""
            yield SweepFigure(f"map{_suffix(name)}", title, figure, about)

    def _tails_of_ranks(self) -> Iterator[SweepFigure]:
        """Median, 95 and 99 per cent and the last of the ranks' finish times, against an axis."""
        x = self.layout.across
        keys = [f"finish_{part}_s" for part in ("median", "p95", "p99", "max")]
        if x is None or not all(key in self.sweep for key in keys):
            return
        axis = self.sweep.axes[x]
        parts = [self._typical(key) for key in keys]
        labels = np.asarray(axis.coords[axis.name], np.float64)
        choices = list(self._places((*self.layout.lines, *self.layout.rest)))
        drawn = 0
        for at, chosen in choices:
            lines: dict[str, np.ndarray] = {
                name: self._line(part, at, [x]) for name, part in zip(_PARTS, parts, strict=True)
            }
            first, *_, last = lines.values()
            if drawn == _MOST_ALIKE or not (last > _NOTED * first).any():
                continue
            drawn += 1
            time = time_column("", "finish time", last[np.isfinite(last)].tolist())
            title = "When ranks finish" + (f": {chosen}" if chosen else "")
            figure = curves_figure(
                labels,
                lines,
                across=axis_column(axis),
                up=time,
                caption=self.caption,
                title=self._headed(title),
            )
            yield SweepFigure(f"ranks{_suffix(chosen)}", title, figure)

    def _tails_of_seeds(self) -> Iterator[SweepFigure]:
        seeds = self.layout.seeds
        if not seeds:
            return
        values = self._values("time_s")
        others = [i for i in range(values.ndim) if i not in seeds and len(self.sweep.axes[i]) > 1]
        found = {}
        for at, name in self._places(others):
            times_s = self._line(values, at, seeds).ravel()
            if np.isfinite(times_s).any():
                found[name] = times_s[np.isfinite(times_s)]
        if not found:
            return
        count = max(map(len, found.values()))
        title = f"Completion time of {count:,} draws"
        figure = tail_figure(found, noun="draws", caption=self.caption, title=self._headed(title))
        yield SweepFigure("draws", title, figure)


def _suffix(name: str) -> str:
    return f"-{name}" if name else ""
