"""Put overrides "key=value" of a command line into the tables of a spec."""

import tomllib
from typing import Any

from mrcjax.units import SpecError


def put_override(raw: dict[str, Any], override: str):
    """Put one override "a.b.c=value" into ``raw``; a number in the path indexes a list."""
    path, sign, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not sign or not all(keys) or not text.strip():
        raise SpecError(
            "an override must be key=value",
            value=override,
            remedy="write for example network.ranks=4096",
        )
    table: Any = raw
    for key in keys[:-1]:
        if isinstance(table, list):
            table = table[_list_index(table, key, override)]
        elif isinstance(table, dict):
            table = table.setdefault(key, {})
        if not isinstance(table, dict | list):
            raise SpecError(
                f"an override goes into {key}, which is no table",
                value=override,
                remedy="write for example network.ranks=4096",
            )
    if isinstance(table, list):
        table[_list_index(table, keys[-1], override)] = override_value(text)
    else:
        table[keys[-1]] = override_value(text)


def _list_index(items: list[Any], key: str, override: str) -> int:
    if not key.isdigit() or int(key) >= len(items):
        raise SpecError(
            f"an override indexes a list of {len(items)} with {key}",
            value=override,
            remedy="count from 0, or give the whole list",
        )
    return int(key)


def override_value(text: str) -> Any:
    """Read an override as a TOML value where that works ("4096", "[1, 2]"), else take the text."""
    stripped = text.strip()
    try:
        parsed = tomllib.loads(f"value = {stripped}")
    except (ValueError, RecursionError):
        return stripped
    value = parsed["value"]
    # a second line or a bare date is not what an override means
    is_plain = len(parsed) == 1 and isinstance(value, bool | int | float | str | list | dict)
    return value if is_plain else stripped
