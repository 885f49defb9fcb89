"""Tuning a training step: the cut of its buckets, its bound, what is refused."""

import json
import math

import numpy as np
import pytest
from runs import flat, toml

from mrcjax import archive, cli
from mrcjax.spec import SpecError, load_spec, spec_to_toml
from mrcjax.step import train
from mrcjax.training import step
from mrcjax.tuning import tune

TRAINING = {
    "model": "llama2_70b",
    "layers": 8,
    "hidden": 1024,
    "ffn": 4096,
    "heads": 8,
    "vocab": 32000,
    "gpu": "h100",
    "tensor_parallel": 1,
    "global_batch_tokens": 8 * 4096,
    "optimiser_time": "0 s",
}
ALONE = {"kind": "reduce_scatter", "size": "1 MB", "stripe": True}
SLOW = 'links = [{ match = "rank 1 *gress rail 0", rate = 0.25 }]'
QUICK = {"steps": 100, "engine_steps": 5, "objective": "step"}


def spec_of(training=None, tune=None, faults=SLOW, collective=None, **network):
    network = flat(8, 2, **{"rate": "5 GB/s", **network})
    collective = {**ALONE, **(collective or {})}
    options = {**QUICK, **(tune or {})}
    text = toml(network=network, collective=collective, tune=options, faults=faults)
    return load_spec(f"{text}\n{toml(training={**TRAINING, **(training or {})})}")


def rerun(found) -> float:
    """Step of the tuned spec read from its text."""
    return train(load_spec(spec_to_toml(found.best))).step.step_s


def test_a_cut_shortens_the_step_by_what_its_buckets_gain():
    spec = spec_of()
    found = tune(spec)
    before, after = train(spec).step, train(found.best).step
    assert found.step is not None
    assert (found.before_s, found.step.before) == (before.step_s, before)
    assert found.after_s == after.step_s == rerun(found) < before.step_s
    # unequal ports: 1.25 + 5 of the 10 GB/s that an equal cut takes to be 2 x 1.25
    assert after.gradient_bucket_s < 0.5 * before.gradient_bucket_s
    assert after.utilisation > before.utilisation
    assert found.lower_bound_s <= found.after_s <= min(found.heuristics_s.values())
    assert found.gap < 0.01
    # without optimiser, pipeline or late ranks all beyond computing is exposed communication
    assert after.step_s == pytest.approx(after.computing_s + after.exposed_s)
    # both buckets are the same sends
    assert after.gradient_bucket_s == after.parameter_bucket_s
    assert len(set(map(id, found.step.buckets.values()))) == 1


def test_without_optimiser_sharding_shards_are_tuned_too():
    faults = 'links = [{ match = "rank 0 ingress *", rate = 0.1 }]'
    found = tune(spec_of({"optimiser_sharding": "none"}, {"steps": 300}, faults))
    assert found.step is not None
    assert set(found.step.buckets) == {"all_reduce"}
    shards = np.asarray(found.best.the_collective.shards)
    assert shards[0] < 0.2 * shards[1:].min()
    assert rerun(found) == found.after_s < found.before_s
    assert found.lower_bound_s <= found.after_s


@pytest.mark.parametrize("more", [{"reduction_rate": "4 GB/s"}, {"parameter_bytes": 1}])
def test_buckets_that_differ_are_each_tuned_and_share_the_better_cut(more):
    is_network = "reduction_rate" in more
    spec = spec_of({} if is_network else more, {"engine_steps": 0}, **(more if is_network else {}))
    found = tune(spec)
    assert found.step is not None
    kinds = found.step.buckets
    assert len(set(map(id, kinds.values()))) == 2
    assert {each.stage.split(":")[0] for each in found.history} == set(kinds)
    assert rerun(found) == found.after_s <= min(found.before_s, *found.heuristics_s.values())
    for kind, time_s in zip(kinds, found.step.after.bucket_times_s, strict=True):
        assert time_s >= kinds[kind].lower_bound_s * (1 - 1e-12)


