"""Turn a sweep into a summary and a table for a terminal, and into plain values for JSON."""

from collections import Counter
from typing import Any

import numpy as np

from mrcjax.archive import Axis, Column, Sweep
from mrcjax.report.table import text_table, time_column
from mrcjax.units import format_bytes, format_rate, format_seconds

ROWS = 40  # of the table; more are left to `mrcjax show`
_FORMATS = (("_bytes_per_s", format_rate), ("_bytes", format_bytes), ("_s", format_seconds))
_SHOWN = ("time_s", "lower_bound_s", "bound_ratio", "binding_name")
_OF_TRAINING = ("utilisation", "tokens_per_s")


def counts(sweep: Sweep) -> dict[str, int]:
    """Number of points by status, those left out not counted."""
    found = Counter(sweep.status.astype(str).ravel().tolist())
    return {status: found.get(status, 0) for status in ("done", "failed", "missing")}


def sweep_text(sweep: Sweep) -> str:
    """Return what a sweep has come to: how many points, the first of them, why others failed."""
    of = counts(sweep)
    axes = " x ".join(f"{axis.name} ({len(axis)})" for axis in sweep.axes)
    said = ", ".join(f"{number:,} {status}" for status, number in of.items() if number)
    blocks = [f"{sweep.path}: {axes}; {said}"]
    places = list(sweep.places("done"))
    columns = [*_SHOWN, *(key for key in _OF_TRAINING if key in sweep)]
    units = {key: unit for axis in sweep.axes for key, unit in axis.units.items()}
    rows = [
        {key: _label(units.get(key, ""), value) for key, value in sweep.labels(at).items()}
        | {key: _shown(key, sweep[key][at]) for key in columns}
        for at in places[:ROWS]
    ]
    if rows:
        blocks.append(text_table(rows))
    if len(places) > ROWS:
        blocks.append(f"and {len(places) - ROWS:,} more: `mrcjax show {sweep.path}`")
    reasons = Counter(str(sweep.reason[at]) for at in sweep.places("failed"))
    blocks += [f"failed ({number:,}): {reason}" for reason, number in reasons.most_common(8)]
    return "\n\n".join(blocks)


def _label(unit: str, value: Any) -> str:
    endings = {"byte/s": "_bytes_per_s", "byte": "_bytes", "s": "_s"}
    shown = _shown(endings.get(unit, ""), value)
    return shown if unit in (*endings, "") else f"{shown} {unit}"


def _shown(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    for ending, write in _FORMATS:
        if key.endswith(ending):
            return write(float(value))
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return f"{float(value):.6g}"


def sweep_json(sweep: Sweep) -> dict[str, Any]:
    """Return the object of `mrcjax sweep --json`: axes, and one row for every point done."""
    keys = ("time_s", "lower_bound_s", "bound_ratio", "bound_kind", "busbw_bytes_per_s")
    return {
        "file": str(sweep.path),
        "axes": {axis.name: {k: list(v) for k, v in axis.coords.items()} for axis in sweep.axes},
        "counts": counts(sweep),
        "points": [
            sweep.labels(at) | {key: sweep[key][at] for key in keys} for at in sweep.places("done")
        ],
        "failed": [
            sweep.labels(at) | {"reason": str(sweep.reason[at])} for at in sweep.places("failed")
        ],
    }


_WRITTEN = {"byte": format_bytes, "byte/s": format_rate, "s": format_seconds}
_SCALES = {
    "byte": (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
    "byte/s": (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("B/s", 1.0)),
}


def label_text(axis: Axis, place: int, *, brief: bool = False) -> str:
    """Write a label of an axis in its unit, with the last word of its key unless it is brief."""
    label, word = axis.coords[axis.name][place], axis.name.rpartition(".")[2].replace("_", " ")
    if isinstance(label, str):
        return label
    if isinstance(label, bool):
        text = "yes" if label else "no"
    elif axis.units.get(axis.name) in _WRITTEN:
        text = _WRITTEN[axis.units[axis.name]](label)
    else:
        text = f"{label:,.0f}" if float(label).is_integer() else f"{label:.6g}"
    return text if brief else f"{word} {text}"


def axis_column(axis: Axis, key: str = "") -> Column:
    """Return how the labels of an axis, or of another of its keys, are headed and scaled."""
    key = key or axis.name
    word, unit = key.rpartition(".")[2].replace("_", " "), axis.units.get(key, "")
    labels = [float(x) for x in axis.coords[key] if not isinstance(x, str)]
    if unit == "s" and labels:
        return time_column(key, word, labels)
    if unit in _SCALES and labels:
        scales = _SCALES[unit]
        name, scale = next(((u, s) for u, s in scales if max(labels) >= s), scales[-1])
        return Column(key, word, name, scale)
    return Column(key, word, unit)
