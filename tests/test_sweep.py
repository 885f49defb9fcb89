"""Sweeps: what points they ask for, and that each comes out as it does alone."""

import random
import tomllib

import jax
import jsonschema
import numpy as np
import pytest
import tomli_w
from runs import flat, toml

import mrcjax
from mrcjax import programs
from mrcjax.archive import ArchiveError, described
from mrcjax.spec import SpecError, example, json_schema, load_spec, load_sweep, sweep_to_toml
from mrcjax.step import run_with_step
from mrcjax.sweeping import batch, classes, group, make_plan, running
from mrcjax.sweeping.group import Group

BASE = """
[network]
kind = "flat_rails"
ranks = 16
rails = 3
rail_rate = "400 Gbit/s"
latency = "500 ns"

[collective]
kind = "all_reduce"
size = "16 MB"

[faults]
random = [{ what = "port", rate = 0.3, left = 0.5, seed = 4 }]
"""


def points(spec):
    return [spec.point(at) for at in spec.places()]


def labels(spec):
    return [tuple(p.labels.values()) for p in points(spec) if p is not None]


def test_axes_multiply_and_the_last_is_quickest():
    spec = load_sweep(
        BASE + '[sweep]\nnetwork.ranks = [8, 16]\ncollective.size = ["1 MB", "2 MB", "1 GiB"]'
    )
    sizes = (1e6, 2e6, 2.0**30)
    assert labels(spec) == [(n, s) for n in (8, 16) for s in sizes]
    assert [float(p.spec.the_collective.size) for p in points(spec)] == [*sizes] * 2


@pytest.mark.parametrize(
    ("written", "key", "expected"),
    [
        ("{ from = 1, to = 4 }", "network.rails", (1, 2, 3, 4)),
        ("{ from = 4, to = 16, step = 6 }", "network.ranks", (4, 10, 16)),
        ("{ from = 3, count = 3 }", "faults.random.0.seed", (3, 4, 5)),
        ('{ from = 64, to = 4096, count = 4, spacing = "log" }', "network.ranks", (64, 256, 1024, 4096)),  # noqa: E501
        ('{ from = "1 MB", to = "1 GB", count = 4, spacing = "log" }', "collective.size", (1e6, 1e7, 1e8, 1e9)),  # noqa: E501
        ('{ from = "100 ns", to = "300 ns", step = "100 ns" }', "network.latency", (1e-7, 2e-7, 3e-7)),  # noqa: E501
        ("{ from = 0.1, to = 0.3, count = 3 }", "faults.random.0.left", (0.1, 0.2, 0.3)),
        ("{ from = 0, to = 1, count = 5 }", "faults.random.0.rate", (0, 0.25, 0.5, 0.75, 1)),
        ("{ from = 9, to = 17, count = 3 }", "network.ranks", (9, 13, 17)),
    ],
)  # fmt: skip
def test_ranges(written, key, expected):
    spec = load_sweep(BASE + f"[sweep]\n{key} = {written}")
    assert spec.axes[0].coords[key] == pytest.approx(expected, rel=1e-12)
    assert all(p.spec is not None for p in points(spec))


def test_keys_zipped_walk_together():
    text = '[sweep]\nnetwork.ranks = [8, 16]\nnetwork.rails = [2, 4]\ncollective.size = ["1 MB"]\n'
    spec = load_sweep(BASE + text + 'zip = [["network.ranks", "network.rails"]]')
    assert [axis.name for axis in spec.axes] == ["network.ranks", "collective.size"]
    assert labels(spec) == [(8, 2, 1e6), (16, 4, 1e6)]
    same = load_sweep(
        BASE + text.replace("[2, 4]", "[3, 3]") + 'zip = [["network.ranks", "network.rails"]]'
    )  # noqa: E501
    assert labels(same) == [(8, 3, 1e6), (16, 3, 1e6)]
    with pytest.raises(SpecError, match="unequal length .network.ranks 2, collective.size 1"):
        load_sweep(BASE + text + 'zip = [["network.ranks", "collective.size"]]')
    with pytest.raises(SpecError, match="sweep.zip must be lists of swept keys"):
        load_sweep(BASE + text + 'zip = [["network.ranks", "network.latency"]]')


