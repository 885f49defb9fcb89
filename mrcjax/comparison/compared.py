"""What every comparison gives: tables as text, all runs as an archive, bars as figures."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mrcjax import archive
from mrcjax.archive import Table
from mrcjax.outcome import Outcome
from mrcjax.report.table import table_text

SUFFIXES = (".png", ".svg")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Tables and the runs behind them.

    runs: by name in the archive. tables: in the order to print them. bars: what each figure
    draws, by the name of its file.
    """

    runs: dict[str, Outcome]
    tables: dict[str, Table]
    bars: dict[str, Table]
    started: datetime

    def text(self) -> str:
        """Return the tables as they are printed."""
        return "\n\n".join(table_text(table) for table in self.tables.values())

    def write(self, path: str | Path, command: str) -> None:
        """Write all runs and tables into an archive, which replaces the one that was there."""
        archive.write(
            path,
            self.runs,
            command=command,
            append=False,
            tables=self.tables,
            started=self.started,
        )

    def figures(self, folder: str | Path, command: str = "mrcjax compare") -> list[Path]:
        """Draw every figure into a folder, as PNG and SVG; return their paths."""
        # takes long to import
        from mrcjax.report import plot

        drawn: list[Path] = []
        for name, table in self.bars.items():
            paths = [Path(folder) / f"{name}{suffix}" for suffix in SUFFIXES]
            plot.bars(
                table.rows,
                paths[0],
                "\n".join((*table.notes, f"Made by: {command}")),
                columns=table.columns,
                title=table.title,
                claim="is_claim",
                also=paths[1:],
            )
            drawn += paths
        return drawn
