"""A point of a sweep as its condition sees it: names, with quantities as numbers."""

from collections.abc import Iterator, Mapping
from typing import Any

from mrcjax.spec.ranges import quantity_of
from mrcjax.units import SpecError


class Table(Mapping[str, Any]):
    """A table of a spec; quantities are SI numbers, whether they are swept or not."""

    def __init__(self, raw: Mapping[str, Any], place: str = "", table: Any = None):
        self._raw, self._place = raw, place
        self._table = raw if table is None else table

    def __getitem__(self, key: str) -> Any:
        return self._seen(self._table[key], f"{self._place}.{key}".strip("."))

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def at(self, key: str) -> Any:
        """What stands at a dotted key; a number in it counts in a list."""
        found: Any = self
        for step in key.split("."):
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found

    def _seen(self, value: Any, place: str) -> Any:
        if isinstance(value, dict):
            return Table(self._raw, place, value)
        if isinstance(value, list):
            return [self._seen(inner, f"{place}.{i}") for i, inner in enumerate(value)]
        kind = quantity_of(place, self._raw) if isinstance(value, str) else None
        try:
            return value if kind is None else float(kind.parse(value))
        except SpecError:
            return value


class Names(Mapping[str, Any]):
    """What a condition may name: sections, and swept keys by their last parts.

    raw: the tables of a point. keys: swept keys; those that are no place of the spec, like "case",
    with what they are.
    """

    def __init__(self, raw: Mapping[str, Any], keys: Mapping[str, Any]):
        self._sections, self._keys = Table(raw), keys
        last = [key.rpartition(".")[2] for key in keys]
        self._short = {
            short: key
            for short, key in zip(last, keys, strict=True)
            if last.count(short) == 1 and short not in raw
        }

    def __getitem__(self, name: str) -> Any:
        key = self._short.get(name)
        if key is None:
            return self._sections[name]
        return self._sections.at(key) if "." in key else self._keys[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._sections
        yield from self._short

    def __len__(self) -> int:
        return len(self._sections) + len(self._short)