def test_a_condition_leaves_places_out():
    text = "[sweep]\nnetwork.ranks = [8, 16]\nnetwork.rails = [2, 4]\n"
    spec = load_sweep(BASE + text + 'where = "ranks * rails <= 32 and collective.size"')
    assert labels(spec) == [(8, 2), (8, 4), (16, 2)]
    for bad, what in (("ranks >", "worked out"), ("nodes > 2", "names here"), ("ranks > 99", "no")):
        with pytest.raises(SpecError, match=what):
            load_sweep(BASE + text + f'where = "{bad}"')


@pytest.mark.parametrize(
    ("where", "places"),
    [
        ("collective.size == 16e6 and network.rail_rate == 5e10", 4),  # not swept, yet a number
        ("latency < 1e-6", 2),
        ("network.latency == 2e-6 and ranks in [8, 9]", 1),
        ("aggregate", 0),  # swept, and no text
        ("not engine.aggregate and faults.random[0].seed == 4", 4),
        ("max(network.ranks, 9) == 9", 2),
    ],
)
def test_conditions_see_numbers_in_si_units(where, places):
    text = '[sweep]\nnetwork.ranks = [8, 16]\nnetwork.latency = ["500 ns", "2 us"]\n'
    text += f'engine.aggregate = [false]\nwhere = "{where} or ranks == 99"\n'
    if places:
        assert len(labels(load_sweep(BASE + text))) == places
    else:
        with pytest.raises(SpecError, match="leaves no point"):
            load_sweep(BASE + text)


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("__import__('os').system('true')", "__import__ is no function"),
        ("9 ** 9 ** 9", "a power is too large"),
        ("10 ** 3999999 > ranks", "a power is too large"),
        ("'a' * 10 ** 9 == ''", "arithmetic is for numbers"),
        ("'%1000000000d' % 1", "arithmetic is for numbers"),
        ("f'{ranks:1000000000}'", "nothing for a condition"),
        ("[x for x in network]", "nothing for a condition"),
        ("ranks.__class__", "is not there"),
        ("ranks is 8", "nothing for a condition"),
        ("ranks = 8", "invalid syntax"),
        ("ranks; rails", "invalid syntax"),
        ("rand() < 0.5", "rand is no function"),
        ("network.rail_rate == '400 Gbit/s'", "a number is compared with a text"),
    ],
)
def test_conditions_do_nothing_else(where, what):
    text = f'[sweep]\nnetwork.ranks = [8, 16]\nwhere = "{where}"\n'
    with pytest.raises(SpecError, match=what):
        load_sweep(BASE + text)


def test_cases_change_tables_and_a_kind_of_their_own_replaces_them():
    spec = load_sweep(
        BASE
        + """
[sweep]
network.ranks = [8, 16]
[[sweep.cases]]
name = "rails"
network = { rails = 5 }
[[sweep.cases]]
name = "tree"
network = { kind = "fat_tree", radix = 32, tiers = 2, link_rate = "400 Gbit/s", latency = "1 us" }
faults = { random = [] }
"""
    )
    found = points(spec)
    assert [p.error for p in found] == [None] * 4
    assert [(p.labels["case"], p.spec.network.kind, p.spec.network.ranks) for p in found] == [
        ("rails", "flat_rails", 8),
        ("rails", "flat_rails", 16),
        ("tree", "fat_tree", 8),
        ("tree", "fat_tree", 16),
    ]
    assert found[0].spec.network.rails == 5


