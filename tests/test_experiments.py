"""What the experiments claim in their READMEs."""

import importlib
import runpy
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import tomli_w

import mrcjax
from mrcjax.archive import Sweep
from mrcjax.case import build
from mrcjax.comparison import load_article
from mrcjax.spec import TrainingSpec, load_spec
from mrcjax.training import buckets
from mrcjax.units import parse_bytes

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
ARCHIVES = sorted(EXPERIMENTS.with_name("results").glob("*.h5"))


def test_a_plain_ring_stays_within_15_percent_of_simai():
    simai = runpy.run_path(str(EXPERIMENTS / "simai_ring" / "run.py"))
    emulated = simai["emulated"]()
    assert emulated.keys() == simai["MEASURED"].keys()
    for ranks, measured in simai["MEASURED"].items():
        assert emulated[ranks] == pytest.approx(measured, rel=0.15), ranks


@pytest.mark.parametrize("path", ARCHIVES, ids=[path.stem for path in ARCHIVES])
def test_what_experiments_wrote_is_whole(path):
    stored = mrcjax.load(path)
    if isinstance(stored, Sweep):
        assert stored.check() == np.isin(stored.status, ["done", "failed"]).sum() > 0
    else:
        assert stored.runs
        for name, run in stored.runs.items():
            assert run.time_s >= run.lower_bound_s * (1 - 1e-12), name


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


# ---- all of them, by one command


def test_one_command_runs_what_is_there_and_goes_on_after_a_failure(monkeypatch, capsys, tmp_path):
    command = importlib.import_module("experiments.__main__")
    assert {"article_table", "scaling", "platforms", "benchmark"} <= set(command.names())
    for name in command.names():
        assert (EXPERIMENTS / name / "README.md").exists(), name
    ran = []

    def run(name, more):
        ran.append((name, more))
        return 1 if name == "rails" else 0

    monkeypatch.setattr(command, "run", run)
    assert command.main(["rails", "tail", "--short", "--results", str(tmp_path)]) == 1
    assert ran == [(name, ["--short", "--results", str(tmp_path)]) for name in ("rails", "tail")]
    told = capsys.readouterr().err
    assert "rails" in told
    assert "failed with status 1" in told
    ran.clear()
    monkeypatch.setattr(command, "run", lambda name, more: ran.append(name) or 0)
    assert command.main([]) == 0
    assert set(ran) == set(command.names()) - set(command.BENCHMARKS)
    with pytest.raises(SystemExit):
        command.main(["rail"])


def test_an_experiment_runs_in_a_process_of_its_own(tmp_path):
    command = importlib.import_module("experiments.__main__")
    assert command.main(["simai_ring", "--short", "--results", str(tmp_path)]) == 0
    assert "measured" in (tmp_path / "simai_ring.txt").read_text()


def short(name: str, folder: Path) -> str:
    """Run the short version of an experiment of claims and return what it printed."""
    module = importlib.import_module(f"experiments.{name}.run")
    module.main(["--short", "--results", str(folder)])
    for suffix in (".txt", ".png", ".svg"):
        assert (folder / f"{name}{suffix}").stat().st_size > 200, suffix
    text = (folder / f"{name}.txt").read_text()
    assert text.startswith(f"python -m experiments {name} --short")
    for word in ("article", "emulated", "why"):
        assert f"\n  {word} " in text or word == "article", word
    return text


def test_short_claims_of_the_testbed(tmp_path):
    run = importlib.import_module("experiments.testbed_256.run")
    text = short("testbed_256", tmp_path)
    said = load_article().testbed
    assert f"{100 * said.peak_share:.3g} % of peak" in text
    found = mrcjax.load(tmp_path / "testbed_256.h5")
    shares = run.Shares(found, 50e9, 32)
    assert shares.bend < 1e-9  # time is affine in bytes
    # what is said to be enough is: of bytes, and of latency
    for i, algorithm in enumerate(shares.algorithms):
        j, rails = shares.rails.index(8), 8
        size = shares.size_for(0.9)[i, j, 0]
        latency = shares.latency_for(0.9, size)[i, j]
        assert latency == pytest.approx(shares.latencies_s[0], rel=1e-6)
        sets = [f"collective.size={size:.0f} B", f"network.rails={rails}", "network.ranks=32"]
        sets += [f"collective.algorithm={algorithm}", "network.endpoint_latency=1 us"]
        raw = tomllib.loads((EXPERIMENTS / "testbed_256" / "spec.toml").read_text())
        del raw["sweep"]
        outcome = mrcjax.run(load_spec(tomli_w.dumps(raw), set=sets))
        assert outcome.busbw_bytes_per_s == pytest.approx(0.9 * rails * 50e9, rel=1e-6)


def test_short_claims_of_rails(tmp_path):
    text = short("rails", tmp_path)
    assert "cannot reach" in text  # one rail, and that one down
    run = importlib.import_module("experiments.rails.run")
    times = run.Times(mrcjax.load(tmp_path / "rails_fixed_total.h5"))
    large = times.sizes[-1]
    assert times.exponent(run.STRIPED, large) == pytest.approx(0, abs=1e-3)
    eight = times.rails.index(8)
    worse = times.of(run.DOWN, large)[eight] / times.of(run.DIRECT, large)[eight]
    assert 8 / 7 < worse < 1.6  # 15 shards over 8 rails take two rounds, over 7 three


