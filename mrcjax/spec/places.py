"""What stands at a dotted place of a spec, and what its field takes."""

import re
from collections.abc import Mapping
from typing import Any

from mrcjax.spec.keys import network_struct
from mrcjax.spec.sections import Spec
from mrcjax.spec.structs import fields_of, items_struct, structs_of
from mrcjax.units import SpecError


def annotation_at(key: str, raw: Mapping[str, Any]) -> Any:
    """Return the annotation of the field at a dotted place; None where there is none."""
    place = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", key)
    try:
        return look_up(place, raw)[1]
    except (SpecError, LookupError, TypeError, AttributeError):
        return None


def look_up(where: str, raw: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the value at a dotted path of ``raw`` and the annotation of its field."""
    value: Any = raw
    annotation: Any = Spec
    for step in re.findall(r"[^.\[\]]+|\[\d+\]", where):
        if step.startswith("["):
            value = value[int(step[1:-1])]
            annotation = items_struct(annotation) or annotation
            continue
        structs = structs_of(annotation)
        if not isinstance(value, Mapping) or not structs:
            break
        struct = network_struct(value) if len(structs) > 1 else structs[0]
        field = fields_of(struct).get(step)
        value = value.get(step)
        annotation = field.type if field is not None else None
    return value, annotation