def test_overrides_with_several_values_are_swept_over():
    spec = load_sweep(BASE, ["network.ranks=8,16", "collective.size=1 MB,1 GB", "network.rails=2"])
    assert labels(spec) == [(8, 1e6), (8, 1e9), (16, 1e6), (16, 1e9)]
    assert points(spec)[0].spec.network.rails == 2
    lists = load_sweep(BASE, ['network.rail_rate=["1 GB/s", "2 GB/s", "3 GB/s"],"1 GB/s"'])
    assert len(lists) == 2
    text = BASE + "[sweep]\nnetwork.ranks = [8, 16]\nnetwork.rails = [1, 2]\n"
    swept = load_sweep(text, ["network.ranks=4"])
    assert labels(swept) == [(1,), (2,)]
    assert points(swept)[0].spec.network.ranks == 4
    ranged = load_sweep(BASE, ["network.ranks={ from = 2, to = 8, step = 3 }"])
    assert labels(ranged) == [(2,), (5,), (8,)]
    nested = load_sweep(BASE, ['faults.random=[{what="port",rate=0.1,left=0.5,seed=[1,2]}],[]'])
    assert len(nested) == 2
    last = load_sweep(text, ["network.ranks=4,5", "sweep.network.ranks=6,7", "network.rails=3"])
    assert labels(last) == [(6,), (7,)]
    for wrong in ('collective.size="1 MB,2 MB', "network.dims=[1,2],[3", "=2,3", "a..b=2,3"):
        with pytest.raises(SpecError, match="an override"):
            load_sweep(BASE, [wrong])


def test_overrides_win_over_cases_that_set_the_same():
    text = (
        BASE
        + """
[[sweep.cases]]
name = "one"
network = { ranks = 3 }
[[sweep.cases]]
name = "two"
network = { kind = "torus", dims = [3, 2], link_rate = "50 GB/s", latency = "1 us" }
"""
    )
    one, two = points(load_sweep(text, ["network.ranks=5", "network.rails=2"]))
    assert (one.spec.network.ranks, one.spec.network.rails) == (5, 2)
    assert (two.error, two.spec.network.ranks) == (None, 6)


