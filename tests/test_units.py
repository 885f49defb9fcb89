"""Quantities: what is read, what is refused, and that our registry agrees with pint's own."""

import copy
import pickle

import pint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrcjax.units import (
    Bytes,
    BytesPerSecond,
    Seconds,
    SpecError,
    format_bytes,
    format_rate,
    format_seconds,
    parse_bytes,
    parse_bytes_per_s,
    parse_flops_per_s,
    parse_joules_per_byte,
    parse_seconds,
    parse_watts,
    show_value,
)

READ = [
    (parse_bytes, "1 GB", 1e9),
    (parse_bytes, "1 GiB", 2.0**30),
    (parse_bytes, "960 B", 960.0),
    (parse_bytes, "46.6 MiB", 46.6 * 2**20),
    (parse_bytes, "0 B", 0.0),
    (parse_bytes, "8 Mbit", 1e6),
    (parse_bytes, "  1.5e3kB ", 1.5e6),
    (parse_seconds, "500 ns", 500e-9),
    (parse_seconds, "1 us", 1e-6),
    (parse_seconds, "5 \u00b5s", 5e-6),
    (parse_seconds, "5 \u03bcs", 5e-6),
    (parse_seconds, "3 ms", 3e-3),
    (parse_seconds, "0 s", 0.0),
    (parse_seconds, "2 min", 120.0),
    (parse_bytes_per_s, "400 Gbit/s", 50e9),
    (parse_bytes_per_s, "400Gbps", 50e9),
    (parse_bytes_per_s, "400 Gb/s", 50e9),
    (parse_bytes_per_s, "50 GB/s", 50e9),
    (parse_bytes_per_s, "50GB/s", 50e9),
    (parse_bytes_per_s, "50 GB / s", 50e9),
    (parse_bytes_per_s, "46.6 GiB/s", 46.6 * 2**30),
    (parse_watts, "700 W", 700.0),
    (parse_watts, "1.05 kW", 1050.0),
    (parse_flops_per_s, "989 TFLOP/s", 989e12),
    (parse_flops_per_s, "989 TFLOPS", 989e12),
    (parse_joules_per_byte, "6 pJ/bit", 48e-12),
]

REFUSED = [
    (parse_seconds, "500", ["has no unit", '"500 ns"']),
    (parse_seconds, 500, ["has no unit", "500"]),
    (parse_bytes, 1.5, ["has no unit", '"1 GB"']),
    (parse_bytes, True, ["as text", "true"]),
    (parse_bytes, None, ["as text"]),
    (parse_bytes, "", ["number and a unit"]),
    (parse_bytes, "GB", ["number and a unit"]),
    (parse_bytes, "1 KB", ["unknown unit", "k M G T"]),
    (parse_bytes, "1,024 B", ["commas"]),
    (parse_bytes, "-1 B", ["negative"]),
    (parse_bytes, "nan B", ["finite"]),
    (parse_bytes, "inf B", ["finite"]),
    (parse_bytes, "1e400 B", ["finite"]),
    (parse_bytes, "1e99999999999999999999 B", ["finite"]),
    (parse_bytes_per_s, "1e-99999999999999999999 B/s", ["above zero"]),
    (parse_bytes, "1 mB", ["milli", "MB"]),
    (parse_bytes, "400 Gbit/s", ["a size", "is a data rate"]),
    (parse_bytes, "1 GB ** 2", ["unit"]),
    (parse_bytes_per_s, "400 gbps", ["unknown unit", "400 Gbit/s"]),
    (parse_bytes_per_s, "400 mbit/s", ["milli", "Mbit/s"]),
    (parse_bytes_per_s, "400 GB", ["a data rate", "is a size"]),
    (parse_bytes_per_s, "400 Gbit per s", ["cannot be read"]),
    (parse_bytes_per_s, "0 GB/s", ["above zero"]),
    (parse_seconds, "5 W", ["a time", "is a power"]),
    (parse_seconds, "1 s/s", ["a time", "another dimension"]),
    (parse_seconds, "5 parsecs", ["unknown unit"]),
]


@pytest.mark.parametrize(("parse", "text", "value"), READ)
def test_quantity_is_read(parse, text, value):
    quantity = parse(text)
    assert quantity == pytest.approx(value, rel=1e-15)
    assert quantity.text == text.strip()


@pytest.mark.parametrize(("parse", "text", "parts"), REFUSED)
def test_quantity_is_refused(parse, text, parts):
    with pytest.raises(SpecError) as caught:
        parse(text)
    for part in parts:
        assert part in str(caught.value)


_DATA_PREFIXES = st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"])
_NUMBERS = st.one_of(
    st.integers(1, 10**9).map(str), st.floats(1e-6, 1e9, allow_nan=False).map(repr)
)
_PINT = pint.UnitRegistry()


@settings(max_examples=60, deadline=None)
@given(_NUMBERS, _DATA_PREFIXES, st.sampled_from(["bit", "B"]))
def test_sizes_and_rates_agree_with_pint(number, prefix, unit):
    expected = _PINT.Quantity(float(number), f"{prefix}{unit}").m_as("byte")
    assert parse_bytes(f"{number} {prefix}{unit}") == pytest.approx(expected, rel=1e-12)
    assert parse_bytes_per_s(f"{number}{prefix}{unit}/s") == pytest.approx(expected, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(_NUMBERS, st.sampled_from(["ns", "us", "ms", "s", "min", "h"]))
def test_times_agree_with_pint(number, unit):
    expected = _PINT.Quantity(float(number), unit).m_as("second")
    assert parse_seconds(f"{number} {unit}") == pytest.approx(expected, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(min_value=0, max_value=1e17, allow_subnormal=False))
def test_quantity_without_text_writes_itself_exactly(value):
    for kind in (Bytes, Seconds):
        assert kind.parse(kind(value).text) == value


@settings(max_examples=100, deadline=None)
@given(st.floats(min_value=1e-9, max_value=1e15))
def test_formatted_text_reads_back(value):
    assert parse_seconds(format_seconds(value)) == pytest.approx(value, rel=6e-4)
    assert parse_bytes(format_bytes(value)) == pytest.approx(value, rel=6e-4)
    assert parse_bytes_per_s(format_rate(value)) == pytest.approx(value, rel=6e-4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_seconds(0.0), "0 s"),
        (format_seconds(0.0416234), "41.62 ms"),
        (format_seconds(1.2345e-6), "1.234 us"),
        (format_seconds(0.99996), "1 s"),
        (format_seconds(1.8e6), "500 h"),
        (format_seconds(float("nan")), "nan s"),
        (format_bytes(213.9136e6), "213.9 MB"),
        (format_bytes(999.96), "1 kB"),
        (format_bytes(0), "0 B"),
        (format_rate(50e9), "50 GB/s"),
        (format_rate(-50e9), "-50 GB/s"),
    ],
)
def test_format(text, expected):
    assert text == expected


def test_quantity_survives_copy_and_pickle():
    rate = parse_bytes_per_s("400 Gbit/s")
    for twin in (copy.deepcopy(rate), pickle.loads(pickle.dumps(rate))):
        assert twin == rate
        assert type(twin) is BytesPerSecond
        assert twin.text == "400 Gbit/s"


def test_error_survives_pickle():
    error = SpecError("must be even", where="network.radix", value=63, remedy="use 64")
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == str(error) == "network.radix must be even, got 63; use 64"
    assert twin.where == "network.radix"


def test_values_are_shown_on_one_line():
    assert show_value("4\nrails = 2\x1b[31m") == r'"4\nrails = 2\x1b[31m"'
    assert show_value(["é", "\udcff"]) == r'["é", "\udcff"]'
