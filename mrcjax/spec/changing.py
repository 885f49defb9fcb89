"""Put the changes that make a point of a sweep into the tables of a spec."""

import copy
from collections.abc import Mapping
from typing import Any

from mrcjax.units import SpecError


def merge(raw: dict[str, Any], change: Mapping[str, Any]) -> None:
    """Put tables into tables; one with a kind of its own takes the place of another whole."""
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(raw.get(key), dict) and "kind" not in value:
            merge(raw[key], value)
        else:
            raw[key] = copy.deepcopy(value)


def put(raw: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a dotted place; a number in it counts in a list."""
    *path, last = key.split(".")
    table: Any = raw
    for step in path:
        if isinstance(table, list):
            table = table[int(step)] if step.isdigit() and int(step) < len(table) else None
        else:
            table = table.setdefault(step, {})
        if not isinstance(table, dict | list):
            raise _no_place(key, step)
    if isinstance(table, dict):
        table[last] = value
    elif last.isdigit() and int(last) < len(table):
        table[int(last)] = value
    else:
        raise _no_place(key, last)


def at_place(raw: Any, key: str) -> Any:
    """Return what stands at a dotted place; LookupError, TypeError or ValueError without one."""
    for step in key.split("."):
        raw = raw[int(step)] if isinstance(raw, list) else raw[step]
    return raw


def _no_place(key: str, step: str) -> SpecError:
    return SpecError(
        f"goes into {step}, which is not there or no table",
        where=f"sweep.{key}",
        remedy="have the spec say what is there, or sweep another key",
    )
