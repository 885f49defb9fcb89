"""Choose rows of an archive by a condition such as "ranks >= 4096 and network == 'flat_rails'"."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mrcjax.spec.condition import Condition, parsed_condition, reason_of
from mrcjax.units import SpecError

_TEXT = r""""[^"]*"|'[^']*'"""


def chosen(
    rows: Sequence[Mapping[str, Any]], condition: str, where: str = "--where"
) -> list[dict[str, Any]]:
    """Return the rows of which a condition is true.

    Args:
        rows: each with the same keys, which are the names that the condition may use.
        condition: an expression of comparisons, arithmetic, `and`, `or`, `not`, `in`. Dotted
            names are keys too; see `mrcjax.spec.condition`.
        where: what error messages call the condition.

    Raises:
        SpecError: it cannot be read, has an unknown name, or compares what does not compare.
    """
    parsed, names = _parsed(condition, list(rows[0]) if rows else [], where)
    evaluator = Condition()
    found = []
    for row in rows:
        try:
            if evaluator.value(parsed, {name: row[key] for name, key in names.items()}):
                found.append(dict(row))
        except Exception as error:
            what = f"cannot be worked out ({reason_of(error)})"
            raise _wrong(what, condition, where, rows[0]) from None
    return found


def names_in(condition: str) -> set[str]:
    """Return the words of a condition that may be names."""
    return set(re.findall(r"[\w.]+", re.sub(_TEXT, "", condition)))


def _parsed(condition: str, keys: Sequence[str], where: str) -> tuple[Any, dict[str, str]]:
    """Return the parsed expression and, for each name in it, the key that it stands for."""
    names = {key: key for key in keys if key.isidentifier()}
    dotted = sorted((key for key in keys if not key.isidentifier()), key=len, reverse=True)
    if dotted:
        names |= {f"key{i}_": key for i, key in enumerate(dotted)}
        alias = {key: f"key{i}_" for i, key in enumerate(dotted)}
        pattern = rf"{_TEXT}|(?<![\w.])(?:{'|'.join(map(re.escape, dotted))})(?![\w.])"
        text = re.sub(pattern, lambda found: alias.get(found[0], found[0]), condition)
    else:
        text = condition
    try:
        return parsed_condition(text), names
    except ValueError as error:
        raise _wrong(f"cannot be read ({error})", condition, where, keys) from None


def _wrong(what: str, condition: str, where: str, keys: Any) -> SpecError:
    remedy = "write for example \"ranks >= 4096 and network == 'flat_rails'\""
    if keys:
        remedy += f"; the names are {', '.join(keys)}"
    return SpecError(what, where=where, value=condition, remedy=remedy)
