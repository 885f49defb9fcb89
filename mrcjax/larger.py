"""Cases laid into the arrays of a larger one, so that sizes that differ share a program.

The number of ranks decides the shapes of arrays, and each new shape is a new compilation. Laid
into larger arrays a case has numbers in the place of sizes (`Extent`): the ranks beyond its own
neither send nor receive, their links stay idle, and all other numbers come out as they do alone.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mrcjax.collective.schedule import Extent, Phase, Schedule
from mrcjax.engine import Config, Params, Times
from mrcjax.engine.plan import bound_to_ports, inner_rule, outer_rule
from mrcjax.network.larger import kin as kin_of_network
from mrcjax.network.larger import laid_into
from mrcjax.network.links import Network

Inputs = tuple[Params, Network, Schedule]  # arguments of `emulate`


@dataclass(frozen=True)
class Laid:
    """How a case lies in larger arrays: its ranks are the first.

    links: (links,) int, place of each link of the case.
    """

    ranks: int
    links: np.ndarray

    def own(self, times: Times) -> Times:
        """Take the case's own part of times in larger arrays."""
        return replace(
            times, finish_s=times.finish_s[: self.ranks], link_bytes=times.link_bytes[self.links]
        )


def kin(inputs: Inputs, config: Config) -> Hashable | None:
    """What cases share of which any can be laid into a larger one; None = it goes into none.

    What the engine chooses by the number of ranks is part of it, so that none comes out otherwise
    for being laid into a larger one.
    """
    params, network, schedule = inputs
    plain = params.shares is None and params.jitter is None and config.order != "arrival"
    of_network = kin_of_network(network)
    if of_network is None or not plain or schedule.tables or schedule.offsets or schedule.trees:
        return None
    phases = []
    for phase in schedule.phases:
        if phase.lines or phase.rounds == 0:
            return None
        sizeless = replace(phase, layout=(0, 0, 0), rounds=1, crossing=-1)
        phases.append((sizeless, _growth(phase), _ways(phase, network, config)))
    owned = tuple(chunks.ndim for chunks in params.chunk_bytes)
    equal = tuple(chunks.shape[-1] == 1 for chunks in params.chunk_bytes)
    orders = tuple(order.shape[0] for order in schedule.orders)
    work = schedule.kind, schedule.algorithm, orders, owned, equal
    reducers = None if params.reduction_bytes_per_s is None else params.reduction_bytes_per_s.ndim
    return config, of_network, tuple(phases), work, reducers, params.window is None


def lay(inputs: Inputs, larger: Inputs) -> tuple[Inputs, Laid]:
    """Lay a case into the arrays of a larger one of its kin."""
    params, network, schedule = inputs
    ranks, most = network.ranks, larger[1].ranks
    laid_network, places = laid_into(network, larger[1])
    phases, extents = _phases(schedule, larger[2], ranks, most)
    orders = [np.asarray(order) for order in schedule.orders]
    others = np.arange(ranks, most)
    widened = [
        np.concatenate([x, np.broadcast_to(others, (len(x), len(others)))], axis=1) for x in orders
    ]
    laid_schedule = replace(
        schedule,
        phases=phases,
        extents=extents,
        orders=tuple(x.astype(order.dtype) for x, order in zip(widened, orders, strict=True)),
    )
    laid_params = _params(params, places, laid_network.num_links, ranks, most)
    return (laid_params, laid_network, laid_schedule), Laid(ranks, places)


def _growth(phase: Phase) -> tuple[int, ...]:
    """What stays of a layout as ranks are added: groups grow, or there are more of them."""
    blocks, size, stride = phase.layout
    return (stride,) if blocks == 1 else (size, stride)


def _ways(phase: Phase, network: Network, config: Config) -> tuple:
    """What the engine chooses for a phase by the number of ranks."""
    is_bound = bound_to_ports(phase, network)
    outer = None if is_bound else outer_rule(network, phase, config)
    is_plain = is_bound and all(tier.sharing == "port" for tier in network.tiers)
    inner = None if is_plain else inner_rule(network, phase, config)
    return is_bound, outer, inner, phase.crossing >= 0


def _phases(
    schedule: Schedule, larger: Schedule, ranks: int, most: int
) -> tuple[tuple[Phase, ...], tuple[Extent, ...]]:
    """Phases of the larger layout, each with how much of it is there; equal parts are one."""
    found: dict[tuple, int] = {}
    phases = []
    for own, there in zip(schedule.phases, larger.phases, strict=True):
        blocks, size, stride = own.layout
        layout = (
            (1, most // stride, stride) if blocks == 1 else (most // (size * stride), size, stride)
        )
        extent = found.setdefault((own.layout, own.rounds), len(found))
        fits = 0 <= own.crossing <= there.crossing
        crossing = there.crossing if fits else -1
        phases.append(replace(own, layout=layout, rounds=1, crossing=crossing, extent=extent))
    numbers: list[list[Any]] = [
        [np.asarray(number, np.int32) for number in (ranks, layout[1], rounds)]
        for layout, rounds in found
    ]
    return tuple(phases), tuple(Extent(*each) for each in numbers)


def _params(params: Params, places: np.ndarray, links: int, ranks: int, most: int) -> Params:
    """The numbers in their places; links and ranks that are not there get what does no harm."""

    def of_links(values, fill: float) -> np.ndarray:
        values = np.asarray(values)
        wide = np.full(links, fill, values.dtype)
        wide[places] = values
        return wide

    def of_ranks(values, fill: float) -> np.ndarray:
        values = np.asarray(values)
        if values.ndim == 0 or values.shape[-1] != ranks:
            return values
        widths = [(0, 0)] * (values.ndim - 1) + [(0, most - ranks)]
        return np.pad(values, widths, constant_values=fill)

    latency = np.asarray(params.latency_s)
    rate = params.reduction_bytes_per_s
    return replace(
        params,
        capacity_bytes_per_s=of_links(params.capacity_bytes_per_s, 1.0),
        # links with one latency between switches are looked up at once, see `share`
        latency_s=of_links(latency, latency[-1] if len(latency) else 0.0),
        late_s=of_ranks(params.late_s, 0.0),
        chunk_bytes=tuple(of_ranks(chunks, 0.0) for chunks in params.chunk_bytes),
        reduction_bytes_per_s=None if rate is None else of_ranks(rate, 1.0),
        loss=None if params.loss is None else of_links(params.loss, 0.0),
    )
