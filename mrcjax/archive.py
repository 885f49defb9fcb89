"""Turn outcomes into one HDF5 file of many runs, and such a file back into runs."""

import contextlib
import fcntl
import functools
import glob
import importlib.metadata
import io
import json
import os
import platform
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import h5py
import numpy as np

from mrcjax.outcome import Binding, Outcome, Tier
from mrcjax.spec import Spec, load_spec, spec_to_toml

SCHEMA = 1
LINK_NAMES_UP_TO = 65_536  # links; beyond, the names would outweigh the numbers

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_COMPRESS_FROM = 1024  # elements; smaller arrays cost more as chunks than they save
_LOCK_TIMEOUT_S = 60.0
_REMEDY_FOREIGN = "name another file; nothing that mrcjax did not write is overwritten"


class ArchiveError(ValueError):
    """Say what is wrong with an archive file, where, and what to do about it.

    Attributes:
        what: the complaint, a verb phrase about the file ("is not an HDF5 file").
        where: the file or folder.
        remedy: what to do about it, or "".
    """

    def __init__(self, what: str, where: str | Path = "", remedy: str = ""):
        # all three as args, so that the error survives pickling between processes
        super().__init__(what, str(where), remedy)
        self.what, self.where, self.remedy = what, str(where), remedy

    def __str__(self) -> str:
        text = f"{self.where} {self.what}".strip()
        return f"{text}; {self.remedy}" if self.remedy else text


@dataclass(frozen=True)
class Column:
    """How one value of a table's rows is headed and scaled."""

    key: str  # of the row
    title: str
    unit: str = ""
    scale: float = 1.0  # one `unit` in the unit of the row's value: 1e-3 for ms from seconds
    bound_key: str = ""  # of the row: a lower bound of this value in the same unit
    digits: int = 4  # significant


@dataclass(frozen=True)
class Table:
    """A small table with what it takes to print and plot it again, such as a comparison."""

    rows: Sequence[Mapping[str, Any]]  # values are text, numbers, booleans or None
    columns: Sequence[Column] = ()  # none: every key of the rows, as it is
    title: str = ""
    notes: Sequence[str] = ()  # printed below


@dataclass(frozen=True)
class _Scalar:
    """One number or text of a run: a root dataset over the runs and an attribute of the run."""

    key: str
    attribute: str  # of Outcome, dotted
    dtype: type
    units: str
    long_name: str


_SCALARS = (
    _Scalar("network", "kind", str, "", "network kind"),
    _Scalar("ranks", "ranks", int, "1", "number of ranks"),
    _Scalar("num_links", "num_links", int, "1", "number of physical directed links"),
    _Scalar("collective", "collective", str, "", "collective"),
    _Scalar("algorithm", "algorithm", str, "", "algorithm"),
    _Scalar("size_bytes", "size_bytes", float, "byte", "buffer of a rank"),
    _Scalar("engine", "engine", str, "", "engine"),
    _Scalar("precision", "precision", str, "", "floating-point type"),
    _Scalar("device", "device", str, "", "device that computed the run"),
    _Scalar("time_s", "time_s", float, "s", "completion time"),
    _Scalar("lower_bound_s", "lower_bound_s", float, "s", "lower bound for any schedule"),
    _Scalar("bound_kind", "bound_kind", str, "", "name of the lower bound"),
    _Scalar("bound_ratio", "bound_ratio", float, "1", "completion time over lower bound"),
    _Scalar("schedule_bound_s", "schedule_bound_s", float, "s", "lower bound for this schedule"),
    _Scalar("algbw_bytes_per_s", "algbw_bytes_per_s", float, "byte/s", "algorithm bandwidth"),
    _Scalar("busbw_bytes_per_s", "busbw_bytes_per_s", float, "byte/s", "bus bandwidth"),
    _Scalar("binding_resource", "binding.resource", str, "", "kind of the binding resource"),
    _Scalar("binding_name", "binding.name", str, "", "binding resource"),
    _Scalar(
        "binding_utilisation",
        "binding.utilisation",
        float,
        "1",
        "busy time of the busiest link over the completion time",
    ),
)
_TEXT = h5py.string_dtype()

