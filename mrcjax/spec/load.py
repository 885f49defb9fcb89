"""Turn a TOML file or text into a checked Spec, and whatever is wrong in it into one SpecError."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mrcjax.spec.explaining import explained
from mrcjax.spec.fields import PerPort
from mrcjax.spec.files import find_files
from mrcjax.spec.keys import EXAMPLE_HINT, check_finite, check_keys, nearest
from mrcjax.spec.overrides import put_override
from mrcjax.spec.sections import Spec
from mrcjax.units import Quantity, SpecError


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
    raw, _ = read_raw(path_or_text, (set,) if isinstance(set, str) else set)
    if "sweep" in raw:
        raise SpecError(
            "is a table of many runs, and this is for one",
            where="sweep",
            remedy="use `mrcjax sweep`, or leave the table out",
        )
    return spec_from_dict(raw)


def read_raw(
    path_or_text: str | Path, set: Sequence[str] = ()
) -> tuple[dict[str, Any], Path | None]:
    """Read the tables of a spec, unchecked, with overrides put in; raises SpecError.

    Returns:
        the tables, and the folder of the spec's file; None where it is text.
    """
    text, name = _read(path_or_text)
    raw = _parse(text, name)
    for override in set:
        put_override(raw, override)
    folder = None if name == "the spec" else Path(name).parent
    find_files(raw, folder)
    return raw, folder


def spec_from_dict(raw: Mapping[str, Any]) -> Spec:
    """Check nested tables, as tomllib returns them, and return the Spec; raises SpecError."""
    if not raw:
        raise SpecError("the spec is empty", remedy=EXAMPLE_HINT)
    check_finite(raw, "")
    check_keys(raw, Spec, "")
    try:
        return msgspec.convert(raw, Spec, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise explained(error, raw) from None


def _read(path_or_text: str | Path) -> tuple[str, str]:
    if isinstance(path_or_text, str):
        is_text = "\n" in path_or_text or (
            ("=" in path_or_text or "[" in path_or_text)
            and not path_or_text.strip().endswith(".toml")
        )
        if is_text:
            return path_or_text, "the spec"
        if not path_or_text.strip():
            raise SpecError("the spec is empty", remedy=EXAMPLE_HINT)
    path = Path(path_or_text)
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)
    except FileNotFoundError:
        near = nearest(path.name, [p.name for p in path.parent.glob("*.toml")])
        raise SpecError(f"no spec file {path}", remedy=near or EXAMPLE_HINT) from None
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
        raise SpecError(f"{name} is nested too deeply", remedy=EXAMPLE_HINT) from None
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


def _decode(kind: type, value: Any) -> Any:
    """Give msgspec our own types; its caller turns a SpecError into a ValidationError."""
    if issubclass(kind, Quantity | PerPort):
        return kind.parse(value)
    raise NotImplementedError(kind)
