"""Archives: what is written comes back, nothing is lost, and nothing foreign is touched."""

import dataclasses
import json
import os
import pickle
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np
import pytest
from forks import run_script

from mrcjax import archive
from mrcjax.archive import ArchiveError, Column, Table, replacing, writing
from mrcjax.outcome import Binding, Outcome, Tier
from mrcjax.spec import load_spec

SPEC = load_spec(
    """
    [network]
    kind = "flat_rails"
    ranks = 8
    rails = 2
    rail_rate = "400 Gbit/s"
    latency = "500 ns"
    [collective]
    kind = "all_reduce"
    algorithm = "direct"
    size = "1 GB"
    """
)


def make_outcome(*, num_links: int = 32, time_s: float = 0.02, **changes) -> Outcome:
    """Build a made-up outcome: 8 ranks, two tiers, half of the links idle."""
    half = num_links // 2
    carried = np.where(np.arange(num_links) % 2 == 0, 5e8, 0.0)
    fields = {
        "spec": SPEC,
        "kind": "flat_rails",
        "ranks": 8,
        "num_links": num_links,
        "collective": "all_reduce",
        "algorithm": "direct",
        "size_bytes": 1e9,
        "engine": "chunk",
        "precision": "float64",
        "device": "cpu",
        "time_s": time_s,
        "finish_s": np.linspace(0.9, 1.0, 8) * time_s,
        "tiers": (
            Tier("egress", 0, half, "single"),
            Tier("ingress", half, num_links - half, "slots"),
        ),
        "link_bytes": carried,
        "link_capacity_bytes_per_s": np.full(num_links, 50e9),
        "link_name": lambda i: f"rank {i} é",
        "bounds_s": {"port rates": 0.0175, "latency": 2e-6},
        "lower_bound_s": 0.0175,
        "bound_kind": "port rates",
        "schedule_bound_s": 0.018,
        "binding": Binding("link", "rank 0 é", 0.5),
        "algbw_bytes_per_s": 5e10,
        "busbw_bytes_per_s": 8.75e10,
        "wall_s": {"build": 0.1, "compile": 2.0, "run": 0.3},
        "warnings": ("ideal load balancing",),
        "seeds": {"ecmp": 7},
    }
    return Outcome(**(fields | changes))


def write_one(path, name="one", **changes):
    return archive.write(path, {name: make_outcome(**changes)}, command="mrcjax run spec.toml")


def names_in(path) -> list[str]:
    return list(archive.load(path).runs)


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# what is written comes back


def test_round_trip(tmp_path):
    outcome = make_outcome()
    path = tmp_path / "new" / "folder" / "run.h5"
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    names = archive.write(path, {"one": outcome}, command="mrcjax run a.toml", started=started)
    assert names == ("one",)
    run = archive.load(path).run("one")
    for key in (field.name for field in dataclasses.fields(Outcome)):
        stored, original = getattr(run, key), getattr(outcome, key)
        if isinstance(original, np.ndarray):
            np.testing.assert_array_equal(stored, original)
            assert stored.dtype == original.dtype
        elif key == "link_name":
            assert [stored(i) for i in range(32)] == [original(i) for i in range(32)]
        else:
            assert stored == original, key
    assert run.to_json() == outcome.to_json()
    assert run.bound_ratio == outcome.bound_ratio
    np.testing.assert_array_equal(run.link_busy_s, outcome.link_busy_s)
    # 5e8 bytes at 50 GB/s are 10 ms of the 20
    np.testing.assert_allclose(run.link_utilisation[:2], [0.5, 0.0], rtol=1e-15)
    np.testing.assert_array_equal(run.link_utilisation, archive.utilisation_of_link(outcome))
    assert run.command == "mrcjax run a.toml"
    assert run.started == "2026-01-02T03:04:05+00:00"
    assert datetime.fromisoformat(run.written).tzinfo is not None
    assert set(run.versions) >= {"mrcjax", "numpy", "h5py", "python"}
    assert load_spec(run.spec_text) == SPEC


def test_float32_stays_float32(tmp_path):
    finish_s = np.linspace(0.01, 0.02, 8, dtype=np.float32)
    write_one(tmp_path / "a.h5", finish_s=finish_s, precision="float32")
    stored = archive.load(tmp_path / "a.h5").run().finish_s
    assert stored.dtype == np.float32
    np.testing.assert_array_equal(stored, finish_s)


