"""Searches among an archive's tables, known by their columns."""

from mrcjax.archive import Archive, Table

_KEYS = {"stage", "number", "smooth_s", "exact_s"}


def is_search(table: Table) -> bool:
    """Whether a table holds the steps of a search."""
    return bool(table.rows) and set(table.rows[0]) >= _KEYS


def lower_bound_s(stored: Archive, name: str) -> float | None:
    """Return the lower bound of the run that the search of a name found; None without one.

    A search "tuned-history" belongs to the run "tuned", its second "tuned-history-2" to "tuned-2".
    """
    run = stored.runs.get(name.replace("-history", ""))
    return None if run is None else run.lower_bound_s
