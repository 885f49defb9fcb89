"""`mrcjax show`: what an archive holds, and what a network is."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mrcjax.cli.arguments import AsJson, OneRun, Overrides
from mrcjax.cli.asking import load, print_json, where
from mrcjax.cli.showing import Asked, show_archive
from mrcjax.cli.starting import prepare_jax
from mrcjax.cli.waiting import at_once


def show_command(
    file: Annotated[
        Positional[Path],
        arg(metavar="FILE.h5", help='The archive, or the word "network" and then a spec.'),
    ],
    spec: Annotated[
        Positional[Path | None],
        arg(metavar="[SPEC]", help="With network: the spec, a TOML file.", help_behavior_hint=""),
    ] = None,
    *,
    run: OneRun = None,
    condition: Annotated[
        str | None,
        arg(
            name="where",
            metavar="CONDITION",
            help="Only runs or points of which this is true, for example "
            "\"ranks >= 4096 and network == 'flat_rails'\".",
            help_behavior_hint="",
        ),
    ] = None,
    columns: Annotated[
        str | None, arg(metavar="A,B", help="Only these columns.", help_behavior_hint="")
    ] = None,
    csv: Annotated[
        str | None,
        arg(metavar="FILE|-", help="Write rows as CSV, SI units.", help_behavior_hint=""),
    ] = None,
    parquet: Annotated[
        Path | None,
        arg(metavar="FILE", help="Write rows as Parquet, SI units.", help_behavior_hint=""),
    ] = None,
    check: Annotated[
        bool, arg(help="Compute the hashes of a sweep's results again, and compare.")
    ] = False,
    as_json: AsJson = False,
    overrides: Overrides = (),
) -> None:
    """Print what an archive holds: its tables and runs, one run in full, or the points of a sweep.

    `mrcjax show network SPEC.toml` prints what a network is: switches, links, bisection, power.
    """
    from mrcjax.spec import SpecError

    if file == Path("network") and (spec is not None or not file.exists()):
        if spec is None or run is not None or condition or columns or csv or parquet or check:
            raise SpecError(
                "`mrcjax show network` describes the network of one spec",
                remedy="write mrcjax show network SPEC.toml, without what is for archives",
            )
        _show_network(spec, overrides, as_json)
        return
    if spec is not None or overrides:
        raise SpecError(
            "`mrcjax show FILE.h5` takes no spec and no overrides",
            remedy="write mrcjax show network SPEC.toml for a network",
        )
    asked = Asked(run, condition, columns, csv, parquet, check, as_json)
    show_archive(file, asked)


def _show_network(file: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    asked = load(file, overrides)
    prepare_jax()
    from mrcjax.network import build
    from mrcjax.network.inventory import inventory
    from mrcjax.network.properties import properties

    network = asked.network
    found = at_once(
        lambda: properties(network, build(network), inventory(network)),
        f"describing {where(asked)}",
    )
    if as_json:
        print_json(found.to_json())
        return
    from mrcjax.report.network import network_text

    print(network_text(found))
