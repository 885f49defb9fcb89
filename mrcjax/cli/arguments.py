"""The arguments that several commands share, and values of options as numbers and words."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg
from tyro.constructors import PrimitiveConstructorSpec

from mrcjax.units import SpecError

SpecFile = Annotated[Positional[Path], arg(metavar="SPEC", help="The spec, a TOML file.")]
ArchiveFile = Annotated[Positional[Path], arg(metavar="FILE.h5", help="The archive.")]
AsJson = Annotated[bool, arg(name="json", help="Print exactly one JSON object.")]
Overrides = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(
        name="set",
        metavar="KEY=VALUE",
        help="Override any key of the spec, for example network.ranks=4096.",
    ),
]
OneRun = Annotated[
    str | None, arg(metavar="NAME", help="The run; without it the only one.", help_behavior_hint="")
]


def archive_to_write(what: str) -> Any:
    """The option that names the archive to write; what: what of it the help says."""
    return arg(metavar="FILE.h5", help=f"{what}; wins over output.file.", help_behavior_hint="")


class WrongOption(Exception):
    """Brings a SpecError past the parser of arguments, which has words of its own for a ValueError.

    Attributes:
        error: the SpecError.
    """

    def __init__(self, error: SpecError):
        self.error = error
        super().__init__(str(error))


def whole_number(option: str, least: int = 1, *, most: int = 2**31 - 1, example: int = 8) -> Any:
    """Have an option take a whole number from `least` to `most`."""

    def read(text: str) -> int:
        number = _number(int, text)
        if number is not None and least <= number <= most:
            return number
        too_large = number is not None and number > most
        what = f"must be a whole number, {f'at most {most:,}' if too_large else f'{least} or more'}"
        raise _wrong(option, what, text, f"write for example {option} {example}")

    return _values(read, "N")


def share(option: str, *, example: float) -> Any:
    """Have an option take a number from 0 on, and no infinite one."""

    def read(text: str) -> float:
        number = _number(float, text)
        if number is not None and 0 <= number < math.inf:
            return number
        what = "must be a number, 0 or more"
        raise _wrong(option, what, text, f"write for example {option} {example}")

    return _values(read, "FLOAT")


def word(option: str, *words: str) -> Any:
    """Have an option take one of some words."""

    def read(text: str) -> str:
        if text in words:
            return text
        raise _wrong(option, "is not a known choice", text, f"use one of {', '.join(words)}")

    return _values(read, "{" + ",".join(words) + "}")


def _number(kind: Callable[[str], Any], text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        return None


def _wrong(option: str, what: str, text: str, remedy: str) -> WrongOption:
    return WrongOption(SpecError(what, where=option, value=text, remedy=remedy))


def _values(read: Callable[[str], Any], metavar: str) -> PrimitiveConstructorSpec:
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: read(words[0]),
        is_instance=lambda _: True,
        str_from_instance=lambda value: [str(value)],
    )
