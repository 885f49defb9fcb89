"""The page and the figures of a sweep: curves, maps and tails of what is done, nothing made up."""

import numpy as np
import pytest
from pages import AXES, EVIL, read_page, write_sweep
from sweeps import point

from mrcjax.archive import Axis, load, sweep_writer
from mrcjax.cli import main
from mrcjax.report import plot
from mrcjax.report.html import page
from mrcjax.report.sweep import axis_column, label_text


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "many.h5"
    return write_sweep(path)


@pytest.fixture(scope="module")
def figures(sweep):
    return {figure.key: figure for figure in plot.sweep_figures(sweep)}


def lines_of(figure) -> dict[str, np.ndarray]:
    return {
        line.get_label(): np.asarray(line.get_ydata())
        for line in figure.axes[0].lines
        if not line.get_label().startswith("_")
    }


def test_which_figures_a_sweep_has(figures):
    cases = ("fat tree", EVIL)
    expected = {"time_s", "bound_ratio", "busbw_bytes_per_s", "draws"}
    expected |= {f"map-{case}" for case in cases}
    expected |= {f"ranks-{case}, size {size}" for case in cases for size in ("1 MB", "1 GB")}
    assert set(figures) == expected


def test_curves_are_medians_over_the_seeds(figures):
    lines = lines_of(figures["bound_ratio"].figure)
    # 1.5 + 0.1 x the median of 0, 1, 2, 3; where the last is left out, of 0, 1, 2
    np.testing.assert_allclose(lines["fat tree, size 1 MB"], [1.65, 1.65, 1.65], rtol=1e-12)
    np.testing.assert_allclose(lines["fat tree, size 1 GB"], [1.65, 1.65, 1.6], rtol=1e-12)
    # the first seed failed there
    np.testing.assert_allclose(lines[f"{EVIL}, size 1 GB"], [2.65, 2.65, 2.7], rtol=1e-12)
    assert figures["bound_ratio"].about.startswith("Medians over the seeds.")
    panel = figures["time_s"].figure.axes[0]
    assert panel.get_xlabel() == "ranks"
    assert panel.get_xscale() == "log"


def test_maps_hold_every_place(figures):
    panel = figures["map-fat tree"].figure.axes[0]
    shown = panel.images[0].get_array()
    np.testing.assert_allclose(shown, [[1.65, 1.65, 1.65], [1.65, 1.65, 1.6]], rtol=1e-12)
    assert [text.get_text() for text in panel.get_yticklabels()] == ["1 MB", "1 GB"]
    assert [text.get_text() for text in panel.get_xticklabels()] == ["64", "256", "1,024"]


def test_tails_of_ranks_and_of_draws(figures):
    keys = [key for key in figures if key.startswith("ranks")]
    assert len(keys) == 4
    lines = lines_of(figures[keys[0]].figure)
    assert list(lines) == ["median rank", "95 % of the ranks", "99 % of the ranks", "last rank"]
    np.testing.assert_allclose(lines["median rank"], 0.5 * lines["last rank"])
    draws = figures["draws"].figure
    assert draws.axes[0].get_ylabel() == "draws at most so long"
    assert "left out" in draws._supxlabel.get_text()  # twelve curves, eight colours


def test_a_sweep_over_words_or_of_one_point_has_no_curves(tmp_path):
    axes = (
        Axis("collective.algorithm", {"collective.algorithm": ["ring", "direct"]}),
        Axis("network.ranks", {"network.ranks": [64]}),
    )
    with sweep_writer(tmp_path / "a.h5", axes) as writer:
        writer.add([point(0, 0)])
    assert plot.sweep_figures(load(tmp_path / "a.h5")) == []
    assert "Summary" in page(load(tmp_path / "a.h5"))


def test_a_sweep_that_has_just_begun(tmp_path, capsys):
    with sweep_writer(tmp_path / "a.h5", AXES):
        pass
    assert plot.sweep_figures(load(tmp_path / "a.h5")) == []
    assert "0" in page(load(tmp_path / "a.h5"))
    assert main(["plot", str(tmp_path / "a.h5")]) == 2
    assert "has no axis of several numbers" in capsys.readouterr().err


def test_labels_have_their_units():
    size = AXES[2]
    assert label_text(size, 0) == "size 1 MB"
    assert (axis_column(size).unit, axis_column(size).scale) == ("GB", 1e9)
    late = Axis("x.by_time", {"x.by_time": [1e-6, 2e-6]}, {"x.by_time": "s"})
    assert label_text(late, 1) == "by time 2 us"
    assert axis_column(late).unit == "us"
    flag = Axis("engine.exact", {"engine.exact": [True, False]})
    assert [label_text(flag, i) for i in (0, 1)] == ["exact yes", "exact no"]
    assert label_text(AXES[1], 2, brief=True) == "1,024"


# ---- the page


def test_the_page_of_a_sweep(sweep):
    text = page(sweep, command="mrcjax report many.h5")
    assert EVIL not in text
    read = read_page(text)
    titles = [e.text for e in read.all("h2")]
    assert titles == ["Summary", "Figures", "Points", "Lower bounds", "Warnings", "Provenance"]
    facts = dict(
        zip((e.text for e in read.all("dt")), (e.text for e in read.all("dd")), strict=True)
    )
    assert facts["Points done"] == "461 failed, 1 left out"
    assert facts["Nearest to its bound"].startswith("1.500 ×fat tree, ranks 64")
    whole = " ".join(e.text for e in read.all("main"))
    for expected in (f"out of {EVIL}", "network.ranks = [64]", "(23 points)", "64, 256, 1024"):
        assert expected in whole
    rows = read.all("tr", "tbody")
    assert len(rows) > 46 + 1
    assert len(read.all("svg", "figure")) == len(plot.sweep_figures(sweep))


def test_commands_on_a_sweep(sweep, tmp_path, capsys):
    target = tmp_path / "page.html"
    assert main(["report", str(sweep.path), "--out", str(target)]) == 0
    assert read_page(target.read_text()).all("h1")[0].text == "Sweep many"
    capsys.readouterr()
    assert main(["plot", str(sweep.path), "--out", str(tmp_path), "--format", "svg"]) == 0
    drawn = capsys.readouterr().out.split()
    assert f"{tmp_path}/many-time_s.svg" in drawn
    assert all((tmp_path / name).stat().st_size for name in drawn)
