"""The whole file of a sweep: every variable an array over the axes, as xarray reads it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mrcjax.archive.dataset import json_text, storable, store, store_scale, store_text
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.layout import SCHEMA
from mrcjax.archive.opening import kind_of, opened
from mrcjax.archive.provenance import version
from mrcjax.archive.sweep import finish
from mrcjax.archive.sweep.columns import Columns, write_columns
from mrcjax.archive.sweep.points import At, Axis
from mrcjax.archive.sweep.segment import axes_from_json, axes_to_json

AXES_UP_TO = 31  # HDF5 knows 32 dimensions, one is for ranks


@dataclass(frozen=True)
class Session:
    """One time that a sweep was worked on."""

    command: str
    started: str  # ISO 8601, UTC
    ended: str  # when the file was last written
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Header:
    """What the file of a sweep says of itself."""

    created: str  # ISO 8601, UTC
    spec_text: str  # TOML with its [sweep]
    sessions: tuple[Session, ...]
    axes: tuple[Axis, ...]
    variables: tuple[str, ...] = ()
    last_segment: int = 0  # number of the last one ever; none is used twice
    schema: int = SCHEMA
    mrcjax_version: str = ""
    results_hash: str = ""  # of the labels and results of all finished points
    device: str = ""  # that computed them; several are joined by ", "
    precision: str = ""


def write_sweep(
    draft: Any,
    header: Header,
    columns: Columns,
    kept: Mapping[At, tuple[Path, tuple[int, ...]]],
) -> None:
    """Write the whole file.

    Args:
        draft: an empty file.
        header: what it says of itself; what follows from the columns is filled in.
        columns: over the axes, with "status".
        kept: place of each point with finish times -> the file that has them, and the place there.
    """
    axes = header.axes
    with h5py.File(draft, "w", track_order=True) as file:
        _write_header(file, header, columns)
        scales = [_write_axis(file, axis) for axis in axes]
        write_columns(file, columns, *scales)
        if kept:
            ranks = int(columns["finish_count"].max())
            scale = store_scale(file, "rank", np.arange(ranks), "rank")
            target = finish.create(file, tuple(map(len, axes)), ranks, *scales, scale)
            _copy_finish_times(kept, target)


def _write_header(file: Any, header: Header, columns: Columns) -> None:
    for key, value in (
        ("schema", SCHEMA),
        ("kind", "sweep"),
        ("mrcjax_version", version()),
        ("created", header.created),
        ("spec", storable(header.spec_text)),
        ("command", header.sessions[-1].command),
        ("started", header.sessions[0].started),
        ("ended", header.sessions[-1].ended),
        ("sessions", json_text([vars(session) for session in header.sessions])),
        ("axes", axes_to_json(header.axes)),
        ("variables", json_text(list(columns.keys))),
        ("last_segment", header.last_segment),
        ("results_hash", hash_of_results(header.axes, columns)),
        ("device", _all_of(columns, "device")),
        ("precision", _all_of(columns, "precision")),
    ):
        file.attrs[key] = value
    others = [key for axis in header.axes for key in axis.coords if key != axis.name]
    if others:
        file.attrs["coordinates"] = " ".join(others)  # has xarray take them for coordinates


def _write_axis(file: Any, axis: Axis) -> Any:
    scale = None
    for key, labels in axis.coords.items():
        scales = [] if scale is None else [scale]
        if isinstance(labels[0], str):
            texts = np.array(labels, dtype=object)
            dataset = store_text(file, key, texts, key, *scales)
        else:
            is_flag = isinstance(labels[0], bool)
            numbers = np.array(labels, dtype=np.int8 if is_flag else None)
            dataset = store(file, key, numbers, axis.units.get(key, ""), key, *scales)
            if is_flag:
                dataset.attrs["dtype"] = "bool"  # has xarray read them as such
        if scale is None:
            dataset.make_scale(key)
            scale = dataset
    return scale


def _copy_finish_times(kept: Mapping[At, tuple[Path, tuple[int, ...]]], target: Any) -> None:
    by_file: dict[Path, list[tuple[tuple[int, ...], At]]] = {}
    for at, (path, place) in kept.items():
        by_file.setdefault(path, []).append((place, at))
    for path, places in by_file.items():
        with opened(path) as source:
            finish.copy(source[finish.KEY], target, sorted(places))


def hash_of_results(axes: Sequence[Axis], columns: Columns) -> str:
    """Return one hash for the labels and results of all finished points, in whatever order."""
    steps = [axis.steps() for axis in axes]
    done = np.argwhere(columns["status"] == "done")
    lines = sorted(
        json.dumps([step[i] for step, i in zip(steps, at, strict=True)])
        + str(columns["result_hash"][tuple(at)])
        for at in done.tolist()
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _all_of(columns: Columns, key: str) -> str:
    if key not in columns.keys:
        return ""
    return ", ".join(sorted({text for text in columns[key].ravel().tolist() if text}))


def read_header(file: Any, path: Path) -> Header:
    """Read what a file says of itself; ArchiveError if it is no sweep's."""
    if kind_of(file) != "sweep":
        raise ArchiveError("holds runs, not a sweep", path, "name another file")
    text = {key: str(file.attrs[key]) for key in file.attrs}
    header = Header(
        created=text["created"],
        spec_text=text["spec"],
        sessions=tuple(Session(**session) for session in json.loads(text["sessions"])),
        axes=axes_from_json(text["axes"]),
        variables=tuple(json.loads(text["variables"])),
        last_segment=int(file.attrs.get("last_segment", 0)),  # the first files had none
        schema=int(file.attrs["schema"]),
        mrcjax_version=text["mrcjax_version"],
        results_hash=text["results_hash"],
        device=text["device"],
        precision=text["precision"],
    )
    shape = tuple(map(len, header.axes))
    if any(file[key].shape != shape for key in header.variables):
        raise ValueError("arrays do not fit the axes")
    return header