def test_files_to_sweep_over_stand_beside_the_spec(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("src,dst,bytes\n0,1,100\n")
    (tmp_path / "spec.toml").write_text(
        BASE.partition("[collective]")[0]
        + '[engine]\nkind = "fluid"\n[traffic]\nkind = "file"\nfile = "a.csv"\n'
        + '[sweep]\ntraffic.file = ["a.csv", "b.csv", "c.csv"]\n'
        + '[[sweep.cases]]\nname = "case"\ntraffic = { file = "b.csv" }\n'
    )
    made = load_sweep(tmp_path / "spec.toml")
    beside = [str(tmp_path / name) for name in ("a.csv", "b.csv", "c.csv")]
    assert [change["traffic.file"] for change in made.axes[1].changes] == beside
    assert made.axes[1].coords["traffic.file"] == ("a.csv", "b.csv", "c.csv")
    assert made.axes[0].changes[0]["case"]["traffic"]["file"] == beside[1]


def test_files_of_overrides_stand_beside_the_spec_however_many(tmp_path, monkeypatch):
    specs, working = tmp_path / "specs", tmp_path / "working"
    for folder, names in ((specs, "ab"), (working, "bc")):
        folder.mkdir()
        for name in names:
            (folder / f"{name}.csv").write_text("from,to,rate\n0,1,50 GB/s\n")
    spec = specs / "spec.toml"
    spec.write_text(
        '[network]\nkind = "graph"\nfile = "a.csv"\n'
        + '[collective]\nkind = "all_reduce"\nsize = "1 MB"\n'
    )
    monkeypatch.chdir(working)
    names = ("a.csv", "b.csv", "c.csv", "d.csv")
    one_each = []
    for name in names[:3]:
        one_each.append(mrcjax.load_spec(spec, f"network.file={name}").network.file)
    assert one_each == [str(specs / "a.csv"), str(specs / "b.csv"), "c.csv"]
    made = load_sweep(spec, ["network.file=" + ",".join(names)])
    changes = [change["network.file"] for change in made.axes[0].changes]
    assert changes == [*one_each, str(specs / "d.csv")]
    assert made.axes[0].coords["network.file"] == names
    with pytest.raises(SpecError) as refusal:
        mrcjax.load_spec(spec, "network.file=d.csv")
    assert str(made.point((3,)).error) == str(refusal.value)
    for part in ("network.file", "no such file", str(specs / "d.csv"), str(working)):
        assert part in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "nothing to sweep over"),
        ("[sweep]\nnetwork.ranks = 8", "needs a list or a range"),
        ("[sweep]\nnetwork.ranks = []", "is empty"),
        ("[sweep]\nnetwork.ranks = [8, 8]", "a value twice"),
        ("[sweep]\nnetwork.rankz = [8]", "did you mean"),
        ("[sweep]\nnetwork.latency = [5]", "has no unit"),
        ('[sweep]\ncollective.size = ["1 MB", "1 MX"]', r"size\[1\]"),
        ("[sweep]\nfaults.random.3.seed = [8]", "goes into 3"),
        ("[sweep]\nnetwork.ranks = { from = 2, by = 3 }", "not known in a range"),
        ("[sweep]\nnetwork.ranks = { from = 2 }", "needs two of"),
        ("[sweep]\nnetwork.ranks = { from = 9, to = 2 }", "never gets"),
        ("[sweep]\nnetwork.ranks = { to = 2, count = 3 }", "lacks from"),
        ("[sweep]\nnetwork.ranks = { from = 1, to = inf }", "finite"),
        ("[sweep]\nnetwork.ranks = { from = nan, count = 2 }", "finite"),
        (f"[sweep]\nnetwork.ranks = {{ from = 1, to = 1{'0' * 400}, count = 3 }}", "finite"),
        ("[sweep]\nnetwork.ranks = { from = 1, to = 1000000000 }", "more than 100,000 values"),
        (
            "[sweep]\nfaults.random.0.seed = { from = 0, count = 50000 }\n"
            "faults.random.0.count = { from = 1, count = 50000 }",
            "2,500,000,000 places",
        ),
        ("[sweep]\nnetwork.rankz = { from = 0, count = 100000 }", "did you mean"),
        ('[sweep]\nnetwork.ranks = [8]\nzip = [["network.ranks", "network.ranks"]]', "a key twice"),
        ('[sweep]\nnetwork.ranks = [8]\nzip = [[["network.ranks"]]]', "lists of swept keys"),
        ("[sweep]\nnetwork.ranks = [8]\nzip = 3", "lists of swept keys, got 3"),
        ("[sweep]\nnetwork.ranks = [8]\nzip = { a = 3 }", "lists of swept keys, got { a = 3 }"),
        ("[sweep]\nkeep = ['links']\nnetwork.ranks = [8]", "sweep.keep"),
        ("[[sweep.cases]]\nnetwork = { ranks = 3 }", "has no name"),
    ],
)
def test_what_cannot_be_swept_is_refused(text, what):
    with pytest.raises(SpecError, match=what):
        load_sweep(BASE + text)


def test_the_example_is_a_sweep_that_its_schema_knows():
    text = example("sweep")
    assert len(load_sweep(text)) == 3 * 4 * 8
    jsonschema.Draft202012Validator(json_schema()).validate(tomllib.loads(text))


def test_run_refuses_a_sweep():
    with pytest.raises(SpecError, match="mrcjax sweep"):
        mrcjax.load_spec(BASE + "[sweep]\nnetwork.ranks = [8, 16]")


