"""Where the files are that a spec names: in its own folder, else where the name leads by itself."""

import os
from pathlib import Path
from typing import Any

FILE_KEYS = ("network.file", "traffic.file")


def find_files(raw: dict[str, Any], folder: Path | None) -> None:
    """Have the tables of a spec, and the cases of its sweep, name files as they can be opened.

    folder: that of the spec; None: it is no file, and names are left as they are.
    """
    swept = raw.get("sweep")
    cases = swept.get("cases") if isinstance(swept, dict) else None
    for tables in (raw, *(cases if isinstance(cases, list) else [])):
        for section, key in (place.split(".") for place in FILE_KEYS):
            table = tables.get(section) if isinstance(tables, dict) else None
            if isinstance(table, dict) and key in table:
                table[key] = found(table[key], folder)


def found(name: Any, folder: Path | None) -> Any:
    """Return a name as it can be opened; of a file that is nowhere, where it was looked for first.

    What is no text is returned as it is.
    """
    if folder is None or not isinstance(name, str) or not name:
        return name
    beside = os.path.join(folder, name)
    # unlike Path, they call a name that cannot be one no file
    return beside if os.path.isfile(beside) or not os.path.exists(name) else name