def test_a_step_never_falls_when_a_bucket_takes_longer():
    """What makes the step of the buckets' bounds a bound."""
    rng = np.random.default_rng(0)
    for slowdown in (0.0, 0.3):
        spec = spec_of({"comm_slowdown": slowdown})
        assert spec.training is not None
        whole = step(spec.training, 8, 0.0, 0.0).computing_s
        for _ in range(200):
            less = rng.uniform(0, 1, 2) * whole * rng.choice([0.01, 0.3, 2])
            more = less * (1 + rng.exponential(size=2) * rng.integers(0, 2, 2))
            steps = [step(spec.training, 8, *map(float, each)).step_s for each in (less, more)]
            assert steps[0] <= steps[1] * (1 + 1e-12)


def test_a_step_whose_link_is_down_is_found_another_way():
    found = tune(spec_of(faults='links = [{ match = "rank 1 *gress rail 0", rate = 0 }]'))
    assert found.step is not None
    assert found.before_s == math.inf
    assert found.step.before is None
    assert found.to_json()["training"]["before"] is None
    assert rerun(found) == found.after_s >= found.lower_bound_s


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"training": {"tensor_parallel": 2}}, "training.tensor_parallel"),
        ({"training": {"pipeline_parallel": 8}}, "training.tensor_parallel"),
        ({"tune": {"shards": True}}, "tune.shards"),
        ({"tune": {"chunks": [2]}}, "tune.chunks"),
        (
            {"training": {"optimiser_sharding": "none"}, "tune": {"chunks": [2]}},
            "collective.kind",
        ),
        ({"faults": 'scenarios = 2\nrandom = [{ what = "port", count = 1 }]'}, "tune.objective"),
        ({"collective": {"algorithm": "ring", "stripe": False}}, "collective.algorithm"),
    ],
)
def test_steps_that_cannot_be_tuned_are_refused(keys, where):
    with pytest.raises(SpecError) as error:
        tune(spec_of(**keys))
    assert error.value.where == where


def test_a_step_needs_training():
    text = toml(network=flat(4, 2), collective=ALONE, tune=QUICK)
    with pytest.raises(SpecError, match=r"needs a section \[training\]") as error:
        tune(load_spec(text))
    assert error.value.where == "tune.objective"


def test_the_command_prints_the_step_and_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec, out = tmp_path / "s.toml", tmp_path / "a.h5"
    spec.write_text(spec_to_toml(spec_of()))
    words = ["tune", str(spec), "--out", str(out)]
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["objective"] == "step"
    steps = found["training"]
    assert steps["after"]["step_s"] == found["after_s"] < steps["before"]["step_s"]
    assert steps["bound"]["step_s"] == found["lower_bound_s"]
    assert set(steps["buckets"]) == {"reduce_scatter", "all_gather"}
    assert cli.main(["run", str(tmp_path / "s.tuned.toml"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["training"]["step"]
    assert again["step_s"] == found["after_s"]

    assert cli.main([*words, "--resume", "--set", "tune.steps=150"]) == 0
    text = capsys.readouterr().out
    for part in ("for the training step", "utilisation", "no cut makes the step more than"):
        assert part in text
    title = archive.load(out).tables["tuned-result"].title
    assert "training step" in title
    other = ["--resume", "--set", "training.bucket_layers=2"]
    assert cli.main([*words, *other]) == 2
    assert "another network" in capsys.readouterr().err


def test_hidden_communication_is_said_to_be(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    spec = tmp_path / "s.toml"
    long = {"global_batch_tokens": 128 * 4096, "micro_batch": 16}
    spec.write_text(spec_to_toml(spec_of(long, rate="50 GB/s", tune={"engine_steps": 0})))
    assert cli.main(["tune", str(spec), "--tuned", str(tmp_path / "t.toml")]) == 0
    assert "computing hides all buckets but one of each kind" in capsys.readouterr().out
