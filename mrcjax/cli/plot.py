"""`mrcjax plot`: figures of an archive."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Suppress, arg

from mrcjax.cli.arguments import ArchiveFile, OneRun, word
from mrcjax.cli.asking import refuse_run_of_sweep
from mrcjax.cli.drawing import draw_run, draw_sweep, draw_tables, figure_stem
from mrcjax.units import SpecError


def plot_command(
    file: ArchiveFile,
    *,
    run: OneRun = None,
    out: Annotated[
        Path | None,
        arg(
            metavar="FOLDER", help="Where to; without it beside the archive.", help_behavior_hint=""
        ),
    ] = None,
    form: Annotated[
        str,
        word("--format", "png", "svg", "pdf"),
        arg(name="format", help="Format of the figures."),
    ] = "png",
    command: Suppress[str] = "",
) -> None:
    """Draw the link utilisation and finish times of a run, and the bars of stored comparisons.

    Of an archive with comparisons, runs are drawn only where one is named. Of a sweep: scaling
    curves, maps over two axes, and tails over ranks and seeds.
    """
    from mrcjax import archive

    stored = archive.load(file)
    folder = file.parent if out is None else out
    if folder.exists() and not folder.is_dir():
        raise SpecError("is no folder", where="--out", value=str(out), remedy="name a folder")
    if isinstance(stored, archive.Sweep):
        refuse_run_of_sweep(stored, run, "leave out --run")
        for path in draw_sweep(stored, folder, f".{form}", command):
            print(path)
        return
    drawn = [] if run is not None else draw_tables(stored, folder, f".{form}", command)
    if not drawn:
        chosen = stored.run(run)
        drawn = draw_run(chosen, figure_stem(file, chosen.name, folder), f".{form}", command)
    for path in drawn:
        print(path)
