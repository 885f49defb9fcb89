"""`mrcjax report`: an archive as one HTML page."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Suppress, arg

from mrcjax.cli.arguments import ArchiveFile
from mrcjax.cli.assuming import assumptions_of_runs, assumptions_of_sweep
from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.waiting import at_once


def report_command(
    file: ArchiveFile,
    *,
    out: Annotated[
        Path | None,
        arg(
            metavar="FILE.html",
            help="The page; without it the archive's name with .html, beside it.",
            help_behavior_hint="",
        ),
    ] = None,
    command: Suppress[str] = "",
) -> None:
    """Write a page about an archive: summary, tables that sort, figures, bounds, provenance.

    The page needs no network, nor any file beside it.
    """
    from mrcjax import archive
    from mrcjax.spec import SpecError

    stored = archive.load(file)
    target = file.with_suffix(".html") if out is None else out
    if target.suffix.lower() not in (".html", ".htm"):
        raise SpecError(
            "is no name of a page",
            where="--out",
            value=str(target),
            remedy="let it end in .html",
        )
    prepare_jax()

    def written() -> None:
        from mrcjax.report.html import page, write_page

        if isinstance(stored, archive.Sweep):
            assumptions = assumptions_of_sweep(stored)
        else:
            assumptions = assumptions_of_runs(list(stored.runs.values()))
        write_page(target, page(stored, assumptions=assumptions, command=command))

    at_once(written, f"writing {target}")
    print(target)
