"""What do the article's platforms reach by the same training step, and what would its figures take?

`python experiments/platforms/run.py` writes platforms.txt, .h5, .png and .svg into results/.
"""

import argparse
import dataclasses
import math
import sys
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import mrcjax
from mrcjax.archive import Column, Table
from mrcjax.comparison.compared import Compared
from mrcjax.outcome import Outcome
from mrcjax.spec import Spec
from mrcjax.step import TrainingOutcome, bucket_spec, train
from mrcjax.training import (
    achievable_fraction,
    batch_factor,
    bucket_factor,
    exposed_closed_form_s,
    layer_parameters,
)
from mrcjax.training import step as training_step
from mrcjax.units import format_bytes, format_rate, format_seconds

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
COMMAND = "python experiments/platforms/run.py"
_MS, _PERCENT = 1e-3, 0.01


@dataclass(frozen=True)
class Row:
    """A platform: its all-reduce of 1 GB, its training step, what the article reports of it."""

    key: str
    name: str
    spec: Spec
    outcome: Outcome
    trained: TrainingOutcome
    article: float | None
    matters: str


def rows(*, small: bool = False, keys: tuple[str, ...] = ()) -> list[Row]:
    """Emulate the platforms, in the sizes that finish in seconds if ``small``; all or ``keys``."""
    found = []
    for each in tomllib.loads((HERE / "platforms.toml").read_text(encoding="utf-8"))["platform"]:
        if keys and each["key"] not in keys:
            continue
        print(each["name"], file=sys.stderr)
        sets = [*each.get("set", ()), *(each.get("small", ()) if small else ())]
        spec = mrcjax.load_spec(HERE / each["spec"], set=sets)
        more = each.get("small_bucket" if small else "bucket", ())
        trained = train(mrcjax.load_spec(HERE / each["spec"], set=[*sets, *more]))
        outcome = mrcjax.run(spec, brief=True)
        names = (each["key"], each["name"], spec, outcome, trained)
        found.append(Row(*names, each.get("article"), each["matters"]))
        if each["key"] == "dgx_h100":
            found.append(plain_ring(found[-1]))
    return found


def plain_ring(row: Row) -> Row:
    """Return the row with buckets by a ring over all replicas, emulated on one of the rails."""
    trained, training = row.trained, row.spec.training
    assert training is not None
    replicas = trained.buckets.group_size
    rail = mrcjax.load_spec(HERE / "dgx_rail.toml", set=[f"network.ranks={replicas}"])
    alone = dataclasses.replace(trained.buckets, group_stride=1)
    runs = {
        bucket.collective: mrcjax.run(bucket_spec(rail, alone, bucket), brief=True)
        for bucket in alone.distinct
    }
    times_s = [runs[bucket.collective].time_s for bucket in alone.distinct]
    slower = dataclasses.replace(
        trained,
        step=training_step(training, row.spec.network.ranks, *times_s),
        t_rs_s=times_s[0],
        t_ag_s=times_s[-1],
        outcomes=runs,
    )
    return dataclasses.replace(
        row,
        key=f"{row.key}_ring",
        name=f"{row.name}, plain ring",
        trained=slower,
        matters="latency of one step after another, as many as there are replicas",
    )


def emulated(found: list[Row]) -> Table:
    """Return what came out, beside what the article reports."""
    lines = []
    for row in found:
        step = row.trained.step
        is_alone = row.spec.network.ranks == 1
        lines.append(
            {
                "name": row.name,
                "ranks": row.spec.network.ranks,
                "rate": math.fsum(row.spec.network.port_rates) or row.spec.network.node_bytes_per_s,
                "time_s": None if is_alone else row.outcome.time_s,
                "bound_s": None if is_alone else row.outcome.lower_bound_s,
                "ratio": None if is_alone else row.outcome.bound_ratio,
                "bucket_s": row.trained.t_rs_s or None,
                "exposed_s": step.exposed_s,
                "step_s": step.step_s,
                "utilisation": step.utilisation,
                "mfu": step.mfu,
                "article": row.article,
            }
        )
    columns = (
        Column("name", "platform"),
        Column("ranks", "ranks"),
        Column("rate", "per rank", "GB/s", 1e9),
        Column("time_s", "1 GB", "ms", _MS, bound_key="bound_s"),
        Column("bound_s", "bound", "ms", _MS),
        Column("ratio", "/ bound", digits=3),
        Column("bucket_s", "bucket", "ms", _MS, digits=3),
        Column("exposed_s", "exposed", "ms", _MS, digits=3),
        Column("step_s", "step", "s", digits=3),
        Column("utilisation", "utilised", "%", _PERCENT, digits=3),
        Column("mfu", "MFU", "%", _PERCENT, digits=3),
        Column("article", "article", "%", _PERCENT, digits=3),
    )
    notes = ["What matters most:", *(f"- {row.name}: {row.matters}" for row in found)]
    notes += ["What the step takes for granted:", *said(found)]
    return Table(lines, columns, title="The same training step on every platform", notes=notes)