T = TypeVar("T")


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
    target = _resolved(path)
    with _folder_made(target), _locked(target):
        is_kept = _holds_archive(target) and append
        temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            if is_kept:
                shutil.copyfile(target, temporary)
                shutil.copymode(target, temporary)
            with _Draft(temporary, "r+" if is_kept else "w+") as draft:
                with h5py.File(draft, "r+" if is_kept else "w", track_order=True) as file:
                    if not is_kept:
                        _write_root(file)
                    names = _write_runs(file, _named(outcomes), command, started)
                    for name, table in (tables or {}).items():
                        _write_table(file, name, table)
                draft.finish()
            os.replace(temporary, target)
            _sync_folder(target.parent)
        except (OSError, RuntimeError) as error:
            raise ArchiveError(
                f"could not be written ({_reason(error)})",
                target,
                "free space or name another file; earlier runs in it are as they were",
            ) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    return names


def check_writable(path: str | Path) -> None:
    """Raise the ArchiveError that `write` would raise for this path, before hours of computing."""
    target = _resolved(path)
    with _folder_made(target):
        _holds_archive(target)
        probe = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        probe.open("wb").close()
        probe.unlink(missing_ok=True)


def load(path: str | Path) -> "Archive":
    """Open an archive; arrays are read when they are first asked for.

    Raises:
        ArchiveError: there is no such file, or it is damaged, newer, or not an archive.
    """
    target = Path(path)
    with _reading(target) as file:
        columns = {key: _read(file[key]) for key in (s.key for s in _SCALARS)}
        names = [str(name) for name in _read(file["run"])]
        return Archive(
            path=target,
            schema=int(file.attrs["schema"]),
            mrcjax_version=str(file.attrs["mrcjax_version"]),
            created=str(file.attrs["created"]),
            columns=columns,
            runs={name: Run(target, name) for name in names},
            tables={
                str(dataset.attrs["name"]): _read_table(dataset)
                for dataset in file["tables"].values()
            },
        )


@dataclass(frozen=True)
class Archive:
    """What a file holds: runs by name, one value per run in columns, and tables."""

    path: Path
    schema: int
    mrcjax_version: str
    created: str  # ISO 8601, UTC
    columns: dict[str, np.ndarray]  # key -> (runs,)
    runs: "dict[str, Run]"
    tables: dict[str, Table] = field(default_factory=dict)

    def table(self) -> list[dict[str, Any]]:
        """Return one dict per run: its name under "run", and its scalars in SI units."""
        plain = {"run": list(self.runs)} | {k: v.tolist() for k, v in self.columns.items()}
        return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]

    def run(self, name: str | None = None) -> "Run":
        """Return the run of this name; without a name, the only one. Raises ArchiveError."""
        if name is None and len(self.runs) == 1:
            return next(iter(self.runs.values()))
        if name in self.runs:
            return self.runs[name]
        listed = ", ".join(list(self.runs)[:8]) + (", ..." if len(self.runs) > 8 else "")
        if not self.runs:
            raise ArchiveError("holds no runs", self.path)
        if name is None:
            raise ArchiveError(
                f"holds {len(self.runs)} runs", self.path, f"name one of them: {listed}"
            )
        raise ArchiveError(f'has no run "{name}"', self.path, f"name one of: {listed}")


class _Stored(Generic[T]):
    """Reads an attribute of a run's group, turned into a T."""

    def __init__(self, key: str, convert: Callable[[Any], T]):
        self.key = key
        self.convert = convert

    def __get__(self, run: "Run | None", _: type) -> T:
        if run is None:
            return cast(Any, self)  # asked of the class, as help() does
        return self.convert(run._attributes[self.key])


class _StoredArray:
    """Reads a dataset of a run's group, once."""

    def __init__(self, key: str):
        self.key = key

    def __get__(self, run: "Run | None", _: type) -> np.ndarray:
        if run is None:
            return cast(Any, self)
        if self.key not in run._arrays:
            with run._group() as group:
                run._arrays[self.key] = _read(group[self.key])
        return run._arrays[self.key]


