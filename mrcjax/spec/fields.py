"""Give the field types of the spec: ranges, descriptions and examples, quantities per port."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from mrcjax.units import BytesPerSecond, Quantity, Seconds, SpecError

# Counts index int32 arrays later on.
MAX_COUNT = 2**31 - 1
# Ports are listed one by one; a full mesh of a million ranks is beyond any use.
MAX_PORTS = 2**20

Count = Annotated[int, Meta(ge=1, le=MAX_COUNT)]
PortCount = Annotated[int, Meta(ge=1, le=MAX_PORTS)]
Index = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Fraction = Annotated[float, Meta(gt=0, le=1)]


def doc(text: str, *examples: Any) -> Meta:
    """Return the description of a field, with TOML values that would be right."""
    return Meta(description=text, examples=list(examples) or None)


def default(make: Callable[[], Any]) -> Any:
    """Return a struct field whose default is a quantity or struct (kept out of the signature)."""
    return msgspec.field(default_factory=make)


class PerPort(tuple[Quantity, ...]):
    """One quantity for all ports of a rank, or a list with one per port."""

    element: ClassVar[type[Quantity]] = Quantity
    is_list: bool

    def __new__(cls, values: Any, is_list: bool = True) -> Self:
        self = super().__new__(cls, values)
        self.is_list = is_list
        return self

    def __getnewargs__(self):
        return tuple(self), self.is_list

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read one text or a list of texts; raises SpecError with the index of the bad one."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, list | tuple):
            return cls((cls.element.parse(value),), is_list=False)
        if not value:
            raise SpecError(
                "must not be an empty list",
                value=[],
                remedy=f'write one value for all rails, for example "{cls.element.example}"',
            )
        quantities = []
        for i, text in enumerate(value):
            try:
                quantities.append(cls.element.parse(text))
            except SpecError as error:
                raise error.at(f"[{i}]") from None
        return cls(quantities)

    def spread(self, num_ports: int, where: str) -> tuple[float, ...]:
        """Return one SI float per port; SpecError when the list has another length."""
        if not self.is_list:
            return (float(self[0]),) * num_ports
        if len(self) != num_ports:
            raise SpecError(
                f"has {len(self)} values for {num_ports} rails",
                where=where,
                remedy="give one value for all rails, or one per rail",
            )
        return tuple(float(quantity) for quantity in self)


class RatesPerPort(PerPort):
    """A data rate for all ports of a rank, or one per port."""

    element = BytesPerSecond


class SecondsPerPort(PerPort):
    """A time for all ports of a rank, or one per port."""

    element = Seconds


def half_microsecond() -> Seconds:
    """Return the default latency of a link: SimAI's default between adapter and leaf."""
    return Seconds(500e-9, "500 ns")


def no_time() -> Seconds:
    """Return zero seconds."""
    return Seconds(0.0, "0 s")
