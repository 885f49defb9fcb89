"""What the experiments claim in their READMEs."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from mrcjax.case import build

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


def test_a_plain_ring_stays_within_15_percent_of_simai():
    simai = runpy.run_path(str(EXPERIMENTS / "simai_ring" / "run.py"))
    emulated = simai["emulated"]()
    assert emulated.keys() == simai["MEASURED"].keys()
    for ranks, measured in simai["MEASURED"].items():
        assert emulated[ranks] == pytest.approx(measured, rel=0.15), ranks


def test_the_benchmark_names_its_cases_and_prints_units():
    benchmark = runpy.run_path(str(EXPERIMENTS / "benchmark" / "run.py"))
    names = benchmark["cases"]()
    assert "direct 16384 x 8 float64" in names
    assert "gradient direct 16384 x 8 float64" in names
    row = {"case": "x", "sends": 1, "compile_s": 1.0, "run_s": 1.0, "sends_per_s": 1.0}
    row |= {"peak_memory_bytes": 1, "completion_ms": 1.0}
    assert "peak, MB" in benchmark["table"]([row])


def test_four_failed_cables_are_eight_links_down_on_every_network():
    failures = runpy.run_path(str(EXPERIMENTS / "failures" / "run.py"))
    for network in failures["NETWORKS"]:
        case = build(failures["spec"](network, 64, 4, 8))
        left = np.asarray(case.params.capacity_bytes_per_s) / case.wiring.capacity_bytes_per_s
        assert (case.wiring.cables * (1 - left)).sum() == pytest.approx(8), network