class Run:
    """One archived run, with the attributes of Outcome; read from the file when asked for."""

    # what was run; the fields stand in Outcome with their meaning
    spec_text = _Stored("spec", str)  # TOML with every default written out
    kind = _Stored("network", str)
    ranks = _Stored("ranks", int)
    num_links = _Stored("num_links", int)
    collective = _Stored("collective", str)
    algorithm = _Stored("algorithm", str)
    size_bytes = _Stored("size_bytes", float)

    # how
    engine = _Stored("engine", str)
    precision = _Stored("precision", str)
    device = _Stored("device", str)
    command = _Stored("command", str)
    started = _Stored("started", str)  # ISO 8601, UTC; "" where it was not given
    written = _Stored("written", str)  # ISO 8601, UTC
    versions: _Stored[dict[str, str]] = _Stored("versions", json.loads)
    seeds: _Stored[dict[str, int]] = _Stored("seeds", json.loads)
    wall_s: _Stored[dict[str, float]] = _Stored("wall_s", json.loads)
    warnings: _Stored[tuple[str, ...]] = _Stored("warnings", lambda text: tuple(json.loads(text)))

    # what came out
    time_s = _Stored("time_s", float)
    finish_s = _StoredArray("finish_s")
    lower_bound_s = _Stored("lower_bound_s", float)
    bound_kind = _Stored("bound_kind", str)
    bound_ratio = _Stored("bound_ratio", float)
    bounds_s: _Stored[dict[str, float]] = _Stored("bounds_s", json.loads)
    schedule_bound_s = _Stored("schedule_bound_s", float)
    algbw_bytes_per_s = _Stored("algbw_bytes_per_s", float)
    busbw_bytes_per_s = _Stored("busbw_bytes_per_s", float)
    link_bytes = _StoredArray("link_bytes")
    link_capacity_bytes_per_s = _StoredArray("link_capacity_bytes_per_s")
    link_utilisation = _StoredArray("link_utilisation")  # busy over completion time, 0..1

    # the object of `mrcjax run --json`; it asks for nothing that a Run has not
    to_json = Outcome.to_json

    def __init__(self, path: Path, name: str):
        self.path = path
        self.name = name
        self._arrays: dict[str, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.name!r})"

    @functools.cached_property
    def _attributes(self) -> dict[str, Any]:
        with self._group() as group:
            return dict(group.attrs)

    @contextlib.contextmanager
    def _group(self) -> Iterator[Any]:
        with _reading(self.path) as file:
            runs = file["runs"]
            inner = _group_name(self.name)
            if inner not in runs:
                raise ArchiveError(
                    f'no longer has the run "{self.name}"',
                    self.path,
                    "it was replaced since it was loaded; load it again",
                )
            yield runs[inner]

    @functools.cached_property
    def spec(self) -> Spec:
        """The spec, parsed."""
        return load_spec(self.spec_text)

    @property
    def binding(self) -> Binding:
        """What limits the run."""
        stored = self._attributes
        return Binding(
            resource=str(stored["binding_resource"]),
            name=str(stored["binding_name"]),
            utilisation=float(stored["binding_utilisation"]),
        )

    @functools.cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """Blocks of links of one kind."""
        with self._group() as group:
            columns = [
                _read(group[key]).tolist()
                for key in ("tier", "tier_first", "tier_count", "tier_rule")
            ]
        return tuple(Tier(*row) for row in zip(*columns, strict=True))

    @property
    def link_busy_s(self) -> np.ndarray:
        """Seconds each link needs for its bytes, (links,)."""
        return _busy_s(self.link_bytes, self.link_capacity_bytes_per_s)

    @functools.cached_property
    def _link_names(self) -> np.ndarray | None:
        with self._group() as group:
            return _read(group["link_name"]) if "link_name" in group else None

    def link_name(self, link: int) -> str:
        """Return a link's name; its tier and place there where names were too many to keep."""
        if self._link_names is not None:
            return str(self._link_names[link])
        for tier in self.tiers:
            if tier.first <= link < tier.first + tier.count:
                return f"{tier.name} link {link - tier.first}"
        raise IndexError(link)


AnyRun = Outcome | Run


def utilisation_of_link(run: AnyRun) -> np.ndarray:
    """Return busy time over completion time of each link, (links,), 0..1; zero if no time passed.

    Busy time is bytes over capacity, so a link never exceeds 1 in a correct run.
    """
    if isinstance(run, Run):
        return run.link_utilisation
    busy_s = _busy_s(run.link_bytes, run.link_capacity_bytes_per_s)
    return busy_s / run.time_s if run.time_s > 0 else np.zeros_like(busy_s)