@pytest.mark.parametrize("num_links", [0, 5000])
def test_sizes_on_both_sides_of_compression(tmp_path, num_links):
    outcome = make_outcome(num_links=num_links)
    archive.write(tmp_path / "a.h5", {"a": outcome}, command="")
    run = archive.load(tmp_path / "a.h5").run()
    np.testing.assert_array_equal(run.link_bytes, outcome.link_bytes)
    with h5py.File(tmp_path / "a.h5") as file:
        dataset = file["runs/a/link_bytes"]
        assert isinstance(dataset, h5py.Dataset)
        assert dataset.compression == ("gzip" if num_links else None)
        assert dataset.shuffle == bool(num_links)


def test_names_of_very_many_links_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "LINK_NAMES_UP_TO", 31)
    write_one(tmp_path / "a.h5")
    run = archive.load(tmp_path / "a.h5").run()
    assert run.link_name(17) == "ingress link 1"
    with pytest.raises(IndexError):
        run.link_name(32)


def test_a_run_that_sends_nothing(tmp_path):
    outcome = make_outcome(
        time_s=0.0, lower_bound_s=0.0, link_bytes=np.zeros(32), binding=Binding("none", "", 0.0)
    )
    archive.write(tmp_path / "a.h5", [outcome], command="")
    run = archive.load(tmp_path / "a.h5").run()
    assert run.bound_ratio == 1
    assert not run.link_utilisation.any()


def test_a_long_spec_and_odd_names(tmp_path):
    # a text attribute of HDF5 proper ends at 64 KiB; variable-length text does not
    late = ", ".join(f'{{ rank = {i}, by = "{i + 1} us" }}' for i in range(4000))
    spec = load_spec(
        f"""
        [network]
        kind = "flat_rails"
        ranks = 4000
        rails = 2
        rail_rate = "400 Gbit/s"
        latency = "500 ns"
        [collective]
        kind = "all_reduce"
        size = "1 GB"
        [faults]
        late = [{late}]
        """
    )
    names = ("a/b", "a%2Fb", ".", "..", "", "20 × 400 Gbit/s", "x" * 300)
    outcomes = {name: make_outcome(spec=spec) for name in names}
    path = tmp_path / "a.h5"
    assert archive.write(path, outcomes, command="mrcjax caf\udce9") == names
    loaded = archive.load(path)
    assert tuple(loaded.runs) == names
    assert all(run.spec == spec for run in loaded.runs.values())
    assert loaded.run("a/b").command == "mrcjax caf\\udce9"


def test_table_lists_every_run(tmp_path):
    path = tmp_path / "a.h5"
    archive.write(path, {"a": make_outcome(), "b": make_outcome(time_s=0.04)}, command="")
    rows = archive.load(path).table()
    assert [row["run"] for row in rows] == ["a", "b"]
    assert [row["time_s"] for row in rows] == [0.02, 0.04]
    assert rows[0]["network"] == "flat_rails"
    assert rows[0]["ranks"] == 8
    assert json.loads(json.dumps(rows)) == rows


def test_tables_come_back(tmp_path):
    table = Table(
        rows=[
            {"name": "fat tree", "time_s": np.float64(0.04), "ok": True, "cost": None},
            {"name": "flat / rails", "time_s": 0.02, "ok": False, "cost": np.int64(3)},
        ],
        columns=(Column("name", "network"), Column("time_s", "time", "ms", 1e-3, "bound_s")),
        title="At equal injection bandwidth",
        notes=("all ranks", "one GB"),
    )
    path = tmp_path / "a.h5"
    archive.write(path, {}, command="mrcjax compare", tables={"equal / fair": table})
    archive.write(path, {}, command="mrcjax compare", tables={"equal / fair": table})
    loaded = archive.load(path)
    assert loaded.tables == {"equal / fair": table, "equal / fair-2": table}
    assert loaded.runs == {}
    with pytest.raises(ArchiveError, match="holds no runs"):
        loaded.run()


def test_arrays_are_read_when_asked_for(tmp_path):
    path = tmp_path / "a.h5"
    write_one(path)
    run = archive.load(path).run()
    finish_s = run.finish_s
    path.unlink()
    assert run.finish_s is finish_s
    with pytest.raises(ArchiveError, match="does not exist"):
        _ = run.link_bytes