def test_a_sweep_written_as_a_spec_asks_for_the_same(tmp_path):
    spec = load_sweep(
        BASE
        + "[sweep]\nnetwork.ranks = { from = 8, to = 32, step = 8 }\nnetwork.rails = [1, 2, 3, 4]\n"
        + 'zip = [["network.ranks", "network.rails"]]\nwhere = "ranks > 8"\n'
        + '[[sweep.cases]]\nname = "a \\"b\\""\n[[sweep.cases]]\nname = "c"\n'
        + 'collective = { size = "1 MB" }'
    )
    again = load_sweep(sweep_to_toml(spec))
    assert [p and (p.at, p.labels, p.spec) for p in points(again)] == [
        p and (p.at, p.labels, p.spec) for p in points(spec)
    ]


@pytest.mark.parametrize(
    "change",
    [
        "",
        'collective.algorithm = "ring"',
        'engine.precision = "float32"',
        "collective.element_bytes = 4",
        'engine.kind = "fluid"',
        "network.node_size = 4\nnetwork.node_rate = '450 GB/s'\nfaults.random = []",
    ],
)
def test_every_point_is_what_it_is_alone(tmp_path, change):
    sets = [line.replace(" = ", "=").replace("'", '"') for line in change.splitlines()]
    key = "collective.size" if "faults.random" in change else "faults.random.0.seed"
    values = '["1 MB", "3 MB", "0 B"]' if key == "collective.size" else "[1, 2, 3, 4, 5]"
    spec = load_sweep(BASE + f"[sweep]\n{key} = {values}", sets)
    found = mrcjax.sweep(spec, tmp_path / "s.h5")
    for point in points(spec):
        alone = mrcjax.run(point.spec)
        assert found["time_s"][point.at] == alone.time_s
        assert found["lower_bound_s"][point.at] == alone.lower_bound_s
        assert found["binding_name"][point.at] == alone.binding.name
        assert np.array_equal(found.finish_s(point.at), alone.finish_s)


def test_points_of_unlike_shapes_and_failing_points_are_kept_apart(tmp_path):
    text = (
        "[sweep]\nnetwork.ranks = [1, 2, 7]\nnetwork.rails = [1, 3]\nfaults.random.0.count = [1, 9]"  # noqa: E501
    )
    spec = load_sweep((BASE + text).replace("rate = 0.3, ", ""))
    found = mrcjax.sweep(spec, tmp_path / "s.h5")
    status = found.status.astype(str)
    for point in points(spec):
        is_too_much = (
            point.labels["faults.random.0.count"]
            > point.spec.network.ranks * point.spec.network.rails
        )  # noqa: E501
        if is_too_much:
            with pytest.raises(SpecError, match="is more than") as refusal:
                mrcjax.run(point.spec)
            assert status[point.at] == "failed"
            assert found.reason[point.at] == str(refusal.value)
            assert np.isnan(found["time_s"][point.at])
        else:
            assert found["time_s"][point.at] == mrcjax.run(point.spec).time_s
    assert {*status.ravel()} == {"done", "failed"}


def test_resume_does_what_is_missing_and_no_more(tmp_path):
    file = tmp_path / "s.h5"
    told = []
    first = BASE + "[sweep]\nnetwork.ranks = [8, 16]\nfaults.random.0.seed = [1, 2]"
    before = mrcjax.sweep(first, file)
    grown = BASE + "[sweep]\nnetwork.ranks = [8, 12, 16]\nfaults.random.0.seed = [1, 2, 3]"
    after = mrcjax.sweep(grown, file, resume=True, report=told.append)
    assert told[0].startswith("0 of 5 points")
    assert after["time_s"].shape == (3, 3)
    assert np.array_equal(after["time_s"][np.ix_([0, 2], [0, 1])], before["time_s"])
    assert np.array_equal(after["time_s"], mrcjax.sweep(grown, tmp_path / "t.h5")["time_s"])
    told.clear()
    # the same sizes in other words are the same points
    mrcjax.sweep(grown.replace('"16 MB"', '"16000 kB"'), file, resume=True, report=told.append)
    assert told[0].startswith("0 of 0 points")
    mrcjax.sweep(grown.replace('"16 MB"', '"17 MB"'), file, resume=True, report=told.append)
    assert told[1].startswith("0 of 9 points")


