"""`mrcjax show`: what an archive holds."""

from mrcjax.cli.arguments import ArchiveFile, AsJson, OneRun
from mrcjax.cli.asking import print_json


def show_command(file: ArchiveFile, *, run: OneRun = None, as_json: AsJson = False) -> None:
    """Print what an archive holds: its tables and runs, or one run in full."""
    from mrcjax import archive

    stored = archive.load(file)
    if as_json:
        print_json(stored.run(run).to_json())
        return
    from mrcjax.report.table import archive_text, run_text

    print(archive_text(stored) if run is None else run_text(stored.run(run)))
