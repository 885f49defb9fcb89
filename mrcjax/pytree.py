"""Turns a frozen dataclass into a JAX pytree whose static fields are said at the field."""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(**kwargs: Any) -> Any:
    """Mark a field as static: hashed by value, a new value means a new compilation."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def pytree(cls: type[T]) -> type[T]:
    """Freeze `cls` and register it with JAX; fields made with `static` are not leaves.

    Transforms rebuild the object with leaves that are not arrays, so the classes have no checks
    of their own: whoever builds one checks first.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    jax.tree_util.register_dataclass(
        cls,
        data_fields=[f.name for f in fields if not f.metadata.get("static")],
        meta_fields=[f.name for f in fields if f.metadata.get("static")],
    )
    return cls
