"""Reports: the numbers stand under their units, and figures say what they show."""

import re
import threading
import xml.etree.ElementTree

import numpy as np
import pytest
from test_archive import make_outcome

from mrcjax import archive
from mrcjax.archive import Column, Table
from mrcjax.outcome import Binding, Tier
from mrcjax.report import table

ROWS = [
    {
        "name": "fat tree, 2 tiers",
        "time_s": 0.0416,
        "lower_bound_s": 0.03996,
        "utilisation": 0.92,
        "power_w": 57_200.0,
        "cost_usd": 5.48e6,
    },
    {
        "name": "flat rails, 20 x 400 Gbit/s (back-solved), passive optical planes",
        "time_s": 0.0021,
        "lower_bound_s": 0.00209,
        "utilisation": 0.997,
        "power_w": 1.606e6,
        "cost_usd": None,
    },
]
COLUMNS = (
    Column("name", "network"),
    Column("time_s", "1 GB all-reduce", "ms", 1e-3, "lower_bound_s"),
    Column("utilisation", "utilisation", "%", 0.01),
    Column("power_w", "network power", "kW", 1e3),
    Column("cost_usd", "network cost", "M$", 1e6),
)


@pytest.fixture(params=["outcome", "archived"])
def as_run(request, tmp_path):
    """Give a function that passes an outcome on as it is, or through an archive."""

    def pass_on(outcome):
        if request.param == "outcome":
            return outcome
        archive.write(tmp_path / "run.h5", {"one": outcome}, command="mrcjax run a.toml")
        return archive.load(tmp_path / "run.h5").run()

    return pass_on


def cells(text: str, line: str) -> list[str]:
    found = next(row for row in text.splitlines() if row.strip().startswith(line))
    return re.split(r"\s{2,}", found.strip())


# text


def test_run_text(as_run):
    text = table.run_text(as_run(make_outcome()))
    assert "all_reduce of 1 GB per rank by direct, on flat_rails with 8 ranks and 32 links" in text
    assert cells(text, "completion time") == ["completion time", "20 ms"]
    assert cells(text, "lower bound ") == ["lower bound", "17.5 ms (port rates)"]
    assert cells(text, "time / lower bound")[1] == "1.143"
    assert cells(text, "schedule's bound")[1] == "18 ms"
    assert cells(text, "binding")[1] == "link rank 0 é, busy 50 % of the time"
    assert cells(text, "algbw, busbw")[1] == "50 GB/s, 87.5 GB/s"
    assert cells(text, "ranks finish")[1] == "first 18 ms, median 19 ms, last 20 ms"
    assert cells(text, "lower bounds")[1] == "17.5 ms port rates"
    assert "2 us latency" in text
    assert cells(text, "took")[1] == "build 100 ms, compile 2 s, run 300 ms"
    # half of the links carry 500 MB in 10 of 20 ms, the others nothing
    assert cells(text, "egress") == ["egress", "16", "single", "50 GB/s", "250", "25", "50"]
    assert cells(text, "ingress")[2] == "slots"
    assert text.endswith("warning: ideal load balancing")
    assert max(map(len, text.splitlines())) <= table.WIDTH


def test_run_text_of_an_archived_run_says_where_it_comes_from(tmp_path):
    archive.write(tmp_path / "a.h5", {"one": make_outcome()}, command="mrcjax run a.toml")
    text = table.run_text(archive.load(tmp_path / "a.h5").run())
    assert text.startswith("one: all_reduce")
    assert cells(text, "command")[1] == "mrcjax run a.toml"


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        (
            Binding("latency", "2 path latencies", 0.1),
            "latency (2 path latencies); the busiest link is busy 10 % of the time",
        ),
        (Binding("none", "", 0.0), "nothing: nothing is sent"),
    ],
)
def test_binding_in_words(binding, expected):
    assert cells(table.run_text(make_outcome(binding=binding)), "binding")[1] == expected


def test_run_text_without_links_or_time():
    outcome = make_outcome(
        num_links=0,
        time_s=0.0,
        tiers=(Tier("egress", 0, 0, "unused"),),
        lower_bound_s=0.0,
        binding=Binding("none", "", 0.0),
        warnings=(),
    )
    text = table.run_text(outcome)
    assert cells(text, "completion time")[1] == "0 s"
    assert cells(text, "egress") == ["egress", "0", "unused", "-", "-", "-", "-"]


