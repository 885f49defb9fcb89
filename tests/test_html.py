"""The page about an archive: whole, alone, and nothing in it but what the archive says."""

import re

import numpy as np
import pytest
from pages import EVIL, STEPS, TABLE, read_page, write_many
from test_archive import make_outcome

from mrcjax import __version__, archive
from mrcjax.archive import Table
from mrcjax.cli import main
from mrcjax.report.html import page, write_page
from mrcjax.report.html.blocks import MOST_ROWS, grid

ASSUMPTIONS = [
    {"assumption": "switch: ports", "value": "64", "source": EVIL, "mark": "A", "runs": "all"}
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    stored = write_many(tmp_path_factory.mktemp("page") / "many.h5")
    return page(stored, assumptions=ASSUMPTIONS, command=f"mrcjax report {EVIL}")


@pytest.fixture(scope="module")
def read(written):
    return read_page(written)


def test_the_page_is_whole(read):
    assert [e.tag for e in read.elements[:2]] == ["html", "head"]
    ids = [e.attributes["id"] for e in read.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    titles = [e.text for e in read.all("h2")]
    assert titles == [
        "Summary",
        "Tables",
        "Figures",
        "Lower bounds",
        "Assumptions",
        "Warnings",
        "Provenance",
    ]
    anchors = [e.attributes["href"] for e in read.all("a", "nav")]
    assert anchors == [f"#{e.attributes['id']}" for e in read.all("section")]
    labels = [
        e.attributes[k] for e in read.elements for k in e.attributes if k == "aria-labelledby"
    ]
    assert set(labels) <= set(ids)


def test_nothing_of_an_archive_is_markup(written, read):
    assert EVIL not in written
    assert not read.all("img")
    assert not read.all("b")
    assert len(read.all("script")) == 1
    assert not any(name.startswith("on") for e in read.elements for name in e.attributes)
    texts = [e.text for e in read.elements]
    assert any(text == EVIL for text in texts)  # a run's name, as it is
    foot = f"Written by mrcjax {__version__}: mrcjax report {EVIL}"
    assert foot in [text.strip() for text in texts]


def test_the_page_asks_for_nothing(written, read):
    for element in read.elements:
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            value = element.attributes.get(name) or ""
            assert value.startswith(("#", "data:")) or value == "", (element.tag, value)
    assert "@import" not in written
    assert not re.search(r"url\((?!#)", written)
    policy = next(
        e.attributes["content"]
        for e in read.all("meta")
        if e.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_tables_can_be_sorted(read):
    heads = read.all("th", "thead")
    assert all(e.attributes["aria-sort"] == "none" for e in heads)
    assert len(read.all("button", "thead")) == len(heads)
    cells = [e for e in read.elements if e.tag in ("td", "th") and "tbody" in e.path]
    assert all("data-sort" in e.attributes for e in cells)
    # what is sorted by is the value itself, not its text
    assert any(e.attributes["data-sort"] == "0.0021" and e.text == "2.1" for e in cells)


def test_figures_say_what_they_are(read):
    figures = read.all("svg", "figure")
    assert len(figures) > 8
    assert all(e.attributes["role"] == "img" and e.attributes["aria-label"] for e in figures)
    captions = [e.text for e in read.all("figcaption")]
    assert "Side by side" in captions
    assert "Steps of the search" in captions
    assert "scenarios: Completion time of 50 scenarios" in captions
    assert any(caption == f"{EVIL}: When ranks finish" for caption in captions)


def test_two_figures_share_no_ids_nor_colours_of_their_own(written):
    used = re.findall(r'xlink:href="#(\w+?)-', written) + re.findall(r"url\(#(\w+?)-", written)
    assert len(set(used)) > 3
    for colour in ("#1a1a1a", "#14324d", "#c2410c"):
        svgs = re.findall(r"<svg.*?</svg>", written, re.DOTALL)
        assert not any(colour in svg for svg in svgs)


def test_what_the_numbers_are(read):
    text = " ".join(e.text for e in read.all("main"))
    for expected in (
        "all_reduce of 1 GB: of 4 runs “plain” is the quickest with 20 ms",
        "at most one chunk per link and round: exact",
        "ideal load balancing",
        "ecmp 7",
        "[network]",  # the spec text
        "mrcjax run",
    ):
        assert expected in text, expected


def test_a_page_of_one_run(tmp_path):
    archive.write(tmp_path / "one.h5", {"one": make_outcome()}, command="mrcjax run a.toml")
    read = read_page(page(archive.load(tmp_path / "one.h5")))
    assert read.all("h1")[0].text == "all_reduce of 1 GB by direct on flat_rails, 8 ranks"
    facts = dict(
        zip((e.text for e in read.all("dt")), (e.text for e in read.all("dd")), strict=True)
    )
    assert facts["Completion time"] == "20 ms"
    assert facts["Lower bound"] == "17.5 msport rates, for any schedule"
    assert facts["Time over lower bound"] == "1.143 ×"
    assert facts["Binding resource"] == "rank 0 ébusiest link busy 50.0% of the time"


def test_a_page_without_runs_or_numbers(tmp_path):
    path = tmp_path / "none.h5"
    archive.write(path, {}, command="x", tables={"words": Table([{"of": "a", "is": "b"}])})
    read = read_page(page(archive.load(path)))
    assert [e.text for e in read.all("h2")] == ["Summary", "Tables"]
    nothing = {"finish_s": np.zeros(8), "time_s": 0.0, "lower_bound_s": 0.0}
    archive.write(path, {"still": make_outcome(**nothing)}, command="x")
    assert "Completion time" in page(archive.load(path))


def test_of_very_many_rows_the_first_are_shown():
    shown = grid([{"x": float(i)} for i in range(MOST_ROWS + 5)])
    assert len(shown.rows) == MOST_ROWS
    assert shown.notes == ["5 more rows are left out of this page."]
    cells = grid([{"x": float("inf")}, {"x": float("nan")}, {"x": True}]).rows
    assert [row[0].sort for row in cells] == [1e308, None, 1.0]


def test_report_command(tmp_path, capsys):
    write_many(tmp_path / "many.h5")
    assert main(["report", str(tmp_path / "many.h5")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'many.html'}\n"
    read = read_page((tmp_path / "many.html").read_text())
    assert "flat_rails" in " ".join(e.text for e in read.all("main"))
    assert main(["report", str(tmp_path / "many.h5"), "--out", "page.txt"]) == 2
    assert capsys.readouterr().err == (
        'mrcjax: --out is no name of a page, got "page.txt"; let it end in .html\n'
    )
    assert main(["report", str(tmp_path / "no.h5")]) == 2


def test_a_page_is_written_whole_or_not(tmp_path):
    target = tmp_path / "folder" / "a.html"
    write_page(target, "one")
    with pytest.raises(TypeError):
        write_page(target, None)  # pyright: ignore[reportArgumentType]
    assert target.read_text() == "one"
    assert list(target.parent.iterdir()) == [target]


def test_tables_of_one_title_are_told_apart(tmp_path):
    path = tmp_path / "a.h5"
    archive.write(path, {}, command="x", tables={"one": TABLE, "two": TABLE, "steps": STEPS})
    read = read_page(page(archive.load(path)))
    assert [e.text for e in read.all("h3")] == ["Side by side (one)", "Side by side (two)"]