def test_short_claims_of_the_tail(tmp_path):
    text = short("tail", tmp_path)
    assert "holds back" in text
    run = importlib.import_module("experiments.tail.run")
    tails = run.Tails(mrcjax.load(tmp_path / "tail.h5"))
    quiet = tails.over_seeds(run.QUIET, 50)
    for case in tails.cases:
        assert (tails.over_seeds(case, 0) >= quiet * (1 - 1e-12)).all(), case
    seeds = np.isfinite(tails.time_s).sum(axis=-1)
    assert (seeds[tails.cases.index(run.QUIET)] == 1).all()
    assert (seeds[tails.cases.index(run.LATE)] == 3).all()


def test_candidates_of_power_and_what_is_counted():
    run = importlib.import_module("experiments.cost_power.run")
    article = load_article()
    found = run.candidates()
    for candidate in found:
        watts = candidate.watts()
        assert watts["switches"] <= watts["switches, copper to hosts"] + 1e-9
        assert watts["switches, copper to hosts"] <= watts["switches, modules"] + 1e-9
        assert watts["switches, linear modules"] <= watts["switches, modules"] + 1e-9
    for of, claims in run.claims_of(article).items():
        candidate, rule, watts = run.nearest(found, of, claims.network_w)
        assert candidate.of == of
        assert watts == candidate.watts()[rule]
        assert all(
            abs(np.log(max(w, 1e-9) / claims.network_w)) >= abs(np.log(watts / claims.network_w))
            for c in found
            if c.of == of
            for w in c.watts().values()
        )
    table = run.one_rule(found, article)
    assert all(row["worst"] >= 1 for row in table.rows)


def test_the_deployed_planes_hold_what_is_published():
    run = importlib.import_module("experiments.real_mrc.run")
    paper = tomllib.loads((EXPERIMENTS / "real_mrc" / "paper.toml").read_text())
    found = run.builds()
    planes, tree = found[0].materials, found[-1].materials
    assert planes.ranks == paper["gpus"]
    share = planes.switches / planes.ranks / (tree.switches / tree.ranks)
    assert share == pytest.approx(paper["switches_share"], rel=1e-12)
    assert found[0].link_ends / found[-1].link_ends == pytest.approx(2 / 3, rel=1e-12)
    for planes_, fault, links, key in (
        (8, "rank 5 plane 0", "rank 5 egress plane *", "port_8"),
        (8, "plane 0 leaf 0 up cable 0", "plane 0 leaf 0 up *", "uplink_8"),
        (1, "leaf 0 up cable 0", "leaf 0 up *", "uplink_1"),
    ):
        lost = run._lost(run.spec(512, planes_, [8, 32, 2], fault), links)
        assert lost == pytest.approx(paper["lost"][key], rel=0.05), key


def test_scaling_takes_the_bucket_of_the_training_step():
    run = importlib.import_module("experiments.scaling.run")
    for family in run.FAMILIES:
        text = (EXPERIMENTS / "scaling" / f"{family}.toml").read_text()
        size = float(parse_bytes(tomllib.loads(text)["collective"]["size"]))
        wanted = buckets(TrainingSpec(), 1024, node_size=8).gradient
        assert size == pytest.approx(wanted.size_bytes, rel=1e-12), family
    fast = run.Curve("fast", (64, 1024), (1e-6, 1e-6))
    slow = run.Curve("slow", (64, 1024), (1e-3, 30e-3))
    for mode in (run.WEAK, run.STRONG_LARGE):
        assert fast.efficiency(mode)[0] == slow.efficiency(mode)[0] == 1
        assert slow.efficiency(mode)[1] < fast.efficiency(mode)[1] <= 1
    assert np.isnan(run.Curve("large", (64, 16384), (1e-6, 1e-6)).utilisation(run.STRONG_SMALL)[1])


def test_tables_of_scaling_and_what_is_near_a_claim():
    run = importlib.import_module("experiments.scaling.run")
    names = ("flat rails", "fat tree", "flat rails (ring)")
    found = [run.Curve(name, (64, 16384), (4e-3, 4.5e-3)) for name in names[:2]]
    found.append(run.Curve(names[2], (64, 16384), (4e-3, 30e-3)))
    assert set(run.tables(found)) == {"bucket", "utilisation", "weak", "strong", "strong_small"}
    ring = float(found[2].utilisation(run.WEAK)[-1])
    near = run.nearest(found, ring, 0.01)
    assert near[0][1].startswith("flat rails (ring): utilisation")
    assert len(run.claimed(found, load_article().scaling)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["robust", "shard_sizes"])
def test_short_searches_write_table_archive_and_figure(tmp_path, name):
    module = importlib.import_module(f"experiments.{name}.run")
    module.main(["--short", "--results", str(tmp_path)])
    text = (tmp_path / f"{name}.txt").read_text()
    assert text.startswith(f"python -m experiments {name} --short\n")
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    runs = mrcjax.load(tmp_path / f"{name}.h5").runs
    assert {run.command for run in runs.values()} == {text.splitlines()[0]}
