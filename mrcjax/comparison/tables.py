"""Turn the results into the rows and columns that are printed, archived and drawn."""

from typing import Any

from mrcjax.archive import Column, Table
from mrcjax.comparison.article import Article, Claims
from mrcjax.comparison.emulation import ALGORITHMS, Results, passive
from mrcjax.comparison.rows import GPU_NAMES, GPUS
from mrcjax.network.inventory import Inventory
from mrcjax.outcome import Outcome

Rows = list[dict[str, Any]]

_MS, _PERCENT, _KW, _MUSD, _MILLION = 1e-3, 0.01, 1e3, 1e6, 1e6

_NETWORK = Column("name", "network")
_COUNTS = (
    Column("switches", "switches"),
    Column("cables", "cables"),
)
_POWER_AND_PRICE = (
    Column("network_w", "power", "kW", _KW, digits=3),
    Column("with_nics_w", "with NICs", "kW", _KW, digits=3),
    Column("network_usd", "price", "M$", _MUSD, digits=3),
    Column("with_nics_usd", "with NICs", "M$", _MUSD, digits=3),
)


def claims_of(results: Results, article: Article) -> Claims:
    """Return the column of the article that a row of table b stands beside."""
    return {"fat_tree": article.fat_tree, "dragonfly": article.dragonfly}.get(
        results.row.key, article.mrc
    )


# --- table a: equal injection bandwidth --------------------------------------------------------


def all_reduces_a(found: list[Results]) -> Table:
    """Return the 1 GB all-reduce of every row, over all ranks without nodes."""
    lines = [
        {
            "algorithm": algorithm,
            "name": results.row.name,
            **_times(results.all_reduces[algorithm]),
        }
        for algorithm in ALGORITHMS
        for results in found
    ]
    columns = (
        Column("algorithm", "1 GB all-reduce"),
        _NETWORK,
        Column("time_s", "time", "ms", _MS, bound_key="bound_s"),
        Column("bound_s", "lower bound", "ms", _MS),
        Column("ratio", "time / bound"),
        Column("binding", "busiest resource"),
        Column("busy", "busy", "%", _PERCENT, digits=3),
    )
    return Table(lines, columns)


def steps_a(found: list[Results]) -> Table:
    """Return the training step of every row, its buckets by direct and ring."""
    lines = [
        {
            "algorithm": algorithm,
            "name": results.row.name,
            **_step(results, algorithm),
        }
        for algorithm in ALGORITHMS
        for results in found
    ]
    columns = (
        Column("algorithm", "buckets by"),
        _NETWORK,
        Column("bucket_s", "bucket", "ms", _MS),
        Column("bucket_ratio", "/ bound"),
        Column("exposed_s", "exposed", "ms", _MS, digits=3),
        Column("step_s", "step", "s"),
        Column("utilisation", "utilised", "%", _PERCENT, digits=3),
        Column("mfu", "MFU", "%", _PERCENT, digits=3),
        Column("tokens_per_s", "tokens/s", "M/s", _MILLION),
        Column("hours", "run", "h", digits=3),
        Column("run_usd", "cost", "M$", _MUSD, digits=3),
    )
    return Table(lines, columns)


def hardware_a(found: list[Results]) -> Table:
    """Return what the networks are built of, their power and price."""
    lines = [{"name": results.row.name, **_hardware(results.inventory)} for results in found]
    apart = (
        Column("switches_w", "switches", "kW", _KW, digits=3),
        Column("modules_w", "modules", "kW", _KW, digits=3),
    )
    return Table(lines, (_NETWORK, *_COUNTS, *apart, *_POWER_AND_PRICE))


