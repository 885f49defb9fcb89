"""`mrcjax tune`: find how a collective is best cut."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from tyro.conf import Suppress, arg

from mrcjax.cli.arguments import AsJson, Overrides, SpecFile, archive_to_write
from mrcjax.cli.asking import load, print_json, target_of, what
from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.waiting import INTERRUPTED, at_once, progress, until_interrupted


def tune_command(
    spec: SpecFile,
    *,
    as_json: AsJson = False,
    out: Annotated[
        Path | None,
        archive_to_write("Add the best run and all steps to this archive"),
    ] = None,
    tuned: Annotated[
        Path | None,
        arg(
            metavar="FILE.toml",
            help="Write the best as a spec here; without it SPEC's name with .tuned.toml, beside "
            "the archive or in the current folder.",
            help_behavior_hint="",
        ),
    ] = None,
    resume: Annotated[bool, arg(help="Go on from the last search in the archive.")] = False,
    overrides: Overrides = (),
    command: Suppress[str] = "",
) -> None:
    """Find the shards and the cut over rails that make a collective quickest.

    Ctrl-C ends the search with the best so far, a second one at once.
    """
    from mrcjax.spec import SpecError

    asked = load(spec, overrides)
    target = target_of(asked, out)
    from mrcjax import archive

    if target is not None:
        archive.check_writable(target)
    elif resume:
        raise SpecError(
            "--resume needs an archive to go on from", remedy="name it with --out FILE.h5"
        )
    if tuned is None:
        folder = Path() if target is None else target.parent
        tuned = folder / f"{spec.stem}.tuned.toml"
    prepare_jax()
    from mrcjax.tuning import reach, tune
    from mrcjax.tuning.keeping import check_spec_file, keep, kept, write_spec
    from mrcjax.tuning.text import reached_text, tuned_text

    check_spec_file(tuned)
    if asked.tune is not None and asked.tune.target_time is not None:
        reached = at_once(lambda: reach(asked, report=progress), "finding a rate")
        write_spec(tuned, reached.best, command=command)
        if target is not None:
            archive.write(target, {"target": reached.outcome}, command=command)
        if as_json:
            print_json({**reached.to_json(), "spec": str(tuned)})
        else:
            print(f"{reached_text(reached)}\nwritten to {tuned}")
        return
    start, history = kept(target, asked) if resume and target is not None else (None, ())
    started = datetime.now(UTC)

    def search(is_stopped: Callable[[], bool]):
        return tune(asked, start=start, history=history, report=progress, is_stopped=is_stopped)

    found = until_interrupted(search, f"tuning {what(asked)}")
    if target is not None:
        keep(target, found, command=command, started=started)
    write_spec(tuned, found.best, command=command)
    if as_json:
        print_json({**found.to_json(), "spec": str(tuned)})
    else:
        print(f"{tuned_text(found)}\nwritten to {tuned}")
    if found.stopped:
        sys.stdout.flush()
        raise SystemExit(INTERRUPTED)