def _busy_s(link_bytes: np.ndarray, capacity_bytes_per_s: np.ndarray) -> np.ndarray:
    # a link that is down has capacity 0 and carries nothing
    carried = np.asarray(link_bytes, dtype=np.float64)
    return np.divide(carried, capacity_bytes_per_s, out=np.zeros_like(carried), where=carried > 0)


# writing; h5py's files, groups and datasets go as Any: to a type checker, what it finds under a
# path may be each of them


def _named(outcomes: Mapping[str, Outcome] | Sequence[Outcome]) -> list[tuple[str, Outcome]]:
    if isinstance(outcomes, Mapping):
        return [(_storable(name), run) for name, run in outcomes.items()]
    return [(f"{run.kind}-{run.algorithm}-{run.ranks}", run) for run in outcomes]


def _storable(text: str) -> str:
    # a command line may hold bytes that are no UTF-8, which Python keeps as lone surrogates
    return text.replace("\0", "").encode(errors="backslashreplace").decode()


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    taken.add(free)
    return free


def _group_name(name: str) -> str:
    """Escape what HDF5 cannot have in a group's name."""
    inner = name.replace("%", "%25").replace("/", "%2F")
    return {"": "%", ".": "%2E", "..": "%2E%2E"}.get(inner, inner)


def _write_root(file: Any) -> None:
    file.attrs["schema"] = SCHEMA
    file.attrs["mrcjax_version"] = _version()
    file.attrs["created"] = _iso(datetime.now(UTC))
    file.create_group("runs", track_order=True)
    file.create_group("tables", track_order=True)
    growing: dict[str, Any] = {"shape": (0,), "maxshape": (None,), "chunks": (64,)}
    scale = file.create_dataset("run", dtype=_TEXT, **growing)
    scale.attrs["long_name"] = "name of the run"
    scale.make_scale("run")
    for scalar in _SCALARS:
        dtype = _TEXT if scalar.dtype is str else np.dtype(scalar.dtype)
        dataset = file.create_dataset(scalar.key, dtype=dtype, **growing)
        _describe(dataset, scalar.units, scalar.long_name, scale)


def _write_runs(
    file: Any,
    named: list[tuple[str, Outcome]],
    command: str,
    started: datetime | None,
) -> tuple[str, ...]:
    taken = {str(name) for name in _read(file["run"])}
    names = tuple(_free_name(name, taken) for name, _ in named)
    rows = [{s.key: _scalar(outcome, s) for s in _SCALARS} for _, outcome in named]
    _extend(file["run"], list(names))
    for scalar in _SCALARS:
        _extend(file[scalar.key], [row[scalar.key] for row in rows])
    versions = _versions()
    for name, row, (_, outcome) in zip(names, rows, named, strict=True):
        group = file["runs"].create_group(_group_name(name), track_order=True)
        group.attrs["name"] = name
        group.attrs["command"] = _storable(command)
        group.attrs["started"] = _iso(started) if started else ""
        group.attrs["written"] = _iso(datetime.now(UTC))
        group.attrs["spec"] = spec_to_toml(outcome.spec)
        for key, value in row.items():
            group.attrs[key] = value
        for key, value in (
            ("bounds_s", outcome.bounds_s),
            ("warnings", list(outcome.warnings)),
            ("seeds", outcome.seeds),
            ("wall_s", outcome.wall_s),
            ("versions", versions),
        ):
            group.attrs[key] = _json(value)
        _write_ranks(group, outcome)
        _write_links(group, outcome)
    return names


def _scalar(outcome: Outcome, scalar: _Scalar) -> Any:
    value: Any = outcome
    for part in scalar.attribute.split("."):
        value = getattr(value, part)
    return scalar.dtype(value)


def _extend(dataset: Any, values: list[Any]) -> None:
    if values:
        old = dataset.shape[0]
        dataset.resize(old + len(values), axis=0)
        dataset[old:] = values


def _write_ranks(group: Any, outcome: Outcome) -> None:
    finish_s = np.asarray(outcome.finish_s)
    scale = _scale(group, "rank", np.arange(finish_s.size), "rank")
    _store(group, "finish_s", finish_s, "s", "time at which the rank has finished", scale)


