"""What the experiments claim in their READMEs."""

import runpy
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from mrcjax.case import build
from mrcjax.spec import load_spec

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


PLATFORMS = EXPERIMENTS / "platforms"


@pytest.mark.parametrize("size", ["", "small"])
def test_every_platform_has_as_many_tokens_per_gpu_and_fits(size):
    """A wafer counts as 128 GPUs, whose peak it has."""
    for each in tomllib.loads((PLATFORMS / "platforms.toml").read_text())["platform"]:
        sets = [*each.get("set", ()), *(each.get(size, ()) if size else ())]
        spec = load_spec(PLATFORMS / each["spec"], set=sets)
        assert spec.training is not None
        gpus = spec.network.ranks * (128 if spec.network.kind == "wafer" else 1)
        assert spec.training.global_batch_tokens == 4096 * gpus, each["key"]
        bucket = each.get(f"{size}_bucket" if size else "bucket", ())
        group = load_spec(PLATFORMS / each["spec"], set=[*sets, *bucket]).the_collective
        replicas = spec.training.data_parallel(spec.network.ranks)
        assert group.group_size in (None, replicas), each["key"]


def test_platforms_say_what_the_article_would_take(tmp_path):
    platforms = runpy.run_path(str(PLATFORMS / "run.py"))
    found = platforms["rows"](small=True, keys=("tpu_v5p_slice", "cs3_1", "cs3_4", "nvl72"))
    result = platforms["compared"](found, datetime.now(UTC))
    lines = {line["name"]: line for line in result.tables["needed"].rows}
    assert "NVL72 racks" not in lines  # of which the article reports nothing
    assert lines["CS-3, one wafer"]["factor"] is None  # a single rank sends nothing
    for name in ("TPU v5p, largest slice", "CS-3, four wafers"):
        assert lines[name]["factor"] > 1
        assert lines[name]["rate"] < lines[name]["has"]
    text = result.text()
    assert "wafers" in text
    assert "with none of it hidden" in text
    result.write(tmp_path / "platforms.h5", platforms["COMMAND"])
    assert "cs3_4-bucket-all_reduce" in result.runs


def test_a_plain_ring_over_the_replicas_is_slower_than_two_levels():
    platforms = runpy.run_path(str(PLATFORMS / "run.py"))
    levels, ring = platforms["rows"](small=True, keys=("dgx_h100",))
    assert ring.trained.buckets == levels.trained.buckets
    assert ring.trained.step.utilisation < levels.trained.step.utilisation
    sizes = [o.size_bytes for row in (levels, ring) for o in row.trained.outcomes.values()]
    assert len(set(sizes)) == 1


def test_four_failed_cables_are_eight_links_down_on_every_network():
    failures = runpy.run_path(str(EXPERIMENTS / "failures" / "run.py"))
    for network in failures["NETWORKS"]:
        case = build(failures["spec"](network, 64, 4, 8))
        left = np.asarray(case.params.capacity_bytes_per_s) / case.wiring.capacity_bytes_per_s
        assert (case.wiring.cables * (1 - left)).sum() == pytest.approx(8), network