# many runs in a file


def test_runs_are_added_and_never_overwritten(tmp_path):
    path = tmp_path / "a.h5"
    assert write_one(path, "direct") == ("direct",)
    created = archive.load(path).created
    assert write_one(path, "direct", time_s=0.03) == ("direct-2",)
    assert write_one(path, "ring") == ("ring",)
    assert archive.write(path, [make_outcome()] * 2, command="") == (
        "flat_rails-direct-8",
        "flat_rails-direct-8-2",
    )
    loaded = archive.load(path)
    assert loaded.created == created
    assert list(loaded.runs)[:3] == ["direct", "direct-2", "ring"]
    assert loaded.run("direct").time_s == 0.02
    assert loaded.run("direct-2").time_s == 0.03
    with pytest.raises(ArchiveError, match="name one of them: direct, direct-2"):
        loaded.run()
    with pytest.raises(ArchiveError, match='has no run "tree"; name one of: direct'):
        loaded.run("tree")


def test_replacing_an_archive(tmp_path):
    path = tmp_path / "a.h5"
    write_one(path, "old")
    old = archive.load(path)
    archive.write(path, {"new": make_outcome()}, command="", append=False)
    assert names_in(path) == ["new"]
    with pytest.raises(ArchiveError, match="replaced since"):
        _ = old.run("old").time_s


