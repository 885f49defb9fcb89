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
    *scales: Any,
) -> Any:
    """Write values into a new dataset along scales, large ones compressed."""
    options: dict[str, Any] = {}
    if values.size >= _COMPRESS_FROM:
        options = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    dataset = group.create_dataset(key, data=values, dtype=values.dtype, **options)
    describe(dataset, units, long_name, *scales)
    return dataset


def describe(dataset: Any, units: str, long_name: str, *scales: Any) -> None:
    """Say what a dataset holds, and along which scales, one for each dimension."""
    if units:
        dataset.attrs["units"] = units
    dataset.attrs["long_name"] = long_name
    for dimension, scale in zip(dataset.dims, scales, strict=False):
        dimension.attach_scale(scale)


def store_text(group: Any, key: str, texts: np.ndarray, long_name: str, *scales: Any) -> Any:
    """Write texts of one length, padded: unlike all other text such strings compress."""
    flat = texts.ravel().tolist()
    encoded = {text: storable(text).encode() for text in set(flat)}
    dtype = h5py.string_dtype("utf-8", max(map(len, encoded.values()), default=0) or 1)
    fixed = np.array([encoded[text] for text in flat], dtype=dtype).reshape(texts.shape)
    dataset = store(group, key, fixed, "", long_name, *scales)
    dataset.attrs["_Encoding"] = "utf-8"  # has xarray decode them
    return dataset


def storable(text: str) -> str:
    """Return the text without what HDF5 cannot keep."""
    # a command line may hold bytes that are no UTF-8, which Python keeps as lone surrogates
    return text.replace("\0", "").encode(errors="backslashreplace").decode()


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
