"""`mrcjax show network`: a network in words and in JSON."""

import json

import pytest

from mrcjax import archive, cli
from mrcjax.network import build
from mrcjax.network.inventory import inventory
from mrcjax.network.properties import properties
from mrcjax.spec import example, example_kinds, load_spec


def described(kind, *overrides):
    spec = load_spec(example(kind), overrides).network
    return properties(spec, build(spec), inventory(spec))


@pytest.fixture
def slim_fly(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(
        "[network]\nkind = 'slim_fly'\nranks = 100\nq = 5\nhosts_per_switch = 2\n"
        "link_rate = '400 Gbit/s'\n[collective]\nkind = 'all_reduce'\nsize = '1 GB'\n"
    )
    return path


def test_text_names_every_figure(slim_fly, capsys):
    assert cli.main(["show", "network", str(slim_fly)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "ranks 100",
        "switches 50 (50 switch)",
        "links 550 (one direction each)",
        "a rank sends 50 GB/s",
        "bisection 2.5 TB/s one way, 100% of what half the ranks send",
        "longest way 3 switches",
        "egress 100 50 GB/s",
    ):
        assert part in text


def test_json_has_the_same_figures(slim_fly, capsys):
    words = ["show", "network", str(slim_fly), "--json", "--set", "network.ranks=99"]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ranks"], found["switches"]) == (99, {"switch": 50})
    assert found["most_switches"] == 3
    assert found["bisection_bytes_per_s"]["at_most"] <= 49 * 50e9
    assert found["watts"] > 0 < found["usd"]


@pytest.mark.parametrize(
    ("kind", "overrides", "most"),
    [
        ("flat_rails", (), 3),  # realised as a tree per rail
        ("flat_rails", ("network.ranks=64",), 1),
        ("direct_wiring", (), 0),
        ("fat_tree", (), 3),
        ("fat_tree", ("network.radix=32", "network.tiers=3"), 5),
        ("mrc_planes", (), 3),
        ("dragonfly", (), 4),
        ("dragonfly", ("network.groups=3", "network.routing=valiant"), 6),
        ("hyperx", (), 3),
    ],
)
def test_switches_on_the_longest_way(kind, overrides, most):
    assert described(kind, *overrides).most_switches == most


def test_nodes_are_counted():
    found = described("nodes")
    assert found.nodes == found.ranks // 8


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["show", "network"], "write mrcjax show network SPEC.toml"),
        (["show", "network", "{spec}", "--run", "a"], "without what is for archives"),
        (["show", "other.h5", "{spec}"], "takes no spec"),
        (["show", "network", "none.toml"], "no spec file none.toml"),
        (["show", "network", "{spec}", "--set", "network.q=28"], "is no prime power"),
    ],
)
def test_refusals(slim_fly, capsys, tmp_path, monkeypatch, words, part):
    monkeypatch.chdir(tmp_path)
    assert cli.main([word.format(spec=slim_fly) for word in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert part in captured.err
    assert captured.err.count("\n") == 1


def test_an_archive_may_be_called_network(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    archive.write(tmp_path / "some.h5", {}, command="test")
    (tmp_path / "some.h5").rename("network")
    assert cli.main(["show", "network"]) == 0
    assert "0 runs" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [k for k in example_kinds() if k != "sweep"])
def test_every_example_is_described(kind, capsys, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(example(kind))
    assert cli.main(["show", "network", str(path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for label in ("ranks", "switches", "links", "a rank sends", "bisection", "power", "price"):
        assert f"\n  {label} " in captured.out
    for word in ("not known", "None", " nan", " inf", "a rank sends        0 "):
        assert word not in captured.out
    assert ("not computed" in captured.out) == (load_spec(path).network.kind == "graph")


@pytest.mark.parametrize(
    ("kind", "overrides", "most"),
    [
        ("dgx_h100", (), 4),  # NVSwitch, leaf, spine, leaf
        ("dgx_h100", ("network.cross_rail=spine",), 3),
        ("dgx_h100", ("network.ranks=8",), 1),
        ("rail_only", ("network.ranks=256",), 2),
        ("nvl72", (), 3),
        ("wafer", (), 3),
    ],
)
def test_switches_on_the_longest_way_between_nodes(kind, overrides, most):
    assert described(kind, *overrides).most_switches == most


def test_grids_are_described_by_links():
    found = described("tpu_v5p")
    assert (found.most_switches, found.most_links) == (None, 4 + 4 + 8)
    assert found.mean_links == 2 + 2 + 4
    assert found.bisection.at_least == found.bisection.at_most == 2 * 64 * 100e9
