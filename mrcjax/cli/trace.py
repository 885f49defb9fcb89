"""`mrcjax trace`: the sends of an archived run, for Perfetto."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Suppress, arg

from mrcjax.cli.arguments import ArchiveFile, OneRun, whole_number
from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.tracing import check_trace, recorded, save


def trace_command(
    file: ArchiveFile,
    *,
    out: Annotated[Path, arg(metavar="FILE.json", help="The trace.")],
    run: OneRun = None,
    ranks: Annotated[
        int,
        whole_number("--ranks"),
        arg(help="Ranks in it: the last and the first to finish, and others."),
    ] = 16,
    events: Annotated[
        int,
        whole_number("--events", example=10_000),
        arg(help="Most events; of more some are left out."),
    ] = 200_000,
    figure: Annotated[
        Path | None,
        arg(
            metavar="FILE.svg",
            help="Also draw the use of links over time (PNG, SVG, PDF).",
            help_behavior_hint="",
        ),
    ] = None,
    command: Suppress[str] = "",
) -> None:
    """Emulate an archived run again and write every send of some ranks, for Perfetto.

    The file opens in ui.perfetto.dev and chrome://tracing: a process per rank, a thread per channel
    and port, and the links between switches.
    """
    from mrcjax import archive

    stored = archive.load_runs(file)
    chosen = stored.run(run)
    check_trace(out, ranks)
    if figure is not None:
        from mrcjax.report import plot

        plot.check_name(figure)
    prepare_jax()
    recording = recorded(chosen, ranks)
    save(recording, out, command, events)
    print(out)
    if figure is not None:
        from mrcjax.report import plot
        from mrcjax.tracing import use_over_time

        use = use_over_time(recording)
        print(plot.link_use(use, figure, command, title=f"Use of links: {chosen.name}"))
