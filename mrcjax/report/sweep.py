"""Turn a sweep into a summary and a table for a terminal, and into plain values for JSON."""

from collections import Counter
from typing import Any

from mrcjax.archive import Axis, Column, Sweep
from mrcjax.report.rows import chosen_keys, rows_text
from mrcjax.report.table import time_column
from mrcjax.units import format_bytes, format_rate, format_seconds

REASONS = 8  # why points failed that are listed; likewise
ROWS = 40  # of the table; more are left to `mrcjax show`


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
    if places:
        keys = chosen_keys(sweep, None, few=True)
        variables = [key for key in keys if key in sweep]
        rows = [
            sweep.labels(at) | {key: sweep[key][at] for key in variables} for at in places[:ROWS]
        ]
        blocks.append(rows_text(sweep, rows, keys))
    if len(places) > ROWS:
        blocks.append(f"and {len(places) - ROWS:,} more: `mrcjax show {sweep.path}`")
    return "\n\n".join(blocks + _failures(sweep))


def _failures(sweep: Sweep) -> list[str]:
    """Why points failed, the commonest reason first, each with the first point that it holds of."""
    places: dict[str, list[tuple[int, ...]]] = {}
    for at in sweep.places("failed"):
        places.setdefault(str(sweep.reason[at]), []).append(at)
    said = []
    for reason, those in sorted(places.items(), key=lambda item: -len(item[1])):
        first = map(label_text, sweep.axes, those[0])
        said.append(f"failed ({len(those):,}): {reason}\n  the first: {', '.join(first)}")
    if len(said) > REASONS:
        keys = ",".join([*(key for axis in sweep.axes for key in axis.coords), "reason"])
        how = f"mrcjax show {sweep.path} --where \"status == 'failed'\" --columns {keys}"
        said[REASONS:] = [f"and {len(said) - REASONS:,} more reasons: `{how}`"]
    return said


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


def provenance_text(sweep: Sweep) -> str:
    """Return where the results of a sweep come from, a few lines."""
    said = sweep.provenance()
    lines = [
        f"made {said['created']} to {said['ended']} by mrcjax {said['mrcjax_version']}, "
        f"schema {said['schema']}, {said['precision'] or '-'} on {said['device'] or '-'}",
        *(f"command: {session['command']}" for session in said["sessions"] if session["command"]),
        f"results: {said['results_hash']}",
    ]
    return "\n".join(lines)


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
