"""Turn outcomes and tables into an archive, or into a larger one."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mrcjax.archive.dataset import (
    TEXT,
    describe,
    extend,
    json_text,
    read,
    storable,
    store,
    store_scale,
    store_text,
)
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.layout import SCALARS, SCHEMA, free_name, group_name, scalars_of
from mrcjax.archive.opening import kind_of, opened
from mrcjax.archive.provenance import iso, version, versions
from mrcjax.archive.replacing import folder_made, locked, replaced, resolved, try_folder
from mrcjax.archive.run import utilisation_of_link
from mrcjax.archive.table import Table, write_table
from mrcjax.outcome import Outcome
from mrcjax.spec import spec_to_toml

LINK_NAMES_UP_TO = 65_536  # links; beyond, the names would outweigh the numbers
_REMEDY_FOREIGN = "name another file; nothing that mrcjax did not write is overwritten"


def write(
    path: str | Path,
    outcomes: Mapping[str, Outcome] | Sequence[Outcome],
    *,
    command: str,
    append: bool = True,
    tables: Mapping[str, Table] | None = None,
    started: datetime | None = None,
) -> tuple[str, ...]:
    """Write runs into an archive, atomically, and return the names they got.

    The new file is made beside the old one and takes its place when it is complete on disk: a
    process killed at any moment leaves the old file, whole. Writers of one file wait for each
    other. Missing folders are created.

    Args:
        path: the HDF5 file.
        outcomes: runs by name; without names they are called kind-algorithm-ranks.
        command: the command line that made them.
        append: keep the runs that the file has. A name already taken gets a suffix ("direct-2"):
            no run is ever overwritten. False replaces the file, if an archive is what it is.
        tables: named tables to keep with the runs; a name already taken gets a suffix too.
        started: when the runs began.

    Raises:
        ArchiveError: the file cannot be written, or is something other than an archive.
    """
    target = resolved(path)
    with folder_made(target), locked(target):
        is_kept = _holds_archive(target) and append
        with (
            replaced(target, is_kept) as draft,
            h5py.File(draft, "r+" if is_kept else "w", track_order=True) as file,
        ):
            if not is_kept:
                _write_root(file)
            file.attrs["schema"], file.attrs["kind"] = SCHEMA, "runs"
            names = _write_runs(file, _named(outcomes), command, started)
            for name, table in (tables or {}).items():
                write_table(file["tables"], name, table)
    return names


def check_writable(path: str | Path) -> None:
    """Raise the ArchiveError that `write` would raise for this path, before hours of computing."""
    target = resolved(path)
    with folder_made(target):
        _holds_archive(target)
        try_folder(target)


def _holds_archive(target: Path) -> bool:
    """Whether there is an archive to add to; an empty file is none. Raises for anything else."""
    if not target.exists() or (target.is_file() and target.stat().st_size == 0):
        return False
    with opened(target, _REMEDY_FOREIGN) as file:
        if kind_of(file) != "runs":
            raise ArchiveError("holds a sweep, not runs", target, "name another file")
        return True


def _named(outcomes: Mapping[str, Outcome] | Sequence[Outcome]) -> list[tuple[str, Outcome]]:
    if isinstance(outcomes, Mapping):
        return [(storable(name), run) for name, run in outcomes.items()]
    return [(f"{run.kind}-{run.algorithm}-{run.ranks}", run) for run in outcomes]


def _write_root(file: Any) -> None:
    file.attrs["mrcjax_version"] = version()
    file.attrs["created"] = iso(datetime.now(UTC))
    file.create_group("runs", track_order=True)
    file.create_group("tables", track_order=True)
    growing: dict[str, Any] = {"shape": (0,), "maxshape": (None,), "chunks": (64,)}
    scale = file.create_dataset("run", dtype=TEXT, **growing)
    scale.attrs["long_name"] = "name of the run"
    scale.make_scale("run")
    for scalar in SCALARS:
        dtype = TEXT if scalar.dtype is str else np.dtype(scalar.dtype)
        dataset = file.create_dataset(scalar.key, dtype=dtype, **growing)
        describe(dataset, scalar.units, scalar.long_name, scale)


def _write_runs(
    file: Any,
    named: list[tuple[str, Outcome]],
    command: str,
    started: datetime | None,
) -> tuple[str, ...]:
    taken = {str(name) for name in read(file["run"])}
    names = tuple(free_name(name, taken) for name, _ in named)
    rows = [scalars_of(outcome) for _, outcome in named]
    extend(file["run"], list(names))
    for scalar in SCALARS:
        extend(file[scalar.key], [row[scalar.key] for row in rows])
    made_by = versions()
    for name, row, (_, outcome) in zip(names, rows, named, strict=True):
        group = file["runs"].create_group(group_name(name), track_order=True)
        group.attrs["name"] = name
        group.attrs["command"] = storable(command)
        group.attrs["started"] = iso(started) if started else ""
        group.attrs["written"] = iso(datetime.now(UTC))
        group.attrs["spec"] = spec_to_toml(outcome.spec)
        for key, value in row.items():
            group.attrs[key] = value
        for key, value in (
            ("bounds_s", outcome.bounds_s),
            ("warnings", list(outcome.warnings)),
            ("seeds", outcome.seeds),
            ("wall_s", outcome.wall_s),
            ("versions", made_by),
            ("fluid", outcome.fluid),
        ):
            group.attrs[key] = json_text(value)
        _write_ranks(group, outcome)
        _write_links(group, outcome)
        _write_flows(group, outcome)
        _write_scenarios(group, outcome)
        _write_link_use(group, outcome)
    return names


def _write_ranks(group: Any, outcome: Outcome) -> None:
    finish_s = np.asarray(outcome.finish_s)
    scale = store_scale(group, "rank", np.arange(finish_s.size), "rank")
    store(group, "finish_s", finish_s, "s", "time at which the rank has finished", scale)


def _write_scenarios(group: Any, outcome: Outcome) -> None:
    if outcome.scenarios is None:
        return
    times_s = outcome.scenarios.times_s
    scale = store_scale(group, "scenario", np.arange(times_s.size), "added to every seed")
    store(group, "scenario_time_s", times_s, "s", "completion time of the scenario", scale)


def _write_link_use(group: Any, outcome: Outcome) -> None:
    use = outcome.link_use
    if use is None or not use.links:
        return
    names = store_text(group, "used_link", np.array(use.links, dtype=object), "link looked at")
    names.make_scale("used_link")
    middle_s = (use.edges_s[:-1] + use.edges_s[1:]) / 2
    times = store(group, "use_time_s", middle_s, "s", "middle of a part of the time")
    times.make_scale("use_time_s")
    about = "share of the link's capacity in use"
    store(group, "link_use", use.share, "1", about, names, times)


def _write_links(group: Any, outcome: Outcome) -> None:
    num_links = len(outcome.link_bytes)
    scale = store_scale(group, "link", np.arange(num_links), "index of the link")
    for key, values, units, long_name in (
        ("link_bytes", outcome.link_bytes, "byte", "bytes carried"),
        (
            "link_capacity_bytes_per_s",
            outcome.link_capacity_bytes_per_s,
            "byte/s",
            "capacity",
        ),
        ("link_utilisation", utilisation_of_link(outcome), "1", "busy time over completion time"),
    ):
        store(group, key, np.asarray(values), units, long_name, scale)
    if 0 < num_links <= LINK_NAMES_UP_TO:
        names = np.array([outcome.link_name(i) for i in range(num_links)], dtype=object)
        store_text(group, "link_name", names, "name of the link", scale)

    tiers = outcome.tiers
    scale = store_scale(
        group, "tier", np.array([t.name for t in tiers], dtype=TEXT), "tier of links"
    )
    for key, values, units, long_name in (
        ("tier_first", [t.first for t in tiers], "1", "index of the tier's first link"),
        ("tier_count", [t.count for t in tiers], "1", "number of links in the tier"),
        ("tier_rule", [t.rule for t in tiers], "", "how chunks share a link of the tier"),
    ):
        dtype = np.dtype(np.int64) if units else TEXT
        store(group, key, np.array(values, dtype=dtype), units, long_name, scale)


def _write_flows(group: Any, outcome: Outcome) -> None:
    flows = outcome.flows
    if flows is None:
        return
    scale = store_scale(group, "flow", np.arange(len(flows.src)), "flow of the traffic")
    for key, values, units, long_name in (
        ("flow_src", flows.src, "1", "rank that sends"),
        ("flow_dst", flows.dst, "1", "rank that receives"),
        ("flow_size_bytes", flows.size_bytes, "byte", "bytes of the flow"),
        ("flow_finish_s", flows.finish_s, "s", "time at which the flow has arrived"),
    ):
        store(group, key, np.asarray(values), units, long_name, scale)
