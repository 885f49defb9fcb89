"""Refuse keys and words that are not known, and say which are, before anything is converted."""

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mrcjax.spec.network import NETWORK_KINDS
from mrcjax.spec.structs import examples_of, fields_of, tables_of
from mrcjax.units import SpecError, show_value

# Known words that a later version may take; they get a clearer answer than "unknown".
PLANNED = {
    "collective.kind": ("broadcast", "reduce"),
    "engine.kind": ("packet",),
}

EXAMPLE_HINT = "`mrcjax spec --example flat_rails` prints one to start from"


def check_finite(value: Any, where: str):
    """Refuse numbers that are infinite or none; raises SpecError."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError("must be finite", where=where, value=value, remedy="write a finite value")
    if isinstance(value, dict):
        for key, inner in value.items():
            check_finite(inner, f"{where}.{key}".strip("."))
    if isinstance(value, list):
        for i, inner in enumerate(value):
            check_finite(inner, f"{where}[{i}]")


def check_keys(raw: Mapping[str, Any], struct: type, where: str):
    """Refuse unknown keys and missing ones, table by table, before anything is converted."""
    fields = fields_of(struct)
    allowed = [*fields, "kind"] if struct in NETWORK_KINDS.values() else list(fields)
    for key in raw:
        if key not in allowed:
            _unknown_key(raw, key, allowed, where)
    for key, (inner, structs) in tables_of(struct).items():
        field = fields[key]
        place = f"{where}.{key}".strip(".")
        if key not in raw:
            if field.required:
                _missing_key(place, field)
            continue
        value = raw[key]
        if inner is not None and isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, dict):
                    check_keys(item, inner, f"{place}[{i}]")
        elif structs and isinstance(value, dict):
            check_keys(value, network_struct(value) if len(structs) > 1 else structs[0], place)


def _unknown_key(raw: Mapping[str, Any], key: str, allowed: list[str], where: str):
    near = nearest(key, allowed)
    # a key of another kind is no misspelling, however near another key is
    kinds = [kind for kind, other in NETWORK_KINDS.items() if key in fields_of(other)]
    if where == "network" and kinds:
        owners = " or ".join(show_value(kind) for kind in kinds)
        near = f"it belongs to kind = {owners}, not {show_value(raw['kind'])};"
    raise SpecError(
        "is not a known key" if where else "is not a known section",
        where=f"{where}.{key}".strip("."),
        value=raw[key],
        remedy=f"{near} known here: {', '.join(sorted(allowed))}".strip(),
    )


def _missing_key(place: str, field: msgspec.structs.FieldInfo):
    section, _, key = place.rpartition(".")
    if not section:
        raise SpecError(f"section [{key}] is missing", remedy=f"add it; {EXAMPLE_HINT}")
    examples = examples_of(field.type)
    example = f", for example {key} = {show_value(examples[0])}" if examples else ""
    under = "" if "[" in section else f" under [{section}]"
    raise SpecError("is missing", where=place, remedy=f"add it{under}{example}")


def network_struct(table: Mapping[str, Any]) -> type:
    """Return the struct of a network by its kind; raises SpecError."""
    known = list(NETWORK_KINDS)
    if "kind" not in table:
        raise SpecError("is missing", where="network.kind", remedy=f"use one of {', '.join(known)}")
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in NETWORK_KINDS:
        raise not_a_choice("network.kind", kind, known)
    return NETWORK_KINDS[kind]


def not_a_choice(where: str, value: Any, choices: Sequence[Any]) -> SpecError:
    """Return the error of a word that is none of those known."""
    listed = ", ".join(show_value(choice) for choice in choices)
    if value in PLANNED.get(where, ()):
        return SpecError(
            "is not supported yet", where=where, value=value, remedy=f"use one of {listed}"
        )
    words = [choice for choice in choices if isinstance(choice, str)]
    near = nearest(value, words) if isinstance(value, str) else ""
    return SpecError(
        "is not a known choice",
        where=where,
        value=value,
        remedy=f"{near} use one of {listed}".strip(),
    )


def nearest(word: str, words: Sequence[str]) -> str:
    """Return a question naming the nearest of ``words``, or "" when none is near."""
    close = difflib.get_close_matches(word, words, n=4, cutoff=0.6)
    if not close:
        return ""
    # difflib prefers the shorter of two; one wrong letter is likelier than one too many
    best = min(close, key=lambda other: (_edits(word, other), abs(len(other) - len(word))))
    return f'did you mean "{best}"?'


def _edits(one: str, other: str) -> int:
    """Count the letters to insert, drop or replace (Levenshtein distance)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        above, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (a != b))
    return row[-1]
