"""`compare` without a spec: the networks of the article, at equal rate and as it describes them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mrcjax.archive import Table
from mrcjax.comparison import tables, verdict
from mrcjax.comparison.article import Article, load_article
from mrcjax.comparison.compared import Compared
from mrcjax.comparison.emulation import Results, emulate
from mrcjax.comparison.rows import rows
from mrcjax.outcome import Outcome


@dataclass(frozen=True, kw_only=True)
class Comparison(Compared):
    """Both tables of the comparison and the runs behind them.

    tables: the parts of table a, then those of table b. bars: "compare_a" and "compare_b".
    """

    equal: list[Results]  # table a
    described: list[Results]  # table b
    article: Article


def compare(
    progress: Callable[[str], None] | None = None,
    *,
    ranks: int | None = None,
    article: Article | None = None,
) -> Comparison:
    """Emulate all rows of both tables.

    Args:
        progress: told what is being done, some twice a second.
        ranks: another number of ranks than the rows have, a multiple of 8.
        article: other claims to print beside the results.
    """
    started = datetime.now(UTC)
    article = load_article() if article is None else article
    found = emulate([*rows("a", ranks), *rows("b", ranks)], progress)
    equal = [results for results in found if results.row.part == "a"]
    described = [results for results in found if results.row.part == "b"]
    runs: dict[str, Outcome] = {}
    for results in found:
        runs |= results.runs()
    return Comparison(
        runs=runs,
        equal=equal,
        described=described,
        article=article,
        tables=_tables(equal, described, article),
        bars=_bars(equal, described, article),
        started=started,
    )


def _tables(equal: list[Results], described: list[Results], article: Article) -> dict[str, Table]:
    def told(table: Table, title: str, notes: list[str]) -> Table:
        return replace(table, title=title, notes=[f"- {note}" for note in notes])

    built = "What it is built of, power and price"
    return {
        "a-all_reduce": told(
            tables.all_reduces_a(equal), verdict.headline(equal), verdict.notes_a_all_reduce(equal)
        ),
        "a-step": told(
            tables.steps_a(equal), "(a) The training step, H100", verdict.notes_a_step(equal)
        ),
        "a-hardware": told(
            tables.hardware_a(equal),
            f"(a) {built}",
            verdict.notes_a_hardware(equal),
        ),
        "b-all_reduce": told(
            tables.all_reduces_b(described, article),
            f"{verdict.title_b(article)} The all-reduce of 1 GB:",
            verdict.notes_b_all_reduce(described),
        ),
        "b-step": told(
            tables.steps_b(described, article),
            "(b) The training step",
            verdict.notes_b_step(described),
        ),
        "b-run": told(
            tables.runs_b(described, article),
            "(b) Throughput and the cost of a run",
            verdict.notes_b_run(described, article),
        ),
        "b-hardware": told(
            tables.hardware_b(described, article),
            f"(b) {built}",
            verdict.notes_b_hardware(described, article),
        ),
    }


def _bars(equal: list[Results], described: list[Results], article: Article) -> dict[str, Table]:
    network = equal[0].row.spec.network
    ranks = network.ranks
    gbit_per_s = math.fsum(network.port_rates) * 8e-9
    model = "1 GB all-reduce and LLaMA-70B training"
    return {
        "compare_a": replace(
            tables.bars_a(equal),
            title=f"At equal injection bandwidth networks are nearly equal: {ranks:,} H100, "
            f"{gbit_per_s:.4g} Gbit/s each",
            notes=[f"{model}; buckets direct, lower bounds hold for any algorithm."],
        ),
        "compare_b": replace(
            tables.bars_b(described, article),
            title=f"As the article describes them: {model}, {ranks:,} GPUs",
            notes=[
                "Dashed: the article's claim. Flat rails with switches; lower bounds hold for any "
                "algorithm."
            ],
        ),
    }
