"""Values of the points of a sweep as arrays, one for each key, and such arrays in a file."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mrcjax.archive.dataset import storable, store, store_text
from mrcjax.archive.layout import SCALARS
from mrcjax.archive.sweep.points import Point

STATUSES = ("missing", "excluded", "done", "failed")
# what every file of a sweep has, even before its first point
ALWAYS = {"reason": str, "id": str, "result_hash": str, "finish_count": int} | {
    scalar.key: scalar.dtype for scalar in SCALARS
}
_LONGEST_TEXT = 2000  # characters; all texts of a column are padded to the longest

# key -> (units, long name); what a sweep keeps beside the scalars of a run
_KNOWN = (
    {scalar.key: (scalar.units, scalar.long_name) for scalar in SCALARS}
    | {
        "status": ("", "missing, excluded by a condition, done or failed"),
        "reason": ("", "why the point failed"),
        "id": ("", "hash of the point's spec and of the version of the code"),
        "result_hash": ("", "hash of the point's results"),
        "finish_count": ("1", "number of per-rank finish times kept"),
        "finish_min_s": ("s", "time at which the first rank has finished"),
        "finish_median_s": ("s", "median of the finish times of all ranks"),
        "finish_p95_s": ("s", "95th percentile of the finish times of all ranks"),
        "finish_p99_s": ("s", "99th percentile of the finish times of all ranks"),
        "finish_max_s": ("s", "time at which the last rank has finished"),
        "wall_s": ("s", "time that computing the point took"),
        "step_s": ("s", "time of a training step"),
        "exposed_s": ("s", "communication that no computing hides, of a training step"),
        "utilisation": ("1", "computing over the time of a training step"),
        "mfu": ("1", "model FLOPs over what the GPUs could do in that time"),
        "tokens_per_s": ("token/s", "tokens trained on, of all ranks"),
        "run_usd": ("USD", "cost of the whole training run"),
        "run_hours": ("h", "time of the whole training run"),
        "energy_kwh": ("kWh", "energy of the whole training run, at the meter"),
    }
    | {
        f"scenario_{name}_s": ("s", f"{text} of the completion times of all scenarios")
        for name, text in (
            ("min", "least"),
            ("median", "median"),
            ("p95", "95th percentile"),
            ("p99", "99th percentile"),
            ("max", "greatest"),
        )
    }
)
_UNITS = (("_bytes_per_s", "byte/s"), ("_bytes", "byte"), ("_s", "s"), ("_w", "W"), ("_usd", "USD"))
# may differ from one computation of the same to the next, or stand for the results themselves
NOT_RESULTS = ("wall_s", "id", "result_hash")


class Columns:
    """Arrays of one shape by key: texts as objects, whole numbers as int64, others as float64.

    Arrays are made, or fetched, when first asked for; a missing value is "", 0 or NaN.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        fetch: Callable[[str], np.ndarray] | None = None,
        keys: Sequence[str] = (),
    ):
        self.shape = shape
        self.keys = dict.fromkeys(keys)  # those that `fetch` can fetch, and those that were put
        self._fetch = fetch
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, key: str) -> np.ndarray:
        if key not in self._arrays:
            if self._fetch is None or key not in self.keys:
                raise KeyError(key)
            self._arrays[key] = self._fetch(key)
        return self._arrays[key]

    def __setitem__(self, key: str, array: np.ndarray) -> None:
        self.keys[key] = None
        self._arrays[key] = array

    def put(self, at: tuple[int, ...], row: Mapping[str, Any]) -> None:
        """Set the values of one point; a key that was not there before is missing elsewhere."""
        for key in self.keys:
            if key not in row:
                self[key][at] = missing_of(self[key].dtype)
        for key, value in row.items():
            plain = value.item() if isinstance(value, np.generic) else value
            if plain is None:
                continue
            wanted = _dtype_of(plain)
            if key not in self.keys:
                self[key] = np.full(self.shape, missing_of(wanted), dtype=wanted)
            if self[key].dtype != wanted:
                self[key] = _of_either_type(self[key], wanted)
            kept = self._arrays[key]
            kept[at] = _text(plain) if kept.dtype == object else plain

    def row(self, at: tuple[int, ...]) -> dict[str, Any]:
        """Return the values of one point as plain numbers and texts."""
        return {key: _plain(self[key][at]) for key in self.keys}


def _dtype_of(value: Any) -> np.dtype:
    if isinstance(value, int) and abs(value) < 2**63:  # booleans too
        return np.dtype(np.int64)
    return np.dtype(np.float64 if isinstance(value, int | float) else object)


def missing_of(dtype: np.dtype) -> Any:
    """Return what stands for a missing value."""
    return {"O": "", "i": 0}.get(dtype.kind, np.nan)


def _of_either_type(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    if object in (array.dtype, wanted):
        if array.dtype == object:
            return array
        texts = ["" if value != value else _text(value) for value in array.ravel().tolist()]
        return np.array(texts, dtype=object).reshape(array.shape)
    return array.astype(np.float64)


def _text(value: Any) -> str:
    text = storable(str(value))
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def row_of(point: Point) -> dict[str, Any]:
    """Return all that is kept of a point but its place and its finish times."""
    count = 0 if point.finish_s is None else len(point.finish_s)
    row = {**point.values, "status": point.status, "reason": point.reason, "id": point.id}
    row |= {"finish_count": count}
    return row | {"result_hash": result_hash(row, point.finish_s)}


def result_hash(row: Mapping[str, Any], finish_s: np.ndarray | None) -> str:
    """Return a hash of all values that are not missing, and of the finish times, bit by bit.

    The time that computing took is left out: equal results have equal hashes.
    """
    digest = hashlib.sha256()
    for key in sorted(row.keys() - set(NOT_RESULTS)):
        content = _canonical(row[key])
        if content:
            digest.update(f"{key}\0{len(content)}\0{content}".encode())
    if finish_s is not None:
        digest.update(np.ascontiguousarray(finish_s, dtype="<f8").tobytes())
    return digest.hexdigest()[:32]


def _canonical(value: Any) -> str:
    """Return the same text for a value whatever the type of the column it is in; "" if missing."""
    plain = value.item() if isinstance(value, np.generic) else value
    text = "" if plain is None else _text(plain)
    try:
        number = float(plain if isinstance(plain, int) else text)
    except ValueError:
        return text
    return "" if number == 0 or number != number else repr(number)


def write_columns(group: Any, columns: Columns, *scales: Any) -> None:
    """Write every column as a dataset of its name along the scales."""
    for key in columns.keys:
        units, long_name = described(key)
        if columns[key].dtype == object:
            store_text(group, key, columns[key], long_name, *scales)
        else:
            store(group, key, columns[key], units, long_name, *scales)


def described(key: str) -> tuple[str, str]:
    """Return units and long name of a column."""
    if key in _KNOWN:
        return _KNOWN[key]
    units = next((units for end, units in _UNITS if key.endswith(end)), "1")
    return units, key.replace("_", " ")
