"""Is the time of an all-reduce proportional to bytes over rails?"""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments import figures
from experiments.common import Asked, Claim, array, asked, finish, swept
from mrcjax.archive import Column, Sweep, Table
from mrcjax.units import format_bytes

HERE = Path(__file__).parent
DIRECT, STRIPED, RING, DOWN = (
    "direct, whole shards",
    "direct, striped",
    "ring",
    "direct, one port down",
)
SHORT = {
    "fixed_rate": ("network.ranks=16", "network.rails=1,8"),
    "fixed_total": (
        "network.ranks=16",
        "network.rails=1,8",
        "network.rail_rate=800 Gbit/s,100 Gbit/s",
    ),
}


class Times:
    """Seconds by case, rails and bytes, and what failed."""

    def __init__(self, found: Sweep):
        axes = ("case", "network.rails", "collective.size")
        self.cases, rails, self.sizes = (list(found.coords[key]) for key in axes)
        self.rails = [int(n) for n in rails]
        self.time_s = array(found, "time_s", *axes)
        self.reason = array(found, "reason", *axes)

    def of(self, case: str, size: float) -> np.ndarray:
        """Seconds at every number of rails; NaN where the point failed."""
        return self.time_s[self.cases.index(case), :, self.sizes.index(size)]

    def exponent(self, case: str, size: float) -> float:
        """Power of the number of rails that the time falls with, from the first to the last."""
        time_s = self.of(case, size)
        return float(np.log(time_s[-1] / time_s[0]) / np.log(self.rails[-1] / self.rails[0]))


def table(times: Times, title: str) -> Table:
    """Return times by rails, and times over those of one rail divided by their number."""
    lines = []
    for i, rails in enumerate(times.rails):
        line: dict = {"rails": rails}
        for case in times.cases:
            for size in times.sizes:
                time_s = times.of(case, size)
                line[f"{case} {size}"] = float(time_s[i])
        lines.append(line)
    columns = [Column("rails", "rails")]
    for size in times.sizes:
        unit, scale = ("us", 1e-6) if size < 1e8 else ("ms", 1e-3)
        columns += [
            Column(f"{case} {size}", f"{format_bytes(size)}, {case}", unit, scale)
            for case in times.cases
        ]
    reasons = sorted({str(reason) for reason in times.reason.ravel() if reason})
    return Table(lines, columns, title=title, notes=[f"-: {reason}" for reason in reasons])


def powers(rate: Times, total: Times) -> Table:
    """Return the powers of the number of rails that times fall with."""
    lines = []
    for name, times in (("each rail keeps its rate", rate), ("their sum is fixed", total)):
        for size in times.sizes:
            powers = {case: times.exponent(case, size) for case in (DIRECT, STRIPED, RING)}
            lines.append({"name": name, "size": format_bytes(size), **powers})
    columns = (
        Column("name", "rails"),
        Column("size", "bytes"),
        *(Column(case, case, digits=3) for case in (DIRECT, STRIPED, RING)),
    )
    title = "Time goes with the number of rails to the power of (the article: -1)"
    return Table(lines, columns, title=title)


def claimed(rate: Times, total: Times) -> list[Claim]:
    """Put the proportion that the article states beside what came out."""
    small, large = rate.sizes[0], rate.sizes[-1]
    last, what = rate.rails[-1], "time of an all-reduce against the number of rails"
    whole, down = total.of(DIRECT, large), total.of(DOWN, large)
    eight = total.rails.index(8)
    return [
        Claim(
            f"{what}, {format_bytes(large)}, each rail keeps its rate",
            "proportional to 1 / rails",
            f"to the power {rate.exponent(STRIPED, large):.3f} striped, "
            f"{rate.exponent(DIRECT, large):.3f} with whole shards, "
            f"{rate.exponent(RING, large):.3f} by ring, from 1 to {last} rails",
            "true of a direct algorithm and many bytes; a ring's latencies do not shrink",
        ),
        Claim(
            f"{what}, {format_bytes(small)}, each rail keeps its rate",
            "proportional to 1 / rails",
            f"to the power {rate.exponent(STRIPED, small):.3f} striped, "
            f"{rate.exponent(RING, small):.3f} by ring",
            "of few bytes it is latency that takes time, and rails have no part in it",
        ),
        Claim(
            f"{what}, {format_bytes(large)}, one adapter split over rails",
            "proportional to 1 / rails",
            f"to the power {total.exponent(STRIPED, large):.3f} striped, "
            f"{total.exponent(DIRECT, large):+.3f} with whole shards",
            "the deployed MRC divides a fixed rate: more planes, not more bytes per second",
        ),
        Claim(
            "what splitting buys instead: one port of one GPU down, of 8",
            "-",
            f"{down[eight] / whole[eight]:.4g} times the time; with one rail "
            + ("cut off" if np.isnan(down[0]) else f"{down[0] / whole[0]:.4g} times"),
            "a share of a GPU is lost, and all wait for it; with one rail all of it",
        ),
    ]


