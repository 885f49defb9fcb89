"""Write a Spec back as TOML, describe the file format as JSON Schema, give example files."""

import json
import re
from importlib import resources
from typing import Any

import msgspec

from mrcjax.spec.fields import PerPort
from mrcjax.spec.network import Network
from mrcjax.spec.sections import Spec
from mrcjax.units import Quantity, SpecError

# in the order in which a reader should meet them
_EXAMPLE_ORDER = (
    "flat_rails",
    "mrc_planes",
    "fat_tree",
    "dragonfly",
    "slim_fly",
    "hyperx",
    "jellyfish",
    "graph",
)


def spec_to_toml(spec: Spec) -> str:
    """Write all fields, defaults too, so that the text keeps its meaning when a default moves.

    ``load_spec`` of the text gives an equal spec. Quantities stand as they were written.
    """
    blocks = []
    for section in Spec.__struct_fields__:
        value = getattr(spec, section)
        if value is None:
            continue
        lines = [f"[{section}]"]
        lines += [f"{key} = {_toml(inner)}" for key, inner in _items(value)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _items(struct: Any) -> list[tuple[str, Any]]:
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    items = [(key, getattr(struct, field)) for field, key in names]
    if isinstance(struct, Network):
        # what all networks share comes first
        shared = Network.__struct_fields__
        items = [("kind", struct.kind), *sorted(items, key=lambda item: item[0] not in shared)]
    return [(key, value) for key, value in items if value is not None]


def _toml(value: Any) -> str:
    if isinstance(value, PerPort) and not value.is_list:
        return _toml(value[0])
    if isinstance(value, Quantity):
        return _toml(value.text)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON and TOML strings differ in the delete character alone
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in _items(value)) + " }"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the TOML file."""
    schema = msgspec.json.schema(Spec, schema_hook=_schema_of)
    schema["$defs"]["Spec"]["properties"]["sweep"] = {
        "type": "object",
        "description": "Keys of the other tables, dotted, each with a list or a range of values; "
        "zip, where, keep, cases. For `mrcjax sweep` alone.",
        "properties": {
            "zip": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
            "where": {"type": "string"},
            "keep": {"type": "array", "items": {"enum": ["finish"]}},
            "cases": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        },
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "mrcjax spec"} | (
        schema
    )


def _schema_of(kind: type) -> dict[str, Any]:
    if issubclass(kind, PerPort):
        one = _schema_of(kind.element)
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
    if issubclass(kind, Quantity):
        return {
            "type": "string",
            "pattern": r"^\s*\+?[0-9._eE+-]+\s*[A-Za-z\u00b5\u03bc]+(\s*/\s*[A-Za-z]+)?\s*$",
            "description": f"{kind.noun} with its unit",
            "examples": [kind.example],
        }
    raise NotImplementedError(kind)


def example_kinds() -> tuple[str, ...]:
    """Return the names that ``example`` knows, networks first."""
    folder = resources.files("mrcjax").joinpath("examples")
    names = {item.name[:-5] for item in folder.iterdir() if re.fullmatch(r"\w+\.toml", item.name)}
    return (*_EXAMPLE_ORDER, *sorted(names.difference(_EXAMPLE_ORDER)))


def example(kind: str = "flat_rails") -> str:
    """Return a commented example spec; SpecError for an unknown name."""
    if kind not in example_kinds():
        raise SpecError(
            "no example of this name", value=kind, remedy=f"use one of {', '.join(example_kinds())}"
        )
    folder = resources.files("mrcjax").joinpath("examples")
    return folder.joinpath(f"{kind}.toml").read_text(encoding="utf-8")
