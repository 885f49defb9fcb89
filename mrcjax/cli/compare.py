"""`mrcjax compare`: the networks side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, Suppress, arg

from mrcjax.cli.arguments import whole_number
from mrcjax.cli.asking import load
from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.waiting import at_once, progress
from mrcjax.units import SpecError

if TYPE_CHECKING:
    from mrcjax.spec import Spec


def compare_command(
    specs: Annotated[
        Positional[tuple[Path, ...]],
        arg(
            metavar="SPEC",
            help="Specs of networks of your own; without any, those of the article.",
        ),
    ] = (),
    *,
    out: Annotated[
        Path | None,
        arg(
            metavar="FILE.h5",
            help="Write all runs here, in the place of an older archive; without it "
            "results/compare.h5, or results/compare_own.h5 with specs of your own.",
            help_behavior_hint="",
        ),
    ] = None,
    ranks: Annotated[
        int | None,
        whole_number("--ranks", example=64),
        arg(help="Another number of ranks than 1,024, a multiple of 8.", help_behavior_hint=""),
    ] = None,
    no_figures: Annotated[bool, arg(help="Write no figures beside the archive.")] = False,
    command: Suppress[str] = "",
) -> None:
    """Compare networks: collective, training step, hardware, power and cost of each."""
    from mrcjax import archive

    named = _named(specs, ranks)
    out = out or Path("results") / ("compare_own.h5" if named else "compare.h5")
    archive.check_writable(out)
    prepare_jax()
    from mrcjax.comparison import compare, compare_specs

    if named:
        comparison = at_once(lambda: compare_specs(named, progress), "comparing")
    else:
        comparison = at_once(lambda: compare(progress=progress, ranks=ranks), "comparing")
    comparison.write(out, command)
    if not no_figures:
        comparison.figures(out.parent, command)
    print(comparison.text())


def _named(files: tuple[Path, ...], ranks: int | None) -> "dict[str, Spec]":
    """Read the specs, each by the name of its file."""
    if files and ranks is not None:
        raise SpecError(
            "works only without specs of your own",
            where="--ranks",
            value=ranks,
            remedy="set network.ranks in each of them",
        )
    named: dict[str, Spec] = {}
    for file in files:
        if file.stem in named:
            raise SpecError(
                "two specs have one name", value=file.stem, remedy="give the files unlike names"
            )
        named[file.stem] = load(file, ())
    return named
