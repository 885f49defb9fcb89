"""Turn quantities with explicit units into SI floats, and SI floats into short text.

A bit is ``b`` or ``bit``, a byte ``B`` or ``byte``; the case matters. Prefixes are decimal
(``k M G T P``) or binary (``Ki Mi Gi Ti``). A number without a unit is refused: a factor of
eight between bits and bytes is the commonest mistake in a network model.
"""

import functools
import math
import re
from decimal import Decimal
from typing import Any, ClassVar, Self

_ABSENT: Any = object()


class SpecError(ValueError):
    """Say what is wrong in what the user wrote, where, with which value, and what to do.

    Attributes:
        what: the complaint, a verb phrase about the place ("must be even").
        where: dotted path in the spec ("network.radix"), or "".
        remedy: what to do about it, or "".
    """

    def __init__(self, what: str, *, where: str = "", value: Any = _ABSENT, remedy: str = ""):
        self.what, self.where, self.value, self.remedy = what, where, value, remedy
        message = f"{where} {what}" if where else what
        if value is not _ABSENT:
            message += f", got {show_value(value)}"
        if remedy:
            message += f"; {remedy}"
        super().__init__(message)

    def __reduce__(self):
        is_absent = self.value is _ABSENT
        value = None if is_absent else self.value
        return _restore_error, (self.what, self.where, is_absent, value, self.remedy)

    def at(self, where: str, value: Any = _ABSENT) -> "SpecError":
        """Return the same error with ``where`` put before its place; an index joins without dot."""
        inner = self.where
        place = where + inner if inner.startswith("[") else f"{where}.{inner}".strip(".")
        kept = self.value if self.value is not _ABSENT else value
        return SpecError(self.what, where=place, value=kept, remedy=self.remedy)


def _restore_error(what: str, where: str, is_absent: bool, value: Any, remedy: str) -> SpecError:
    return SpecError(what, where=where, value=_ABSENT if is_absent else value, remedy=remedy)


def show_value(value: Any) -> str:
    """Write a value the way it stands in the TOML file, cut to 60 characters."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, Quantity | str):
        text = f'"{_printable(str(value))}"'
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(show_value(v) for v in value) + "]"
    elif isinstance(value, dict):
        text = "{ " + ", ".join(f"{k} = {show_value(v)}" for k, v in value.items()) + " }"
    else:
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _printable(text: str) -> str:
    """Escape what would break a line, or tell a terminal to do something."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Quantity(float):
    """A float in an SI unit that remembers the text it was written as.

    It compares, hashes and computes as its float; ``text`` only serves to write it back.
    Take ``float(q)`` before handing it to array code.
    """

    __slots__ = ("text",)

    unit: ClassVar[str] = ""
    symbol: ClassVar[str] = ""
    noun: ClassVar[str] = ""
    example: ClassVar[str] = ""
    is_zero_allowed: ClassVar[bool] = False

    def __new__(cls, value: float, text: str | None = None) -> Self:
        self = super().__new__(cls, value)
        # repr of a float reads back as the same float, so the default text is exact
        self.text = f"{float(value)!r} {cls.symbol}" if text is None else text
        return self

    def __reduce__(self):
        return type(self), (float(self), self.text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({float(self)!r}, {self.text!r})"

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: Any) -> Self:
        """Read e.g. "1 GB"; raises SpecError (without a place) on anything unclear."""
        if isinstance(text, cls):
            return text
        if not isinstance(text, str):
            if isinstance(text, int | float) and not isinstance(text, bool):
                raise cls._unitless(text)
            raise SpecError(
                f"must be {cls.noun} as text",
                value=text,
                remedy=f'write for example "{cls.example}"',
            )
        stripped = text.strip()
        return cls(_to_si(cls, stripped), stripped)

    @classmethod
    def _unitless(cls, value: Any) -> SpecError:
        return SpecError(
            "has no unit", value=value, remedy=f'add a unit, for example "{cls.example}"'
        )


class Bytes(Quantity):
    """A size in bytes; zero is allowed."""

    __slots__ = ()
    unit, symbol, noun, example = "byte", "B", "a size", "1 GB"
    is_zero_allowed = True


class Seconds(Quantity):
    """A time in seconds; zero is allowed."""

    __slots__ = ()
    unit, symbol, noun, example = "second", "s", "a time", "500 ns"
    is_zero_allowed = True