def _write_links(group: Any, outcome: Outcome) -> None:
    num_links = len(outcome.link_bytes)
    scale = _scale(group, "link", np.arange(num_links), "index of the link")
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
        _store(group, key, np.asarray(values), units, long_name, scale)
    if 0 < num_links <= LINK_NAMES_UP_TO:
        names = [outcome.link_name(i).encode() for i in range(num_links)]
        # of one length, unlike all other text: only such strings compress, here some twenty-fold
        fixed = np.array(names, dtype=h5py.string_dtype("utf-8", max(map(len, names)) or 1))
        dataset = _store(group, "link_name", fixed, "", "name of the link", scale)
        dataset.attrs["_Encoding"] = "utf-8"  # has xarray decode them

    tiers = outcome.tiers
    scale = _scale(group, "tier", np.array([t.name for t in tiers], dtype=_TEXT), "tier of links")
    for key, values, units, long_name in (
        ("tier_first", [t.first for t in tiers], "1", "index of the tier's first link"),
        ("tier_count", [t.count for t in tiers], "1", "number of links in the tier"),
        ("tier_rule", [t.rule for t in tiers], "", "how chunks share a link of the tier"),
    ):
        dtype = np.dtype(np.int64) if units else _TEXT
        _store(group, key, np.array(values, dtype=dtype), units, long_name, scale)


def _scale(group: Any, key: str, values: np.ndarray, long_name: str) -> Any:
    scale = _store(group, key, values, "1" if values.dtype.kind == "i" else "", long_name)
    scale.make_scale(key)
    return scale


def _store(
    group: Any,
    key: str,
    values: np.ndarray,
    units: str,
    long_name: str,
    scale: Any = None,
) -> Any:
    options: dict[str, Any] = {}
    if values.size >= _COMPRESS_FROM:
        options = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    dataset = group.create_dataset(key, data=values, dtype=values.dtype, **options)
    _describe(dataset, units, long_name, scale)
    return dataset


def _describe(dataset: Any, units: str, long_name: str, scale: Any) -> None:
    if units:
        dataset.attrs["units"] = units
    dataset.attrs["long_name"] = long_name
    if scale is not None:
        dataset.dims[0].attach_scale(scale)


def _write_table(file: Any, name: str, table: Table) -> None:
    tables = file["tables"]
    free = _free_name(name, {str(item.attrs["name"]) for item in tables.values()})
    text = _json(
        {
            "title": table.title,
            "columns": [vars(column) for column in table.columns],
            "rows": [dict(row) for row in table.rows],
            "notes": list(table.notes),
        }
    )
    dataset = tables.create_dataset(_group_name(free), data=text, dtype=_TEXT)
    dataset.attrs["name"] = free
    dataset.attrs["long_name"] = table.title or free


def _read_table(dataset: Any) -> Table:
    stored = json.loads(dataset.asstr()[()])
    return Table(
        rows=stored["rows"],
        columns=tuple(Column(**column) for column in stored["columns"]),
        title=stored["title"],
        notes=tuple(stored["notes"]),
    )


def _json(value: Any) -> str:
    # NumPy scalars and arrays know their plain form
    return json.dumps(value, ensure_ascii=False, default=lambda number: number.tolist())


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _version() -> str:
    try:
        return importlib.metadata.version("mrcjax")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _versions() -> dict[str, str]:
    versions = {
        "mrcjax": _version(),
        "numpy": np.__version__,
        "h5py": h5py.__version__,
        "python": platform.python_version(),
    }
    # archives are also written where no JAX is needed; then it had no part in them
    if "jax" in sys.modules:
        versions["jax"] = sys.modules["jax"].__version__
    return versions


# files


def _resolved(path: str | Path) -> Path:
    # through links: the file they point to is replaced, not the link
    return Path(path).expanduser().resolve()