def test_stopped_between_batches_it_keeps_what_is_done(tmp_path):
    text = BASE + "[sweep]\nnetwork.rails = [1, 2, 3, 4]"
    stops = iter([False, True])
    found = mrcjax.sweep(text, tmp_path / "s.h5", is_stopped=lambda: next(stops))
    assert sorted(found.status.astype(str).tolist()) == ["done", "done", "missing", "missing"]
    found = mrcjax.sweep(text, tmp_path / "s.h5", resume=True)
    assert {*found.status.astype(str)} == {"done"}


def test_many_points_take_one_program(tmp_path):
    before = programs.count()
    spec = load_sweep(BASE + "[sweep]\nfaults.random.0.seed = { from = 0, count = 70 }\n", [
        'network.latency="400 ns"', "network.ranks=19"
    ])  # fmt: skip
    plan = make_plan(spec.points())
    assert [(len(g.points), g.room) for g in plan.groups] == [(70, 32)]
    found = mrcjax.sweep(spec, tmp_path / "s.h5")
    assert {*found.status.astype(str)} == {"done"}
    assert programs.count() == before + 1


def test_sizes_share_a_program_where_that_is_cheaper(tmp_path, monkeypatch):
    monkeypatch.setattr(group, "MOST_AT_ONCE", 3)  # all points of the last batch are of one size
    asked = "[sweep]\nnetwork.ranks = { from = 2, to = 38, step = 3 }\ncollective.size = ['1 MB', '1 GB']"  # noqa: E501
    spec = load_sweep(BASE + asked, ['network.latency="400 ns"'])
    (all_of_it,) = make_plan(spec.points()).groups
    assert (len(all_of_it.points), all_of_it.larger.network.ranks) == (26, 38)
    assert "13 sizes from 2 to 38 ranks" in all_of_it.title
    before = programs.count()
    found = mrcjax.sweep(spec, tmp_path / "s.h5")
    assert programs.count() == before + 1
    for at, point in spec.points():
        alone = mrcjax.run(point.spec)
        assert found["time_s"][at] == alone.time_s
        assert np.array_equal(found.finish_s(at), alone.finish_s)
        assert found["binding_name"][at] == alone.binding.name


def test_points_side_by_side_reduce_as_they_do_alone():
    nodes = {"node_size": 4, "node_rate": "70 GB/s", "reduction_rate": "9 GB/s"}
    scatter = {"kind": "reduce_scatter", "size": "1 GB", "group_size": 3, "stripe": True}
    text = toml(network=flat(9, 3, **nodes), collective=scatter)
    specs = [
        load_spec(f'{text}\n[faults]\nlate = [{{ rank = {rank}, by = "7 us" }}]') for rank in (0, 5)
    ]
    for spec, found in zip(specs, batch.emulate_batch(specs, 4, ("finish",)), strict=True):
        np.testing.assert_array_equal(found.finish_s, mrcjax.run(spec).finish_s)


def group_of(ranks, points, seconds, kin="one", compile_s=2.0):
    spec = load_sweep(BASE + "[sweep]\nnetwork.rails = [1]", [f"network.ranks={ranks}"])
    point = spec.point((0,))
    return Group(
        points=(point,) * points,
        ids=("",) * points,
        room=1,
        sends=7,
        bytes_each=1,
        seconds_each=seconds,
        compile_s=compile_s,
        programs=1,
        batched=True,
        ranks=(ranks,),
        example=point.spec,
        kin=kin,
    )


