"""Sweeps on a Dask cluster: the numbers of one process, whoever dies; what is refused."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import batches
import pytest
from test_devices import free_address
from test_workers import SWEEP, assert_same, eventually, is_alive, of_eight

import mrcjax
from mrcjax.spec import SpecError
from mrcjax.sweeping import cluster
from mrcjax.sweeping.cluster import on_cluster

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """Two workers of this machine behind an address."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as made:
        yield made


def test_a_cluster_gives_the_numbers_of_one_process(dask, tmp_path):
    here = mrcjax.sweep(SWEEP, tmp_path / "here.h5")
    there = mrcjax.sweep(SWEEP, tmp_path / "there.h5", scheduler=dask.scheduler_address)
    assert_same(here, there)


def test_what_a_killed_worker_had_in_hand_is_done_again(dask, tmp_path):
    found = list(on_cluster(batches.die_once, of_eight(tmp_path), dask.scheduler_address))
    assert (tmp_path / "killed").exists()
    assert sorted(found) == [(number, 3 * number) for number in range(8)]


def test_asked_to_stop_it_ends_at_once(dask, tmp_path):
    asked = []

    def is_stopped() -> bool:
        asked.append(len(asked))
        return len(asked) > 5

    found = on_cluster(
        batches.double, of_eight(tmp_path), dask.scheduler_address, is_stopped=is_stopped
    )
    assert len(list(found)) <= 8
    assert len(asked) <= 6


def test_workers_of_this_machine_end_at_once_when_asked_to_stop(tmp_path):
    def is_stopped() -> bool:
        return any(tmp_path.glob("pid*"))

    given = of_eight(tmp_path)[:2]
    assert dict(on_cluster(batches.linger, given, "local", 1, is_stopped=is_stopped)) == {0: 0}
    (mark,) = tmp_path.glob("pid*")
    assert not is_alive(int(mark.name[3:]))


def test_a_mistake_in_the_work_is_raised(dask, tmp_path):
    with pytest.raises(ZeroDivisionError, match="0"):
        list(on_cluster(batches.fail, of_eight(tmp_path)[:1], dask.scheduler_address))


def test_workers_with_other_code_are_refused(dask, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "code_version", lambda: "of last year")
    with pytest.raises(SpecError, match="workers with another version of mrcjax"):
        list(on_cluster(batches.double, of_eight(tmp_path), dask.scheduler_address))


def test_a_scheduler_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    for address in ("tcp://127.0.0.1:1", "no address", "ftp://here"):
        with pytest.raises(SpecError, match="no address where a Dask scheduler answers"):
            list(on_cluster(batches.double, of_eight(tmp_path), address))


def test_a_scheduler_without_workers_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE_S", 1)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=50) as empty:
        with pytest.raises(SpecError, match="scheduler has no workers"):
            list(on_cluster(batches.double, of_eight(tmp_path), empty.scheduler_address))


@pytest.mark.slow
def test_a_scheduler_that_dies_ends_the_sweep_with_one_line(tmp_path, capfd):
    address, paths = free_address(), [str(Path(batches.__file__).parent), *sys.path]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    host, _, port = address.rpartition(":")
    quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def started(*words: str) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-m", *words, "--no-dashboard"], **quiet)

    scheduler = started("distributed.cli.dask_scheduler", "--host", host, "--port", port)
    worker = started("distributed.cli.dask_worker", f"tcp://{address}", "--nthreads", "1")

    def is_stopped() -> bool:
        if any(tmp_path.glob("pid*")):
            scheduler.kill()
        return False

    try:
        found = on_cluster(
            batches.linger, of_eight(tmp_path)[:2], f"tcp://{address}", is_stopped=is_stopped
        )
        with pytest.raises(SpecError, match="scheduler was lost; what is finished is kept"):
            list(found)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
        for mark in tmp_path.glob("pid*"):
            eventually(lambda mark=mark: not is_alive(int(mark.name[3:])))
    assert "Traceback" not in capfd.readouterr().err


def test_a_batch_that_kills_its_workers_is_given_up(monkeypatch):
    """As Dask says it; to let four workers die takes minutes."""

    def killed(**_):
        raise distributed.KilledWorker("task", None, 3)

    found = cluster._result(distributed, SimpleNamespace(result=killed), "here")
    assert isinstance(found, cluster.Lost)
    assert "several workers died" in found.reason