def draw(given: Asked, rate: Times, total: Times, ranks: int) -> None:
    """Time against rails for both readings, with the ideal as a line."""
    drawn = figures.figure(
        "Time falls as 1 / rails only while each rail keeps its rate and bytes outweigh latency",
        given.command,
        height=4.4,
        caption=f"All-reduce over {ranks:,} GPUs on flat rails. Dashed: the article's proportion.",
    )
    panels = drawn.subplots(1, 2, sharey=True)
    titles = ("each rail has 400 Gbit/s", "all rails together have 800 Gbit/s")
    for panel, times, title in zip(panels, (rate, total), titles, strict=True):
        ends = []
        numbers = {DIRECT: 0, RING: 1, DOWN: 3}
        for size in times.sizes:
            for case, number in numbers.items():
                if case not in times.cases or (case == DOWN and size != times.sizes[-1]):
                    continue
                time_s = times.of(case, size) * 1e3
                figures.line(panel, times.rails, time_s, number)
                name = f"{format_bytes(size)}, {case.removesuffix(', whole shards')}"
                colour = figures.COLOURS[number]
                ends.append((times.rails[-1], time_s[-1], name, colour))
            first = times.of(DIRECT, size)[0] * 1e3
            ideal = first / np.array(times.rails)
            panel.plot(times.rails, ideal, color=figures.CLAIM, ls=(0, (5, 2)), lw=1.3, zorder=1)
            panel.annotate(
                "1 / rails (article)" if size == times.sizes[-1] else "",
                (times.rails[len(ideal) // 3], ideal[len(ideal) // 3]),
                (-4, -6),
                textcoords="offset points",
                fontsize=8.5,
                color=figures.CLAIM,
                ha="right",
                va="top",
            )
        figures.log_axis(panel.xaxis, times.rails)
        figures.log_axis(panel.yaxis, [0.001, 0.01, 0.1, 1, 10, 100])
        panel.set_ylim(0.002, 150)
        panel.set_xlim(0.9, 34)
        figures.tidy(panel, x="rails of a GPU", title=title)
        figures.name_ends(panel, ends)
    panels[0].set_ylabel("completion time / ms", fontsize=9.5)
    figures.save(drawn, given.path(""))


def main(argv: Sequence[str] | None = None) -> None:
    """Print tables and claims; write results/rails.txt, .png, .svg and two archives."""
    given = asked("rails", __doc__, argv)
    files = {name: HERE / f"{name}.toml" for name in ("fixed_rate", "fixed_total")}
    sets = SHORT if given.short else dict.fromkeys(files, ())
    rate, total = (Times(swept(given, f, set=sets[name], part=name)) for name, f in files.items())
    tables = {
        "fixed_rate": table(rate, "Rails of 400 Gbit/s each"),
        "fixed_total": table(total, "800 Gbit/s over all rails"),
        "powers": powers(rate, total),
    }
    finish(given, tables, claimed(rate, total))
    raw = tomllib.loads(files["fixed_rate"].read_text(encoding="utf-8"))
    draw(given, rate, total, 16 if given.short else raw["network"]["ranks"])


if __name__ == "__main__":
    main()
