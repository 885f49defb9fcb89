"""What `mrcjax show` prints of an archive, and writes into other formats."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mrcjax.cli.asking import print_json, refuse_run_of_sweep
from mrcjax.units import SpecError

if TYPE_CHECKING:
    from mrcjax.archive import Archive, Sweep


@dataclass(frozen=True)
class Asked:
    """What the command line asks about an archive."""

    run: str | None
    condition: str | None
    columns: str | None
    csv: str | None
    parquet: Path | None
    check: bool
    as_json: bool

    @property
    def is_about_rows(self) -> bool:
        """Whether it asks for some rows of all runs or points."""
        return any(x is not None for x in (self.condition, self.columns, self.csv, self.parquet))


def show_archive(file: Path, asked: Asked) -> None:
    """Print or write what is asked for."""
    _refuse_together(asked)
    from mrcjax import archive

    stored = archive.load(file)
    if asked.is_about_rows:
        _show_rows(stored, asked)
    elif isinstance(stored, archive.Sweep):
        _show_sweep(stored, asked)
    elif asked.check:
        raise archive.ArchiveError(
            "holds runs, which have no hash of their results", file, "check sweeps"
        )
    else:
        _show_runs(stored, asked)


def _refuse_together(asked: Asked) -> None:
    outputs = {"--csv": asked.csv, "--parquet": asked.parquet, "--json": asked.as_json or None}
    given = [name for name, value in outputs.items() if value is not None]
    if len(given) > 1:
        raise SpecError(f"{' and '.join(given)} do not go together", remedy="give one of them")
    if str(asked.parquet) == "-":
        raise SpecError("is no text", where="--parquet", remedy="name a file, or use --csv -")
    if asked.is_about_rows and (asked.run is not None or asked.check):
        other = "--check" if asked.check else "--run"
        raise SpecError(f"{other} does not go with rows", remedy=f"leave out {other}")


def _show_runs(stored: "Archive", asked: Asked) -> None:
    if asked.as_json:
        print_json(stored.run(asked.run).to_json())
        return
    from mrcjax.report.table import archive_text, run_text

    print(archive_text(stored) if asked.run is None else run_text(stored.run(asked.run)))


def _show_sweep(stored: "Sweep", asked: Asked) -> None:
    from mrcjax.report.sweep import provenance_text, sweep_json, sweep_text

    refuse_run_of_sweep(stored, asked.run, "leave out --run; choose points with --where")
    checked = stored.check() if asked.check else None
    if asked.as_json:
        print_json(sweep_json(stored) | {"provenance": stored.provenance()})
        return
    print(f"{sweep_text(stored)}\n\n{provenance_text(stored)}")
    if checked is not None:
        print(f"the results of all {checked:,} points are as they were written")


def _show_rows(stored: "Archive | Sweep", asked: Asked) -> None:
    from mrcjax.report.rows import chosen_keys, csv_text, rows_of, rows_text, write_parquet

    is_text = asked.csv is None and asked.parquet is None and not asked.as_json
    keys = chosen_keys(stored, asked.columns, few=is_text)
    rows = rows_of(stored, asked.condition)
    if asked.as_json:
        plain = [{key: row[key] for key in keys} for row in rows]
        print_json({"file": str(stored.path), "rows": plain})
    elif asked.csv == "-":
        print(csv_text(rows, keys), end="")
    elif asked.csv is not None:
        _other_than(stored.path, Path(asked.csv)).write_text(csv_text(rows, keys))
    elif asked.parquet is not None:
        write_parquet(_other_than(stored.path, asked.parquet), stored, rows, keys)
    else:
        print(rows_text(stored, rows, keys))


def _other_than(archive: Path, path: Path) -> Path:
    if path.exists() and path.samefile(archive):
        raise SpecError("is the archive itself", value=str(path), remedy="name another file")
    return path
