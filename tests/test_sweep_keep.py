"""Finish times that a sweep did not keep at first, and keeps when it is gone on with."""

import jax
import numpy as np
import pytest

import mrcjax
from mrcjax import cli
from mrcjax.sweeping import batch, running

SPEC = """
[network]
kind = "flat_rails"
ranks = 8
rails = 2
rail_rate = "400 Gbit/s"
latency = "500 ns"

[collective]
kind = "all_reduce"
size = "16 MB"

[sweep]
network.rails = [1, 2, 3, 4]
"""
WITHOUT, WITH = SPEC + "keep = []\n", SPEC + 'keep = ["finish"]\n'


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "s.h5"
    before = mrcjax.sweep(WITHOUT, path)
    assert "finish_s" not in before
    return path


def test_points_are_done_again_for_their_finish_times(file, tmp_path):
    told = []
    found = mrcjax.sweep(WITH, file, resume=True, report=told.append)
    assert told[0].startswith("0 of 4 points")
    whole = mrcjax.sweep(WITH, tmp_path / "whole.h5")
    np.testing.assert_array_equal(found["finish_s"], whole["finish_s"])
    np.testing.assert_array_equal(found["time_s"], whole["time_s"])
    assert found.check() == 4
    told.clear()
    mrcjax.sweep(WITH, file, resume=True, report=told.append)
    assert told[0].startswith("0 of 0 points")
    # to keep less is no reason to do anything again, nor to forget
    found = mrcjax.sweep(WITHOUT, file, resume=True, report=told.append)
    assert told[1].startswith("0 of 0 points")
    np.testing.assert_array_equal(found["finish_s"], whole["finish_s"])


def test_ended_early_it_loses_nothing(file):
    times_s = mrcjax.load(file)["time_s"]
    stops = iter([False, True])
    found = mrcjax.sweep(WITH, file, resume=True, is_stopped=lambda: next(stops))
    assert found.status.astype(str).tolist() == ["done"] * 4
    assert np.array_equal(found["time_s"], times_s)
    assert (found["finish_count"] > 0).sum() == 2
    assert found.check() == 4
    found = mrcjax.sweep(WITH, file, resume=True)
    assert found["finish_count"].tolist() == [8] * 4


def test_a_point_that_fails_now_stays_as_it_was_and_the_user_is_told(
    file, tmp_path, monkeypatch, capsys
):
    times_s = mrcjax.load(file)["time_s"]
    original = batch.launch

    def launch(prepared):
        if any(run.case.spec.network.rails == 3 for each in prepared.alike for run in each.runs):
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return original(prepared)

    spec = tmp_path / "spec.toml"
    spec.write_text(WITH)
    for module in (batch, running):
        monkeypatch.setattr(module, "launch", launch)
    assert cli.main(["sweep", str(spec), "--out", str(file), "--resume"]) == 0
    found = mrcjax.load(file)
    assert found.status.astype(str).tolist() == ["done"] * 4
    assert np.array_equal(found["time_s"], times_s)
    assert found["finish_count"].tolist() == [8, 8, 0, 8]
    error = capsys.readouterr().err
    assert "lacks finish times of 1 of 4 points that are done; --resume adds" in error
    assert len(error.splitlines()) == 1
