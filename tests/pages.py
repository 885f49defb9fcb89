"""Archives and sweeps for the tests of pages, and a reader of HTML."""

import html.parser
from dataclasses import dataclass, field, replace

import numpy as np
from sweeps import point
from test_archive import make_outcome

from mrcjax import archive
from mrcjax.archive import Axis, Column, Point, Table, sweep_writer
from mrcjax.outcome import Scenarios

EVIL = '<img src="https://example.com/x.png" onerror=alert(1)> & "two" \'one\' </script>'
VOID = {"meta", "link", "input", "br", "img", "path", "use", "rect", "image", "line"}

TABLE = Table(
    [
        {"name": "fat tree", "time_s": 0.0416, "bound_s": 0.04, "kind": "hashed"},
        {"name": "flat rails", "time_s": 0.0021, "bound_s": 0.002, "kind": None},
        {"name": "no value", "time_s": None, "bound_s": None, "kind": "none"},
        {"name": "10 racks", "time_s": 1.5, "bound_s": 1.4, "kind": "9 planes"},
    ],
    (
        Column("name", "network"),
        Column("time_s", "time", "ms", 1e-3, bound_key="bound_s"),
        Column("bound_s", "lower bound", "ms", 1e-3),
        Column("kind", "kind"),
    ),
    "Side by side",
    ["- A note with <b>tags</b>."],
)
STEPS = Table(
    [
        {
            "stage": "loads",
            "number": i,
            "smooth_s": 0.03 / (i + 1),
            "exact_s": 0.02 + 0.01 / (i + 1),
        }
        for i in range(20)
    ],
    title="Steps of the search",
)


def write_many(path):
    """Write an archive with runs of every sort, among them one with names made to break a page."""
    spread = Scenarios(np.linspace(0.02, 0.03, 50))
    runs = {
        "plain": make_outcome(),
        EVIL: make_outcome(warnings=(EVIL,), bound_kind=EVIL, device=EVIL),
        "scenarios": make_outcome(scenarios=spread, time_s=0.03),
        "tuned": make_outcome(time_s=0.025),
    }
    tables = {
        "table": TABLE,
        "tuned-history": STEPS,
        "second": replace(TABLE, title=EVIL),
        "long": Table([{"rank": i, "port": f"rail {i}"} for i in range(20)], title="Long"),
    }
    archive.write(path, runs, command=f"mrcjax run {EVIL}", tables=tables)
    return archive.load(path)


RANKS, SIZES, SEEDS = [64, 256, 1024], [1e6, 1e9], [0, 1, 2, 3]
AXES = (
    Axis("case", {"case": ["fat tree", EVIL]}),
    Axis("network.ranks", {"network.ranks": RANKS}),
    Axis("collective.size", {"collective.size": SIZES}, {"collective.size": "byte"}),
    Axis("faults.random.0.seed", {"faults.random.0.seed": SEEDS}),
)


def values_at(case: int, ranks: int, size: int, seed: int) -> dict:
    bound_s = SIZES[size] * 1e-11 * RANKS[ranks]
    time_s = bound_s * (1.5 + case + 0.1 * seed)
    return {
        "time_s": time_s,
        "lower_bound_s": bound_s,
        "bound_ratio": time_s / bound_s,
        "busbw_bytes_per_s": SIZES[size] / time_s,
        "warnings": EVIL if case else "",
        "finish_median_s": 0.5 * time_s,
        "finish_p95_s": 0.9 * time_s,
        "finish_p99_s": 0.99 * time_s,
        "finish_max_s": time_s,
    }


def write_sweep(path):
    """Write a sweep of two networks with a point left out and a failed one."""
    with sweep_writer(
        path,
        AXES,
        excluded={(0, 2, 1, 3)},
        spec_text="[sweep]\nnetwork.ranks = [64]",
        command=f"mrcjax sweep {EVIL}",
    ) as writer:
        points = []
        for at in np.ndindex(2, 3, 2, 4):
            if at == (0, 2, 1, 3):
                continue
            if at == (1, 2, 1, 0):
                points.append(Point(at, "x", "failed", f"out of {EVIL}"))
                continue
            made = point(*at, ranks=None)
            points.append(Point(at, made.id, values={**made.values, **values_at(*at)}))
        writer.add(points)
    return archive.load(path)


@dataclass
class Element:
    """An element of a page: its tag, attributes, text inside, and what it is in."""

    tag: str
    attributes: dict[str, str | None]
    path: tuple[str, ...]
    text: str = ""


@dataclass
class Reader(html.parser.HTMLParser):
    """Reads a page and fails where tags do not match."""

    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self):
        super().__init__()

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs), tuple(e.tag for e in self.open))
        assert len(element.attributes) == len(attrs), f"{tag} has an attribute twice"
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(Element(tag, dict(attrs), tuple(e.tag for e in self.open)))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        last = self.open.pop()
        assert last.tag == tag, f"</{tag}> closes <{last.tag}>"

    def handle_data(self, data):
        for element in self.open:
            element.text += data

    def all(self, tag: str, inside: str = "") -> list[Element]:
        """Return all elements of a tag, of those inside another where one is named."""
        return [e for e in self.elements if e.tag == tag and (not inside or inside in e.path)]


def read_page(text: str) -> Reader:
    """Read a page to its end."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader
