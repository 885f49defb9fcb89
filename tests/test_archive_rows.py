"""Rows of archives: chosen by a condition, shown, exported, compared."""

import csv
import dataclasses
import json
import sys

import h5py
import numpy as np
import pytest
from sweeps import AXES, point
from test_archive import write_one

import mrcjax
from mrcjax import archive, cli
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
        ("rank >= 64", "--where .*rank is not known.*; the names are ranks, network"),
        ("ranks = 64", "--where cannot be read"),
        ("", "--where cannot be read"),
        ("ranks >", "--where cannot be read"),
        ("ranks >= 'a'", "--where cannot be worked out"),
        ("ranks.real == 64 and __import__('os')", "--where cannot be worked out"),
        ("9 ** 9 ** 9 ** 9", "--where cannot be worked out"),
        ("().__class__", "--where cannot be worked out"),
        ("open('/etc/passwd')", "--where cannot be worked out"),
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


# the command line


@pytest.fixture
def call(capsys):
    """Run a command; returns exit status, standard output, standard error."""

    def run(*words) -> tuple[int, str, str]:
        status = cli.main([str(word) for word in words])
        return status, *capsys.readouterr()

    return run


def rows_in(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_show_a_sweep(call, sweep_path):
    status, text, _ = call("show", sweep_path)
    assert status == 0
    assert "9 done, 1 failed, 1 missing" in text
    assert "no memory" in text
    assert "10 points are as they were written" in call("show", sweep_path, "--check")[1]
    found = json.loads(call("show", sweep_path, "--json")[1])
    assert found["counts"] == {"done": 9, "failed": 1, "missing": 1}
    assert found["axes"]["network.ranks"]["network.rails"] == [4, 8]
    made = found["provenance"]
    assert made["sessions"][0]["command"] == "mrcjax sweep a.toml"
    assert (made["spec"], made["device"]) == ("[network]", "device é")
    assert f"results: {made['results_hash']}" in text


def test_the_summary_of_a_sweep_has_the_table_of_its_rows(call, sweep_path):
    table = call("show", sweep_path, "--where", "time_s > 0")[1]
    assert table.count("binding_name é") == 9
    assert table in call("show", sweep_path)[1]
    # a table too wide for one block says in each which point a row is
    labels = ["network.ranks", "network.rails", "network.kind", SEED]
    for block in table.split("\n\n"):
        assert block.split("\n")[0].split()[:4] == labels


def test_labels_that_are_lists_are_shown_as_they_are(call, tmp_path):
    path = tmp_path / "a.h5"
    labels = ['["1 GB/s", "2 GB/s"]', "2 GB/s"]
    with sweep_writer(
        path, (Axis("network.rate", {"network.rate": labels}, {"network.rate": "byte/s"}),)
    ) as writer:
        writer.add([dataclasses.replace(point(i, 0), at=(i,)) for i in range(2)])
    text = call("show", path, "--where", "time_s > 0")[1]
    assert all(label in text for label in labels)
    assert text in call("show", path)[1]


def test_show_chosen_rows(call, sweep_path, runs_path):
    where = ("--where", "rails == 8 and network == 'fat_tree'")
    text = call("show", sweep_path, *where)[1]
    assert text.splitlines()[0].split()[:3] == ["network.ranks", "network.rails", "network.kind"]
    assert text.count("binding_name é") == 2
    found = json.loads(call("show", sweep_path, *where, "--columns", "seed,time_s", "--json")[1])
    sweep = mrcjax.load(sweep_path)
    assert found["rows"] == [
        {"seed": seed, "time_s": float(sweep["time_s"][1, 0, seed])} for seed in (0, 1)
    ]
    rows = rows_in(call("show", runs_path, "--where", "ranks >= 16", "--csv", "-")[1])
    assert [row["run"] for row in rows] == ["b", "c"]
    assert float(rows[1]["time_s"]) == mrcjax.load(runs_path).run("c").time_s
    assert call("show", runs_path, "--where", "ranks > 99")[1] == "(nothing)\n"
    text = call("show", runs_path, "--columns", "run,size_bytes,algbw_bytes_per_s,time_s")[1]
    assert text.splitlines()[1].split() == ["GB", "GB/s", "ms"]


def test_export(call, sweep_path, tmp_path):
    target = tmp_path / "rows.csv"
    assert call("show", sweep_path, "--csv", target) == (0, "", "")
    rows = rows_in(target.read_text())
    sweep = mrcjax.load(sweep_path)
    assert len(rows) == 9
    for row, at in zip(rows, sweep.places("done"), strict=True):
        assert float(row["time_s"]) == sweep["time_s"][at]
        assert row["network.kind"] == sweep.labels(at)["network.kind"]
    assert "result_hash" not in rows[0]
    failed = rows_in(call("show", sweep_path, "--where", "status == 'failed'", "--csv", "-")[1])
    assert (failed[0]["time_s"], failed[0]["reason"]) == ("", "no memory")


def test_export_to_parquet(call, sweep_path, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "rows.parquet"
    where = "status in ['done', 'failed']"
    assert call("show", sweep_path, "--where", where, "--parquet", target) == (0, "", "")
    table = parquet.read_table(target)
    assert table.num_rows == 10
    assert table["time_s"].null_count == 1
    assert table.schema.field("time_s").metadata == {
        b"units": b"s",
        b"long_name": b"completion time",
    }
    rows = mrcjax.load(sweep_path).where(where)
    assert table["network.rails"].to_pylist() == [row["network.rails"] for row in rows]
    assert table["network"].to_pylist() == [row["network"] for row in rows]


def test_without_pyarrow_it_says_what_to_install(call, sweep_path, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    status, _, said = call("show", sweep_path, "--parquet", tmp_path / "rows.parquet")
    assert status == 2
    assert "pip install 'mrcjax[parquet]'" in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--where", "rnks > 3"), "rnks is not known"),
        (("--columns", "tme_s"), '--columns is no column, got "tme_s"; use network.ranks'),
        (("--columns", ","), "--columns names no column"),
        (("--csv", "-", "--json"), "--csv and --json do not go together"),
        (("--csv", "-", "--check"), "--check does not go with rows"),
        (("--run", "a"), "holds a sweep, which has no runs by name"),
        (("--parquet", "-"), "--parquet is no text; name a file"),
        (("--csv", "{path}"), "is the archive itself"),
        (("--parquet", "{path}"), "is the archive itself"),
        (("--csv", "{path}/none/a.csv"), "not a directory"),
        (("--parquet", "{path}/none/a.csv"), "ot a directory"),
    ],
)
def test_show_refuses(call, sweep_path, words, complaint):
    before = sweep_path.read_bytes()
    status, text, said = call("show", sweep_path, *(w.format(path=sweep_path) for w in words))
    assert (status, text) == (2, "")
    assert complaint in said
    assert len(said.splitlines()) == 1
    assert sweep_path.read_bytes() == before


def test_plot_of_a_sweep_has_no_run_to_choose(call, sweep_path, tmp_path):
    status, text, said = call("plot", sweep_path, "--run", "x", "--out", tmp_path / "figures")
    assert (status, text) == (2, "")
    assert said.endswith("holds a sweep, which has no runs by name; leave out --run\n")
    assert not (tmp_path / "figures").exists()


def test_runs_have_no_check(call, runs_path):
    status, _, said = call("show", runs_path, "--check")
    assert status == 2
    assert "holds runs, which have no hash of their results; check sweeps" in said


# what differs


def changed(sweep_path, target, change, axes=AXES):
    """Write a sweep again, with points changed by a function that may leave them out."""
    sweep = mrcjax.load(sweep_path)
    with sweep_writer(target, axes) as writer:
        points = [change(sweep.point(at)) for at in sweep.places("done", "failed")]
        writer.add([one for one in points if one is not None])
    return target


def test_an_archive_does_not_differ_from_itself(call, sweep_path, runs_path, tmp_path):
    for path in (sweep_path, runs_path):
        status, text, _ = call("diff", path, path)
        assert (status, "equal within 1e-09" in text) == (0, True)
    again = changed(
        sweep_path,
        tmp_path / "again.h5",
        lambda p: dataclasses.replace(p, id="x", values={**p.values, "wall_s": 9.0}),
    )
    assert call("diff", sweep_path, again)[0] == 0


def test_what_differs_is_found(call, sweep_path, tmp_path):
    def change(one):
        values, finish_s = dict(one.values), one.finish_s
        if one.at == (0, 0, 0):
            return None
        if one.at == (0, 1, 1):
            values["time_s"] *= 1 + 1e-6
        if one.at == (1, 0, 1):
            values["time_s"] *= 1 - 1e-3
            finish_s = finish_s.copy()
            finish_s[3] *= 1.01
        if one.at == (0, 0, 1):
            values["binding_name"] = "rank 9"
            values["lower_bound_s"] = None
        return dataclasses.replace(one, values=values, finish_s=finish_s)

    other = changed(sweep_path, tmp_path / "other.h5", change)
    status, text, _ = call("diff", sweep_path, other)
    assert status == 1
    found = json.loads(call("diff", sweep_path, other, "--json")[1])
    assert found["compared"] == 9
    assert [name[SEED] for name in found["only_first"]] == [0]
    assert found["only_second"] == []
    by_key = {d["key"]: d for d in found["differences"]}
    assert set(by_key) == {"time_s", "finish_s", "binding_name", "lower_bound_s"}
    assert by_key["time_s"]["count"] == 2
    assert by_key["time_s"]["largest"] == pytest.approx(1e-3, rel=1e-9)
    assert by_key["time_s"]["name"] == mrcjax.load(sweep_path).labels((1, 0, 1))
    times_s = mrcjax.load(sweep_path).finish_s((1, 0, 1))
    assert by_key["finish_s"]["first"] == times_s[3]
    assert by_key["finish_s"]["largest"] == pytest.approx(0.01 / 1.01)
    assert by_key["binding_name"]["second"] == "rank 9"
    assert by_key["lower_bound_s"]["largest"] is None  # infinite: a value is missing
    assert [d["key"] for d in found["differences"]][-2:] == ["finish_s", "time_s"]
    for said in ("time_s", "0.001", "rank 9", f"only in {sweep_path}: network.ranks = 64"):
        assert said in text
    # within a tolerance, or in other columns, only the point that is missing is left
    for more in (("--columns", "ranks,bound_ratio"), ("--columns", "time_s", "--rtol", "0.01")):
        found = json.loads(call("diff", sweep_path, other, *more, "--json")[1])
        assert (found["differences"], found["equal"]) == ([], False)


def test_runs_are_compared_by_name(call, runs_path, tmp_path):
    other = tmp_path / "other.h5"
    for name, ranks in (("b", 16), ("a", 8)):
        write_one(other, name, ranks=ranks, time_s=ranks * 1e-3 * (1 + (name == "a") * 1e-8))
    found = json.loads(call("diff", runs_path, other, "--json")[1])
    assert found["compared"] == 2
    assert found["only_first"] == [{"run": "c"}]
    assert {d["key"] for d in found["differences"]} >= {"time_s", "finish_s", "bound_ratio"}
    assert all(d["name"] == {"run": "a"} for d in found["differences"])
    assert all(d["largest"] == pytest.approx(1e-8, rel=1e-6) for d in found["differences"])


def test_points_that_fail_on_one_side_differ(call, sweep_path, tmp_path):
    def change(one):
        if one.at != (0, 0, 0):
            return one
        return Point(one.at, one.id, "failed", "why")

    other = changed(sweep_path, tmp_path / "other.h5", change)
    found = json.loads(call("diff", sweep_path, other, "--json")[1])
    [status] = [d for d in found["differences"] if d["key"] == "status"]
    assert (status["first"], status["second"], status["count"]) == ("done", "failed", 1)


def test_what_cannot_be_compared(call, sweep_path, runs_path, tmp_path):
    other = tmp_path / "other.h5"
    with sweep_writer(other, AXES[:2]):
        pass
    for words, complaint in (
        ((sweep_path, runs_path), "compare like with like"),
        ((sweep_path, other), "compare sweeps over the same keys"),
        ((sweep_path, sweep_path, "--columns", "x"), "is no column of"),
        ((sweep_path, sweep_path, "--columns", ","), '--columns names no column, got ","'),
        ((sweep_path, sweep_path, "--rtol", "-1"), "--rtol must be a number, 0 or more"),
        ((sweep_path, tmp_path / "none.h5"), "none.h5 does not exist"),
    ):
        status, _, said = call("diff", *words)
        assert status == 2
        assert complaint in said
        assert len(said.splitlines()) == 1
