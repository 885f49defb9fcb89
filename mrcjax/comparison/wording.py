"""Numbers and lists of words as the sentences beside the tables write them."""

from collections.abc import Iterable, Sequence

from mrcjax.units import format_rate


def gbit(bytes_per_s: float) -> str:
    """Write bytes/s as Gbit/s."""
    return f"{bytes_per_s * 8 / 1e9:,.4g} Gbit/s"


def byte_rate(bytes_per_s: float | None) -> str:
    """Write bytes/s in a unit of bytes; "-" where there is none."""
    return "-" if bytes_per_s is None else format_rate(bytes_per_s)


def ms(seconds: float) -> str:
    """Write seconds as ms."""
    return f"{seconds * 1e3:.4g} ms"


def kw(watts: float) -> str:
    """Write watts as kW."""
    return f"{watts / 1e3:,.3g} kW" if watts < 1e6 else f"{watts / 1e3:,.0f} kW"


def percent(fraction: float) -> str:
    """Write a fraction in per cent, two digits."""
    return f"{100 * fraction:.2g} %"


def whole(fraction: float) -> str:
    """Write a fraction in per cent, three digits."""
    return f"{100 * fraction:.3g} %"


def signed(fraction: float) -> str:
    """Write a change in per cent with its sign."""
    return f"{100 * fraction:+.3g} %"


def more_or_less(fraction: float) -> str:
    """Write a change as "10 % more" or "10 % less", "the same" where it is too small to matter."""
    if abs(fraction) < 5e-4:
        return "the same"
    return f"{100 * abs(fraction):.3g} % {'more' if fraction > 0 else 'less'}"


def percent_range(fractions: Sequence[float]) -> str:
    """Write the least and the greatest of fractions in per cent."""
    return f"{100 * min(fractions):.0f} to {100 * max(fractions):.0f} %"


def ratio(values: Sequence[float]) -> str:
    """Write values over the least of them: "3 : 2 : 1"."""
    least = min(values)
    return " : ".join(f"{value / least:.3g}" for value in values)


def listed(words: Iterable[str]) -> str:
    """Join words: "a, b and c"."""
    *first, last = list(words)
    return f"{', '.join(first)} and {last}" if first else last


def trillions(count: float) -> str:
    """Write a count in trillions."""
    return f"{count / 1e12:.3g} trillion"
