"""What runs take for granted: values of the catalogue and of training, with their sources."""

import itertools
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrcjax.archive import Run, Sweep
    from mrcjax.network.inventory import Inventory
    from mrcjax.spec import Spec, SpecError


def assumptions_of(asked: "Spec", materials: "Inventory") -> list[dict[str, str]]:
    """List what was taken from the catalogue and assumed of training: value, source, mark."""
    from mrcjax import hardware
    from mrcjax.training import explain

    network = asked.network
    links = [getattr(network, key, None) for key in ("link", "rail", "node")]
    parts: list[hardware.Part] = [hardware.link(name) for name in links if name is not None]
    parts += [hardware.switch(name) for name in materials.switches_by_part]
    if materials.nic:
        parts.append(hardware.nic_for(math.fsum(network.port_rates)))
    if materials.usd:
        parts.append(hardware.optics())
    rows = [
        (f"{part.name}: {field}", f"{getattr(part, field):.6g}", *source)
        for part in parts
        for field, source in part.sources.items()
    ]
    if asked.training is not None:
        rows += explain(asked.training, network.ranks)
    keys = ("assumption", "value", "source", "mark")
    return [dict(zip(keys, row, strict=True)) for row in rows]


def assumptions_of_runs(runs: "list[Run]") -> list[dict[str, str]]:
    """List the same for many runs, each once, with the runs that it holds for under "runs".

    A run whose spec can no longer be built, such as one of a graph whose file is gone, has a row
    that says so.
    """
    from mrcjax.spec import load_spec
    from mrcjax.units import SpecError

    by_text: dict[str, list[str]] = {}
    for run in runs:
        by_text.setdefault(run.spec_text, []).append(run.name)
    known: list[tuple[Spec | SpecError, list[str]]] = []
    for text, names in by_text.items():
        try:
            known.append((load_spec(text), names))
        except SpecError as error:
            known.append((error, names))
    return _listed(known)


def assumptions_of_sweep(sweep: "Sweep") -> list[dict[str, str]]:
    """List the same for the points of a sweep, for each unlike network or training once."""
    from mrcjax.spec import load_sweep
    from mrcjax.units import SpecError

    try:
        asked = load_sweep(sweep.header.spec_text)
    except SpecError as error:
        return _listed([(error, [])])
    unlike: dict[str, tuple[Spec | SpecError, list[str]]] = {}
    for _, point in itertools.islice(asked.points(), _MOST_POINTS):
        if point is None or point.spec is None:
            continue
        key = repr((point.spec.network, point.spec.training))
        if key in unlike or len(unlike) < _MOST_UNLIKE:
            name = ", ".join(map(str, point.labels.values()))
            unlike.setdefault(key, (point.spec, []))[1].append(name)
    return _listed(list(unlike.values()))


_MOST_POINTS = 10_000
_MOST_UNLIKE = 24  # networks of a sweep; more of one family are made of the same parts


def _listed(known: "list[tuple[Spec | SpecError, list[str]]]") -> list[dict[str, str]]:
    """Every assumption once, with the names of what it holds for."""
    from mrcjax.network.inventory import inventory
    from mrcjax.units import SpecError

    found: dict[tuple[str, ...], list[str]] = {}
    for spec, names in known:
        try:
            if isinstance(spec, SpecError):
                raise spec
            rows = [tuple(row.values()) for row in assumptions_of(spec, inventory(spec.network))]
        except SpecError as error:
            rows = [("unknown", "", str(error), "")]
        for row in rows:
            found.setdefault(row, []).extend(names)
    of = len({name for _, names in known for name in names})
    keys = ("assumption", "value", "source", "mark")
    return [
        dict(zip(keys, row, strict=True)) | {"runs": _named(names, of)}
        for row, names in found.items()
    ]


def _named(names: list[str], of: int) -> str:
    if len(names) == of:
        return "all"
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")
