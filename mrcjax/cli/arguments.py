"""The arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

SpecFile = Annotated[Positional[Path], arg(metavar="SPEC", help="The spec, a TOML file.")]
ArchiveFile = Annotated[Positional[Path], arg(metavar="FILE.h5", help="The archive.")]
AsJson = Annotated[bool, arg(name="json", help="Print exactly one JSON object.")]
Overrides = Annotated[
    UseAppendAction[tuple[str, ...]],
    arg(
        name="set",
        metavar="KEY=VALUE",
        help="Override any key of the spec, for example network.ranks=4096.",
    ),
]
OneRun = Annotated[
    str | None, arg(metavar="NAME", help="The run; without it the only one.", help_behavior_hint="")
]


def archive_to_write(what: str) -> Any:
    """The option that names the archive to write; what: what of it the help says."""
    return arg(metavar="FILE.h5", help=f"{what}; wins over output.file.", help_behavior_hint="")
