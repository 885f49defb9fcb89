"""Files of sweeps: what is added comes back, also while it grows, is extended, or is killed."""

import os

import h5py
import numpy as np
import pytest
from sweeps import AXES, point
from test_archive import files_in, write_one

import mrcjax
from mrcjax import archive
from mrcjax.archive import ArchiveError, Axis, Point, Sweep, sweep_writer
from mrcjax.archive.sweep import writer as writing
from mrcjax.archive.sweep.segment import segments_of

SEEDS = "faults.random.0.seed"


def load(path) -> Sweep:
    found = mrcjax.load(path)
    assert isinstance(found, Sweep)
    return found


def assert_holds(sweep: Sweep, wanted: Point) -> None:
    found = sweep.point(wanted.at)
    assert (found.id, found.status, found.reason) == (wanted.id, wanted.status, wanted.reason)
    for key, value in wanted.values.items():
        assert found.values[key] == value, key
        assert sweep[key][wanted.at] == value
    if wanted.finish_s is None:
        assert found.finish_s is None
    else:
        np.testing.assert_array_equal(found.finish_s, wanted.finish_s)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "a.h5"


@pytest.fixture
def without_folding(monkeypatch):
    monkeypatch.setattr(writing, "FOLDING_SHARE", 0.0)


def test_round_trip(path):
    failed = Point((1, 0, 2), "x", "failed", "no memory: é")
    points = [point(0, 0, 0), point(1, 1, 1, ranks=20), point(0, 1, 2, ranks=None), failed]
    with sweep_writer(
        path, AXES, excluded={(1, 1, 0)}, spec_text="a = 1", command="mrcjax sweep a.toml"
    ) as writer:
        assert (writer.done, writer.failed, writer.spec_before) == ({}, {}, None)
        writer.add(points[:2])
        writer.add(points[2:])
    assert files_in(path.parent) == ["a.h5"]
    sweep = load(path)
    assert sweep.axes == AXES
    assert sweep.shape == (2, 2, 3)
    for one in points:
        assert_holds(sweep, one)
    assert sweep.status[1, 1, 0] == "excluded"
    assert np.unique(sweep.status.astype(str), return_counts=True)[1].tolist() == [3, 1, 1, 7]
    assert sweep.reason[1, 0, 2] == "no memory: é"
    assert np.isnan(sweep["time_s"][1, 0, 2])
    assert sweep["network"][0, 0, 1] == ""
    assert sweep["ranks"][0, 0, 1] == 0
    assert sweep["finish_s"].shape == (2, 2, 3, 20)
    np.testing.assert_array_equal(sweep["finish_s"][0, 0, 0, :8], points[0].finish_s)
    assert np.isnan(sweep["finish_s"][0, 0, 0, 8:]).all()
    assert sweep.coords["network.rails"].tolist() == [4, 8]
    assert sweep.header.spec_text == "a = 1"
    [session] = sweep.header.sessions
    assert session.command == "mrcjax sweep a.toml"
    assert session.started <= session.ended


def test_the_first_files_did_not_number_their_segments(path):
    with sweep_writer(path, AXES) as writer:
        writer.add([point(0, 0, 0)])
    with h5py.File(path, "a") as file:
        del file.attrs["last_segment"]
    assert_holds(load(path), point(0, 0, 0))
    with sweep_writer(path, AXES, resume=True) as writer:
        writer.add([point(1, 1, 1)])
    assert_holds(load(path), point(0, 0, 0))
    assert_holds(load(path), point(1, 1, 1))


def test_segments_are_read_like_the_file(path, without_folding):
    points = [point(0, 0, 0), point(1, 1, 1, ranks=20), point(1, 1, 2)]
    with sweep_writer(path, AXES) as writer:
        seen = []
        for one in points:
            writer.add([one])
            seen.append(load(path))
        assert len(segments_of(path)) == 3
        for count, sweep in enumerate(seen, 1):
            assert (sweep.status == "done").sum() == count
            assert_holds(sweep, points[count - 1])
    assert files_in(path.parent) == ["a.h5"]
    # what was loaded before the segments were folded away is as it was then
    for count, sweep in enumerate(seen, 1):
        assert (sweep.status == "done").sum() == count
        for one in points[:count]:
            assert_holds(sweep, one)
    for one in points:
        assert_holds(load(path), one)


