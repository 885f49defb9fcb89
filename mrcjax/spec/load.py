"""Turn a TOML file or text into a checked Spec, and whatever is wrong in it into one SpecError."""

import difflib
import functools
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from mrcjax.spec.fields import PerPort
from mrcjax.spec.network import NETWORK_KINDS
from mrcjax.spec.sections import Spec
from mrcjax.units import Quantity, SpecError, show_value

# Known words that a later version may take; they get a clearer answer than "unknown".
PLANNED = {
    "collective.kind": ("broadcast", "reduce"),
    "engine.kind": ("packet",),
}

_EXAMPLE_HINT = "`mrcjax spec --example flat_rails` prints one to start from"


# `set` shadows the builtin on purpose: it is the name of the command line's option.
def load_spec(path_or_text: str | Path, set: str | Sequence[str] = ()) -> Spec:
    """Read a spec from a TOML file or from TOML text.

    Args:
        path_or_text: a path, or the text itself. A str is text when it has a newline, or an "="
            or "[" and does not end in ".toml".
        set: overrides such as "network.ranks=4096". The value is read as TOML and, where that
            fails, as text.

    Raises:
        SpecError: for anything wrong in it, including a file that cannot be read.
    """
    raw = read_raw(path_or_text, (set,) if isinstance(set, str) else set)
    if "sweep" in raw:
        raise SpecError(
            "is a table of many runs, and this is for one",
            where="sweep",
            remedy="use `mrcjax sweep`, or leave the table out",
        )
    return spec_from_dict(raw)


def read_raw(path_or_text: str | Path, set: Sequence[str] = ()) -> dict[str, Any]:
    """Read the tables of a spec, unchecked, with overrides put in; raises SpecError."""
    text, name = _read(path_or_text)
    raw = _parse(text, name)
    for override in set:
        _apply(raw, override)
    _find_files(raw, None if name == "the spec" else Path(name).parent)
    return raw


def _find_files(raw: dict[str, Any], folder: Path | None):
    """Take files that the spec names, also to sweep over, from its own folder if they are there."""

    def found(name: Any) -> Any:
        if isinstance(name, list):
            return [found(inner) for inner in name]
        beside = os.path.join(folder or "", name) if isinstance(name, str) else ""
        # unlike Path, it calls a name that cannot be one no file
        return beside if folder is not None and os.path.isfile(beside) else name

    swept = raw.get("sweep")
    cases = swept.get("cases") if isinstance(swept, dict) else None
    for tables in (raw, swept, *(cases if isinstance(cases, list) else [])):
        for section in ("network", "traffic"):
            table = tables.get(section) if isinstance(tables, dict) else None
            if isinstance(table, dict) and "file" in table:
                table["file"] = found(table["file"])


