"""What experiments do alike: their arguments, the table of claims, their files in results/."""

import argparse
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

import mrcjax
from mrcjax import archive
from mrcjax.archive import Column, Sweep, Table
from mrcjax.cli.starting import prepare_jax
from mrcjax.outcome import Outcome
from mrcjax.report.table import WIDTH, table_text

RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Claim:
    """One claim beside what came out, all of it in words."""

    what: str
    article: str
    emulated: str
    why: str


@dataclass(frozen=True)
class Asked:
    """What the command line asked of an experiment."""

    name: str
    short: bool  # small sizes, seconds
    results: Path  # folder to write into
    resume: bool = False  # keep the points of sweeps that are there

    @property
    def command(self) -> str:
        """The command that does the same again."""
        return f"python -m experiments {self.name}{' --short' if self.short else ''}"

    def path(self, suffix: str) -> Path:
        """File of the experiment in the folder of results, which is made."""
        self.results.mkdir(parents=True, exist_ok=True)
        return self.results / f"{self.name}{suffix}"


def asked(name: str, doc: str | None, argv: Sequence[str] | None = None) -> Asked:
    """Read the arguments of an experiment's command line."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments {name}", description=doc)
    parser.add_argument("--short", action="store_true", help="small sizes, for a quick look")
    parser.add_argument("--results", type=Path, help="folder to write into")
    parser.add_argument("--resume", action="store_true", help="sweep only what is not there")
    given = parser.parse_args(argv)
    if argv is None:
        prepare_jax()
    usual = RESULTS / "short" if given.short else RESULTS
    return Asked(name, given.short, given.results or usual, given.resume)


def swept(given: Asked, file: Path, *, set: Sequence[str] = (), part: str = "") -> Sweep:
    """Emulate the sweep of a spec into NAME.h5, or NAME_part.h5, in the place of an older one."""
    out = given.path(f"_{part}.h5" if part else ".h5")
    if not given.resume:
        out.unlink(missing_ok=True)

    def report(text: str) -> None:
        print(f"  {part or given.name}: {text}", file=sys.stderr, flush=True)

    return mrcjax.sweep(
        file, out, set=set, resume=given.resume, command=given.command, report=report
    )


def array(found: Sweep, key: str, *names: str) -> np.ndarray:
    """Return a variable of a sweep with its axes, by their names, in this order."""
    return np.transpose(found[key], [found.names.index(name) for name in names])


def claims_table(claims: Sequence[Claim]) -> Table:
    """Return the claims as an archive keeps them."""
    columns = tuple(Column(key, key) for key in ("what", "article", "emulated", "why"))
    return Table([vars(claim) for claim in claims], columns, title="Article, emulated, why")


def claims_text(claims: Sequence[Claim], said: str = "article") -> str:
    """Return the claims as they are printed: a block each."""
    blocks = []
    for claim in claims:
        lines = textwrap.wrap(claim.what, WIDTH)
        for key, text in ((said, claim.article), ("emulated", claim.emulated), ("why", claim.why)):
            lines += textwrap.wrap(
                text, WIDTH, initial_indent=f"  {key:<10}", subsequent_indent=" " * 12
            )
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def finish(
    given: Asked,
    tables: Mapping[str, Table],
    claims: Sequence[Claim],
    *,
    runs: Mapping[str, Outcome] | None = None,
    started: datetime | None = None,
    said: str = "article",
) -> str:
    """Print tables and claims, write them to NAME.txt and, with the runs, to NAME.h5."""
    texts = [given.command, *map(table_text, tables.values()), claims_text(claims, said)]
    text = "\n\n".join(text for text in texts if text)
    print(text)
    given.path(".txt").write_text(text + "\n", encoding="utf-8")
    if runs is not None:
        archive.write(
            given.path(".h5"),
            runs,
            command=given.command,
            append=False,
            tables={**tables, "claims": claims_table(claims)},
            started=started,
        )
    return text


def off(emulated: float, claimed: float) -> str:
    """Say how far a value is from what was claimed: "+3.1 %", "3.36 times"."""
    if emulated > 2 * claimed:
        return f"{emulated / claimed:.3g} times"
    return f"{100 * (emulated / claimed - 1):+.3g} %"