def test_xarray_opens_it(path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    axes = (*AXES, Axis("engine.exact", {"engine.exact": [True, False]}))
    with sweep_writer(path, axes) as writer:
        writer.add([point(1, 1, 2, 0), point(0, 0, 0, 1, ranks=64)])
    with xarray.open_dataset(path, engine="h5netcdf") as data:
        assert data.sizes == {**dict(zip(load(path).names, (2, 2, 3, 2), strict=True)), "rank": 64}
        assert data.time_s.dims == ("network.ranks", "network.kind", SEEDS, "engine.exact")
        assert data.time_s.attrs == {"units": "s", "long_name": "completion time"}
        picked = data.sel({"network.ranks": 1024, "network.kind": "flat_rails", SEEDS: 2})
        assert picked.time_s.sel({"engine.exact": True}).item() == load(path)["time_s"][1, 1, 2, 0]
        assert picked.status.values.tolist() == ["done", "missing"]
        assert picked.coords["network.rails"].item() == 8
        assert np.isnan(picked.lower_bound_s.sel({"engine.exact": False}))
        assert data.finish_s.dims[-1] == "rank"
        assert data.finish_s.notnull().sum().item() == 8 + 64
        assert data.attrs["kind"] == "sweep"


# going on with a sweep


def test_a_sweep_is_gone_on_with_and_extended(path):
    old = [point(0, 0, 0), point(1, 1, 1), Point((1, 0, 0), "bad", "failed", "why")]
    with sweep_writer(path, AXES, excluded={(1, 1, 2)}, spec_text="1", command="first") as writer:
        writer.add(old)
    with sweep_writer(
        path, AXES, excluded={(1, 1, 2)}, spec_text="1", command="again", resume=True
    ) as writer:
        assert writer.done == {old[0].id: old[0].at, old[1].id: old[1].at}
        assert writer.failed == {"bad": (1, 0, 0)}
        assert writer.spec_before == "1"
        writer.add([point(1, 0, 0)])  # what failed
    assert_holds(load(path), point(1, 0, 0))
    assert load(path).status[1, 1, 2] == "excluded"
    assert load(path).header.last_segment == 2
    # other labels: a size in between, one size less, texts in another order, a seed more
    wider = (
        Axis("network.ranks", {"network.ranks": [512, 1024], "network.rails": [6, 8]}),
        Axis("network.kind", {"network.kind": ["torus", "flat_rails"]}),
        Axis(SEEDS, {SEEDS: [0, 1, 2, 3]}),
    )
    with sweep_writer(path, wider, excluded={(0, 0, 0)}, command="wider", resume=True) as writer:
        assert writer.done == {old[1].id: (1, 1, 1)}  # the only one that is on these axes
        writer.add([point(0, 0, 3, ranks=30, id="new"), point(1, 1, 0, id="too")])
    sweep = load(path)
    assert sweep.coords["network.ranks"].tolist() == [64, 512, 1024]
    assert sweep.coords["network.rails"].tolist() == [4, 6, 8]
    assert sweep.coords["network.kind"].tolist() == ["fat_tree", "flat_rails", "torus"]
    for one, at in ((old[0], (0, 0, 0)), (old[1], (2, 1, 1)), (point(1, 0, 0), (2, 0, 0))):
        found = sweep.point(at)
        assert (found.id, found.values["time_s"]) == (one.id, one.values["time_s"])
        np.testing.assert_array_equal(found.finish_s, one.finish_s)
    assert sweep.point((1, 2, 3)).id == "new"
    assert sweep.status[1, 2, 0] == sweep.status[0, 2, 0] == "excluded"
    assert sweep.status[1, 2, 1] == "missing"
    assert [session.command for session in sweep.header.sessions] == ["first", "again", "wider"]
    assert sweep["finish_s"].shape == (3, 3, 4, 30)


def test_other_axes_are_refused(path):
    with sweep_writer(path, AXES):
        pass
    for axes in (AXES[:2], (AXES[1], AXES[0], AXES[2])):
        with (
            pytest.raises(ArchiveError, match="a sweep over network.ranks with network.rails"),
            sweep_writer(path, axes, resume=True),
        ):
            pass


def test_what_may_not_be_begun(path):
    with sweep_writer(path, AXES) as writer:
        writer.add([point(0, 0, 0)])
        with (
            pytest.raises(ArchiveError, match=rf"another process \(id {os.getpid()}\)"),
            sweep_writer(path, AXES, resume=True),
        ):
            pass
    before = path.read_bytes()
    with (
        pytest.raises(ArchiveError, match="already holds a sweep; go on with --resume, or name"),
        sweep_writer(path, AXES),
    ):
        pass
    with pytest.raises(ArchiveError, match="holds a sweep, not runs"):
        write_one(path)
    with pytest.raises(ArchiveError, match="holds a sweep, not runs"):
        archive.load_runs(path)
    assert path.read_bytes() == before
    runs = path.with_name("runs.h5")
    write_one(runs)
    for resume in (False, True):
        with (
            pytest.raises(ArchiveError, match="holds runs, not a sweep; name another file"),
            sweep_writer(runs, AXES, resume=resume),
        ):
            pass
    assert files_in(path.parent) == ["a.h5", "runs.h5"]


def test_finished_points_outlive_their_file(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(writing.SweepWriter, "fold", lambda self: None)
        with sweep_writer(path, AXES) as writer:
            writer.add([point(0, 0, 0)])
    with (
        pytest.raises(ArchiveError, match="is gone, but finished points of its sweep are in"),
        sweep_writer(path, AXES),
    ):
        pass
    with sweep_writer(path, AXES, resume=True) as writer:
        assert list(writer.done.values()) == [(0, 0, 0)]
    assert_holds(load(path), point(0, 0, 0))


def test_a_sweep_that_ends_before_its_first_point_leaves_no_file(path):
    with pytest.raises(ValueError, match="no scheduler"), sweep_writer(path, AXES):
        raise ValueError("no scheduler")
    assert files_in(path.parent) == []
    with sweep_writer(path, AXES) as writer:
        writer.add([point(0, 0, 0)])
    with pytest.raises(ValueError, match="now"), sweep_writer(path, AXES, resume=True):
        raise ValueError("no scheduler now")
    assert_holds(load(path), point(0, 0, 0))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError])
