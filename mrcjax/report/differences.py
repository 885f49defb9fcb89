"""What differs between two archives, as text and as plain values for JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from mrcjax.archive import Column, Comparison
from mrcjax.report.table import text_table

_NAMES = 8  # of runs or points that only one archive has


def differences_text(found: Comparison, first: str, second: str, rtol: float) -> str:
    """Return what differs, the largest first, and what only one of the archives has."""
    blocks = [
        f"{found.compared:,} in both, {len(found.keys)} columns compared: "
        + ("equal" if found.is_equal else "different")
        + f" within {rtol:g}"
    ]
    if found.differences:
        rows = [
            {
                "key": d.key,
                "count": d.count,
                "largest": d.largest,
                "first": _value(d.first),
                "second": _value(d.second),
                "at": _name(d.name),
            }
            for d in found.differences
        ]
        columns = [
            Column("key", "column"),
            Column("count", "differ"),
            Column("largest", "largest relative difference", digits=3),
            Column("first", f"in {first}"),
            Column("second", f"in {second}"),
            Column("at", "there at"),
        ]
        blocks.append(text_table(rows, columns))
    for names, file in ((found.only_first, first), (found.only_second, second)):
        if names:
            blocks.append(f"only in {file}: {_names(names)}")
    for keys, file in ((found.keys_only_first, first), (found.keys_only_second, second)):
        if keys:
            blocks.append(f"not compared, only {file} has: {', '.join(keys)}")
    return "\n\n".join(blocks)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


def _name(name: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in name.items())


def _names(names: Sequence[Mapping[str, Any]]) -> str:
    more = f"; and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return "; ".join(_name(name) for name in names[:_NAMES]) + more


def differences_json(found: Comparison) -> dict[str, Any]:
    """Return the object of `mrcjax diff --json`."""
    return {
        "equal": found.is_equal,
        "compared": found.compared,
        "columns": list(found.keys),
        "differences": [vars(difference) for difference in found.differences],
        "only_first": [dict(name) for name in found.only_first],
        "only_second": [dict(name) for name in found.only_second],
        "columns_only_first": list(found.keys_only_first),
        "columns_only_second": list(found.keys_only_second),
    }
