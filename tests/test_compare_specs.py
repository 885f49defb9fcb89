"""`compare SPEC ...`: rows hold what `run` and `train` give for each spec alone."""

import pytest

from mrcjax.cli import main
from mrcjax.comparison import compare_specs
from mrcjax.emulation import run
from mrcjax.network.inventory import inventory
from mrcjax.spec import SpecError, load_spec
from mrcjax.step import train

RAILS = """
[network]
kind = "flat_rails"
ranks = 16
rails = 2
rail_rate = "400 Gbit/s"
node_size = 8
node_rate = "450 GB/s"
[collective]
kind = "all_reduce"
algorithm = "hierarchical"
size = "1 GB"
"""
TREE = """
[network]
kind = "fat_tree"
ranks = 12
radix = 8
link_rate = "50 GB/s"
[collective]
kind = "all_to_all"
size = "10 MB"
"""


def test_rows_are_what_the_specs_give_alone(tmp_path):
    specs = {"rails": load_spec(RAILS + "[training]\n"), "tree": load_spec(TREE)}
    said: list[str] = []
    found = compare_specs(specs, said.append)
    rows = {row["name"]: row for row in found.tables["collective"].rows}
    for name, spec in specs.items():
        alone = run(spec)
        assert rows[name]["time_s"] == alone.time_s
        assert rows[name]["ratio"] == alone.bound_ratio >= 1
    (step,) = found.tables["step"].rows
    assert step["name"] == "rails"
    assert step["utilisation"] == train(specs["rails"], "direct").step.utilisation
    hardware = {row["name"]: row for row in found.tables["hardware"].rows}
    assert hardware["tree"]["network_w"] == inventory(specs["tree"].network).watts_without_nics
    assert "rails-bucket-reduce_scatter" in found.runs
    assert len(said) == 2
    paths = found.figures(tmp_path, "mrcjax compare rails.toml tree.toml")
    assert [path.name for path in paths] == ["compare_own.png", "compare_own.svg"]


def test_a_spec_that_cannot_be_built_is_named_before_any_runs():
    broken = load_spec(TREE, set=("network.ranks=100",))
    said: list[str] = []
    with pytest.raises(SpecError, match=r"tree: network\.ranks: 100 does not fit"):
        compare_specs({"rails": load_spec(RAILS), "tree": broken}, said.append)
    assert not said


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("a.toml", "a.toml"), ("two specs have one name, got", "a")),
        (("a.toml", "--ranks", "64"), ("--ranks", "network.ranks")),
        (("none.toml",), ("none.toml",)),
    ],
)
def test_the_command_line_refuses(tmp_path, monkeypatch, capsys, words, parts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(TREE)
    assert main(["compare", *words]) == 2
    said = capsys.readouterr().err
    assert all(part in said for part in parts)


def test_the_command_line_compares(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(TREE)
    assert main(["compare", "a.toml", "--no-figures"]) == 0
    assert "fat_tree" in capsys.readouterr().out
    assert (tmp_path / "results" / "compare_own.h5").exists()