@contextlib.contextmanager
def _folder_made(target: Path) -> Iterator[None]:
    """Make the target's folder, and say what stands in the way of a file there."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise ArchiveError(
            "cannot be written: a part of its path is not a folder",
            target,
            "name a file in a folder",
        ) from error
    except OSError as error:
        raise ArchiveError(
            f"cannot be written ({_reason(error)})",
            target,
            "name a file in a folder that you may write to",
        ) from error


def _holds_archive(target: Path) -> bool:
    """Whether there is an archive to add to; an empty file is none. Raises for anything else."""
    if target.is_file() and target.stat().st_size == 0:
        return False
    if not target.exists():
        return False
    with _reading(target, _REMEDY_FOREIGN):
        return True


@contextlib.contextmanager
def _reading(path: Path, remedy_foreign: str = "") -> Iterator[Any]:
    """Open an archive to read, after all checks; whatever fails inside is a damaged file."""
    if path.is_dir():
        raise ArchiveError("is a folder, not an archive", path, "name the HDF5 file in it")
    try:
        with path.open("rb") as stream:
            signature = stream.read(len(_SIGNATURE))
    except FileNotFoundError as error:
        raise ArchiveError(
            "does not exist", path, "`mrcjax run SPEC --out FILE.h5` writes an archive"
        ) from error
    except OSError as error:
        raise ArchiveError(f"cannot be read ({_reason(error)})", path) from error
    if signature != _SIGNATURE:
        what = "is not an HDF5 file" if signature else "is empty"
        raise ArchiveError(what, path, remedy_foreign or "name an archive that mrcjax wrote")
    try:
        # a complete archive never changes in place, so there is nothing to lock
        with h5py.File(path, "r", locking=False) as file:
            _check_schema(file, path, remedy_foreign)
            yield file
    except ArchiveError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise ArchiveError(
            f"is damaged or cut short ({_reason(error)})",
            path,
            "restore it from a copy, or move it away and run again",
        ) from error


def _check_schema(file: Any, path: Path, remedy_foreign: str) -> None:
    if not {"schema", "mrcjax_version", "created"} <= set(file.attrs):
        raise ArchiveError(
            "is an HDF5 file, but not one that mrcjax wrote",
            path,
            remedy_foreign or "name an archive that mrcjax wrote",
        )
    schema = int(file.attrs["schema"])
    if schema > SCHEMA:
        raise ArchiveError(
            f"has schema {schema}, written by mrcjax {file.attrs['mrcjax_version']}; "
            f"this version knows up to schema {SCHEMA}",
            path,
            "upgrade mrcjax",
        )


def _read(dataset: Any) -> np.ndarray:
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return np.asarray(dataset.asstr()[()], dtype=object)
    return np.asarray(dataset[()])


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Be the only writer of a file, and clear away what killed writers left.

    The lock lives in the kernel, so it dies with its process; the lock file is only its name.
    """
    name = target.with_name(f".{target.name}.lock")
    lock = _take_lock(name, target)
    try:
        if lock is not None:
            for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
                leftover.unlink(missing_ok=True)
        yield
    finally:
        if lock is not None:
            # still locked: whoever waits for this inode sees that its name is gone, and retries
            name.unlink(missing_ok=True)
            os.close(lock)


def _take_lock(name: Path, target: Path) -> int | None:
    give_up = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # a writer that finished in between took the name away with it
            if os.path.exists(name) and os.path.samestat(os.stat(name), os.fstat(lock)):
                with contextlib.suppress(OSError):  # a full disk; only the message needs it
                    os.truncate(lock, 0)
                    os.write(lock, f"{os.getpid()}\n".encode())
                return lock
        except FileNotFoundError:
            pass
        except BlockingIOError:
            if time.monotonic() > give_up:
                owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
                os.close(lock)
                raise ArchiveError(
                    f"is being written by another process (id {owner})",
                    target,
                    "wait for it to end, or name another file",
                ) from None
        except OSError:
            os.close(lock)
            warnings.warn(
                f"{target.parent} does not support locks; "
                f"see to it that one process at a time writes {target.name}",
                stacklevel=5,
            )
            return None
        os.close(lock)
        time.sleep(0.02)


class _Draft(io.FileIO):
    """A file that keeps its first failure to itself until it is finished.

    HDF5 loses track of its own state when the disk is full: it crashes, or closes a broken file
    without a word. So it is not told, and the failure is raised when it is done.
    """

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of it, unless a write has failed before."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while len(rest) and self.failure is None:
                rest = rest[super().write(rest) or 0 :]
        except OSError as failure:
            self.failure = failure
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file."""
        try:
            return super().truncate(size)
        except OSError as failure:
            self.failure = self.failure or failure
            return size or 0

    def finish(self) -> None:
        """Wait until the disk has all of it, and raise what has failed."""
        if self.failure is not None:
            raise self.failure
        os.fsync(self.fileno())


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the new name."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    lines = str(error).strip("'\"").splitlines()
    return lines[0] if lines else type(error).__name__
