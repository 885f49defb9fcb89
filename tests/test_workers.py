"""Batches done by others come out as they do here; who is killed loses nothing for the sweep."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import batches
import numpy as np
import pytest
from test_sweep_cli import long_sweep, wait_for_points

import mrcjax
from mrcjax.spec import SpecError
from mrcjax.sweeping import running, workers
from mrcjax.sweeping.handing import Workers, handed_out
from mrcjax.sweeping.workers import Lost, in_processes

SWEEP = """
[network]
kind = "flat_rails"
ranks = 16
rails = 3
rail_rate = "400 Gbit/s"
[collective]
kind = "all_reduce"
algorithm = "direct"
size = "16 MB"
[faults]
random = [{ what = "port", rate = 0.3, left = 0.5, seed = 4 }]
[sweep]
network.ranks = [8, 12]
faults.random.0.seed = { from = 0, count = 20 }
keep = ["finish"]
"""


def of_eight(folder: Path) -> list[tuple[int, str]]:
    return [(number, str(folder)) for number in range(8)]


def assert_same(one: mrcjax.archive.Sweep, other: mrcjax.archive.Sweep) -> None:
    """All values of all points are the same bit by bit, but for what the clock on the wall says."""
    assert {*one.status.astype(str).ravel()} == {"done"}
    assert one.variables == other.variables
    for key in {"finish_s", *one.variables} - {"wall_s"}:
        is_number = one[key].dtype.kind == "f"
        assert np.array_equal(one[key], other[key], equal_nan=is_number), key


@pytest.fixture(scope="module")
def serial(tmp_path_factory) -> mrcjax.archive.Sweep:
    return mrcjax.sweep(SWEEP, tmp_path_factory.mktemp("serial") / "s.h5")


def test_processes_share_the_work(tmp_path):
    found = dict(in_processes(batches.double, of_eight(tmp_path), 2))
    assert {number: double for number, (double, _) in found.items()} == {n: 2 * n for n in range(8)}
    assert os.getpid() not in {process for _, process in found.values()}


def test_what_a_killed_process_had_in_hand_is_done_again(tmp_path):
    found = list(in_processes(batches.die_once, of_eight(tmp_path), 2))
    assert (tmp_path / "killed").exists()
    assert sorted(found) == [(number, 3 * number) for number in range(8)]


@pytest.mark.slow
def test_a_batch_that_kills_whoever_does_it_is_given_up_and_the_rest_go_on(tmp_path):
    found = dict(in_processes(batches.die_always, of_eight(tmp_path), 2))
    lost = found.pop(3)
    assert isinstance(lost, Lost)
    assert "3 processes died" in lost.reason
    assert found == {number: number for number in range(8) if number != 3}
    assert len((tmp_path / "deaths").read_text()) == workers.MOST_DEATHS


def test_a_mistake_in_the_work_is_raised(tmp_path):
    with pytest.raises(ZeroDivisionError, match="0"):
        list(in_processes(batches.fail, of_eight(tmp_path)[:1], 1))


def test_asked_to_stop_processes_end_at_once(tmp_path):
    asked = []

    def is_stopped() -> bool:
        asked.append(len(list(tmp_path.glob("pid*"))))
        return asked[-1] > 0

    assert dict(in_processes(batches.linger, of_eight(tmp_path)[:2], 1, None, is_stopped)) == {0: 0}
    (mark,) = tmp_path.glob("pid*")
    assert not is_alive(int(mark.name[3:]))


def test_processes_end_with_their_parent(tmp_path):
    code = (
        "import batches\nfrom mrcjax.sweeping.workers import in_processes\n"
        f'if __name__ == "__main__":\n    list(in_processes(batches.linger, [(1, {str(tmp_path)!r})], 1))\n'  # noqa: E501
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    paths = os.pathsep.join([str(Path(batches.__file__).parent), os.environ.get("PYTHONPATH", "")])
    parent = subprocess.Popen([sys.executable, script], env=os.environ | {"PYTHONPATH": paths})
    pid = int(eventually(lambda: [m.name[3:] for m in tmp_path.glob("pid*")])[0])
    parent.kill()
    parent.wait()
    eventually(lambda: not is_alive(pid))


def test_a_script_without_a_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import batches\nfrom mrcjax.sweeping.workers import in_processes\n"
        "print(list(in_processes(batches.double, [(1, '')], 1)))\n"
    )
    paths = os.pathsep.join([str(Path(batches.__file__).parent), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_two_jobs_give_the_numbers_of_one_process(serial, tmp_path):
    assert_same(serial, mrcjax.sweep(SWEEP, tmp_path / "s.h5", jobs=2))


def test_points_of_a_lost_batch_are_tried_alone(monkeypatch):
    asked = running.load_sweep_spec(SWEEP, ["network.ranks=8", "faults.random.0.seed=1,2,3"])
    plan = running.make_plan(asked.points())
    tried = []

    def each(given, *_):
        tried.append([(len(specs), room) for specs, room, *_ in given])
        for number, batch in enumerate(given):
            kills = any(spec.faults.random[0].seed == 2 for spec in batch[0])
            yield (
                number,
                Lost("died") if kills else running.finish(running.launch(running.prepare(*batch))),
            )

    monkeypatch.setattr("mrcjax.sweeping.handing._each", each)
    parts = [(group, *part) for group in plan.groups for part in group.parts()]
    found = list(handed_out(parts, (), Workers(2)))
    assert tried == [[(3, 3)], [(1, 1)] * 3]
    assert [result.reason for _, (result,) in found] == ["", "died", ""]
    assert [part[1][0].spec.faults.random[0].seed for part, _ in found] == [1, 2, 3]


def test_a_group_is_cut_for_all_workers():
    asked = running.load_sweep_spec(SWEEP, ["network.ranks=8"])
    (group,) = running.make_plan(asked.points()).groups
    assert [len(points) for points, _ in group.parts()] == [20]
    assert [len(points) for points, _ in group.parts(3)] == [7, 7, 6]
    assert [point for points, _ in group.parts(3) for point in points] == list(group.points)


@pytest.mark.slow
def test_at_the_command_line_a_kill_loses_nothing_and_ctrl_c_ends_all(tmp_path):
    path, out = long_sweep(tmp_path)
    command = [sys.executable, "-m", "mrcjax", "sweep", path, "--out", out, "--jobs", "2"]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    env = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}  # set by JAX here
    with subprocess.Popen(command, start_new_session=True, env=env, **pipes) as process:
        wait_for_points(process, out, 1)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        wait_for_points(process, out, int((mrcjax.load(out).status == "done").sum()) + 3)
        left = workers_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said = process.stderr.read().decode()
        assert process.wait(60) == 130
    assert said.splitlines() == [
        "",
        "mrcjax: ending with what is finished; Ctrl-C again ends at once",
    ]
    eventually(lambda: not any(map(is_alive, left)))
    found = mrcjax.load(out)
    done = found.status == "done"
    assert {*found.status.astype(str)} == {"done", "missing"}
    spec = running.load_sweep_spec(path)
    for at in np.argwhere(done)[:3]:
        point = spec.point(tuple(map(int, at)))
        assert found["time_s"][tuple(at)] == mrcjax.run(point.spec).time_s


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"jobs": 0}, "jobs must be 1 or more, got 0"),
        ({"jobs": 2, "scheduler": "tcp://here:1"}, "jobs does not go with a scheduler"),
    ],
)
def test_refused(asked, said, tmp_path):
    with pytest.raises(SpecError, match=said):
        mrcjax.sweep(SWEEP, tmp_path / "s.h5", **asked)
    assert not (tmp_path / "s.h5").exists()


def test_without_dask_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SpecError, match=r'pip install "mrcjax\[cluster\]"'):
        mrcjax.sweep(SWEEP, tmp_path / "s.h5", scheduler="local")


def eventually(what):
    """Wait until there is something."""
    for _ in range(1200):
        if found := what():
            return found
        time.sleep(0.1)
    raise AssertionError("never came")


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def workers_of(process: int) -> list[int]:
    """Return the processes that do a sweep's batches."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    found = [int(word) for each in children for word in each.read_text().split()]
    return [pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
