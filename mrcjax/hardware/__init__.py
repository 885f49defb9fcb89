"""Give catalogue parts (links, switches, adapters, optics, GPUs) as structs of SI floats.

The data are the TOML files beside this module. Every value there carries its source and a mark:
A primary source read, B reliable secondary, C estimated or recalled, X sources conflict.
"""

import difflib
import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple, TypeVar

from mrcjax.units import (
    BytesPerSecond,
    FlopsPerSecond,
    JoulesPerByte,
    Quantity,
    Seconds,
    SpecError,
    Watts,
)

MARKS = {
    "A": "primary source read",
    "B": "reliable secondary source",
    "C": "estimated or recalled, to be checked",
    "X": "sources conflict",
}


class Source(NamedTuple):
    """Where a value comes from and how far to trust it (a key of ``MARKS``)."""

    source: str
    mark: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """What all catalogue parts share. A field that is None is not in the catalogue."""

    name: str
    description: str
    sources: Mapping[str, Source]

    def source(self, field: str) -> Source:
        """Return source and mark of a field by its Python name; KeyError when it has no value."""
        return self.sources[field]


@dataclass(frozen=True, kw_only=True)
class Link(Part):
    """A link, one direction.

    ``pod_ranks``: most ranks that such links join; ``slice_ranks``: most that one job can get.
    """

    rate_bytes_per_s: float
    effective_bytes_per_s: float | None = None
    latency_s: float | None = None
    pod_ranks: float | None = None
    slice_ranks: float | None = None
    in_network_efficiency: float | None = None


@dataclass(frozen=True, kw_only=True)
class ScaleUpSwitch(Part):
    """A switch inside scale-up domains: `planes` of them side by side, `radix` ranks on each.

    ``watts`` is per switch; what one costs alone is not known, it comes with the servers.
    """

    planes: int
    radix: int
    watts: float


@dataclass(frozen=True, kw_only=True)
class Switch(Part):
    """A switch; ``watts`` is without optical modules."""

    capacity_bytes_per_s: float
    max_ports: int
    max_port_bytes_per_s: float
    watts: float
    usd: float
    list_usd: float | None = None

    def radix(self, rate_bytes_per_s: float) -> int:
        """Return how many ports of this rate the switch has; 0 when a port cannot be so fast."""
        if rate_bytes_per_s > self.max_port_bytes_per_s * (1 + 1e-9):
            return 0
        # the small excess keeps 51.2T / 100G at 512 whatever the rounding of the division
        fitting = math.floor(self.capacity_bytes_per_s / rate_bytes_per_s * (1 + 1e-9))
        return min(self.max_ports, fitting)


@dataclass(frozen=True, kw_only=True)
class Nic(Part):
    """A network adapter, without optical modules."""

    rate_bytes_per_s: float
    watts: float
    usd: float


@dataclass(frozen=True, kw_only=True)
class Optics(Part):
    """Modules and cables. Joules per byte are also watts per (byte/s) of one link end."""

    switch_module_j_per_byte: float
    nic_module_j_per_byte: float
    silicon_photonic_j_per_byte: float
    link_end_usd_per_byte_per_s: float
    copper_watts: float
    copper_usd: float
    linear_module_saving: float


@dataclass(frozen=True, kw_only=True)
class Gpu(Part):
    """An accelerator; ``hour_usd`` is without network and electricity."""

    peak_bf16_flops_per_s: float
    peak_fp8_flops_per_s: float | None = None
    achievable_bf16: float | None = None
    achievable_fp8: float | None = None
    watts: float | None = None
    server_watts: float | None = None
    server_load: float | None = None
    hour_usd: float | None = None


_PartT = TypeVar("_PartT", bound=Part)

# TOML key -> (field, how to read the value). A number is multiplied, a quantity class parses.
_Reader = type[Quantity] | float
_READERS: dict[str, dict[str, tuple[str, _Reader]]] = {
    "links": {
        "rate": ("rate_bytes_per_s", BytesPerSecond),
        "effective": ("effective_bytes_per_s", BytesPerSecond),
        "latency": ("latency_s", Seconds),
        "pod_ranks": ("pod_ranks", 1),
        "slice_ranks": ("slice_ranks", 1),
        "in_network_efficiency": ("in_network_efficiency", 1.0),
    },
    "scale_up": {
        "planes": ("planes", 1),
        "radix": ("radix", 1),
        "watts": ("watts", Watts),
    },
    "switches": {
        "capacity": ("capacity_bytes_per_s", BytesPerSecond),
        "max_ports": ("max_ports", 1),
        "max_port_rate": ("max_port_bytes_per_s", BytesPerSecond),
        "watts": ("watts", Watts),
        "usd": ("usd", 1.0),
        "list_usd": ("list_usd", 1.0),
    },
    "nics": {
        "rate": ("rate_bytes_per_s", BytesPerSecond),
        "watts": ("watts", Watts),
        "usd": ("usd", 1.0),
    },
    "optics": {
        "switch_module": ("switch_module_j_per_byte", JoulesPerByte),
        "nic_module": ("nic_module_j_per_byte", JoulesPerByte),
        "silicon_photonic": ("silicon_photonic_j_per_byte", JoulesPerByte),
        "link_end_usd_per_gbit_per_s": ("link_end_usd_per_byte_per_s", 8e-9),
        "copper": ("copper_watts", Watts),
        "copper_usd": ("copper_usd", 1.0),
        "linear_module_saving": ("linear_module_saving", 1.0),
    },
    "gpus": {
        "peak_bf16": ("peak_bf16_flops_per_s", FlopsPerSecond),
        "peak_fp8": ("peak_fp8_flops_per_s", FlopsPerSecond),
        "achievable_bf16": ("achievable_bf16", 1.0),
        "achievable_fp8": ("achievable_fp8", 1.0),
        "watts": ("watts", Watts),
        "server_watts": ("server_watts", Watts),
        "server_load": ("server_load", 1.0),
        "hour_usd": ("hour_usd", 1.0),
    },
}

