"""What makes a point the same point: its spec's numbers, and the code that computes on them."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import msgspec

import mrcjax
from mrcjax.spec import Spec
from mrcjax.units import Quantity

# Sections and modules without a say in the times of a run.
_SECTIONS_WITHOUT = ("output", "tune")
_MODULES_WITHOUT = ("cli", "report", "archive", "comparison", "tuning", "sweeping")


def identity(spec: Spec) -> str:
    """Hash of all that a point's result depends on: spec, files it names, code, JAX."""
    plain = {
        section: _plain(getattr(spec, section))
        for section in Spec.__struct_fields__
        if section not in _SECTIONS_WITHOUT
    }
    text = json.dumps([plain, _files(spec), code_version()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@functools.cache
def code_version() -> str:
    """Hash of the sources that turn a spec into times, and the version of JAX."""
    root = Path(mrcjax.__file__ or "").parent
    found = hashlib.sha256(jax.__version__.encode())
    for path in sorted(root.rglob("*")):
        place = path.relative_to(root)
        if path.suffix not in (".py", ".toml") or place.parts[0] in _MODULES_WITHOUT:
            continue
        if len(place.parts) == 1 and place.stem.startswith("__"):
            continue
        found.update(str(place).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Structs as what they hold, quantities as SI numbers however they were written."""
    if isinstance(value, msgspec.Struct):
        named = {key: _plain(getattr(value, key)) for key in value.__struct_fields__}
        return {"": type(value).__name__} | named
    if isinstance(value, Quantity):
        return float(value)
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return value


def _files(spec: Spec) -> list[str]:
    """Hashes of the files that a spec names."""
    named = [getattr(part, "file", None) for part in (spec.network, spec.traffic)]
    paths = [Path(name) for name in named if name is not None]
    return [hashlib.sha256(p.read_bytes()).hexdigest() for p in paths if p.is_file()]
