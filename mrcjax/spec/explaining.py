"""Turn what msgspec says of a value into a SpecError with its place, in our words."""

import re
from collections.abc import Mapping
from typing import Any, Literal, get_origin

import msgspec

from mrcjax.spec.keys import not_a_choice
from mrcjax.spec.places import look_up
from mrcjax.spec.structs import choices_of, examples_of, members_of
from mrcjax.units import SpecError, show_value

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "absent",
}


def explained(error: msgspec.ValidationError, raw: Mapping[str, Any]) -> SpecError:
    """Return what msgspec refused in our words, with the place and the value in `raw`."""
    message, _, path = str(error).partition(" - at `$")
    where = path.rstrip("`").strip(".")
    value, annotation = look_up(where, raw)
    if isinstance(error.__cause__, SpecError):
        cause = error.__cause__
        # a rule across fields names its place itself; a quantity does not know where it stands
        is_placed = cause.where and not cause.where.startswith("[")
        return cause if is_placed else cause.at(where)
    choices = choices_of(annotation)
    if message.startswith("Invalid enum value") or (choices and not _members_allow(annotation)):
        return not_a_choice(where, value, choices)
    key = re.sub(r"\[\d+\]$", "", where.rpartition(".")[2])
    examples = examples_of(annotation)
    if examples:
        remedy = f"write for example {key} = {show_value(examples[0])}"
    elif where.endswith("]"):
        remedy = "write { key = value, ... }"
    else:
        remedy = f"start the section with a line [{where}]"
    return SpecError(
        _wanted(message, annotation, where.endswith("]")), where=where, value=value, remedy=remedy
    )


def _members_allow(annotation: Any) -> bool:
    """Tell whether something else than the listed choices may stand there."""
    return any(get_origin(m) is not Literal for m in members_of(annotation) if m is not type(None))


def _wanted(message: str, annotation: Any, is_item: bool) -> str:
    """Turn "Expected `int` >= 1" into "must be a whole number >= 1"."""
    match = re.match(r"Expected `([^`]*)`(?: of)?( (?:>=|<=|>|<|length).*)?", message)
    if match is None:
        return f"is not right ({message})"
    # "got ..." repeats the value that the SpecError shows
    bound = (match.group(2) or "").split(", got")[0]
    if match.group(1) == "str" and "length" in bound:
        return "must not be empty"
    names = [name for name in match.group(1).split(" | ") if name != "null"]
    words = " or ".join(_WORDS.get(name, name) for name in names)
    choices = [] if is_item else choices_of(annotation)
    if choices:
        others = [_WORDS.get(name, name) for name in names if name != "str"]
        words = " or ".join([f"one of {', '.join(show_value(c) for c in choices)}", *others])
    return f"must be {words}{bound}"
