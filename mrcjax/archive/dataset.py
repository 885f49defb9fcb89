"""Turn arrays into datasets that say what they are, and datasets back into arrays.

h5py's files, groups and datasets go as Any: to a type checker, what it finds under a path may be
each of them.
"""

import json
from typing import Any

import h5py
import numpy as np

TEXT = h5py.string_dtype()
_COMPRESS_FROM = 1024  # elements; smaller arrays cost more as chunks than they save


def read(dataset: Any) -> np.ndarray:
    """Return all values; text as an array of objects."""
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return np.asarray(dataset.asstr()[()], dtype=object)
    return np.asarray(dataset[()])


def store(
    group: Any,
    key: str,
    values: np.ndarray,
    units: str,
    long_name: str,
    scale: Any = None,
) -> Any:
    """Write values into a new dataset, large ones compressed."""
    options: dict[str, Any] = {}
    if values.size >= _COMPRESS_FROM:
        options = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    dataset = group.create_dataset(key, data=values, dtype=values.dtype, **options)
    describe(dataset, units, long_name, scale)
    return dataset


def describe(dataset: Any, units: str, long_name: str, scale: Any) -> None:
    """Say what a dataset holds, and along which scale."""
    if units:
        dataset.attrs["units"] = units
    dataset.attrs["long_name"] = long_name
    if scale is not None:
        dataset.dims[0].attach_scale(scale)


def store_scale(group: Any, key: str, values: np.ndarray, long_name: str) -> Any:
    """Write the values of a dimension into a new dataset that others attach to."""
    scale = store(group, key, values, "1" if values.dtype.kind == "i" else "", long_name)
    scale.make_scale(key)
    return scale


def extend(dataset: Any, values: list[Any]) -> None:
    """Add values to the end of a dataset."""
    if values:
        old = dataset.shape[0]
        dataset.resize(old + len(values), axis=0)
        dataset[old:] = values


def json_text(value: Any) -> str:
    """Return the JSON that stands for a value which is no array."""
    # NumPy scalars and arrays know their plain form
    return json.dumps(value, ensure_ascii=False, default=lambda number: number.tolist())