class BytesPerSecond(Quantity):
    """A data rate in bytes per second, above zero."""

    __slots__ = ()
    unit, symbol, noun, example = "byte/second", "B/s", "a data rate", "400 Gbit/s"


class FlopsPerSecond(Quantity):
    """A computing rate in floating-point operations per second, above zero."""

    __slots__ = ()
    unit, symbol, noun, example = "FLOP/second", "FLOP/s", "a computing rate", "989 TFLOP/s"


class Watts(Quantity):
    """A power in watts; zero is allowed (a passive part draws nothing)."""

    __slots__ = ()
    unit, symbol, noun, example = "watt", "W", "a power", "700 W"
    is_zero_allowed = True


class JoulesPerByte(Quantity):
    """An energy per byte in joules, which is also watts per (byte/s)."""

    __slots__ = ()
    unit, symbol, noun, example = "joule/byte", "J/B", "an energy per bit", "6 pJ/bit"


_KINDS: tuple[type[Quantity], ...] = (
    Bytes,
    Seconds,
    BytesPerSecond,
    FlopsPerSecond,
    Watts,
    JoulesPerByte,
)

_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# \u00b5 is the micro sign, \u03bc the Greek letter; keyboards differ
_UNIT = re.compile(r"[A-Za-z\u00b5\u03bc]+(?:\s*/\s*[A-Za-z]+)?")
# "mb/s" would be millibits; nobody means that
_SUB_UNIT_OF_DATA = re.compile(
    r"(?:[munp\u00b5\u03bc]|milli|micro|nano|pico)(?:b|bits?|bps|B|bytes?)\b"
)

# A registry of our own: pint's default one takes a bit as dimensionless, so that
# "400 Gbit/s" would pass for a frequency.
_DEFINITIONS = """
pico- = 1e-12 = p-
nano- = 1e-9 = n-
micro- = 1e-6 = u- = \u00b5- = \u03bc-
milli- = 1e-3 = m-
kilo- = 1e3 = k-
mega- = 1e6 = M-
giga- = 1e9 = G-
tera- = 1e12 = T-
peta- = 1e15 = P-
exa- = 1e18 = E-
kibi- = 2**10 = Ki-
mebi- = 2**20 = Mi-
gibi- = 2**30 = Gi-
tebi- = 2**40 = Ti-
bit = [information] = b
byte = 8 * bit = B
second = [time] = s = sec
minute = 60 * second = min
hour = 3600 * second = h
bps = bit / second
FLOP = [computing]
FLOPS = FLOP / second
watt = [power] = W
joule = watt * second = J
"""


@functools.cache
def _registry() -> Any:
    # imported here: pint takes longer to import than a spec without quantities to load
    import pint

    # pint takes None (no definitions) and Decimal, whatever its annotations say
    options: dict[str, Any] = {"filename": None, "non_int_type": Decimal}
    registry = pint.UnitRegistry(**options)
    for line in _DEFINITIONS.strip().splitlines():
        registry.define(line)
    return registry


@functools.lru_cache(maxsize=4096)
def _to_si(kind: type[Quantity], text: str) -> float:
    """Convert exactly (in decimal arithmetic) and round once, so "0.1 us" is the float 1e-07."""
    number = _NUMBER.match(text)
    if number is None:
        if re.match(r"[+-]?(inf|nan)", text, re.IGNORECASE):
            raise SpecError(
                "must be finite", value=text, remedy=f'write for example "{kind.example}"'
            )
        raise SpecError(
            f"must be {kind.noun}: a number and a unit",
            value=text,
            remedy=f'write for example "{kind.example}"',
        )
    unit = text[number.end() :].strip()
    if not unit:
        raise kind._unitless(text)
    if _UNIT.fullmatch(unit) is None:
        raise SpecError(
            "has a unit that cannot be read",
            value=text,
            remedy=f'write a number without commas and a unit, for example "{kind.example}"',
        )
    if _SUB_UNIT_OF_DATA.match(unit):
        raise SpecError(
            "has a fraction of a bit or byte as unit",
            value=text,
            remedy='M is mega and m is milli: write "Mbit/s" or "MB"',
        )
    digits = number.group().replace("_", "")
    if math.isinf(float(digits)):
        raise _too_large(text)
    # decimal arithmetic traps exponents far outside those of a float
    exact = Decimal(digits) if float(digits) != 0 else Decimal(0)
    value = float(_with_unit(kind, text, exact, unit).m_as(kind.unit))
    if value < 0:
        raise SpecError(
            "must not be negative", value=text, remedy=f'write for example "{kind.example}"'
        )
    if math.isinf(value):
        raise _too_large(text)
    if value == 0 and not kind.is_zero_allowed:
        raise SpecError(
            "must be above zero", value=text, remedy=f'write for example "{kind.example}"'
        )
    return value


