"""Turn a swept key's list or range into its values, and values into labels with SI numbers."""

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from mrcjax.spec.fields import PerPort
from mrcjax.spec.overrides import override_value
from mrcjax.spec.places import annotation_at
from mrcjax.spec.structs import members_of
from mrcjax.units import Quantity, SpecError, show_value

_RANGE_KEYS = {"from", "to", "count", "step", "spacing"}
_UNITS = {"second": "s", "byte/second": "byte/s"}
MOST_VALUES = 100_000  # of one key
_LARGEST = 1e300  # of a number in a range


def is_range(value: Mapping[str, Any]) -> bool:
    """Whether a table is a range and not swept keys of its own."""
    plain = not any(isinstance(inner, list | dict) for inner in value.values())
    return "from" in value or (bool(value) and plain and set(value) <= _RANGE_KEYS)


def spread_out(key: str, value: Any, raw: Mapping[str, Any]) -> list[Any]:
    """The values of a swept key, as a spec may have them; raises SpecError.

    value: a list of TOML values, of texts of the command line, or a range: from, to or count,
    step, spacing = "linear" | "log". A range of quantities gives quantities.
    """
    where = f"sweep.{key}"
    if isinstance(value, dict):
        values = _range(value, where, quantity_of(key, raw), _may_be_broken(key, raw))
    else:
        values = list(value)
    if not values:
        raise SpecError("is empty", where=where, value=value, remedy="give it at least one value")
    return values


def of_command_line(override: str) -> tuple[str, Any]:
    """Key and values of "key=a,b,c" or "key={from=...}" as TOML has them; None where it has one.

    A comma within quotes or brackets parts nothing.

    Raises:
        SpecError: quotes or brackets do not close.
    """
    key, _, text = override.partition("=")
    values = [override_value(part) for part in _parted(text, override)]
    if len(values) > 1 and not all(part.strip() for part in key.split(".")):
        raise SpecError(
            "an override must be key=value",
            value=override,
            remedy="write for example network.ranks=64,128",
        )
    if len(values) == 1 and isinstance(values[0], dict) and is_range(values[0]):
        return key.strip(), values[0]
    return key.strip(), values if len(values) > 1 else None


def _parted(text: str, override: str) -> list[str]:
    """The texts between the commas that part values."""
    parts, open_, quote = [""], [], ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            open_.append("]" if letter == "[" else "}")
        elif open_ and letter == open_[-1]:
            open_.pop()
        elif letter == "," and not open_:
            parts.append("")
            continue
        parts[-1] += letter
    if quote or open_:
        raise SpecError(
            f"an override lacks a closing {quote or open_[-1]}",
            value=override,
            remedy="""write for example 'collective.size="1 MB","1 GB"'""",
        )
    return [part.strip() for part in parts if part.strip()]


def quantity_of(key: str, raw: Mapping[str, Any]) -> type[Quantity] | None:
    """The kind of quantity that a key takes; None for numbers and words."""
    for member in members_of(annotation_at(key, raw)):
        if isinstance(member, type) and issubclass(member, Quantity):
            return member
        if isinstance(member, type) and issubclass(member, PerPort):
            return member.element
    return None


def _may_be_broken(key: str, raw: Mapping[str, Any]) -> bool:
    """Whether a key takes numbers that are not whole."""
    return float in members_of(annotation_at(key, raw))


def unit_of(key: str, raw: Mapping[str, Any]) -> str:
    """The unit of a key's labels as archives write it; "" where it is no quantity."""
    kind = quantity_of(key, raw)
    return "" if kind is None else _UNITS.get(kind.unit, kind.unit)


def labels_of(key: str, values: list[Any], raw: Mapping[str, Any]) -> tuple[float | str, ...]:
    """What to call values on their axis: numbers, SI where they have units, else texts.

    Files go by their names without folders, where these differ: a sweep is the same wherever its
    spec lies.
    """
    if key.endswith(".file") and all(isinstance(value, str) for value in values):
        names = tuple(Path(value).name for value in values)
        return names if len(set(names)) == len(names) else tuple(values)
    kind = quantity_of(key, raw)
    labels: list[Any] = []
    for value in values:
        if kind is not None and isinstance(value, str):
            try:
                labels.append(float(kind.parse(value)))
                continue
            except SpecError as error:
                raise error.at(f"sweep.{key}[{len(labels)}]") from None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        labels.append(value if is_number else _as_text(value))
    if len({isinstance(label, str) for label in labels}) > 1:
        labels = [_as_text(value) for value in values]
    return tuple(labels)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else show_value(value)


