"""Turn a small table into a dataset of an archive, and such a dataset back into the table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrcjax.archive.dataset import TEXT, json_text
from mrcjax.archive.layout import free_name, group_name


@dataclass(frozen=True)
class Column:
    """How one value of a table's rows is headed and scaled."""

    key: str  # of the row
    title: str
    unit: str = ""
    scale: float = 1.0  # one `unit` in the unit of the row's value: 1e-3 for ms from seconds
    bound_key: str = ""  # of the row: a lower bound of this value in the same unit
    digits: int = 4  # significant


@dataclass(frozen=True)
class Table:
    """A small table with what it takes to print and plot it again, such as a comparison."""

    rows: Sequence[Mapping[str, Any]]  # values are text, numbers, booleans or None
    columns: Sequence[Column] = ()  # none: every key of the rows, as it is
    title: str = ""
    notes: Sequence[str] = ()  # printed below


def write_table(tables: Any, name: str, table: Table) -> None:
    """Add a table to the group of tables; a name already taken gets a suffix."""
    free = free_name(name, {str(item.attrs["name"]) for item in tables.values()})
    text = json_text(
        {
            "title": table.title,
            "columns": [vars(column) for column in table.columns],
            "rows": [dict(row) for row in table.rows],
            "notes": list(table.notes),
        }
    )
    dataset = tables.create_dataset(group_name(free), data=text, dtype=TEXT)
    dataset.attrs["name"] = free
    dataset.attrs["long_name"] = table.title or free


def read_table(dataset: Any) -> Table:
    """Return the table that a dataset holds."""
    stored = json.loads(dataset.asstr()[()])
    return Table(
        rows=stored["rows"],
        columns=tuple(Column(**column) for column in stored["columns"]),
        title=stored["title"],
        notes=tuple(stored["notes"]),
    )
