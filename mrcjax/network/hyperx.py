"""HyperX: a grid of switches, fully joined along every dimension (Ahn et al., SC 2009)."""

import math

import numpy as np

from mrcjax.network import switch_sizes
from mrcjax.network.links import Wiring
from mrcjax.network.switch_graph import build_graph
from mrcjax.network.switch_sizes import SwitchSizes
from mrcjax.spec import HyperX


def build(spec: HyperX) -> Wiring:
    """Wire a HyperX."""
    place = coordinates(spec.dims) if math.prod(spec.dims) <= 2**16 else np.zeros((0, 0), int)
    return build_graph(
        spec,
        hyperx_sizes(spec),
        lambda: hyperx_graph(spec.dims, spec.cables),
        parts=lambda: {f"dimension {d}": place[:, d] for d in range(len(spec.dims))},
        in_order=place if spec.routing == "dimension_order" else None,
    )


def hyperx_sizes(spec: HyperX) -> SwitchSizes:
    """Switches and cables of a HyperX."""
    return switch_sizes.hyperx(
        where="network",
        dims=spec.dims,
        hosts=spec.hosts_per_switch,
        cables=spec.cables,
        ranks=spec.ranks,
    )


def coordinates(dims: tuple[int, ...]) -> np.ndarray:
    """Place of every switch in the grid, (switches, dimensions) int; the first varies fastest."""
    strides = np.cumprod((1, *dims[:-1]))
    return np.arange(math.prod(dims))[:, None] // strides % np.asarray(dims)


def hyperx_graph(dims: tuple[int, ...], cables: int) -> np.ndarray:
    """Cables between the switches, (switches, switches) int."""
    place = coordinates(dims)
    off = sum((place[:, None, d] != place[None, :, d]).astype(int) for d in range(len(dims)))
    return np.where(off == 1, cables, 0)
