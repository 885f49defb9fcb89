"""Rows of archives: chosen by a condition, shown, exported, compared."""

import json

import numpy as np
import pytest
from sweeps import AXES, point
from test_archive import write_one

import mrcjax
from mrcjax import archive
from mrcjax.archive import Axis, Point, sweep_writer
from mrcjax.archive.condition import chosen
from mrcjax.units import SpecError

SEED = "faults.random.0.seed"


@pytest.fixture
def sweep_path(tmp_path):
    """A sweep of twelve places: nine points done, one failed, one excluded, one missing."""
    path = tmp_path / "sweep.h5"
    places = [at for at in np.ndindex(2, 2, 3) if at not in {(1, 0, 2), (1, 1, 0), (1, 1, 1)}]
    with sweep_writer(
        path, AXES, excluded={(1, 1, 0)}, spec_text="[network]", command="mrcjax sweep a.toml"
    ) as writer:
        writer.add([point(*at) for at in places])
        writer.add([Point((1, 0, 2), "bad", "failed", "no memory")])
    return path


@pytest.fixture
def runs_path(tmp_path):
    path = tmp_path / "runs.h5"
    for name, ranks in (("a", 8), ("b", 16), ("c", 32)):
        write_one(path, name, ranks=ranks, time_s=ranks * 1e-3)
    return path


ROWS = [
    {"ranks": 64, "network": "torus", "a.b": 1, "a.b.0.c": 5, "time_s": 1.5, "flag": True},
    {"ranks": 128, "network": "a.b", "a.b": 2, "a.b.0.c": 6, "time_s": float("nan"), "flag": False},
]


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("ranks >= 64", 2),
        ("ranks > 64 and network != 'torus'", 1),
        ("network == 'a.b'", 1),
        ('network == "a.b" or a.b == 1', 2),
        ("a.b.0.c - a.b == 4 and a.b.0.c > 5", 1),
        ("time_s < 2 or time_s >= 2", 1),  # missing values are neither
        ("ranks in [64, 256]", 1),
        ("'tor' in network and not flag", 0),
        ("flag", 1),
        ("max(ranks, 100) == 100", 1),
    ],
)
def test_conditions(condition, count):
    assert len(chosen(ROWS, condition)) == count


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        ("rank >= 64", "--where has an unknown name, rank, got .*; the names are ranks, network"),
        ("ranks = 64", "--where cannot be read"),
        ("", "--where cannot be read"),
        ("ranks >", "--where cannot be read"),
        ("ranks >= 'a'", "--where cannot be evaluated"),
        ("ranks.real == 64 and __import__('os')", "--where cannot be evaluated"),
        ("9 ** 9 ** 9 ** 9", "--where cannot be evaluated"),
        ("().__class__", "--where cannot be evaluated"),
        ("open('/etc/passwd')", "--where cannot be evaluated"),
    ],
)
def test_conditions_that_are_refused(condition, complaint):
    with pytest.raises(SpecError, match=complaint):
        chosen(ROWS, condition)


def test_rows_of_a_sweep(sweep_path):
    sweep = mrcjax.load(sweep_path)
    rows = sweep.rows()
    assert len(rows) == 9
    assert rows[4]["network.ranks"] == 64
    assert rows[4]["network.rails"] == rows[4]["rails"] == 4
    assert rows[4][SEED] == rows[4]["seed"] == 1
    assert rows[4]["network.kind"] == rows[4]["network"] == "flat_rails"
    assert rows[4]["time_s"] == sweep["time_s"][0, 1, 1]
    assert json.loads(json.dumps(rows)) == rows
    assert [row["seed"] for row in sweep.where("rails == 8 and network.kind == 'fat_tree'")] == [
        0,
        1,
    ]
    [failed] = sweep.where("status == 'failed'")
    assert (failed["reason"], failed["seed"]) == ("no memory", 2)


def test_results_are_checked(sweep_path, tmp_path):
    import h5py

    sweep = mrcjax.load(sweep_path)
    assert sweep.check() == 10
    # the same results in another order of labels and at another time
    again = tmp_path / "again.h5"
    axes = (AXES[0], Axis("network.kind", {"network.kind": ["flat_rails", "fat_tree"]}), AXES[2])
    with sweep_writer(again, axes) as writer:
        for at in sweep.places("done"):
            one = point(*at, id="other")
            one.values["wall_s"] = 5.0
            writer.add(
                [Point((at[0], 1 - at[1], at[2]), "x", "done", "", one.values, one.finish_s)]
            )
    assert mrcjax.load(again).results_hash == sweep.results_hash
    with h5py.File(sweep_path, "a") as file:
        file["time_s"][0, 0, 0] += 1e-9
    with pytest.raises(archive.ArchiveError, match="has other results than were written at"):
        mrcjax.load(sweep_path).check()