CATALOGUES = tuple(_READERS)


@functools.cache
def raw(catalogue: str) -> dict[str, dict[str, Any]]:
    """Return one catalogue ("links", "switches", ...) as its TOML tables, values with sources."""
    text = (
        resources.files("mrcjax.hardware").joinpath(f"{catalogue}.toml").read_text(encoding="utf-8")
    )
    return tomllib.loads(text)


@functools.cache
def _load(catalogue: str, cls: type[_PartT]) -> dict[str, _PartT]:
    return {name: _part(catalogue, cls, name, row) for name, row in raw(catalogue).items()}


def _part(catalogue: str, cls: type[_PartT], name: str, row: Mapping[str, Any]) -> _PartT:
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for key, cell in row.items():
        if key == "description":
            continue
        field, reader = _READERS[catalogue][key]
        is_plain = isinstance(reader, int | float)
        values[field] = cell["value"] * reader if is_plain else float(reader.parse(cell["value"]))
        sources[field] = Source(cell["source"], cell["mark"])
    return cls(name=name, description=row["description"], sources=sources, **values)


def _find(catalogue: str, cls: type[_PartT], what: str, name: str) -> _PartT:
    parts = _load(catalogue, cls)
    if name in parts:
        return parts[name]
    near = difflib.get_close_matches(name, parts, n=1, cutoff=0.5)
    remedy = f'did you mean "{near[0]}"? ' if near else ""
    raise SpecError(
        f"names no {what} of the catalogue", value=name, remedy=f"{remedy}known: {', '.join(parts)}"
    )


def link(name: str) -> Link:
    """Return a link by its catalogue name; SpecError names the nearest when there is none."""
    return _find("links", Link, "link", name)


def links() -> dict[str, Link]:
    """Return all links by name."""
    return dict(_load("links", Link))


def switch(name: str) -> Switch:
    """Return a switch by its catalogue name; SpecError names the nearest when there is none."""
    return _find("switches", Switch, "switch", name)


def switches() -> dict[str, Switch]:
    """Return all switches by name, smallest capacity first."""
    parts = _load("switches", Switch)
    return dict(sorted(parts.items(), key=lambda item: item[1].capacity_bytes_per_s))


def scale_up_switch(name: str) -> ScaleUpSwitch:
    """Return a switch of scale-up domains by name; SpecError names the nearest."""
    return _find("scale_up", ScaleUpSwitch, "switch of scale-up domains", name)


def scale_up_switches() -> dict[str, ScaleUpSwitch]:
    """Return all switches of scale-up domains by name."""
    return dict(_load("scale_up", ScaleUpSwitch))


def nic(name: str) -> Nic:
    """Return a network adapter by its catalogue name; SpecError when there is none."""
    return _find("nics", Nic, "network adapter", name)


def nics() -> dict[str, Nic]:
    """Return all network adapters by name."""
    return dict(_load("nics", Nic))


def nic_for(rate_bytes_per_s: float) -> Nic:
    """Return the adapter for a rank's whole network rate, watts and dollars scaled per Gbit/s.

    Up to 400 Gbit/s the 400G part is scaled, above it the 800G part: 20 x 400 Gbit/s is ten
    800G adapters.
    """
    base = nic("nic_400g")
    if rate_bytes_per_s > base.rate_bytes_per_s * (1 + 1e-9):
        base = nic("nic_800g")
    share = rate_bytes_per_s / base.rate_bytes_per_s
    if abs(share - 1) < 1e-9:
        return base
    scaled = {
        field: Source(f"{share:g} x {base.name}: {source.source}", source.mark)
        for field, source in base.sources.items()
    }
    return Nic(
        name=f"{share:g} x {base.name}",
        description=f"{base.description}, scaled",
        sources=scaled,
        rate_bytes_per_s=rate_bytes_per_s,
        watts=base.watts * share,
        usd=base.usd * share,
    )


def optics() -> Optics:
    """Return powers and prices of modules and cables."""
    return _find("optics", Optics, "set of optics", "optics")


def gpu(name: str) -> Gpu:
    """Return an accelerator by its catalogue name; SpecError names the nearest when none."""
    return _find("gpus", Gpu, "GPU", name)


def gpus() -> dict[str, Gpu]:
    """Return all accelerators by name."""
    return dict(_load("gpus", Gpu))