def test_an_exception_folds_and_goes_on(path, without_folding, error):
    def interrupted():
        with sweep_writer(path, AXES) as writer:
            writer.add([point(0, 0, 0)])
            raise error

    with pytest.raises(error):
        interrupted()
    assert files_in(path.parent) == ["a.h5"]
    assert_holds(load(path), point(0, 0, 0))


# size, and what is damaged


def test_ten_thousand_points_of_16384_ranks_stay_under_two_gigabytes(tmp_path):
    """Finish times of which every bit below the exponent is noise; no run has less regular ones."""
    rng = np.random.default_rng(0)
    sizes = []
    for count in (2, 12):
        path = tmp_path / f"{count}.h5"
        axes = (AXES[0], Axis("seed", {"seed": range(10_000)}))
        with sweep_writer(path, axes) as writer:
            for i in range(count):
                times_s = 0.02 + rng.exponential(1e-3, 16_384)
                writer.add([point(0, i, finish_s=times_s)])
        sizes.append(path.stat().st_size)
    bytes_per_point = (sizes[1] - sizes[0]) / 10
    # the smaller file has all that does not depend on what is in the points
    assert sizes[0] + 10_000 * bytes_per_point < 2e9
    assert bytes_per_point < 0.8 * 8 * 16_384  # compressed


