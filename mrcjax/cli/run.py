"""`mrcjax run`: emulate a spec."""

import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Suppress, arg

from mrcjax.cli.arguments import AsJson, Overrides, SpecFile, archive_to_write, whole_number
from mrcjax.cli.asking import load, print_json, target_of, what
from mrcjax.cli.assuming import assumptions_of
from mrcjax.cli.drawing import draw_run, figure_stem
from mrcjax.cli.joining import group_of, keep_stdout_clean
from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.tracing import TraceFile, TraceRanks, check_trace, traced
from mrcjax.cli.waiting import at_once

if TYPE_CHECKING:
    from mrcjax.archive import Table
    from mrcjax.spec import Spec
    from mrcjax.step import TrainingOutcome

_HANGING: dict[str, Any] = {"subsequent_indent": " " * 9, "break_long_words": False}


def run_command(
    spec: SpecFile,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        archive_to_write("Add the run to this archive"),
    ] = None,
    trace: TraceFile = None,
    trace_ranks: TraceRanks = None,
    overrides: Overrides = (),
    explain: Annotated[
        bool, arg(help="Also print the hardware, and every assumption with its source.")
    ] = False,
    coordinator: Annotated[
        str | None,
        arg(
            metavar="HOST:PORT",
            help="Share a run whose engine.devices is not 1 with other processes: the address of "
            "process 0, the same for all; auto where Slurm or Open MPI started them. Process 0 "
            "writes and prints.",
            help_behavior_hint="",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        whole_number("--processes"),
        arg(help="How many processes there are.", help_behavior_hint=""),
    ] = None,
    process: Annotated[
        int | None,
        whole_number("--process", 0, example=0),
        arg(metavar="I", help="Which one this is, from 0.", help_behavior_hint=""),
    ] = None,
    command: Suppress[str] = "",
) -> None:
    """Emulate a spec: how long it takes, what binds it, how far it is from the best possible.

    A spec with a [training] section also gives the training step around it and the cost of a run.
    """
    asked = load(spec, overrides)
    target = target_of(asked, out)
    group = group_of(asked, coordinator, processes, process)
    from mrcjax import archive

    if target is not None and (group is None or group.process in (None, 0)):
        archive.check_writable(target)
    check_trace(trace, trace_ranks)
    if group is None:
        prepare_jax()
    else:
        keep_stdout_clean()
        at_once(lambda: prepare_jax(group.join), "waiting for the other processes")
    from mrcjax.network.inventory import inventory
    from mrcjax.step import run_with_step

    if group is not None and not group.is_first():
        at_once(lambda: run_with_step(asked), f"emulating {what(asked)}")
        return

    materials = inventory(asked.network) if explain else None
    started = datetime.now(UTC)
    outcome, trained = at_once(lambda: run_with_step(asked), f"emulating {what(asked)}")
    training = None if trained is None else _training_table(asked, trained)
    others = (
        {} if trained is None else {k: o for k, o in trained.outcomes.items() if o is not outcome}
    )
    if trace is not None:
        outcome = traced(outcome, trace, trace_ranks, command)
    if target is not None:
        name = f"{outcome.kind}-{outcome.algorithm}-{outcome.ranks}"
        runs, tables = {name: outcome}, {}
        if trained is not None and training is not None:
            runs |= {f"{name}-{bucket}": o for bucket, o in others.items()}
            tables[f"{name}-training"] = training
        names = archive.write(target, runs, command=command, tables=tables, started=started)
        if asked.output.figures:
            draw_run(outcome, figure_stem(target, names[0], target.parent), ".png", command)
    assumptions = [] if materials is None else assumptions_of(asked, materials)
    if as_json:
        found = outcome.to_json()
        if trained is not None:
            found["training"] = trained.to_json()
        if materials is not None:
            found["hardware"] = materials.rows()
            found["assumptions"] = assumptions
        print_json(found)
        return
    from mrcjax.report.table import run_text, table_text, text_table

    blocks = [run_text(outcome)]
    if trained is not None and training is not None:
        blocks.append(table_text(training))
        more = [text for text in trained.warnings if text not in outcome.warnings]
        blocks += [textwrap.fill(f"warning: {text}", 110, **_HANGING) for text in more]
    if materials is not None:
        blocks.append(text_table([{"hardware": k, "": v} for k, v in materials.rows()]))
        blocks.append(text_table(assumptions))
    print("\n\n".join(blocks))


def _training_table(asked: "Spec", trained: "TrainingOutcome") -> "Table":
    from mrcjax.archive import Column, Table

    assert asked.training is not None
    parts = [("step", trained.step.rows())]
    if trained.cost is not None:
        parts.append(("run", trained.cost.rows()))
    hardware = [row for row in trained.inventory.rows() if row[0] in _HARDWARE_ROWS]
    parts.append(("network", hardware))
    return Table(
        rows=[
            {"part": part, "quantity": label, "value": text}
            for part, rows in parts
            for label, text in rows
        ],
        columns=(Column("part", "of"), Column("quantity", "quantity"), Column("value", "value")),
        title=f"Training of {asked.training.model} on {trained.step.ranks:,} x "
        f"{asked.training.gpu}, {asked.training.run_tokens:.4g} tokens in a run",
    )


_HARDWARE_ROWS = (
    "hardware", "switches", "modules", "NICs", "total without NICs, kW", "total with NICs, kW",
    "total with NICs, M$",
)  # fmt: skip
