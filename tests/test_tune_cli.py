"""`mrcjax tune`: what it prints and writes, going on from an archive, ending early."""

import json
import os
import signal
import time

import pytest

from mrcjax import archive, cli, load_spec, run
from mrcjax.cli.waiting import until_interrupted

SPEC = """
[network]
kind = "flat_rails"
ranks = 4
rails = 2
rail_rate = "400 Gbit/s"
[collective]
kind = "all_reduce"
size = "1 GB"
stripe = true
[faults]
links = [{ match = "rank 1 *gress rail 0", rate = 0.5 }]
[tune]
steps = 50
engine_steps = 5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A search in an archive, the tuned spec beside it, and what was printed."""
    here = tmp_path_factory.mktemp("tune")
    (here / "s.toml").write_text(SPEC)
    return here


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def tuned(folder, capsys, *more: str) -> dict:
    words = ["tune", str(folder / "s.toml"), "--out", str(folder / "a.h5"), "--json", *more]
    assert cli.main(words) == 0
    return json.loads(capsys.readouterr().out)


def test_it_writes_what_run_reproduces_and_goes_on(folder, capsys):
    found = tuned(folder, capsys)
    assert found["lower_bound_s"] <= found["after_s"] < found["before_s"]
    assert found["after_s"] <= min(found["heuristics_s"].values())
    assert found["gap"] == pytest.approx(found["after_s"] / found["lower_bound_s"] - 1)
    assert found["lp_s"] > 0
    assert found["iterations"] == 55
    assert found["parameters"] == 2 * 2 * 4 + 4
    assert set(found["wall_s"]) >= {"bounds", "heuristics", "loads", "engine"}
    assert run(load_spec(folder / "s.tuned.toml")).time_s == found["after_s"]

    stored = archive.load(folder / "a.h5")
    assert stored.run("tuned").time_s == found["after_s"]
    assert len(stored.tables["tuned-history"].rows) == 55

    more = tuned(folder, capsys, "--resume", "--set", "tune.steps=70")
    assert more["iterations"] == 75
    assert more["after_s"] <= found["after_s"]
    assert run(load_spec(folder / "s.tuned.toml")).time_s == more["after_s"]
    assert cli.main(["show", str(folder / "a.h5")]) == 0
    assert "Before and after" in capsys.readouterr().out


def test_what_it_cannot_go_on_with_is_refused(folder, tmp_path, capsys):
    spec = str(folder / "s.toml")
    assert cli.main(["tune", spec, "--resume", "--tuned", str(tmp_path / "t.toml")]) == 2
    assert "--out" in capsys.readouterr().err
    other = ["--set", "network.rails=3", "--out", str(folder / "a.h5")]
    assert cli.main(["tune", spec, "--resume", *other]) == 2
    assert "another network" in capsys.readouterr().err


def test_it_leaves_other_files_alone(folder, tmp_path, capsys):
    mine = tmp_path / "mine.toml"
    mine.write_text("# my own\n")
    assert cli.main(["tune", str(folder / "s.toml"), "--tuned", str(mine)]) == 2
    assert "no tuned spec" in capsys.readouterr().err
    assert mine.read_text() == "# my own\n"


def test_the_text_names_bound_and_gap(folder, tmp_path, capsys):
    target = str(tmp_path / "t.toml")
    words = ["tune", str(folder / "s.toml"), "--tuned", target, "--set", "tune.engine_steps=0"]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    for part in ("before", "source x destination", "lower bound (", "above the lower bound"):
        assert part in text


def test_ctrl_c_ends_with_the_best_so_far(capsys):
    def work(is_stopped):
        os.kill(os.getpid(), signal.SIGINT)
        give_up = time.monotonic() + 60
        while not is_stopped() and time.monotonic() < give_up:
            time.sleep(0.01)
        return "the best" if is_stopped() else "never told"

    assert until_interrupted(work, "working") == "the best"
    assert "best so far" in capsys.readouterr().err


def test_a_target_gives_a_rate(folder, tmp_path, capsys):
    target = tmp_path / "t.toml"
    words = ["tune", str(folder / "s.toml"), "--json", "--tuned", str(target)]
    assert cli.main([*words, "--set", "tune.target_time=10 ms"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["after_s"] == pytest.approx(10e-3, rel=1e-12)
    rate = found["rail_rate_bytes_per_s"]
    assert rate == [pytest.approx(50e9 * found["factor"])] * 2
    assert run(load_spec(target)).time_s == found["after_s"]