def test_folding_copies_what_is_compressed_as_it_is(path, without_folding):
    def chunk(file, place):
        with h5py.File(file) as opened:
            return opened["finish_s"].id.read_direct_chunk(place)

    with sweep_writer(path, AXES) as writer:
        writer.add([point(0, 0, 0, ranks=500), point(0, 0, 1, ranks=500)])
        [segment] = segments_of(path)
        before = chunk(segment, (1, 0))
    assert chunk(path, (0, 0, 1, 0)) == before
    with sweep_writer(path, AXES, resume=True) as writer:
        assert chunk(path, (0, 0, 1, 0)) == before
        writer.add([point(1, 0, 0, ranks=600)])  # now all are as long as the longest
    assert chunk(path, (0, 0, 1, 0)) != before
    for one in (point(0, 0, 1, ranks=500), point(1, 0, 0, ranks=600)):
        assert_holds(load(path), one)


def test_points_without_finish_times_take_no_space_for_them(path):
    with sweep_writer(path, AXES) as writer:
        writer.add([point(0, 0, 0, ranks=None)])
    sweep = load(path)
    assert "finish_s" not in sweep
    assert sweep.finish_s((0, 0, 0)) is None
    with pytest.raises(ArchiveError, match="keeps no finish times"):
        sweep["finish_s"]
    with pytest.raises(ArchiveError, match='has no variable "time"; it has status, '):
        sweep["time"]
    with h5py.File(path) as file:
        assert "rank" not in file


def test_values_that_change_their_type(path):
    """A whole number, then a fraction; a text among numbers; what is absent is missing."""
    values = [
        {"steps": 3, "name": 1.5, "flag": np.bool_(True), "large": 2**70},
        {"steps": 0.5, "name": "x\0y", "flag": False, "large": np.int64(3)},
        {"name": None, "flag": np.float32(0.1), "reason": "odd \udce9 " * 400},
    ]
    with sweep_writer(path, AXES) as writer:
        for i, each in enumerate(values):
            reason = each.pop("reason", "")
            writer.add([Point((0, 0, i), f"{i}", "done", reason, each)])
    sweep = load(path)
    assert sweep["steps"][0, 0, :2].tolist() == [3.0, 0.5]
    assert sweep["name"][0, 0].tolist() == ["1.5", "xy", ""]
    assert sweep["flag"][0, 0].tolist() == [1.0, 0.0, float(np.float32(0.1))]
    assert sweep["large"][0, 0, :2].tolist() == [2.0**70, 3.0]
    assert len(sweep.reason[0, 0, 2]) == 2000
    assert sweep.check() == 3
    assert sweep["time_s"].dtype == np.float64


def test_labels_of_one_key_are_of_one_type(path):
    mixed = Axis("a", {"a": [1, "auto", True], "b": [1, 2.5, np.float32(3)]}, {"b": "s"})
    assert mixed.coords == {"a": ["1", "auto", "True"], "b": [1.0, 2.5, 3.0]}
    with sweep_writer(path, [mixed]):
        pass
    assert load(path).axes == (mixed,)
    with h5py.File(path) as file:
        assert file["b"].attrs["units"] == "s"
    for coords in ({"b": [1]}, {"a": [1, 1]}, {"a": [1], "b": []}):
        with pytest.raises(ValueError, match="axis a"):
            Axis("a", coords)


@pytest.mark.parametrize("count", [0, 32])
def test_a_number_of_axes_that_no_file_can_have(path, count):
    axes = [Axis(f"a{i}", {f"a{i}": [1]}) for i in range(count)]
    with (
        pytest.raises(ArchiveError, match=f"cannot hold a sweep over {count} axes"),
        sweep_writer(path, axes),
    ):
        pass


def test_pieces_of_a_sweep_are_no_archives(path, without_folding):
    with sweep_writer(path, AXES) as writer:
        writer.add([point(0, 0, 0)])
        [segment] = segments_of(path)
        with pytest.raises(ArchiveError, match="is a piece of a sweep; name the sweep's own file"):
            mrcjax.load(segment)
        whole = segment.read_bytes()
        segment.write_bytes(whole[:-100])
        with pytest.raises(ArchiveError, match=r"00000001.h5 is damaged or cut short"):
            mrcjax.load(path)
        segment.write_bytes(whole)
    assert_holds(load(path), point(0, 0, 0))
