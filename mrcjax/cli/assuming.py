"""What runs take for granted: values of the catalogue and of training, with their sources."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrcjax.archive import Run
    from mrcjax.network.inventory import Inventory
    from mrcjax.spec import Spec


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
    from mrcjax.network.inventory import inventory
    from mrcjax.units import SpecError

    found: dict[tuple[str, ...], list[str]] = {}
    known: dict[str, list[dict[str, str]]] = {}
    for run in runs:
        if run.spec_text not in known:
            try:
                known[run.spec_text] = assumptions_of(run.spec, inventory(run.spec.network))
            except SpecError as error:
                known[run.spec_text] = [
                    {"assumption": "unknown", "value": "", "source": str(error), "mark": ""}
                ]
        for row in known[run.spec_text]:
            found.setdefault(tuple(row.values()), []).append(run.name)
    keys = ("assumption", "value", "source", "mark")
    return [
        dict(zip(keys, row, strict=True)) | {"runs": _named(names, len(runs))}
        for row, names in found.items()
    ]


def _named(names: list[str], of: int) -> str:
    if len(names) == of:
        return "all"
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")
