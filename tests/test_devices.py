"""One run over several devices gives the numbers of one device, and is really shared by them."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import over_devices
import pytest
from over_devices import CASES, FASTER, on_all

import mrcjax
from mrcjax import SpecError, devices
from mrcjax.cli import main

DEVICES = 8
ANY = 'random = [{ what = "port", count = 2 }]'
RANKS = 64
LANES = 4
SAME = ("time_s", "finish_s", "link_bytes")


def started(devices_each: int, *words: str) -> subprocess.Popen:
    """Start Python with so many devices of the host."""
    few = f"--xla_force_host_platform_device_count={devices_each} "
    env = os.environ | {"XLA_FLAGS": few + "--xla_backend_optimization_level=0"}
    env.pop("TF_CPP_MIN_LOG_LEVEL", None)  # JAX has set its own in this process
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *words], env=env, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen, status: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=240)
    assert process.returncode == status, err
    return out, err


def free_address() -> str:
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{here.getsockname()[1]}"


@pytest.fixture(scope="module")
def on_eight() -> dict:
    out, _ = ended(started(DEVICES, over_devices.__file__, " ".join(CASES)))
    return json.loads(out)


@pytest.fixture(scope="module")
def on_one() -> dict[str, mrcjax.Outcome]:
    return {name: mrcjax.run(mrcjax.load_spec(text)) for name, text in CASES.items()}


def assert_same(found: dict, one: mrcjax.Outcome) -> None:
    for key in SAME:
        np.testing.assert_allclose(found[key], getattr(one, key), rtol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_eight_devices_give_the_numbers_of_one(name, on_eight, on_one):
    assert_same(on_eight[name], on_one[name])
    assert on_eight[name]["device"] == "8 x cpu"
    assert len(set(on_one["ring"].finish_s)) > 1


@pytest.mark.parametrize("name", CASES)
def test_every_device_keeps_the_clocks_of_its_own_ranks(name, on_eight):
    carried = on_eight[name]["carried"]
    own, whole = ([LANES, RANKS // count] for count in (DEVICES, 1))
    # what is gathered of all ranks is a constant of the loop at most, when lanes may first send
    assert carried.count(own) >= 3
    assert carried.count(whole) <= (name == "faulty")


def test_other_numbers_on_many_devices_compile_nothing(on_eight):
    found = on_eight["faster"]
    assert found["compiled"] == 0
    assert found["time_s"] == pytest.approx(mrcjax.run(mrcjax.load_spec(FASTER)).time_s, rel=1e-12)
    assert found["time_s"] != on_eight["direct"]["time_s"]


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one_device(on_one):
    names, address = ("direct", "faulty"), free_address()
    script = (over_devices.__file__, " ".join(names), address, "2")
    both = [started(4, *script, str(number)) for number in (1, 0)]
    for process in both:
        found = json.loads(ended(process)[0].splitlines()[-1])
        for name in names:
            assert_same(found[name], on_one[name])
            assert found[name]["device"] == "8 x cpu in 2 processes"


def test_of_two_processes_of_the_command_line_the_first_writes(on_one, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(CASES["ring"])
    group = ("--coordinator", free_address(), "--processes", "2")
    command = ("-m", "mrcjax", "run", str(spec), "--set", "engine.devices=4", "--json", *group)
    files = [tmp_path / f"{number}.h5" for number in (0, 1)]
    first, second = (
        started(4, *command, "--process", str(number), "--out", str(file))
        for number, file in enumerate(files)
    )
    out, err = ended(first)
    assert ended(second) == ("", "")
    assert err == ""
    said = json.loads(out)
    assert said["device"] == "4 x cpu in 2 processes"
    assert said["time_s"] == pytest.approx(on_one["ring"].time_s, rel=1e-12)
    assert [file.exists() for file in files] == [True, False]
    (kept,) = mrcjax.load(files[0]).runs.values()
    assert_same({key: getattr(kept, key) for key in SAME}, on_one["ring"])


def test_processes_with_different_specs_are_refused(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(on_all(CASES["ring"]))
    group = ("--coordinator", free_address(), "--processes", "2")
    both = [
        started(1, "-m", "mrcjax", "run", str(spec), *group, "--process", *words)
        for words in (("1",), ("0", "--set", "network.ranks=32"))
    ]
    for process in both:
        out, err = ended(process, 2)
        assert out == ""
        assert "processes 0 and 1 were given different specs" in err
        assert err.count("\n") == 1


def test_one_device_is_all_there_is_here(on_one):
    found = mrcjax.run(mrcjax.load_spec(on_all(CASES["direct"])))
    assert found.device == "cpu"
    assert found.time_s == on_one["direct"].time_s


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("devices = 2", ("engine.devices asks for more than the 1", "got 2", "XLA_FLAGS")),
        ("devices = 0", ("engine.devices must be", "got 0")),
        ('devices = "two"', ("engine.devices", '"two"', '"all"')),
        ('devices = 2\nkind = "fluid"', ("engine.devices has no meaning", "fluid")),
        ("devices = 2\naggregate = true", ("engine.devices does not go with engine.aggregate",)),
        (
            "devices = 2\n[faults]\nscenarios = 3\n" + ANY,
            ("engine.devices does not go with", "scenarios"),
        ),
    ],
)
def test_refused(more, said):
    with pytest.raises(SpecError) as error:
        mrcjax.run(mrcjax.load_spec(f"{CASES['direct']}\n[engine]\n{more}\n"))
    assert all(words in str(error.value) for words in said), error.value


def test_tuning_knows_one_device_only():
    with pytest.raises(SpecError, match="engine.devices is not known to tune"):
        mrcjax.tune(mrcjax.load_spec(on_all(CASES["direct"])))


@pytest.mark.parametrize(
    ("ranks", "count", "fit"),
    [(36, 8, 6), (12, 7, 6), (5, 4, 1), (1000, 16, 10), (7, 7, None), (64, 8, None)],
)
def test_ranks_are_shared_equally(ranks, count, fit, monkeypatch):
    here = devices.jax.devices()
    monkeypatch.setattr(devices.jax, "devices", lambda: here * count)
    text = CASES["direct"].replace("ranks = 64", f"ranks = {ranks}")
    spec = mrcjax.load_spec(f"{text}\n[engine]\ndevices = {count}\n")
    if fit is None:
        mesh = devices.mesh_of(spec)
        assert mesh is not None
        assert mesh.size == count
        return
    with pytest.raises(SpecError) as error:
        devices.mesh_of(spec)
    assert f"are {count}, which do not share {ranks:,} ranks equally" in str(error.value)
    assert f"use {fit}, or" in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--coordinator", "here:1234"), "--processes is missing"),
        (("--coordinator", "here:1234", "--processes", "2"), "--process is missing"),
        (("--coordinator", "here", "--processes", "2", "--process", "0"), "HOST:PORT"),
        (("--coordinator", "here:1", "--processes", "2", "--process", "2"), "use 0 to 1"),
        (("--coordinator", "auto", "--process", "0"), "does not go with --coordinator auto"),
        (("--process", "0"), "no meaning without --coordinator"),
    ],
)
def test_options_that_do_not_go_together(options, said, tmp_path, capsys):
    spec = tmp_path / "spec.toml"
    spec.write_text(on_all(CASES["direct"]))
    assert main(["run", str(spec), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_group_needs_a_run_of_several_devices(tmp_path, capsys):
    spec = tmp_path / "spec.toml"
    spec.write_text(CASES["direct"])
    group = ("--coordinator", "here:1234", "--processes", "2", "--process", "0")
    assert main(["run", str(spec), *group]) == 2
    assert "no meaning for a run on one device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("coordinator", "said"),
    [("auto", "outside Slurm and Open MPI"), ("nowhere.invalid:1234", "process 0 is not found")],
)
def test_others_that_are_not_found(coordinator, said, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(on_all(CASES["direct"]))
    which = () if coordinator == "auto" else ("--processes", "2", "--process", "1")
    command = ("-m", "mrcjax", "run", str(spec), "--coordinator", coordinator, *which)
    out, err = ended(started(1, *command), 2)
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
