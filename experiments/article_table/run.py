"""The article's first table, figure by figure: at equal bandwidth and as it describes networks."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from experiments import figures
from experiments.common import Asked, Claim, asked, finish, off
from mrcjax.archive import Column, Table
from mrcjax.comparison import Article, Comparison, compare
from mrcjax.comparison.article import Claims
from mrcjax.comparison.emulation import Results
from mrcjax.comparison.rows import GPU_NAMES, GPUS

# column of the article -> row of table a, row of table b
ROWS = {
    "fat_tree": ("fat_tree", "fat_tree"),
    "dragonfly": ("dragonfly", "dragonfly"),
    "mrc": ("mrc_planes", "mrc_planes"),
}


@dataclass(frozen=True)
class Metric:
    """A line of the article's table: what it claims, and what stands beside it."""

    key: str
    title: str
    unit: str
    scale: float
    claimed: Callable[[Claims], float]
    equal: Callable[[Results], float]  # of table a, buckets and all-reduce direct
    described: Callable[[Results, str], float]  # of table b, on a GPU


def _watts(results: Results) -> float:
    watts = results.inventory.watts_without_nics
    assert watts is not None
    return watts


def _usd(results: Results, key: str) -> float:
    cost = results.steps[key].cost
    assert cost is not None
    return cost.total_usd


METRICS = (
    Metric(
        "time_s",
        "all-reduce of 1 GB",
        "ms",
        1e-3,
        lambda c: c.all_reduce_s,
        lambda r: r.all_reduces["direct"].time_s,
        lambda r, gpu: r.all_reduces[gpu].time_s,
    ),
    Metric(
        "utilisation",
        "GPU utilisation",
        "%",
        0.01,
        lambda c: c.utilisation,
        lambda r: r.steps["direct"].step.utilisation,
        lambda r, gpu: r.steps[gpu].step.utilisation,
    ),
    Metric(
        "tokens_per_s",
        "tokens/s",
        "million",
        1e6,
        lambda c: c.tokens_per_s,
        lambda r: r.steps["direct"].step.tokens_per_s,
        lambda r, gpu: r.steps[gpu].step.tokens_per_s,
    ),
    Metric(
        "network_w",
        "network power",
        "kW",
        1e3,
        lambda c: c.network_w,
        _watts,
        lambda r, gpu: _watts(r),
    ),
    Metric(
        "run_usd",
        "cost of a run",
        "M$",
        1e6,
        lambda c: c.run_usd,
        lambda r: _usd(r, "direct"),
        _usd,
    ),
)

WHY = {
    "time_s": "without nodes no algorithm at 400 Gbit/s comes near; with nodes of eight the "
    "figure is a matter of rate per GPU, hashing and the algorithm between nodes",
    "utilisation": "only what computing does not hide counts, and a step hides most of it; what is "
    "left depends on rate, hashing and GPU, at equal rate not on the network",
    "tokens_per_s": "tokens/s follow from the share of peak while computing times utilisation; the "
    "article's take more than an H100 reaches in bf16",
    "network_w": "watts follow from rate times levels of links; its three figures follow no one "
    "rule (experiment cost_power)",
    "run_usd": "GPU-hours are nearly all of it, so that the cost goes with 1 / tokens/s at one "
    "price of an hour",
}


def found_rows(made: Comparison) -> list[dict]:
    """Return every cell of the article's table with what was emulated for it, in SI units."""
    equal = {r.row.key: r for r in made.equal}
    described = {r.row.key: r for r in made.described}
    lines = []
    for metric in METRICS:
        for of, claims in zip(ROWS, made.article.networks, strict=True):
            a, b = equal[ROWS[of][0]], described[ROWS[of][1]]
            lines.append(
                {
                    "metric": metric,
                    "of": of,
                    "network": claims.name,
                    "article": metric.claimed(claims),
                    "equal": metric.equal(a),
                    **{gpu: metric.described(b, gpu) for gpu in GPUS},
                }
            )
    return lines


def table(lines: Sequence[dict]) -> Table:
    """Return the cells, all readings beside each other."""
    rows = []
    for line in lines:
        metric = line["metric"]
        scaled = {key: line[key] / metric.scale for key in ("article", "equal", *GPUS)}
        rows.append({"what": f"{metric.title}, {metric.unit}", "network": line["network"]} | scaled)
    columns = (
        Column("what", "table 1"),
        Column("network", "network"),
        Column("article", "article", digits=3),
        Column("equal", "(a) equal bandwidth, H100", digits=3),
        *(Column(gpu, f"(b) as described, {GPU_NAMES[gpu]}", digits=3) for gpu in GPUS),
    )
    title = "The article's first table, and what is emulated for each of its figures"
    return Table(rows, columns, title=title)


