"""`mrcjax sweep` as a command: what it prints, how it ends, what is left when it is killed."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

import mrcjax
from mrcjax import cli

SPEC = """
[network]
kind = "flat_rails"
ranks = 64
rails = 4
rail_rate = "400 Gbit/s"
latency = "500 ns"

[collective]
kind = "all_reduce"
size = "64 MB"

[faults]
random = [{ what = "port", rate = 0.2, left = 0.5, seed = 0 }]
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC + "[sweep]\nfaults.random.0.seed = { from = 0, count = 6 }\n")
    return path


def mrcjax_process(*words):
    command = [sys.executable, "-m", "mrcjax", *map(str, words)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def test_a_sweep_prints_its_points_and_keeps_them(spec, tmp_path, capsys):
    out = tmp_path / "s.h5"
    assert cli.main(["sweep", str(spec), "--out", str(out), "--set", "network.rails=2,4"]) == 0
    text = capsys.readouterr().out
    assert "network.rails (2)" in text
    assert "12 done" in text
    assert cli.main(["sweep", str(spec), "--out", str(out), "--set", "network.rails=2,4"]) == 2
    assert "--resume" in capsys.readouterr().err
    words = ["sweep", str(spec), "--out", str(out), "--set", "network.rails=2,4", "--resume"]
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"done": 12, "failed": 0, "missing": 0}
    assert len(found["points"]) == 12
    assert {"network.rails", "faults.random.0.seed", "time_s"} <= found["points"][0].keys()


def test_explain_runs_nothing(spec, tmp_path, capsys):
    assert cli.main(["sweep", str(spec), "--explain", "--set", "network.ranks=64,128"]) == 0
    text = capsys.readouterr().out
    assert "12 points" in text
    assert "1 program\n" in text
    assert "2 sizes from 64" in text
    assert not list(tmp_path.glob("*.h5"))


def test_a_failing_point_is_kept_with_its_reason(spec, tmp_path, capsys):
    out = tmp_path / "s.h5"
    words = ["sweep", str(spec), "--out", str(out), "--set", "collective.algorithm=direct,rings"]
    assert cli.main(words) == 1
    assert "failed (6)" in capsys.readouterr().out
    found = mrcjax.load(out)
    assert {*found.status.astype(str).ravel()} == {"done", "failed"}


def test_a_condition_that_fails_for_some_points_is_told_of(tmp_path, capsys):
    path, out = tmp_path / "spec.toml", tmp_path / "s.h5"
    path.write_text(
        SPEC + '[sweep]\nnetwork.ranks = [4, 8, 16]\nnetwork.latency = ["1 us", "2 us"]\n'
        "where = '10 / (ranks - 8) < 100'\n"
    )
    assert cli.main(["sweep", str(path), "--out", str(out)]) == 1
    text = capsys.readouterr().out
    assert "4 done, 2 failed" in text.splitlines()[0]
    reason, first = text.strip().splitlines()[-2:]
    assert reason.startswith("failed (2): sweep.where cannot be worked out (division by zero), got")
    assert first.strip() == "the first: ranks 8, latency 1 us"


def test_of_very_many_reasons_the_others_are_counted(tmp_path, capsys):
    path, out = tmp_path / "spec.toml", tmp_path / "s.h5"
    path.write_text(SPEC + "[sweep]\nfaults.random.0.seed = { from = -11, to = 0 }\n")
    assert cli.main(["sweep", str(path), "--out", str(out)]) == 1
    text = capsys.readouterr().out.strip()
    assert text.count("failed (1): faults.random[0].seed") == 8
    last = text.splitlines()[-1]
    assert last.startswith("and 3 more reasons: `mrcjax show ")
    assert cli.main(shlex.split(last.partition("`")[2].strip("`"))[1:]) == 0
    assert capsys.readouterr().out.count("faults.random[0].seed must") == 11


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "--out FILE.h5"),
        (("--set", "network.rankz=2,3", "--out", "x.h5"), "did you mean"),
        (("--set", "network.ranks=0,1.5", "--out", "x.h5"), "network.ranks"),
        (("--out", "/dev/null/x.h5"), "not a folder"),
    ],
)
def test_wrong_sweeps_end_with_one_line(spec, words, what, capsys):
    assert cli.main(["sweep", str(spec), *words]) == 2
    error = capsys.readouterr().err
    assert what in error
    assert len(error.strip().splitlines()) == 1


def long_sweep(tmp_path):
    path = tmp_path / "long.toml"
    # one rail more each: every point a program of its own, so that there is time to interrupt
    path.write_text(SPEC + "[sweep]\nnetwork.rails = { from = 1, count = 60 }\n")
    return path, tmp_path / "long.h5"


def wait_for_points(process, out, count):
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up and process.poll() is None:
        if out.exists() and (mrcjax.load(out).status == "done").sum() >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"ended with {process.poll()}: {process.stderr.read()}")


def test_killed_or_interrupted_it_keeps_what_was_done_and_resumes(tmp_path):
    path, out = long_sweep(tmp_path)
    with mrcjax_process("sweep", path, "--out", out) as process:
        wait_for_points(process, out, 2)
        with mrcjax_process("sweep", path, "--out", out, "--resume") as second:
            assert f"(id {process.pid})" in second.stderr.read().decode()
            assert second.wait(60) == 2
        process.kill()
    h5py.File(out).close()
    kept = mrcjax.load(out)
    assert (kept.status == "done").sum() >= 2

    with mrcjax_process("sweep", path, "--out", out, "--resume") as process:
        wait_for_points(process, out, int((kept.status == "done").sum()) + 1)
        os.kill(process.pid, signal.SIGINT)
        assert b"batch in flight" in process.stderr.read()
        assert process.wait(60) == 130
    assert not (tmp_path / ".long.h5.parts").exists()
    now = mrcjax.load(out)
    done, before = now.status == "done", kept.status == "done"
    assert done.sum() > before.sum()
    assert np.array_equal(now["time_s"][before], kept["time_s"][before])
