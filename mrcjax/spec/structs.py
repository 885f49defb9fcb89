"""What the structs say about their fields: structs of tables, choices, examples."""

import functools
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec


@functools.cache
def fields_of(struct: type) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct by their keys."""
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def examples_of(annotation: Any) -> list[Any]:
    """Return TOML values that would be right, as the annotation of a field says them."""
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


def choices_of(annotation: Any) -> list[Any]:
    """Return the words that an annotation allows, where it lists them."""
    return [
        choice
        for member in members_of(annotation)
        if get_origin(member) is Literal
        for choice in get_args(member)
    ]


def structs_of(annotation: Any) -> list[type]:
    """Return the structs that an annotation allows: what a table may be."""
    members = [m for m in members_of(annotation) if isinstance(m, type)]
    return [m for m in members if issubclass(m, msgspec.Struct)]


def items_struct(annotation: Any) -> type | None:
    """Return the struct of the items of a list; None where it has no tables."""
    for member in members_of(annotation):
        if get_origin(member) is tuple and (found := structs_of(get_args(member)[0])):
            return found[0]
    return None


@functools.cache
def tables_of(struct: type) -> dict[str, tuple[type | None, list[type]]]:
    """For every field: the struct of its items if it is a list, its structs if it is a table."""
    fields = fields_of(struct).items()
    return {key: (items_struct(field.type), structs_of(field.type)) for key, field in fields}