def test_archive_text(tmp_path):
    path = tmp_path / "a.h5"
    comparison = Table(ROWS, COLUMNS, "At equal injection bandwidth", ["a note"])
    outcomes = {"slow": make_outcome(), "quick": make_outcome(time_s=0.018)}
    archive.write(path, outcomes, command="", tables={"equal": comparison})
    text = table.archive_text(archive.load(path))
    assert re.match(r".*a\.h5: 2 runs, made \d{4}-\d\d-\d\dT.* by mrcjax .*, schema \d+\n", text)
    # the comparison is printed as it was
    assert table.table_text(comparison) in text
    assert cells(text, "quick")[-5:] == ["18", "17.5", "1.029", "87.5", "rank 0 é (50 %)"]
    assert max(map(len, text.splitlines()[1:])) <= table.WIDTH


def test_archive_text_of_one_run_and_of_none(tmp_path):
    archive.write(tmp_path / "a.h5", {}, command="")
    assert ": 0 runs" in table.archive_text(archive.load(tmp_path / "a.h5"))
    archive.write(tmp_path / "a.h5", {"one": make_outcome()}, command="")
    loaded = archive.load(tmp_path / "a.h5")
    assert table.archive_text(loaded).endswith(table.run_text(loaded.run()))


def test_text_table():
    text = table.text_table(ROWS, COLUMNS, width=100)
    assert text.splitlines() == [
        "network                                 1 GB    utilisation    network    network",
        "                                  all-reduce                     power       cost",
        "                                          ms              %         kW         M$",
        "------------------------------  ------------  -------------  ---------  ---------",
        "fat tree, 2 tiers                       41.6           92         57.2       5.48",
        "flat rails, 20 x 400 Gbit/s              2.1           99.7    1,606         -",
        "(back-solved), passive optical",
        "planes",
    ]


def test_text_table_splits_what_does_not_fit():
    columns = [Column("name", "name")] + [Column(f"k{i}", f"number {i}", "kW") for i in range(12)]
    rows = [{"name": f"row {r}"} | {f"k{i}": r * i + 0.5 for i in range(12)} for r in range(2)]
    text = table.text_table(rows, columns, width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert len(text.split("\n\n")) > 1
    assert all(block.startswith("name") for block in text.split("\n\n"))
    shown = re.findall(r"\d+\.5", "".join(re.findall(r"row 1.*", text)))
    assert shown == [f"{i}.5" for i in range(12)]


def test_text_table_has_all_that_tells_rows_apart_in_every_block():
    rows = [{"a": r, "b": -r, "c": "x" * 15, "d": "y" * 15, "e": "z" * 15} for r in range(2)]
    blocks = [text.split()[:2] for text in table.text_table(rows, width=30, lead=2).split("\n\n")]
    assert blocks == [["a", "b"]] * 3
    # labels that leave no room to anything else are not written again and again
    wide = [{"a": "u" * 15, "b": "v" * 15, "c": "x" * 15, "d": "y" * 15} for r in range(2)]
    blocks = table.text_table(wide, width=30, lead=2).split("\n\n")
    assert [block.split()[:2] for block in blocks] == [["a", other] for other in "bcd"]


def test_text_table_by_keys_and_by_tuples():
    assert table.text_table([], COLUMNS) == "(nothing)"
    assert table.text_table([{"time_s": 1.5, "x": 2}]).splitlines()[0].split() == [
        *("time", "s", "x")
    ]
    text = table.text_table([{"a": 1}], [("a", "watts", "W")])
    assert [line.strip() for line in text.splitlines()] == ["watts", "W", "-------", "1"]


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (None, Column("k", ""), "-"),
        (float("nan"), Column("k", ""), "-"),
        (float("inf"), Column("k", ""), "inf"),
        (True, Column("k", ""), "yes"),
        ("text", Column("k", ""), "text"),
        (1024, Column("k", ""), "1,024"),
        (np.float64(0.0416123), Column("k", "", "ms", 1e-3), "41.61"),
        (123456.7, Column("k", ""), "123,457"),
        (1.5e-9, Column("k", ""), "1.5e-09"),
        (0.99712, Column("k", "", "%", 0.01, digits=3), "99.7"),
        (0, Column("k", "", "%", 0.01), "0"),
    ],
)
def test_format_value(value, column, text):
    assert table.format_value(value, column) == text