def test_the_file_a_link_points_to_is_written(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "a.h5"
    link.symlink_to(tmp_path / "real" / "b.h5")
    write_one(link, "one")
    write_one(link, "two")
    assert link.is_symlink()
    assert names_in(tmp_path / "real" / "b.h5") == ["one", "two"]


def test_permissions_are_the_usual_ones_and_are_kept(tmp_path):
    path = tmp_path / "a.h5"
    mask = os.umask(0o022)
    try:
        write_one(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        path.chmod(0o660)
        write_one(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    finally:
        os.umask(mask)


def test_xarray_opens_it(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    path = tmp_path / "a.h5"
    archive.write(path, {"a": make_outcome(num_links=4000), "b": make_outcome()}, command="c")
    with xarray.open_dataset(path, engine="h5netcdf") as root:
        assert root.sizes == {"run": 2}
        assert root.run.values.tolist() == ["a", "b"]
        assert root.time_s.sel(run="b").item() == 0.02
        assert root.time_s.attrs == {"units": "s", "long_name": "completion time"}
        assert root.busbw_bytes_per_s.attrs["units"] == "byte/s"
        assert root.attrs["schema"] == archive.SCHEMA
    with xarray.open_dataset(path, engine="h5netcdf", group="runs/a") as run:
        assert run.sizes == {"rank": 8, "link": 4000, "tier": 2}
        assert run.finish_s.dims == ("rank",)
        assert run.link_utilisation.dims == ("link",)
        assert run.link_bytes.attrs["units"] == "byte"
        assert run.link_name.values[1] == "rank 1 é"
        assert run.tier_rule.sel(tier="ingress").item() == "slots"
        assert load_spec(run.attrs["spec"]) == SPEC


# what is refused


@pytest.fixture
def foreign(tmp_path):
    """Return a function that makes something that is no archive under a name."""

    def make(kind: str) -> Path:
        path = tmp_path / f"{kind}.h5"
        if kind == "folder":
            path.mkdir()
        elif kind == "text":
            path.write_text("time_s = 1\n" * 100)
        elif kind == "hdf5":
            with h5py.File(path, "w") as file:
                file["x"] = np.arange(4)
        elif kind == "newer":
            write_one(path)
            with h5py.File(path, "a") as file:
                file.attrs["schema"] = archive.SCHEMA + 1
                file.attrs["mrcjax_version"] = "99.0"
        elif kind == "short":
            write_one(path)
            path.write_bytes(path.read_bytes()[:-500])
        elif kind == "stump":
            write_one(path)
            path.write_bytes(path.read_bytes()[:100])
        return path

    return make


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("folder", "is a folder, not an archive; name the HDF5 file in it"),
        ("text", "is not an HDF5 file; name an"),
        ("hdf5", "is an HDF5 file, but not one that mrcjax wrote; name an"),
        ("newer", r"has schema 3, written by mrcjax 99.0; .* up to schema 2; upgrade mrcjax"),
        ("short", "is damaged or cut short .*; restore it from a copy"),
        ("stump", "is damaged or cut short .*; restore it from a copy"),
    ],
)
@pytest.mark.parametrize("append", [True, False])
def test_nothing_foreign_or_damaged_is_read_or_overwritten(foreign, kind, complaint, append):
    path = foreign(kind)
    before = None if path.is_dir() else path.read_bytes()
    with pytest.raises(ArchiveError, match=complaint) as caught:
        archive.load(path)
    assert caught.value.where == str(path)
    others = files_in(path.parent)
    complaint = complaint.replace("name an", "name another file; nothing that mrcjax did not write")
    with pytest.raises(ArchiveError, match=complaint):
        archive.write(path, {"one": make_outcome()}, command="", append=append)
    with pytest.raises(ArchiveError, match=complaint):
        archive.check_writable(path)
    assert files_in(path.parent) == others
    assert before is None or path.read_bytes() == before


def as_schema_1(path) -> None:
    """Turn an archive of runs into what was written before there were sweeps."""
    with h5py.File(path, "r+") as file:
        file.attrs["schema"] = 1
        del file.attrs["kind"]


def test_archives_of_schema_1_are_read_and_become_newer_when_added_to(tmp_path):
    path = tmp_path / "a.h5"
    write_one(path)
    as_schema_1(path)
    loaded = archive.load(path)
    assert isinstance(loaded, archive.Archive)
    assert loaded.schema == 1
    assert loaded.run().to_json() == make_outcome().to_json()
    write_one(path, "two")
    assert archive.load(path).schema == archive.SCHEMA
    assert names_in(path) == ["one", "two"]
    with h5py.File(path) as file:
        assert file.attrs["kind"] == "runs"


def test_missing_file():
    with pytest.raises(ArchiveError, match="nowhere.h5 does not exist; `mrcjax run SPEC --out"):
        archive.load("nowhere.h5")


def test_empty_file_is_no_archive_but_may_become_one(tmp_path):
    path = tmp_path / "a.h5"
    path.touch()
    with pytest.raises(ArchiveError, match="is empty"):
        archive.load(path)
    write_one(path)
    assert names_in(path) == ["one"]


def test_path_through_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ArchiveError, match="a part of its path is not a folder"):
        write_one(tmp_path / "file" / "a.h5")
    with pytest.raises(ArchiveError, match="a part of its path is not a folder"):
        archive.check_writable(tmp_path / "file" / "a.h5")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody may write to")
def test_unwritable_folder():
    with pytest.raises(ArchiveError, match=r"cannot be written \(.+\); name a file in a folder"):
        write_one("/proc/a.h5")
    with pytest.raises(ArchiveError, match=r"cannot be written \(.+\)"):
        archive.check_writable("/proc/a.h5")


def test_check_writable_leaves_nothing(tmp_path):
    archive.check_writable(tmp_path / "sub" / "a.h5")
    assert files_in(tmp_path / "sub") == []
    write_one(tmp_path / "a.h5")
    archive.check_writable(tmp_path / "a.h5")
    assert files_in(tmp_path) == ["a.h5", "sub"]


def test_damage_inside_an_array_is_noticed(tmp_path):
    path = tmp_path / "a.h5"
    carried = np.random.default_rng(0).random(5000)
    archive.write(path, {"a": make_outcome(num_links=5000, link_bytes=carried)}, command="")
    with h5py.File(path) as file:
        place = file["runs/a/link_bytes"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[place + 200] ^= 0xFF
    path.write_bytes(content)
    run = archive.load(path).run()
    with pytest.raises(ArchiveError, match="is damaged"):
        _ = run.link_bytes
    np.testing.assert_array_equal(run.finish_s, make_outcome().finish_s)


def test_a_failing_run_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "a.h5"
    write_one(path)
    before = path.read_bytes()

    def no_name(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive.write(path, {"bad": make_outcome(link_name=no_name)}, command="")
    assert path.read_bytes() == before
    assert files_in(tmp_path) == ["a.h5"]


def test_error_survives_pickling():
    error = pickle.loads(pickle.dumps(ArchiveError("is empty", "a.h5", "name another")))
    assert str(error) == "a.h5 is empty; name another"
    assert (error.what, error.where, error.remedy) == ("is empty", "a.h5", "name another")
    assert isinstance(error, ValueError)


# several processes


HEAD = """
    from test_archive import make_outcome, files_in, names_in
    outcome = make_outcome(num_links=3000)
    """


def test_killed_writers_never_break_the_file(tmp_path):
    output = run_script(
        HEAD,
        """
        random.seed(0)
        finished = []
        for trial in range(10):
            def write(tell):
                for i in range(1000):
                    archive.write(path, {f"{trial} {i}": outcome}, command="")
                    tell(f"{trial} {i}")
            finished += killed(write, random.uniform(0.02, 0.2))
            if path.exists():
                runs = archive.load(path).runs
                assert set(finished) <= set(runs), (finished, list(runs))
                for run in list(runs.values())[-2:]:
                    assert (run.link_bytes == outcome.link_bytes).all()
        archive.write(path, {"last": outcome}, command="")
        assert files_in(folder) == ["a.h5"], files_in(folder)
        print(len(finished))
        """,
        tmp_path,
    )
    assert int(output) > 0


def test_concurrent_writers_wait_for_each_other(tmp_path):
    run_script(
        HEAD,
        """
        def write(writer):
            for i in range(5):
                archive.write(path, {f"{writer} {i}": outcome}, command="")
        children = [forked(lambda: write(writer)) for writer in range(4)]
        assert all([is_done(child) for child in children])
        assert sorted(names_in(path)) == [f"{w} {i}" for w in range(4) for i in range(5)]
        assert files_in(folder) == ["a.h5"], files_in(folder)
        """,
        tmp_path,
    )


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    output = run_script(
        HEAD,
        """
        archive.write(path, {"one": outcome}, command="")
        before = path.read_bytes()
        # files end a little beyond the present size: the copy fits, the new run does not
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5000, -1))
        for append in (True, False):
            try:
                archive.write(path, [outcome] * 4, command="", append=append)
            except archive.ArchiveError as error:
                print(error)
        assert path.read_bytes() == before
        assert files_in(folder) == ["a.h5"], files_in(folder)
        """,
        tmp_path,
    )
    assert output.count("could not be written") == 2


def test_a_writer_that_waits_too_long_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(replacing, "_LOCK_TIMEOUT_S", 0.1)
    path = tmp_path / "a.h5"
    with (
        replacing.locked(path),
        pytest.raises(ArchiveError, match=rf"written by another process \(id {os.getpid()}\)"),
    ):
        write_one(path)
    write_one(path)
    assert files_in(tmp_path) == ["a.h5"]


def test_leftovers_of_killed_writers_are_cleared(tmp_path):
    leftovers = (".a[1].h5.123.tmp", ".a[1].h5.lock")
    for name in (*leftovers, ".b.h5.123.tmp"):
        (tmp_path / name).write_text("123")
    write_one(tmp_path / "a[1].h5")
    assert files_in(tmp_path) == [".b.h5.123.tmp", "a[1].h5"]


def test_without_locks_it_warns_and_writes(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError("no locks")

    monkeypatch.setattr(replacing.fcntl, "flock", unsupported)
    with pytest.warns(UserWarning, match="does not support locks"):
        write_one(tmp_path / "a.h5")
    assert names_in(tmp_path / "a.h5") == ["one"]


def test_no_jax_and_no_matplotlib_are_imported():
    code = (
        "import sys, mrcjax; before = set(sys.modules)\n"
        "import mrcjax.archive, mrcjax.report.table; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "mrcjax.archive" in done.stdout
    assert not {"jax", "matplotlib"} & set(done.stdout.split())


def test_use_of_links_over_time_is_kept(tmp_path):
    from mrcjax.outcome import LinkUse

    share = np.random.default_rng(0).random((2, 5))
    names = ("rank 0 é", "leaf 0 up")
    use = LinkUse(np.linspace(0, 0.02, 6), names, share)
    write_one(tmp_path / "a.h5", link_use=use)
    write_one(tmp_path / "b.h5")
    stored = archive.load_runs(tmp_path / "a.h5").run().link_use
    assert stored is not None
    assert stored.links == names
    np.testing.assert_array_equal(stored.share, share)
    np.testing.assert_allclose(stored.edges_s, use.edges_s)
    assert archive.load_runs(tmp_path / "b.h5").run().link_use is None