def bars_a(found: list[Results]) -> Table:
    """Return what the figure of table a shows, one line per network."""
    lines = []
    for results in found:
        line = {
            "name": results.row.name,
            **_step(results, "direct"),
            **_hardware(results.inventory),
        }
        for algorithm, outcome in results.all_reduces.items():
            line[f"{algorithm}_s"] = outcome.time_s
            line[f"{algorithm}_bound_s"] = outcome.lower_bound_s
        lines.append(line)
    columns = (
        Column("direct_s", "1 GB, direct", "ms", _MS, "direct_bound_s"),
        Column("ring_s", "1 GB, ring", "ms", _MS, "ring_bound_s"),
        Column("utilisation", "utilisation", "%", _PERCENT, digits=3),
        Column("tokens_per_s", "tokens/s", "million/s", _MILLION),
        Column("network_w", "switches + modules", "kW", _KW, digits=3),
        Column("with_nics_usd", "price with NICs", "M$", _MUSD, digits=3),
        Column("run_usd", "cost of a run", "M$", _MUSD, digits=3),
    )
    return Table(lines, columns)


# --- table b: as the article describes them ----------------------------------------------------


def all_reduces_b(found: list[Results], article: Article) -> Table:
    """Return the 1 GB all-reduce of every row on both GPUs, beside the article's."""
    lines = []
    for results in found:
        line: dict[str, Any] = {"name": results.row.name}
        line["article_s"] = claims_of(results, article).all_reduce_s
        for gpu in GPUS:
            outcome = results.all_reduces[gpu]
            line |= {f"{key}_{gpu}": value for key, value in _times(outcome).items()}
        lines.append(line)
    columns = [_NETWORK, Column("article_s", "article", "ms", _MS)]
    for gpu in GPUS:
        columns += [
            Column(f"time_s_{gpu}", GPU_NAMES[gpu], "ms", _MS, bound_key=f"bound_s_{gpu}"),
            Column(f"bound_s_{gpu}", "bound", "ms", _MS),
            Column(f"ratio_{gpu}", "/ bound"),
        ]
    columns += [
        Column("binding_h100", "busiest resource, H100"),
        Column("busy_h100", "busy", "%", _PERCENT, digits=3),
    ]
    return Table(lines, tuple(columns))


def steps_b(found: list[Results], article: Article) -> Table:
    """Return the training step of every row on both GPUs, beside the article's."""
    lines = []
    for results in found:
        line: dict[str, Any] = {
            "name": results.row.name,
            "article_utilisation": claims_of(results, article).utilisation,
        }
        for gpu in GPUS:
            line |= {f"{key}_{gpu}": value for key, value in _step(results, gpu).items()}
        lines.append(line)
    columns = (
        _NETWORK,
        Column("bucket_s_h100", "bucket", "ms", _MS),
        Column("bucket_ratio_h100", "/ bound"),
        *_by_gpu("exposed_s", "exposed,", "ms", _MS),
        *_by_gpu("step_s", "step,", "s", digits=4),
        Column("article_utilisation", "utilised, article", "%", _PERCENT, digits=3),
        *_by_gpu("utilisation", "", "%", _PERCENT),
    )
    return Table(lines, columns)


def runs_b(found: list[Results], article: Article) -> Table:
    """Return throughput and the cost of a run beside the article's; flat rails in two readings."""
    lines = []
    for results in found:
        claims = claims_of(results, article)
        said = {"article_tokens_per_s": claims.tokens_per_s, "article_usd": claims.run_usd}
        line: dict[str, Any] = {"name": results.row.name, **said}
        for gpu in GPUS:
            line |= {f"{key}_{gpu}": value for key, value in _step(results, gpu).items()}
        lines.append(line)
        if results.row.is_flat:
            costs = passive(results)[1]
            name = {"name": _passive_name(results)}
            lines.append(line | name | {f"run_usd_{g}": c.total_usd for g, c in costs.items()})
    columns = (
        _NETWORK,
        Column("article_tokens_per_s", "tokens/s, article", "M/s", _MILLION, digits=3),
        *_by_gpu("tokens_per_s", "", "M/s", _MILLION),
        *_by_gpu("mfu", "MFU,", "%", _PERCENT),
        Column("article_usd", "run cost, article", "M$", _MUSD, digits=3),
        *_by_gpu("run_usd", "", "M$", _MUSD),
    )
    return Table(lines, columns)