def claimed(lines: Sequence[dict], article: Article) -> list[Claim]:
    """Put every cell, then what the text says beside the table, next to what came out."""
    claims = []
    for line in lines:
        metric = line["metric"]
        (a, *b) = (line[key] / metric.scale for key in ("equal", *GPUS))
        words = [f"(a) {a:.3g} {metric.unit} ({off(line['equal'], line['article'])})"]
        for gpu, value in zip(GPUS, b, strict=True):
            less = off(line[gpu], line["article"])
            words.append(f"(b) {value:.3g} {metric.unit} on {GPU_NAMES[gpu]} ({less})")
        claims.append(
            Claim(
                f"{metric.title} on {line['network']}",
                f"{line['article'] / metric.scale:.3g} {metric.unit}",
                ", ".join(words),
                WHY[metric.key],
            )
        )
    return claims + _ratios(lines, article)


def _ratios(lines: Sequence[dict], article: Article) -> list[Claim]:
    """What the text says of MRC over the fat tree, against the same ratios of what came out."""
    at = {(line["metric"].key, line["of"]): line for line in lines}
    said = (
        ("all-reduce of the fat tree over MRC", "time_s", False, article.latency_factor),
        ("throughput of MRC over the fat tree", "tokens_per_s", True, 1 + article.throughput_gain),
        ("network power of MRC over the fat tree", "network_w", True, 1 + article.power_gain),
        ("cost of a run on MRC over the fat tree", "run_usd", True, article.cost_left),
    )
    claims = []
    for what, key, is_mrc_first, text in said:
        mrc, tree = at[key, "mrc"], at[key, "fat_tree"]
        first, second = (mrc, tree) if is_mrc_first else (tree, mrc)
        ratios = {name: first[name] / second[name] for name in ("article", "equal", *GPUS)}
        claims.append(
            Claim(
                what,
                f"{text:.3g} in its text, {ratios['article']:.3g} by its own table",
                f"(a) {ratios['equal']:.3g}; (b) "
                + ", ".join(f"{ratios[gpu]:.3g} on {GPU_NAMES[gpu]}" for gpu in GPUS),
                "as described the two differ in rate per GPU and in load balancing, at equal "
                "bandwidth in neither",
            )
        )
    return claims


def draw(given: Asked, lines: Sequence[dict], ranks: int) -> None:
    """Draw a panel per line of the table: the article's figure, and the three readings."""
    drawn = figures.figure(
        f"The article's first table against what is emulated, {ranks:,} GPUs",
        given.command,
        height=3.6,
        caption="(a): every network gives a GPU 400 Gbit/s, loads are balanced, H100, no nodes in "
        "the all-reduce. (b): networks as the article describes them; MRC as it is deployed.",
    )
    panels = drawn.subplots(1, len(METRICS), sharey=True)
    marks = {
        "article": ("article", figures.CLAIM, "D", "w"),
        "equal": ("(a) equal bandwidth", figures.COLOURS[6], "o", None),
        "h100": ("(b) as described, H100", figures.COLOURS[0], "s", None),
        "b200": ("(b) as described, B200", figures.COLOURS[2], "^", None),
    }
    names = [line["network"] for line in lines[: len(ROWS)]]
    for panel, metric in zip(panels, METRICS, strict=True):
        mine = [line for line in lines if line["metric"] is metric]
        for number, (key, (label, colour, mark, face)) in enumerate(marks.items()):
            values = [line[key] / metric.scale for line in mine]
            places = [place + 0.18 * (number - 1.5) for place in range(len(mine))]
            panel.plot(
                values,
                places,
                mark,
                color=colour,
                mfc=face or colour,
                ms=7,
                label=label,
                linestyle="none",
                mew=1.5,
            )
        panel.set_xlim(0, 1.12 * panel.get_xlim()[1])
        panel.set_yticks(range(len(names)), names)
        panel.set_ylim(len(names) - 0.5, -0.5)
        for place in range(1, len(names)):
            panel.axhline(place - 0.5, color=figures.GRID, lw=0.8)
        figures.tidy(panel, x=metric.unit, title=f"\n\n{metric.title}")
        panel.title.set_fontsize(9.5)
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
    handles, labels = panels[0].get_legend_handles_labels()
    legend = panels[0].legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(-0.1, 1.12),
        ncols=4,
        fontsize=9,
        frameon=False,
    )
    legend.set_in_layout(False)  # wider than its panel, in the room above the titles
    figures.save(drawn, given.path(""))


def main(argv: Sequence[str] | None = None) -> None:
    """Print tables and claims; write results/article_table.txt, .h5, .png and .svg."""
    given = asked("article_table", __doc__, argv)

    told: list[str] = []

    def progress(text: str) -> None:
        if told[-1:] != [text]:
            told.append(text)
            print(f"  {text}", file=sys.stderr, flush=True)

    made = compare(progress, ranks=64 if given.short else None)
    lines = found_rows(made)
    tables = {"article": table(lines), **made.tables}
    claims = claimed(lines, made.article)
    finish(given, tables, claims, runs=made.runs, started=made.started)
    draw(given, lines, made.equal[0].row.spec.network.ranks)


if __name__ == "__main__":
    main()
