"""The figures that commands leave in files."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrcjax.archive import Archive, Run, Table
    from mrcjax.outcome import Outcome


def draw_tables(stored: "Archive", folder: Path, suffix: str, caption: str) -> list[Path]:
    """Draw every table that holds numbers: a panel for each column of them."""
    from mrcjax.report import plot
    from mrcjax.report.table import as_columns

    drawn = []
    for name, table in stored.tables.items():
        shown = as_columns(table.rows, table.columns)
        marks = {column.bound_key for column in shown}
        numbers = [c for c in shown if c.key not in marks and _is_numeric(table, c.key)]
        if not numbers:
            continue
        texts = [c.key for c in shown if not _is_numeric(table, c.key)]
        rows = [
            {**row, "label": label}
            for row, label in zip(table.rows, _labels(table.rows, texts), strict=True)
        ]
        stem = figure_stem(stored.path, name, folder)
        target = stem.with_name(stem.name + suffix)
        drawn.append(
            plot.bars(
                rows, target, caption, columns=numbers, title=table.title or name, name="label"
            )
        )
    return drawn


def _is_numeric(table: "Table", key: str) -> bool:
    values = [row[key] for row in table.rows if row.get(key) is not None]
    return bool(values) and all(type(value) in (int, float) for value in values)


def _labels(rows: Sequence[Mapping[str, Any]], texts: Sequence[str]) -> list[str]:
    """Name each row by its first text, and by further ones until no two rows are named alike."""
    labels = [""] * len(rows)
    for key in texts:
        labels = [f"{label}, {row.get(key)}" for label, row in zip(labels, rows, strict=True)]
        if len(set(labels)) == len(labels):
            break
    return [label.removeprefix(", ") for label in labels]


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
