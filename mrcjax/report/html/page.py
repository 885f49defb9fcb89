"""An archive as one HTML file."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from mrcjax import __version__
from mrcjax.archive import Archive, Sweep
from mrcjax.report.html.blocks import Section
from mrcjax.report.html.runs import sections_of_runs
from mrcjax.report.html.sweeps import sections_of_sweep
from mrcjax.units import SpecError

Assumptions = Sequence[Mapping[str, Any]]  # see `page`


def page(stored: Archive | Sweep, *, assumptions: Assumptions = (), command: str = "") -> str:
    """Return a page about an archive of runs or of a sweep.

    Args:
        stored: the archive.
        assumptions: rows with the keys assumption, value, source, mark and runs: what the runs
            take for granted.
        command: what makes the page; printed at its foot.
    """
    if isinstance(stored, Sweep):
        count, noun = stored.status.size, "point"
        created, version = stored.header.created, stored.header.mrcjax_version
        title, sections = sections_of_sweep(stored, assumptions)
    else:
        count, noun = len(stored.runs), "run"
        created, version = stored.created, stored.mrcjax_version
        title, sections = sections_of_runs(stored, assumptions)
    plural = "" if count == 1 else "s"
    subtitle = f"{stored.path}: {count:,} {noun}{plural}, made {created} by mrcjax {version}"
    return _rendered(title, subtitle, sections, command)


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all; missing folders are made. Raises SpecError."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise SpecError(
            f"{path} cannot be written ({reason})", remedy="name another file"
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _rendered(title: str, subtitle: str, sections: Sequence[Section], command: str) -> str:
    here = files("mrcjax.report.html")
    # all that comes from archives is escaped; style and script are this package's own
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = environment.from_string((here / "page.html").read_text("utf-8"))
    return template.render(
        title=title,
        subtitle=subtitle,
        sections=sections,
        version=__version__,
        command=command,
        css=Markup((here / "page.css").read_text("utf-8")),
        script=Markup((here / "page.js").read_text("utf-8")),
    )
