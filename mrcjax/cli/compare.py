"""`mrcjax compare`: the networks side by side."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Suppress, arg

from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.waiting import at_once, progress


def compare_command(
    *,
    out: Annotated[
        Path, arg(metavar="FILE.h5", help="Write all runs here, in the place of an older archive.")
    ] = Path("results/compare.h5"),
    ranks: Annotated[
        int | None,
        arg(help="Another number of ranks than 1,024, a multiple of 8.", help_behavior_hint=""),
    ] = None,
    no_figures: Annotated[bool, arg(help="Write no figures beside the archive.")] = False,
    command: Suppress[str] = "",
) -> None:
    """Compare the networks: collective, training step, hardware, power and cost of each."""
    from mrcjax import archive

    archive.check_writable(out)
    prepare_jax()
    from mrcjax.comparison import compare

    comparison = at_once(lambda: compare(progress=progress, ranks=ranks), "comparing")
    comparison.write(out, command)
    if not no_figures:
        comparison.figures(out.parent, command)
    print(comparison.text())