def needed(found: list[Row]) -> Table:
    """Return what would have to be true for the article's figures, as far as it reports one."""
    lines = []
    for row in found:
        if row.article is None:
            continue
        training, step = row.spec.training, row.trained.step
        assert training is not None
        factor = bucket_factor(training, step, row.article)
        rate = math.fsum(row.spec.network.port_rates)
        tokens = training.global_batch_tokens / row.spec.network.ranks
        lines.append(
            {
                "name": row.name,
                "article": row.article,
                "utilisation": step.utilisation,
                "factor": factor,
                "rate": rate / factor if factor and _is_by_rate(row) else None,
                "has": rate,
                "tokens": tokens * batch_factor(step, row.article),
                "micro": step.micro_batches * batch_factor(step, row.article),
                "fraction": achievable_fraction(training, step, row.article),
                "assumed": training.hardware.achievable_fraction,
            }
        )
    columns = (
        Column("name", "platform"),
        Column("article", "article", "%", _PERCENT, digits=3),
        Column("utilisation", "emulated", "%", _PERCENT, digits=3),
        Column("factor", "buckets slower", "times", digits=3),
        Column("rate", "or rate per rank", "GB/s", 1e9, digits=3),
        Column("has", "has", "GB/s", 1e9, digits=3),
        Column("tokens", "or tokens per rank", digits=3),
        Column("micro", "micro-batches", digits=3),
        Column("fraction", "or MFU: peak share", digits=3),
        Column("assumed", "assumed", digits=3),
    )
    notes = [
        "Each alone gives the article's figure, all else as emulated. Rate: where buckets take "
        "bytes over rate, and not the latency of many rounds. Less than one micro-batch "
        "cannot be. Peak share: what a chip would have to reach while computing if the figure is "
        "an MFU; - is more than all of it.",
    ]
    return Table(lines, columns, title="What would have to be true", notes=notes)


def _is_by_rate(row: Row) -> bool:
    """Whether buckets come within a quarter of what their bytes alone take on the busiest link."""
    runs = row.trained.outcomes.values()
    return all(each.time_s < 1.25 * each.schedule_bound_s for each in runs)


def said(found: list[Row]) -> list[str]:
    """Return what the step leaves out on platforms without nodes of eight."""
    notes = []
    for row in found:
        training, step = row.spec.training, row.trained.step
        assert training is not None
        notes += [f"- {row.name}: {text}" for text in row.spec.network.cautions]
        if row.spec.network.kind == "torus":
            sent = row.trained.buckets.tensor_parallel_sent_bytes
            rate = math.fsum(row.spec.network.port_rates[:2])
            text = (
                f"- {row.name}: the first dimension carries {format_bytes(sent)} of "
                f"tensor-parallel traffic per rank and step, {format_seconds(sent / rate)} at "
                f"{format_rate(rate)} beside {format_seconds(step.computing_s)} of computing; "
                "taken as hidden: with none of it hidden "
                f"{step.computing_s / (step.step_s + sent / rate):.1%} utilised"
            )
            if row.article is not None:
                lost_s = step.computing_s / row.article - step.step_s
                text += f", with {1 - lost_s * rate / sent:.0%} of it hidden the article's figure"
            notes.append(text)
        if row.spec.network.kind == "wafer":
            rate = math.fsum(row.spec.network.port_rates)
            layer_s = layer_parameters(training) * training.parameter_bytes / rate
            layers = training.shape.layers
            times = (step.forward_s, step.backward_s)
            down_s, up_s = (exposed_closed_form_s(layers, layer_s, t_s) for t_s in times)
            streamed = step.computing_s + step.optimiser_s + down_s + up_s
            notes.append(
                f"- {row.name}: weights stream down for the forward, and down again with gradients "
                f"going up in the backward, {format_seconds(layers * layer_s)} each at "
                f"{format_rate(rate)} a wafer; beside {format_seconds(step.forward_s)} and "
                f"{format_seconds(step.backward_s)} of computing that exposes "
                f"{format_seconds(down_s + up_s)}: {step.computing_s / streamed:.1%} utilised "
                "(by arithmetic, not emulated)"
            )
    return notes


def bars(found: list[Row]) -> Table:
    """Return what the figure draws."""
    lines = [
        {
            "name": row.name,
            "utilisation": row.trained.step.utilisation,
            "mfu": row.trained.step.mfu,
            "article": row.article,
        }
        for row in found
    ]
    columns = (
        Column("utilisation", "utilisation, emulated", "%", _PERCENT, digits=3),
        Column("mfu", "MFU, emulated", "%", _PERCENT, digits=3),
        Column("article", "efficiency, article", "%", _PERCENT, digits=3),
    )
    notes = ["4,096 tokens per GPU and step on every platform."]
    return Table(lines, columns, title="Platforms of the article", notes=notes)


def compared(found: list[Row], started: datetime) -> Compared:
    """Return tables, figure and runs."""
    runs: dict[str, Outcome] = {}
    for row in found:
        runs.setdefault(row.key.removesuffix("_ring"), row.outcome)
        runs |= {f"{row.key}-bucket-{kind}": each for kind, each in row.trained.outcomes.items()}
    tables = {"emulated": emulated(found), "needed": needed(found)}
    return Compared(runs=runs, tables=tables, bars={"platforms": bars(found)}, started=started)


def main() -> None:
    """Print both tables; write results/platforms.txt, .h5, .png and .svg."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="small sizes")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write into")
    asked = parser.parse_args()
    started = datetime.now(UTC)
    result = compared(rows(small=asked.short), started)
    text = f"{COMMAND}\n\n{result.text()}"
    print(text)
    asked.results.mkdir(parents=True, exist_ok=True)
    (asked.results / "platforms.txt").write_text(text + "\n", encoding="utf-8")
    result.write(asked.results / "platforms.h5", COMMAND)
    result.figures(asked.results, COMMAND)


if __name__ == "__main__":
    main()