def taken_s(groups):
    """What it takes to compile and run classes: by what was weighed alone where one is alone."""
    most = max(each.ranks[0] for each in groups)
    factor = [1.0 if len(groups) == 1 else classes.LAID * most / g.ranks[0] for g in groups]
    run = sum(len(g.points) * g.seconds_each * f for g, f in zip(groups, factor, strict=True))
    return groups[-1].compile_s + run


@pytest.mark.parametrize("seed", range(5))
def test_classes_are_the_cheapest_of_all_cuts(seed):
    rng = np.random.default_rng(seed)
    ranks = np.sort(rng.choice(np.arange(2, 5000), 7, replace=False))
    groups = [group_of(int(n), int(rng.integers(1, 9)), 1e-9 * float(n) ** 2.5) for n in ranks]
    cuts = []
    for mask in range(64):
        parts = [[groups[0]]]
        for i, each in enumerate(groups[1:]):
            parts += [[]] if mask >> i & 1 else []
            parts[-1].append(each)
        cuts.append(sum(map(taken_s, parts)))
    shuffled = [groups[i] for i in rng.permutation(7)]
    found = classes.classes([*shuffled, group_of(9, 2, 1.0, kin=None)], 1)
    assert len(found[-1].points) == 2
    sizes = {each.ranks: each for each in found[:-1]}
    assert sorted(n for part in sizes for n in part) == ranks.tolist()
    by_ranks = {each.ranks[0]: each for each in groups}
    chosen = sum(taken_s([by_ranks[n] for n in part]) for part in sizes)
    assert chosen == pytest.approx(min(cuts), rel=1e-12)
    for part, each in sizes.items():
        assert len(each.points) == sum(len(by_ranks[n].points) for n in part)
        assert (each.larger is None) == (len(part) == 1)


def test_training_is_swept_with_its_step(tmp_path):
    text = example("training").replace("ranks = 1024\n", "").replace("group_size = 128\n", "")
    sizes = "network.ranks = [256, 512, 1024]\ncollective.group_size = [32, 64, 128]\n"
    zipped = 'zip = [["network.ranks", "collective.group_size"]]\n'
    spec = load_sweep(
        f'{text}\n[sweep]\n{sizes}network.endpoint_latency = ["1 us", "9 us"]\n{zipped}'
    )
    (group,) = make_plan(spec.points()).groups
    before = programs.count()
    found = mrcjax.sweep(spec, tmp_path / "s.h5")
    assert programs.count() == before + group.programs
    units = {"step_s": "s", "tokens_per_s": "token/s", "run_usd": "USD", "run_hours": "h"}
    units |= {"energy_kwh": "kWh", "mfu": "1", "utilisation": "1", "exposed_s": "s"}
    assert {key: described(key)[0] for key in units} == units
    assert set(units) <= set(found.variables)
    for point in points(spec):
        outcome, trained = run_with_step(point.spec)
        assert found["time_s"][point.at] == outcome.time_s
        assert np.array_equal(found.finish_s(point.at), outcome.finish_s)
        for key in ("step_s", "exposed_s", "utilisation", "mfu"):
            assert found[key][point.at] == getattr(trained.step, key)
        assert found["run_usd"][point.at] == trained.cost.total_usd


def test_what_a_training_step_asks_for_in_vain_is_the_reason(tmp_path):
    sets = ["collective.algorithm=direct,rings", "network.ranks=1024,2048"]
    spec = load_sweep(example("training"), sets)
    found = mrcjax.sweep(spec, tmp_path / "s.h5")
    for point in points(spec):
        try:
            run_with_step(point.spec)
            reason = ""
        except SpecError as error:
            reason = str(error)
        assert found.reason[point.at] == reason
    assert {*found.status.astype(str).ravel()} == {"done", "failed"}


