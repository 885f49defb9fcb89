"""What a page is made of: sections of facts, tables, figures and texts, before any HTML."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mrcjax.archive import Column, Table
from mrcjax.report.table import as_columns, format_value

MOST_ROWS = 1000  # of a table; a browser sorts more, but nobody reads them


@dataclass(frozen=True)
class Fact:
    """One number that stands out: what it is, its text, and a word on it."""

    label: str
    text: str
    more: str = ""


@dataclass(frozen=True)
class Facts:
    """Facts side by side."""

    facts: Sequence[Fact]
    kind: str = "facts"


@dataclass(frozen=True)
class Head:
    """Head of a table's column."""

    title: str
    unit: str
    is_number: bool


@dataclass(frozen=True)
class Cell:
    """One value of a table: as it is read, and as it sorts (None: after all others)."""

    text: str
    sort: float | str | None


@dataclass(frozen=True)
class Grid:
    """A table that sorts by every column."""

    title: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    kind: str = "grid"


@dataclass(frozen=True)
class Drawn:
    """A figure. svg: an element that may stand in the page as it is. about: a line below it."""

    title: str
    svg: str
    about: str = ""
    kind: str = "drawn"


@dataclass(frozen=True)
class Words:
    """Sentences, each a paragraph or, as a list, a point."""

    texts: Sequence[str]
    is_list: bool = False
    kind: str = "words"


@dataclass(frozen=True)
class Verbatim:
    """Texts to copy, each closed until asked for: title and text."""

    texts: Sequence[tuple[str, str]]
    kind: str = "verbatim"


Block = Facts | Grid | Drawn | Words | Verbatim


@dataclass(frozen=True)
class Section:
    """A part of the page; key: its anchor."""

    key: str
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)


def grid(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column | tuple[str, str, str]] = (),
    *,
    title: str = "",
    notes: Sequence[str] = (),
) -> Grid:
    """Return rows as a table for the page; of very many rows the first, and a note."""
    shown = as_columns(rows, columns)
    heads = [
        Head(column.title, column.unit, _is_numeric([row.get(column.key) for row in rows]))
        for column in shown
    ]
    left_out = len(rows) - MOST_ROWS
    if left_out > 0:
        notes = [*notes, f"{left_out:,} more rows are left out of this page."]
    cells = [[_cell(row.get(column.key), column) for column in shown] for row in rows[:MOST_ROWS]]
    return Grid(title, heads, cells, [note.removeprefix("- ") for note in notes])


def grid_of(table: Table, title: str) -> Grid:
    """Return a stored table for the page."""
    return grid(table.rows, table.columns, title=title, notes=table.notes)


def titles_of(tables: Mapping[str, Table]) -> dict[str, str]:
    """Return what each table is called: its title, with its name where others are called alike."""
    titles = [table.title or name for name, table in tables.items()]
    return {
        name: title if titles.count(title) == 1 else f"{title} ({name})"
        for name, title in zip(tables, titles, strict=True)
    }


def _cell(value: Any, column: Column) -> Cell:
    text = format_value(value, column)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Cell(text, None)
    if isinstance(value, str):
        return Cell(text, value)
    number = float(value)
    # JSON and HTML know no infinity
    return Cell(text, number if math.isfinite(number) else math.copysign(1e308, number))


def _is_numeric(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and not any(isinstance(value, str | bool) for value in known)
