"""The catalogue: every value has a source and a mark, and reads as the part it describes."""

import dataclasses
import math

import pytest

from mrcjax import hardware
from mrcjax.units import SpecError

GBIT_PER_S = 1e9 / 8

CELLS = [
    (catalogue, name, key)
    for catalogue in hardware.CATALOGUES
    for name, row in hardware.raw(catalogue).items()
    for key in row
]


@pytest.mark.parametrize(("catalogue", "name", "key"), CELLS)
def test_every_value_has_a_source_and_a_mark(catalogue, name, key):
    cell = hardware.raw(catalogue)[name][key]
    if key == "description":
        assert isinstance(cell, str)
        assert cell
        return
    assert set(cell) == {"value", "source", "mark"}
    assert isinstance(cell["source"], str)
    assert len(cell["source"]) > 5
    assert cell["mark"] in hardware.MARKS


def _all_parts():
    parts = [hardware.links(), hardware.switches(), hardware.nics(), hardware.gpus()]
    return [part for group in parts for part in group.values()] + [hardware.optics()]


@pytest.mark.parametrize("part", _all_parts(), ids=lambda part: part.name)
def test_every_field_is_a_finite_number_with_a_source(part):
    for field in dataclasses.fields(part):
        if field.name in ("name", "description", "sources"):
            continue
        value = getattr(part, field.name)
        if value is None:
            with pytest.raises(KeyError):
                part.source(field.name)
            continue
        assert math.isfinite(value)
        assert value > 0
        assert part.source(field.name).mark in hardware.MARKS


@pytest.mark.parametrize(
    ("switch", "gbit_per_s", "ports"),
    [
        ("switch_12t8", 400, 32),
        ("switch_25t6", 400, 64),
        ("switch_25t6", 800, 0),
        ("switch_51t2", 800, 64),
        ("switch_51t2", 400, 128),
        ("switch_51t2", 200, 256),
        ("switch_51t2", 100, 512),
        ("switch_51t2", 50, 512),
        ("switch_102t4", 100, 1024),
    ],
)
def test_switch_radix(switch, gbit_per_s, ports):
    assert hardware.switch(switch).radix(gbit_per_s * GBIT_PER_S) == ports


def test_switches_come_smallest_first():
    capacities = [part.capacity_bytes_per_s for part in hardware.switches().values()]
    assert capacities == sorted(capacities)


def test_values_are_si():
    assert hardware.link("nvlink4").rate_bytes_per_s == 450e9
    assert hardware.link("infiniband_ndr").rate_bytes_per_s == 50e9
    assert hardware.gpu("h100").peak_bf16_flops_per_s == 989e12
    optics = hardware.optics()
    assert optics.switch_module_j_per_byte * 800 * GBIT_PER_S == pytest.approx(17.0)
    assert optics.nic_module_j_per_byte * 400 * GBIT_PER_S == pytest.approx(9.0)
    assert optics.link_end_usd_per_byte_per_s * 400 * GBIT_PER_S == pytest.approx(640.0)


@pytest.mark.parametrize(
    ("gbit_per_s", "watts", "usd"),
    [(400, 25, 1500), (800, 45, 2500), (100, 6.25, 375), (8000, 450, 25000)],
)
def test_adapter_scales_per_rate(gbit_per_s, watts, usd):
    nic = hardware.nic_for(gbit_per_s * GBIT_PER_S)
    assert nic.watts == pytest.approx(watts)
    assert nic.usd == pytest.approx(usd)
    assert nic.source("watts").mark == "C"


@pytest.mark.parametrize(
    ("find", "name", "near"),
    [
        (hardware.link, "nvlnk4", "nvlink4"),
        (hardware.switch, "switch_51T2", "switch_51t2"),
        (hardware.nic, "nic400g", "nic_400g"),
        (hardware.gpu, "H100", "h100"),
    ],
)
def test_unknown_part_names_the_nearest(find, name, near):
    with pytest.raises(SpecError, match=near) as caught:
        find(name)
    assert name in str(caught.value)
