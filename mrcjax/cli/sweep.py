"""`mrcjax sweep`: emulate every point of a grid of specs."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Suppress, UseAppendAction, arg

from mrcjax.cli.arguments import AsJson, SpecFile, archive_to_write, whole_number
from mrcjax.cli.asking import print_json
from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.waiting import INTERRUPTED, at_once, progress, until_interrupted

if TYPE_CHECKING:
    from mrcjax.archive import Sweep

SOME_FAILED = 1  # exit status
MOST_JOBS = 4096  # what a system may bear; each is a process


def sweep_command(
    spec: SpecFile,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        archive_to_write("The archive of the sweep"),
    ] = None,
    resume: Annotated[
        bool,
        arg(
            help="Do only what the archive lacks, finish times of points included; the sweep may "
            "have grown since."
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        whole_number("--jobs", most=MOST_JOBS),
        arg(
            help="Processes that share the batches; with --scheduler local the workers.",
            help_behavior_hint="",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        arg(
            metavar="ADDRESS",
            help="Hand the batches to the workers of this Dask scheduler; local: to a cluster of "
            'this machine. Needs pip install "mrcjax[cluster]".',
            help_behavior_hint="",
        ),
    ] = None,
    explain: Annotated[
        bool, arg(help="Print groups, batches, compilations, memory and time, and run nothing.")
    ] = False,
    overrides: Annotated[
        UseAppendAction[tuple[str, ...]],
        arg(
            name="set",
            metavar="KEY=VALUE[,VALUE...]",
            help="Override any key of the spec; several values are swept over.",
        ),
    ] = (),
    command: Suppress[str] = "",
) -> None:
    """Emulate every point of a [sweep] table, many at once, and keep each batch as it is done.

    Ctrl-C ends it after the batch in flight, a second one at once; where others do the batches
    (--jobs, --scheduler) the first one does. --resume goes on. The exit status is 1 if a point
    failed; its reason is in the archive.
    """
    from mrcjax.spec import load_sweep

    asked = load_sweep(spec, overrides)
    if scheduler is not None or (jobs or 1) > 1:
        # who comes first must not take the memory of an accelerator from the others
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    prepare_jax()
    from mrcjax.sweeping import Workers, sweep

    workers = Workers(jobs, scheduler)
    if explain:
        _explain(asked, workers.sharing, as_json)
        return

    def work(is_stopped: Callable[[], bool]):
        return sweep(
            asked,
            out,
            resume=resume,
            jobs=jobs,
            scheduler=scheduler,
            command=command,
            report=progress,
            is_stopped=is_stopped,
            begin=prepare_jax,
        )

    ending = "with what is finished" if workers.are_others else "after the batch in flight"
    found = until_interrupted(work, f"sweeping over {len(asked):,} points", ending=ending)
    from mrcjax.report.sweep import counts, sweep_json, sweep_text

    if as_json:
        print_json(sweep_json(found))
    else:
        print(sweep_text(found))
    sys.stdout.flush()
    if "finish" in asked.keep:
        _say_what_lacks_finish_times(found)
    of = counts(found)
    if of["missing"]:
        raise SystemExit(INTERRUPTED)
    if of["failed"]:
        raise SystemExit(SOME_FAILED)


def _say_what_lacks_finish_times(found: "Sweep") -> None:
    """Tell of points that were done without, and not again: the sweep was ended, or they failed."""
    is_done = found.status == "done"
    lacking = int((is_done & (found["finish_count"] == 0)).sum())
    if lacking:
        print(
            f"mrcjax: {found.path} lacks finish times of {lacking:,} of {is_done.sum():,} points "
            "that are done; --resume adds those of the points that it asks for",
            file=sys.stderr,
        )


def _explain(asked, workers: int, as_json: bool) -> None:
    from mrcjax.sweeping import make_plan

    plan = at_once(lambda: make_plan(asked.points(), workers=workers), "planning")
    if as_json:
        print_json(
            {"points": plan.points, "compilations": plan.compilations, "groups": plan.rows()}
        )
        return
    from mrcjax.report.table import text_table

    print(
        f"{plan.points:,} points over {' x '.join(f'{a.name} ({len(a)})' for a in asked.axes)}, "
        f"{len(plan.excluded):,} left out, {len(plan.failed):,} that cannot be; "
        f"{plan.compilations} program{'' if plan.compilations == 1 else 's'}"
    )
    print(text_table(plan.rows()))
    for point, _ in plan.failed[:8]:
        print(f"cannot be: {point.error}")