def spec_from_dict(raw: Mapping[str, Any]) -> Spec:
    """Check nested tables, as tomllib returns them, and return the Spec; raises SpecError."""
    if not raw:
        raise SpecError("the spec is empty", remedy=_EXAMPLE_HINT)
    _check_finite(raw, "")
    _check_keys(raw, Spec, "")
    try:
        return msgspec.convert(raw, Spec, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise _explained(error, raw) from None


def _read(path_or_text: str | Path) -> tuple[str, str]:
    if isinstance(path_or_text, str):
        is_text = "\n" in path_or_text or (
            ("=" in path_or_text or "[" in path_or_text)
            and not path_or_text.strip().endswith(".toml")
        )
        if is_text:
            return path_or_text, "the spec"
        if not path_or_text.strip():
            raise SpecError("the spec is empty", remedy=_EXAMPLE_HINT)
    path = Path(path_or_text)
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)
    except FileNotFoundError:
        near = _near(path.name, [p.name for p in path.parent.glob("*.toml")])
        raise SpecError(f"no spec file {path}", remedy=near or _EXAMPLE_HINT) from None
    except IsADirectoryError:
        raise SpecError(
            f"{path} is a folder, not a spec file", remedy="name the TOML file in it"
        ) from None
    except UnicodeDecodeError as error:
        raise SpecError(
            f"spec file {path} is not UTF-8 text (byte {error.start})",
            remedy="name a TOML file; `mrcjax show` reads archives",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(
            f"spec file {path} cannot be read ({reason})", remedy="check path and permissions"
        ) from None


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise SpecError(f"{name} is nested too deeply", remedy=_EXAMPLE_HINT) from None
    # not only TOMLDecodeError: Python itself refuses numbers of thousands of digits
    except ValueError as error:
        message = str(error)
        remedy = "texts and quantities stand in double quotes"
        place = re.search(r"line (\d+)", message)
        if place is not None:
            lines = text.splitlines()
            number = int(place.group(1))
            if 1 <= number <= len(lines):
                remedy = f"the line is `{lines[number - 1].strip()[:80]}`; {remedy}"
        raise SpecError(f"{name} is not valid TOML: {message}", remedy=remedy) from None


def _apply(raw: dict[str, Any], override: str):
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


def _decode(kind: type, value: Any) -> Any:
    """Give msgspec our own types; its caller turns a SpecError into a ValidationError."""
    if issubclass(kind, Quantity | PerPort):
        return kind.parse(value)
    raise NotImplementedError(kind)


def _near(word: str, words: Sequence[str]) -> str:
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


# --- what the structs say about their fields ---------------------------------------------------


@functools.cache
def _fields(struct: type) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _examples(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        for meta in annotation.__metadata__:
            if isinstance(meta, msgspec.Meta) and meta.examples:
                return meta.examples
    return []


def members_of(annotation: Any) -> list[Any]:
    """Return the members of a union, annotations stripped; a plain type is its own member."""
    if get_origin(annotation) is Annotated:
        return members_of(get_args(annotation)[0])
    if get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        return [member for part in get_args(annotation) for member in members_of(part)]
    return [annotation]


def _choices(annotation: Any) -> list[Any]:
    return [
        choice
        for member in members_of(annotation)
        if get_origin(member) is Literal
        for choice in get_args(member)
    ]


def _structs(annotation: Any) -> list[type]:
    members = [m for m in members_of(annotation) if isinstance(m, type)]
    return [m for m in members if issubclass(m, msgspec.Struct)]


def _items_struct(annotation: Any) -> type | None:
    for member in members_of(annotation):
        if get_origin(member) is tuple and (found := _structs(get_args(member)[0])):
            return found[0]
    return None


@functools.cache
def _tables(struct: type) -> dict[str, tuple[type | None, list[type]]]:
    """For every field: the struct of its items if it is a list, its structs if it is a table."""
    fields = _fields(struct).items()
    return {key: (_items_struct(field.type), _structs(field.type)) for key, field in fields}


# --- checks before conversion ------------------------------------------------------------------


def _check_finite(value: Any, where: str):
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError("must be finite", where=where, value=value, remedy="write a finite value")
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_finite(inner, f"{where}.{key}".strip("."))
    if isinstance(value, list):
        for i, inner in enumerate(value):
            _check_finite(inner, f"{where}[{i}]")


def _check_keys(raw: Mapping[str, Any], struct: type, where: str):
    """Refuse unknown keys and missing ones, table by table, before anything is converted."""
    fields = _fields(struct)
    allowed = [*fields, "kind"] if struct in NETWORK_KINDS.values() else list(fields)
    for key in raw:
        if key not in allowed:
            _unknown_key(raw, key, allowed, where)
    for key, (inner, structs) in _tables(struct).items():
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
                    _check_keys(item, inner, f"{place}[{i}]")
        elif structs and isinstance(value, dict):
            _check_keys(value, _network_struct(value) if len(structs) > 1 else structs[0], place)


def _unknown_key(raw: Mapping[str, Any], key: str, allowed: list[str], where: str):
    near = _near(key, allowed)
    # a key of another kind is no misspelling, however near another key is
    kinds = [kind for kind, other in NETWORK_KINDS.items() if key in _fields(other)]
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
        raise SpecError(f"section [{key}] is missing", remedy=f"add it; {_EXAMPLE_HINT}")
    examples = _examples(field.type)
    example = f", for example {key} = {show_value(examples[0])}" if examples else ""
    under = "" if "[" in section else f" under [{section}]"
    raise SpecError("is missing", where=place, remedy=f"add it{under}{example}")


def _network_struct(table: Mapping[str, Any]) -> type:
    known = list(NETWORK_KINDS)
    if "kind" not in table:
        raise SpecError("is missing", where="network.kind", remedy=f"use one of {', '.join(known)}")
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in NETWORK_KINDS:
        raise _not_a_choice("network.kind", kind, known)
    return NETWORK_KINDS[kind]


def _not_a_choice(where: str, value: Any, choices: Sequence[Any]) -> SpecError:
    listed = ", ".join(show_value(choice) for choice in choices)
    if value in PLANNED.get(where, ()):
        return SpecError(
            "is not supported yet", where=where, value=value, remedy=f"use one of {listed}"
        )
    words = [choice for choice in choices if isinstance(choice, str)]
    near = _near(value, words) if isinstance(value, str) else ""
    return SpecError(
        "is not a known choice",
        where=where,
        value=value,
        remedy=f"{near} use one of {listed}".strip(),
    )


# --- msgspec's complaints in our words ---------------------------------------------------------

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "absent",
}


def _explained(error: msgspec.ValidationError, raw: Mapping[str, Any]) -> SpecError:
    message, _, path = str(error).partition(" - at `$")
    where = path.rstrip("`").strip(".")
    value, annotation = _look_up(where, raw)
    if isinstance(error.__cause__, SpecError):
        cause = error.__cause__
        # a rule across fields names its place itself; a quantity does not know where it stands
        is_placed = cause.where and not cause.where.startswith("[")
        return cause if is_placed else cause.at(where)
    choices = _choices(annotation)
    if message.startswith("Invalid enum value") or (choices and not _members_allow(annotation)):
        return _not_a_choice(where, value, choices)
    key = re.sub(r"\[\d+\]$", "", where.rpartition(".")[2])
    examples = _examples(annotation)
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
    choices = [] if is_item else _choices(annotation)
    if choices:
        others = [_WORDS.get(name, name) for name in names if name != "str"]
        words = " or ".join([f"one of {', '.join(show_value(c) for c in choices)}", *others])
    return f"must be {words}{bound}"


def annotation_at(key: str, raw: Mapping[str, Any]) -> Any:
    """Return the annotation of the field at a dotted place; None where there is none."""
    place = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", key)
    try:
        return _look_up(place, raw)[1]
    except (SpecError, LookupError, TypeError, AttributeError):
        return None


def _look_up(where: str, raw: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the value at a dotted path of ``raw`` and the annotation of its field."""
    value: Any = raw
    annotation: Any = Spec
    for step in re.findall(r"[^.\[\]]+|\[\d+\]", where):
        if step.startswith("["):
            value = value[int(step[1:-1])]
            annotation = _items_struct(annotation) or annotation
            continue
        structs = _structs(annotation)
        if not isinstance(value, Mapping) or not structs:
            break
        struct = _network_struct(value) if len(structs) > 1 else structs[0]
        field = _fields(struct).get(step)
        value = value.get(step)
        annotation = field.type if field is not None else None
    return value, annotation