@pytest.mark.parametrize(
    ("values_s", "unit"),
    [([0.02, 0.5], "ms"), ([3.0], "s"), ([2e-6, 3e-6], "us"), ([5e-12], "ns"), ([0.0], "s")],
)
def test_time_column_picks_a_unit(values_s, unit):
    assert table.time_column("k", "time", values_s).unit == unit


# figures


@pytest.fixture
def plot():
    pytest.importorskip("matplotlib")
    from mrcjax.report import plot

    return plot


def drawn_text(path) -> str:
    """Return the text of an SVG, which matplotlib keeps in comments beside its outlines."""
    return " ".join(re.findall(r"<!-- (.*?) -->", path.read_text(), re.DOTALL))


def check_no_overlap(figure):
    """Assert that no two texts of a figure lie on each other and none sticks out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    # tick labels beyond the axis are never drawn, yet are there to be found
    outside = {id(label) for axes in figure.axes for label in _labels_outside(axes)}
    boxes = [
        (text.get_text(), text.get_window_extent(renderer))
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and id(text) not in outside
    ]
    for i, (text, box) in enumerate(boxes):
        assert box.x0 >= -1, text
        assert box.x1 <= figure.bbox.x1 + 1, text
        assert box.y0 >= -1, text
        assert box.y1 <= figure.bbox.y1 + 1, text
        for other, other_box in boxes[:i]:
            # a pixel of shared padding is not an overlap
            shrunk = other_box.padded(-2)
            assert not box.padded(-2).overlaps(shrunk), (text, other)


def _labels_outside(axes):
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        low, high = min(low, high), max(low, high)
        room = 1e-9 * (high - low)
        for tick in axis.get_major_ticks():
            is_shown = low - room <= tick.get_loc() <= high + room
            yield tick.label2
            if not is_shown:
                yield tick.label1


def test_the_check_for_overlap_finds_one(plot):
    figure = plot.style.figure(width=4.0, height=2.0, title="title", caption="caption")
    check_no_overlap(figure)
    figure.text(0.02, 0.02, "on the caption")
    with pytest.raises(AssertionError, match="caption"):
        check_no_overlap(figure)


@pytest.fixture
def figures(plot, monkeypatch):
    """Collect the figures that are saved."""
    saved = []
    save = plot.style.save

    def keep(figure, path):
        saved.append(figure)
        return save(figure, path)

    monkeypatch.setattr(plot.style, "save", keep)
    return saved


def test_bars(plot, figures, tmp_path):
    path = tmp_path / "figures" / "bars.svg"
    caption = "mrcjax compare --plot bars.svg; at 2.10 $ per hour and 0.09 $/kWh"
    assert plot.bars(ROWS, path, caption, title="At equal injection bandwidth") == path
    text = drawn_text(path)
    for expected in (
        "all-reduce",
        "lower bound",
        "41.6",
        "99.7",
        "1,606",
        "kW",
        "M$",
        "0.09 $/kWh",
    ):
        assert expected in text
    for row in ROWS:
        assert row["name"].split(",")[0] in text
    check_no_overlap(figures[0])
    bars = figures[0].axes[0].patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], [41.6, 2.1])
    # the picture needs no fonts or colours of its own, and is well-formed
    xml.etree.ElementTree.parse(path)


@pytest.mark.parametrize(("num_rows", "num_columns"), [(1, 1), (4, 2), (1, 4), (12, 6)])
def test_bars_never_overlap(plot, figures, tmp_path, num_rows, num_columns):
    columns = (*plot.BARS, Column("time_s", "again", "s"), Column("cost_usd", "in full", "$"))
    title = "A title that goes on for so long that it has to be wrapped, and then on " * 2
    caption = "mrcjax compare --plot bars.png " * 8
    rows = (ROWS * 6)[:num_rows]
    plot.bars(rows, tmp_path / "a.png", caption, columns=columns[:num_columns], title=title)
    check_no_overlap(figures[0])


def test_bars_of_other_columns(plot, tmp_path):
    rows = [{"who": "a", "x": 1.0}, {"who": "b", "x": 0.0}]
    plot.bars(rows, tmp_path / "a.svg", columns=[("x", "something", "m")], name="who")
    assert "something" in drawn_text(tmp_path / "a.svg")
    assert "lower bound" not in drawn_text(tmp_path / "a.svg")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot.bars(rows, tmp_path / "b.png", name="who")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot.bars([], tmp_path / "b.png")


def test_link_utilisation(plot, figures, as_run, tmp_path):
    run = as_run(make_outcome(num_links=6000))
    plot.link_utilisation(run, tmp_path / "a.svg", "mrcjax plot run.h5")
    text = drawn_text(tmp_path / "a.svg")
    for expected in ("egress", "ingress", "3,000 links", "highest 50.0 %", "mrcjax plot run.h5"):
        assert expected in text
    assert (tmp_path / "a.svg").stat().st_size < 500_000
    check_no_overlap(figures[0])


@pytest.mark.parametrize("num_tiers", [1, 3, 6, 30])
def test_link_utilisation_of_any_number_of_tiers(plot, figures, tmp_path, num_tiers):
    names = [f"tier {i} between the leaves and the spines" for i in range(num_tiers)]
    tiers = tuple(Tier(name, 10 * i, 10, "share") for i, name in enumerate(names))
    link_bytes = np.repeat(np.arange(num_tiers) * 1e7, 10)
    outcome = make_outcome(num_links=10 * num_tiers, tiers=tiers, link_bytes=link_bytes)
    plot.link_utilisation(outcome, tmp_path / "a.svg", "mrcjax plot run.h5")
    check_no_overlap(figures[0])
    text = drawn_text(tmp_path / "a.svg")
    assert ("The 18 least busy tiers are left out" in text) == (num_tiers == 30)
    assert ("idle" in text) == (num_tiers != 30)


@pytest.mark.parametrize(
    ("finish_s", "num_panels"),
    [
        (np.linspace(0.0199, 0.02, 20_000), 2),
        (np.linspace(0.015, 0.02, 8), 1),
        (np.full(8, 0.02), 1),
        (np.array([0.02]), 1),
        (np.zeros(4), 1),
    ],
    ids=["narrow", "wide", "all at once", "one rank", "zero"],
)
def test_finish_times(plot, figures, as_run, tmp_path, finish_s, num_panels):
    run = as_run(make_outcome(finish_s=finish_s, time_s=float(finish_s.max())))
    plot.finish_times(run, tmp_path / "a.svg", "mrcjax plot run.h5")
    assert len(figures[0].axes) == num_panels
    assert "lower bound 17.5 ms (port rates)" in drawn_text(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size < 500_000
    check_no_overlap(figures[0])


def test_nothing_to_draw(plot, tmp_path):
    with pytest.raises(ValueError, match="no links"):
        plot.link_utilisation(make_outcome(num_links=0, tiers=()), tmp_path / "a.png")
    with pytest.raises(ValueError, match="no ranks"):
        plot.finish_times(make_outcome(finish_s=np.zeros(0)), tmp_path / "a.png")


def test_figures_are_what_their_name_says(plot, tmp_path):
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = plot.bars(ROWS, tmp_path / f"a{suffix}")
        assert path.read_bytes().startswith(start)
    with pytest.raises(ValueError, match=r'as "a.jpeg"; let its name end in .png, .svg, .pdf'):
        plot.bars(ROWS, tmp_path / "a.jpeg")


def test_the_same_rows_give_the_same_svg(plot, tmp_path):
    first = plot.bars(ROWS, tmp_path / "a.svg").read_bytes()
    assert plot.bars(ROWS, tmp_path / "b.svg").read_bytes() == first


def test_threads_may_draw(plot, tmp_path):
    import matplotlib.pyplot as plt

    def draw(i):
        plot.bars(ROWS, tmp_path / f"{i}.png")

    threads = [threading.Thread(target=draw, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = (tmp_path / "0.png").read_bytes()
    assert all((tmp_path / f"{i}.png").read_bytes() == first for i in range(4))
    assert plt.get_fignums() == []