def _too_large(text: str) -> SpecError:
    return SpecError("must be finite", value=text, remedy="it does not fit into a 64-bit float")


def _with_unit(kind: type[Quantity], text: str, number: Decimal, unit: str) -> Any:
    """Return the pint quantity, having checked that its dimension is that of ``kind``."""
    import pint

    registry = _registry()
    try:
        quantity = registry.Quantity(number, unit)
    except (pint.UndefinedUnitError, AttributeError):
        remedy = f'write for example "{kind.example}"'
        if any(sign in unit.lower() for sign in ("b", "bit", "byte")):
            remedy += "; b is a bit, B a byte, prefixes are k M G T or Ki Mi Gi Ti"
        raise SpecError("has an unknown unit", value=text, remedy=remedy) from None
    if quantity.dimensionality != registry.Quantity(1, kind.unit).dimensionality:
        given = next(
            (
                k.noun
                for k in _KINDS
                if k.unit and registry.Quantity(1, k.unit).dimensionality == quantity.dimensionality
            ),
            "another dimension",
        )
        raise SpecError(
            f"must be {kind.noun} ({kind.symbol}) but is {given}",
            value=text,
            remedy=f'write for example "{kind.example}"',
        )
    return quantity


def parse_bytes(text: str) -> Bytes:
    """Read a size such as "1 GB", "1 GiB", "960 B" in bytes; raises SpecError."""
    return Bytes.parse(text)


def parse_seconds(text: str) -> Seconds:
    """Read a time such as "500 ns", "5 µs", "3 ms" in seconds; raises SpecError."""
    return Seconds.parse(text)


def parse_bytes_per_s(text: str) -> BytesPerSecond:
    """Read a rate such as "400 Gbit/s", "400Gbps", "46.6 GiB/s" in bytes/s; raises SpecError."""
    return BytesPerSecond.parse(text)


def parse_flops_per_s(text: str) -> FlopsPerSecond:
    """Read a computing rate such as "989 TFLOP/s" in FLOP/s; raises SpecError."""
    return FlopsPerSecond.parse(text)


def parse_watts(text: str) -> Watts:
    """Read a power such as "700 W" or "1.05 kW" in watts; raises SpecError."""
    return Watts.parse(text)


def parse_joules_per_byte(text: str) -> JoulesPerByte:
    """Read an energy such as "6 pJ/bit" in joules per byte; raises SpecError."""
    return JoulesPerByte.parse(text)


def format_bytes(value_bytes: float) -> str:
    """Write a size for people, four digits, decimal prefixes: "213.9 MB"."""
    return _scaled(value_bytes, ("B", "kB", "MB", "GB", "TB", "PB", "EB"), 1.0)


def format_seconds(value_s: float) -> str:
    """Write a time for people, four digits: "41.62 ms", "1.23 us", hours from 10,000 s on."""
    if math.isfinite(value_s) and abs(value_s) >= 1e4:
        return f"{_digits(value_s / 3600)} h"
    return _scaled(value_s, ("ps", "ns", "us", "ms", "s"), 1e-12)


def format_rate(value_bytes_per_s: float) -> str:
    """Write a data rate for people, four digits, in bytes per second: "50 GB/s"."""
    units = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s")
    return _scaled(value_bytes_per_s, units, 1.0)


def _digits(value: float) -> str:
    text = f"{value:.4g}"
    # from 10,000 on, %g turns to an exponent, which reads badly before a unit
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e15 else text


def _scaled(value: float, units: tuple[str, ...], smallest: float) -> str:
    """Pick the unit that leaves 1 to 999 before the point; units are steps of 1000."""
    if value == 0 or not math.isfinite(value):
        base = "s" if units[-1] == "s" else units[0]
        return f"{value:.0f} {base}"
    scale = smallest
    for unit in units[:-1]:
        # compare what will be printed, so that 999.96 becomes 1 of the next unit
        if abs(float(f"{value / scale:.4g}")) < 1000:
            return f"{_digits(value / scale)} {unit}"
        scale *= 1000
    return f"{_digits(value / scale)} {units[-1]}"