def hardware_b(found: list[Results], article: Article) -> Table:
    """Return power and price beside the article's power; flat rails in two readings."""
    lines = []
    for results in found:
        said = {"article_w": claims_of(results, article).network_w}
        lines.append({"name": results.row.name, **said, **_hardware(results.inventory)})
        if results.row.is_flat:
            materials = passive(results)[0]
            lines.append({"name": _passive_name(results), **said, **_hardware(materials)})
    claimed = Column("article_w", "power, article", "kW", _KW)
    return Table(lines, (_NETWORK, *_COUNTS, claimed, *_POWER_AND_PRICE))


def bars_b(found: list[Results], article: Article) -> Table:
    """Return what the figure of table b shows: per network the article's claim, H100, B200."""
    lines: Rows = []
    for results in found:
        claims = claims_of(results, article)
        name = results.row.name
        lines.append(
            {
                "name": f"{name}: article",
                "is_claim": True,
                "time_s": claims.all_reduce_s,
                "utilisation": claims.utilisation,
                "network_w": claims.network_w,
                "run_usd": claims.run_usd,
            }
        )
        for gpu in GPUS:
            outcome = results.all_reduces[gpu]
            lines.append(
                {
                    "name": GPU_NAMES[gpu],
                    "is_claim": False,
                    "time_s": outcome.time_s,
                    "bound_s": outcome.lower_bound_s,
                    **_step(results, gpu),
                    "network_w": results.inventory.watts_without_nics,
                }
            )
    columns = (
        Column("time_s", "1 GB all-reduce", "ms", _MS, "bound_s"),
        Column("utilisation", "utilisation", "%", _PERCENT, digits=3),
        Column("network_w", "switches + modules", "kW", _KW, digits=3),
        Column("run_usd", "cost of a run", "M$", _MUSD, digits=3),
    )
    return Table(lines, columns)


# --- what the rows share -----------------------------------------------------------------------


def _times(outcome: Outcome) -> dict[str, Any]:
    return {
        "time_s": outcome.time_s,
        "bound_s": outcome.lower_bound_s,
        "ratio": outcome.bound_ratio,
        "bound_kind": outcome.bound_kind,
        "binding": outcome.binding.name,
        "busy": outcome.binding.utilisation,
    }


def _step(results: Results, key: str) -> dict[str, Any]:
    trained = results.steps[key]
    step, cost = trained.step, trained.cost
    bucket = next(iter(trained.outcomes.values()), None)
    return {
        "bucket_s": trained.t_rs_s,
        "bucket_ratio": None if bucket is None else bucket.bound_ratio,
        "exposed_s": step.exposed_s,
        "step_s": step.step_s,
        "utilisation": step.utilisation,
        "mfu": step.mfu,
        "tokens_per_s": step.tokens_per_s,
        "hours": None if cost is None else cost.hours,
        "run_usd": None if cost is None else cost.total_usd,
    }


def _hardware(materials: Inventory) -> dict[str, Any]:
    return {
        "switches": materials.switches,
        "cables": materials.cables,
        "switches_w": materials.watts.get("switches"),
        "modules_w": materials.watts.get("modules"),
        "network_w": materials.watts_without_nics,
        "with_nics_w": materials.watts_with_nics,
        "network_usd": materials.usd_without_nics,
        "with_nics_usd": materials.usd_with_nics,
    }


def _by_gpu(key: str, title: str, unit: str, scale: float = 1.0, digits: int = 3) -> list[Column]:
    return [
        Column(f"{key}_{gpu}", f"{title} {GPU_NAMES[gpu]}".strip(), unit, scale, digits=digits)
        for gpu in GPUS
    ]


def _passive_name(results: Results) -> str:
    return f"{results.row.name}, passive"
