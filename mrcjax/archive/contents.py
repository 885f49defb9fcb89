"""Turn an archive file into its runs by name, its columns over the runs, and its tables."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mrcjax.archive.condition import chosen
from mrcjax.archive.dataset import read
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.layout import SCALARS
from mrcjax.archive.opening import kind_of, opened
from mrcjax.archive.run import Run
from mrcjax.archive.sweep import Sweep, load_sweep
from mrcjax.archive.table import Table, read_table


@dataclass(frozen=True)
class Archive:
    """What a file holds: runs by name, one value per run in columns, and tables."""

    path: Path
    schema: int
    mrcjax_version: str
    created: str  # ISO 8601, UTC
    columns: dict[str, np.ndarray]  # key -> (runs,)
    runs: dict[str, Run]
    tables: dict[str, Table] = field(default_factory=dict)

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per run: its name under "run", and its scalars in SI units."""
        plain = {"run": list(self.runs)} | {k: v.tolist() for k, v in self.columns.items()}
        return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]

    def where(self, condition: str) -> list[dict[str, Any]]:
        """Return the rows of `table` of which a condition is true, such as "ranks >= 4096".

        Raises:
            SpecError: the condition cannot be read or evaluated.
        """
        return chosen(self.table(), condition)

    def run(self, name: str | None = None) -> Run:
        """Return the run of this name; without a name, the only one. Raises ArchiveError."""
        if name is None and len(self.runs) == 1:
            return next(iter(self.runs.values()))
        if name in self.runs:
            return self.runs[name]
        listed = ", ".join(list(self.runs)[:8]) + (", ..." if len(self.runs) > 8 else "")
        if not self.runs:
            raise ArchiveError("holds no runs", self.path)
        if name is None:
            raise ArchiveError(
                f"holds {len(self.runs)} runs", self.path, f"name one of them: {listed}"
            )
        raise ArchiveError(f'has no run "{name}"', self.path, f"name one of: {listed}")


def load(path: str | Path) -> Archive | Sweep:
    """Open an archive of runs or of a sweep; arrays are read when they are first asked for.

    Raises:
        ArchiveError: there is no such file, or it is damaged, newer, or not an archive.
    """
    target = Path(path).expanduser()
    with opened(target) as file:
        kind = kind_of(file)
    if kind == "runs":
        return load_runs(target)
    if kind == "sweep":
        return load_sweep(target)
    what = "is a piece of a sweep" if kind == "segment" else f'holds "{kind}", which is unknown'
    raise ArchiveError(what, target, "name the sweep's own file, FILE.h5 of .FILE.h5.parts")


def load_runs(path: str | Path) -> Archive:
    """Open an archive of runs, see `load`; one of a sweep is an ArchiveError too."""
    target = Path(path).expanduser()
    with opened(target) as file:
        if kind_of(file) != "runs":
            raise ArchiveError("holds a sweep, not runs", target, "name an archive of runs")
        columns = {scalar.key: read(file[scalar.key]) for scalar in SCALARS}
        names = [str(name) for name in read(file["run"])]
        return Archive(
            path=target,
            schema=int(file.attrs["schema"]),
            mrcjax_version=str(file.attrs["mrcjax_version"]),
            created=str(file.attrs["created"]),
            columns=columns,
            runs={name: Run(target, name) for name in names},
            tables={
                str(dataset.attrs["name"]): read_table(dataset)
                for dataset in file["tables"].values()
            },
        )
