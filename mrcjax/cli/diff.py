"""`mrcjax diff`: what differs between two archives."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mrcjax.cli.arguments import AsJson, share
from mrcjax.cli.asking import print_json
from mrcjax.units import SpecError

DIFFERENT = 1  # exit status


def diff_command(
    first: Annotated[Positional[Path], arg(metavar="A.h5", help="An archive.")],
    second: Annotated[Positional[Path], arg(metavar="B.h5", help="Another one.")],
    *,
    rtol: Annotated[
        float,
        share("--rtol", example=1e-9),
        arg(help="Numbers are equal that differ by no more than this part of the larger."),
    ] = 1e-9,
    columns: Annotated[
        str | None,
        arg(
            metavar="A,B",
            help="Only these columns; without it all but the time that computing took, the "
            "device, and hashes.",
            help_behavior_hint="",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two archives: runs by their names, points of sweeps by their labels.

    The exit status is 0 if they are equal, 1 if they differ, and 2 if they cannot be compared.
    """
    from mrcjax import archive
    from mrcjax.report.differences import differences_json, differences_text

    chosen = [] if columns is None else [key.strip() for key in columns.split(",") if key.strip()]
    if columns is not None and not chosen:
        raise SpecError("names no column", where="--columns", value=columns, remedy="write a,b")
    found = archive.differ(archive.load(first), archive.load(second), rtol, chosen)
    if as_json:
        print_json(differences_json(found))
    else:
        print(differences_text(found, str(first), str(second), rtol))
    if not found.is_equal:
        raise SystemExit(DIFFERENT)