def test_an_archive_holds_points_of_one_spec(tmp_path):
    file = tmp_path / "s.h5"
    text = BASE + "[sweep]\nnetwork.ranks = [4, 8]\n"
    mrcjax.sweep(text, file)
    other = text.replace("500 ns", "600 ns")
    with pytest.raises(ArchiveError, match="holds 1 points of a spec that differs"):
        mrcjax.sweep(other.replace("[4, 8]", "[8, 9]"), file, resume=True)
    assert mrcjax.load(file).coords["network.ranks"].tolist() == [4, 8]
    found = mrcjax.sweep(other.replace("[4, 8]", "[4, 8, 9.5]"), file, resume=True)
    assert found["time_s"][0] == mrcjax.run(load_sweep(other).point((0,)).spec).time_s
    # one that failed is found by what it was to be
    assert [row["status"] for row in found.where("ranks > 9 and status != 'done'")] == ["failed"]


NETWORKS = {
    "flat": {"kind": "flat_rails", "ranks": 5, "rails": 2, "rail_rate": "50 GB/s"},
    "nodes": {"kind": "flat_rails", "ranks": 8, "rails": 1, "rail_rate": "50 GB/s"}
    | {"node_size": 4, "node_rate": "450 GB/s"},
    "tree": {"kind": "fat_tree", "ranks": 6, "radix": 4, "tiers": 2, "link_rate": "50 GB/s"},
    "torus": {"kind": "torus", "dims": [3, 2], "link_rate": "50 GB/s"},
}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_points_of_many_kinds_are_what_they_are_alone(tmp_path, seed):
    draw = random.Random(seed)
    cases = []
    for name, network in NETWORKS.items():
        kind = draw.choice(["all_reduce", "all_gather", "all_to_all"])
        fault = {"what": draw.choice(["port", "cable"]), "rate": 0.3, "left": 0.5, "seed": seed}
        collective = {"kind": kind, "algorithm": draw.choice(["direct", "ring"])}
        changes = {"network": network | {"latency": "1 us"}, "collective": collective}
        cases.append({"name": name, "faults": {"random": [fault]}} | changes)
    base = {"network": NETWORKS["flat"] | {"latency": "1 us"}}
    base["collective"] = {"kind": "all_reduce", "size": "1 MB"}
    swept = {"cases": cases, "engine": {"precision": ["float32", "float64"]}}
    swept["collective"] = {"size": draw.sample(["0 B", "7 B", "1 MB", "3 MB"], 2)}
    spec = load_sweep(tomli_w.dumps(base | {"sweep": swept}))
    found = mrcjax.sweep(spec, tmp_path / "s.h5")
    assert found.check() == len(spec)
    for at, point in spec.points():
        if found.status[at] == "failed":
            with pytest.raises(SpecError) as refusal:
                mrcjax.run(point.spec)
            assert found.reason[at] == str(refusal.value)
            continue
        alone = mrcjax.run(point.spec)
        assert found["time_s"][at] == alone.time_s >= alone.lower_bound_s * (1 - 1e-6)
        assert found["lower_bound_s"][at] == alone.lower_bound_s
        assert np.array_equal(found.finish_s(at), alone.finish_s)


def test_points_without_room_are_tried_alone_and_say_so(tmp_path, monkeypatch):
    text = BASE + "[sweep]\nfaults.random.0.seed = [1, 2, 3]"
    whole = mrcjax.sweep(text, tmp_path / "a.h5")
    original = batch.launch

    def launch(prepared):
        seeds = [
            run.case.spec.faults.random[0].seed for each in prepared.alike for run in each.runs
        ]
        if len(seeds) > 1 or 2 in seeds:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return original(prepared)

    monkeypatch.setattr(batch, "launch", launch)
    monkeypatch.setattr(running, "launch", launch)
    found = mrcjax.sweep(text, tmp_path / "b.h5")
    assert found.status.astype(str).tolist() == ["done", "failed", "done"]
    assert "RESOURCE_EXHAUSTED" in found.reason[1]
    np.testing.assert_allclose(found["time_s"][[0, 2]], whole["time_s"][[0, 2]], rtol=1e-12)