def _range(
    table: dict[str, Any], where: str, kind: type[Quantity] | None, broken: bool
) -> list[Any]:
    unknown = set(table) - _RANGE_KEYS
    if unknown:
        raise SpecError(
            "is not known in a range",
            where=f"{where}.{min(unknown)}",
            value=table[min(unknown)],
            remedy=f"use {', '.join(sorted(_RANGE_KEYS))}",
        )
    if "from" not in table:
        raise SpecError(
            "lacks from",
            where=where,
            value=table,
            remedy="write for example { from = 64, count = 8 }",
        )
    first = _number(table, "from", where, kind)
    last = _number(table, "to", where, kind) if "to" in table else None
    step = _number(table, "step", where, kind) if "step" in table else None
    count, spacing = table.get("count"), table.get("spacing", "linear")
    if spacing not in ("linear", "log"):
        raise SpecError(
            "is not a known spacing",
            where=f"{where}.spacing",
            value=spacing,
            remedy='use "linear" or "log"',
        )
    is_count = isinstance(count, int) and not isinstance(count, bool)
    if count is not None and not (is_count and 1 <= count <= MOST_VALUES):
        raise SpecError(
            f"must be a whole number from 1 to {MOST_VALUES:,}",
            where=f"{where}.count",
            value=count,
            remedy="write for example count = 8",
        )
    whole = kind is None and all(isinstance(x, int) for x in (first, last, step) if x is not None)
    if spacing == "log":
        values = _log(first, last, count, where)
    else:
        values = _linear(first, last, step, count, where, whole)
    if whole and not broken:
        return list(dict.fromkeys(round(value) for value in values))
    return [value if kind is None else str(kind(value)) for value in map(float, values)]


def _number(table: dict[str, Any], name: str, where: str, kind: type[Quantity] | None) -> Any:
    value = table[name]
    if kind is not None:
        try:
            return float(kind.parse(value))
        except SpecError as error:
            raise error.at(f"{where}.{name}") from None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) < _LARGEST:
        raise SpecError(
            "must be a number, and finite" if is_number else "must be a number",
            where=f"{where}.{name}",
            value=value,
            remedy="ask for less" if is_number else "list the values if they are words",
        )
    return value


def _log(first: float, last: float | None, count: int | None, where: str) -> list[float]:
    if last is None or count is None or first <= 0 or last <= 0:
        raise SpecError(
            "spaced as logarithms needs from and to above 0, and count",
            where=where,
            remedy='write for example { from = "1 MB", to = "1 GB", count = 4, spacing = "log" }',
        )
    if count == 1:
        return [first]
    low, high = math.log(first), math.log(last)
    inner = [math.exp(low + (high - low) * i / (count - 1)) for i in range(1, count - 1)]
    return [first, *(float(f"{value:.12g}") for value in inner), last]


def _linear(
    first: float,
    last: float | None,
    step: float | None,
    count: int | None,
    where: str,
    whole: bool,
) -> list[Any]:
    start = Fraction(first)
    if last is None and count is not None:
        by = Fraction(step if step is not None else 1)
    elif last is not None and count is not None and step is None:
        by = (Fraction(last) - start) / max(count - 1, 1)
    elif last is not None and count is None and (step is not None or whole):
        by = Fraction(step if step is not None else 1)
        if by == 0 or (Fraction(last) - start) / by < 0:
            raise SpecError(
                "never gets from from to to",
                where=f"{where}.step",
                value=step,
                remedy="turn its sign, or swap from and to",
            )
        # steps are written as decimals: that which falls short by a rounding counts
        count = int((Fraction(last) - start) / by + Fraction(1, 10**9)) + 1
    else:
        raise SpecError(
            "needs two of to, count and step",
            where=where,
            remedy="write for example { from = 64, to = 1024, step = 64 }",
        )
    if count > MOST_VALUES:
        raise SpecError(f"has more than {MOST_VALUES:,} values", where=where, remedy="ask for less")
    if whole and by == int(by):
        return [int(start + i * by) for i in range(count)]
    return [float(f"{float(start + i * by):.15g}") for i in range(count)]
