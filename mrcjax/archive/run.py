"""Turn a run's group in an archive back into what its outcome was, read when asked for."""

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np

from mrcjax.archive.dataset import read
from mrcjax.archive.error import ArchiveError
from mrcjax.archive.layout import group_name
from mrcjax.archive.opening import opened
from mrcjax.outcome import Binding, FlowTimes, LinkUse, Outcome, Scenarios, Tier
from mrcjax.spec import Spec, SpecError, load_spec

T = TypeVar("T")


class _Stored(Generic[T]):
    """Reads an attribute of a run's group, turned into a T."""

    def __init__(self, key: str, convert: Callable[[Any], T], absent: Any = None):
        self.key = key
        self.convert = convert
        self.absent = absent  # what stands for a key that older archives do not have

    def __get__(self, run: "Run | None", _: type) -> T:
        if run is None:
            return cast(Any, self)  # asked of the class, as help() does
        stored = run._attributes
        if self.absent is not None and self.key not in stored:
            return self.convert(self.absent)
        return self.convert(stored[self.key])


class _StoredArray:
    """Reads a dataset of a run's group, once."""

    def __init__(self, key: str):
        self.key = key

    def __get__(self, run: "Run | None", _: type) -> np.ndarray:
        if run is None:
            return cast(Any, self)
        if self.key not in run._arrays:
            with run._group() as group:
                run._arrays[self.key] = read(group[self.key])
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

    fluid: _Stored[dict[str, float] | None] = _Stored("fluid", json.loads, absent="null")

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

    # both ask an Outcome for nothing that a Run has not
    link_busy_s = Outcome.link_busy_s
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
        with opened(self.path) as file:
            runs = file["runs"]
            inner = group_name(self.name)
            if inner not in runs:
                raise ArchiveError(
                    f'no longer has the run "{self.name}"',
                    self.path,
                    "it was replaced since it was loaded; load it again",
                )
            yield runs[inner]

    @functools.cached_property
    def spec(self) -> Spec:
        """The spec, parsed; ArchiveError where this version cannot read it."""
        try:
            return load_spec(self.spec_text)
        except SpecError as error:
            raise ArchiveError(
                f"holds a spec that cannot be read ({error})",
                self.path,
                "it is damaged, or from another version of mrcjax",
            ) from error

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
                read(group[key]).tolist()
                for key in ("tier", "tier_first", "tier_count", "tier_rule")
            ]
        return tuple(Tier(*row) for row in zip(*columns, strict=True))

    @functools.cached_property
    def scenarios(self) -> Scenarios | None:
        """Completion times of all scenarios, where there were several."""
        with self._group() as group:
            if "scenario_time_s" not in group:
                return None
            return Scenarios(read(group["scenario_time_s"]))

    @functools.cached_property
    def link_use(self) -> LinkUse | None:
        """How much of some links was in use over time, where sends were traced."""
        with self._group() as group:
            if "link_use" not in group:
                return None
            links = tuple(str(name) for name in read(group["used_link"]))
            share = read(group["link_use"])
        return LinkUse(np.linspace(0.0, self.time_s, share.shape[1] + 1), links, share)

    @functools.cached_property
    def _link_names(self) -> np.ndarray | None:
        with self._group() as group:
            return read(group["link_name"]) if "link_name" in group else None

    @functools.cached_property
    def flows(self) -> FlowTimes | None:
        """The flows of traffic; None of a collective."""
        with self._group() as group:
            if "flow_src" not in group:
                return None
            return FlowTimes(*(read(group[f"flow_{f.name}"]) for f in fields(FlowTimes)))

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
    busy_s = run.link_busy_s
    return busy_s / run.time_s if run.time_s > 0 else np.zeros_like(busy_s)
