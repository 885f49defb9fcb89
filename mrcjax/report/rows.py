"""Rows of an archive, one for each run or point, as text, CSV or Parquet."""

import csv
import io
import json
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from mrcjax.archive import Archive, Column, Sweep, described
from mrcjax.report.table import text_table, time_column
from mrcjax.units import SpecError, show_value

Row = Mapping[str, Any]

_BOOKKEEPING = ("id", "result_hash", "finish_count")  # exported only if asked for
_PREFIXES = (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
_SHOWN = ("time_s", "lower_bound_s", "bound_ratio", "busbw_bytes_per_s", "binding_name") + (
    "utilisation",
    "tokens_per_s",
)


def rows_of(stored: Archive | Sweep, condition: str | None) -> list[dict[str, Any]]:
    """Return the rows of which a condition is true; without one all runs, or points done."""
    if condition is not None:
        return stored.where(condition)
    return stored.rows() if isinstance(stored, Sweep) else stored.table()


def keys_of(stored: Archive | Sweep) -> list[str]:
    """Return the keys that rows have, those of labels first, but for bookkeeping."""
    if isinstance(stored, Sweep):
        variables = [key for key in stored.variables if key not in _BOOKKEEPING]
        return [*_label_keys(stored), *variables]
    return ["run", *stored.columns]


def chosen_keys(stored: Archive | Sweep, asked: str | None, few: bool = False) -> list[str]:
    """Return the keys named in "a,b", in that order; without, all or the `few` that matter most.

    Raises:
        SpecError: there is no such key.
    """
    known = keys_of(stored)
    if asked is None and few:
        labels = _label_keys(stored) if isinstance(stored, Sweep) else ["run", "network", "ranks"]
        return [*labels, *(key for key in _SHOWN if key in known)]
    if asked is None:
        return known
    more = [*stored.short_names(), *_BOOKKEEPING] if isinstance(stored, Sweep) else []
    keys = [key.strip() for key in asked.split(",") if key.strip()]
    for key in keys:
        if key not in known and key not in more:
            raise SpecError(
                "is no column", where="--columns", value=key, remedy=f"use {', '.join(known)}"
            )
    if not keys:
        raise SpecError("names no column", where="--columns", value=asked, remedy="write a,b")
    return keys


def _label_keys(sweep: Sweep) -> list[str]:
    return [key for axis in sweep.axes for key in axis.coords]


def units_of(stored: Archive | Sweep, key: str) -> tuple[str, str]:
    """Return units and long name of a column."""
    if isinstance(stored, Sweep):
        key = stored.short_names().get(key, key)
        for axis in stored.axes:
            if key in axis.coords:
                return axis.units.get(key, ""), key
    elif key == "run":
        return "", "name of the run"
    return described(key)


def rows_text(stored: Archive | Sweep, rows: Sequence[Row], keys: Sequence[str]) -> str:
    """Return rows as a table, headed by the names that conditions and columns are asked for by."""
    columns = [_column(key, units_of(stored, key)[0], rows) for key in keys]
    labels = len(list(takewhile(partial(_is_label, stored), keys)))
    return text_table([{key: row[key] for key in keys} for row in rows], columns, lead=labels or 1)


def _is_label(stored: Archive | Sweep, key: str) -> bool:
    if isinstance(stored, Sweep):
        return stored.short_names().get(key, key) in _label_keys(stored)
    return key == "run"


def _column(key: str, units: str, rows: Sequence[Row]) -> Column:
    values = [row[key] for row in rows]
    if any(isinstance(value, str) for value in values):  # labels that are lists have units in them
        return Column(key, key)
    if units == "s":
        return time_column(key, key, values)
    if units in ("byte", "byte/s"):
        middle = statistics.median([abs(value) for value in values if value == value] or [0])
        prefix, scale = next((p, s) for p, s in _PREFIXES if middle >= s or s == 1)
        return Column(key, key, prefix + units.replace("byte", "B"), scale)
    return Column(key, key, "" if units == "1" else units)


def csv_text(rows: Sequence[Row], keys: Sequence[str]) -> str:
    """Return rows as CSV, SI units, a line of keys first; what is missing is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows(["" if row[key] != row[key] else row[key] for key in keys] for row in rows)
    return stream.getvalue()


def write_parquet(
    path: Path, stored: Archive | Sweep, rows: Sequence[Row], keys: Sequence[str]
) -> None:
    """Write rows as a Parquet file; units and long names are metadata of its columns.

    Raises:
        SpecError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise SpecError(
            "needs pyarrow",
            where="--parquet",
            value=show_value(str(path)),
            remedy="pip install 'mrcjax[parquet]', or use --csv",
        ) from None
    arrays, fields = [], []
    for key in keys:
        # NaN becomes null, which is what Parquet has for missing values
        array = pyarrow.array(np.array([row[key] for row in rows]), from_pandas=True)
        units, long_name = units_of(stored, key)
        metadata = {"long_name": long_name} | ({"units": units} if units else {})
        arrays.append(array)
        fields.append(pyarrow.field(key, array.type, metadata=metadata))
    about: dict[str, Any] = {"file": str(stored.path)}
    if isinstance(stored, Sweep):
        about |= stored.provenance()
    schema = pyarrow.schema(fields, metadata={"mrcjax": json.dumps(about)})
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, schema=schema), path)
