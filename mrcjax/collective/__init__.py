"""From a `[collective]` section and a network to a schedule and its chunk sizes."""

from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.collective.direct import direct_phase, pipelined
from mrcjax.collective.hierarchical import hierarchical_phases
from mrcjax.collective.in_network import Level, in_network_phases
from mrcjax.collective.levels import level_phases, levels_of
from mrcjax.collective.ring import node_order, ring_phase
from mrcjax.collective.rings import dimensions_of, grid_ring_phases
from mrcjax.collective.schedule import Phase, Schedule, Table, peers, table_schedule
from mrcjax.collective.shards import (
    Chunks,
    LaneShares,
    chunks,
    lane_shares,
    weighted_chunks,
)
from mrcjax.network.links import Network
from mrcjax.spec import Collective, SpecError

__all__ = ["Hardware", "Phase", "Program", "Schedule", "Table", "build", "table_schedule"]


@dataclass(frozen=True)
class Program:
    """A schedule with the piece of the buffer that each of its chunks is."""

    schedule: Schedule
    chunks: tuple[Chunks, ...]
    shares: LaneShares | None = None  # cut striped shards over the lanes


@dataclass(frozen=True)
class Hardware:
    """What a schedule depends on beside where the links are.

    rates: by "network" and "node" the bytes/s of a rank's ports there, for shares in proportion.
    in_network: where switches reduce, "network", "node". owner: see `engine.trees`.
    """

    rates: dict[str, tuple[float, ...]] = field(default_factory=dict)
    in_network: frozenset[str] = frozenset()
    owner: bool = False

    def weights(self, spec: Collective, domain: str, lanes: int) -> np.ndarray | None:
        """Shares of the lanes, (lanes,); None = equal."""
        rates = self.rates.get(domain, ())
        if spec.split == "equal" or len(set(rates)) == 1:
            return None
        if not rates:
            raise SpecError(
                "has no rates to go by where a lane is on one port inside a node and on another "
                "between nodes",
                where="collective.split",
                value=spec.split,
                remedy='use split = "equal", algorithm = "hierarchical", or groups inside a node',
            )
        return np.asarray(rates)[np.arange(lanes) % len(rates)]


def build(
    spec: Collective,
    network: Network,
    channels: int | None,
    hardware: Hardware = Hardware(),  # noqa: B008 (frozen)
) -> Program:
    """Lay out the phases of the collective on the network.

    channels: lanes per rank; None = one per port (rings over nodes: one per port of the node, on
    direct wiring one). Raises SpecError for what the network cannot do.
    """
    size = network.ranks if spec.group_size is None else spec.group_size
    if size == 1:
        return Program(Schedule((), (), (), (), spec.kind, spec.algorithm), ())
    if spec.algorithm == "hierarchical":
        return _hierarchical(spec, network, channels, hardware)
    if spec.algorithm == "rings":
        return _grid_rings(spec, network)
    layout = (network.ranks // (size * spec.group_stride), size, spec.group_stride)
    domain = _domain(layout, network)
    if spec.algorithm == "in_network":
        return _in_network(spec, network, channels, domain, hardware)
    lanes = _lanes(spec, network, layout, domain, channels)
    if lanes == 0:
        raise SpecError(
            "leaves a domain, and no link between domains is given",
            where="collective.group_size",
            value=size,
            remedy='add for example link = "ethernet_800g" under [network]',
        )
    orders, offsets, extra = [], [], {}
    everyone = size == network.ranks
    relay = network.relay
    if relay is not None and domain != "node":
        if spec.stripe:
            raise SpecError(
                "collective.stripe: true has no meaning where links join ranks directly and a "
                "peer is reached through one port; leave stripe out"
            )
        if spec.algorithm == "direct" and everyone:
            offsets.append(jnp.asarray(relay.deal(), jnp.int32))
            extra = {"offsets": 0}
        elif spec.algorithm == "ring" and everyone:
            orders.append(jnp.asarray(np.tile(relay.ring_order(), (lanes, 1)), jnp.int32))
            extra = {"order": 0}
    elif spec.algorithm == "ring" and domain == "mixed" and everyone:
        order = node_order(network.ranks, network.node_size, lanes, network.ports)
        orders.append(jnp.asarray(order, jnp.int32))
        extra = {"order": 0}
    phases = _phases(spec, domain, lanes, layout, extra)
    if offsets:
        phases = [replace(p, rounds=offsets[0].shape[0]) for p in phases]
    if spec.chunks > 1:
        scatter, gather = phases
        phases = pipelined(scatter, gather, spec.chunks)
    position = np.arange(network.ranks) // spec.group_stride % size
    if spec.shards is not None or spec.rail_shares is not None:
        pieces = weighted_chunks(spec, network.ranks, lanes)
        cut = None
        if spec.stripe:
            cut = lane_shares(spec.rail_shares, network.ranks, network.ports, lanes)
        return replace(_program(spec, network, orders, offsets, phases, [pieces]), shares=cut)
    whole = spec.algorithm == "direct" and not spec.stripe
    weights = hardware.weights(spec, domain, lanes)
    element = spec.element_bytes or 0
    piece = float(spec.size) / spec.chunks
    pieces = chunks(0.0, piece, size, position, lanes, element, whole, weights)
    return _program(spec, network, orders, offsets, phases, [pieces])


def _phases(
    spec: Collective, domain: str, lanes: int, layout: tuple[int, int, int], extra: dict
) -> list[Phase]:
    steps = {
        "all_reduce": (("reduce-scatter", False), ("all-gather", True)),
        "reduce_scatter": (("reduce-scatter", False),),
        "all_gather": (("all-gather", True),),
        "all_to_all": (("all-to-all", False),),
    }[spec.kind]
    phases = []
    for i, (name, gathers) in enumerate(steps):
        args = {
            "domain": domain,
            "lanes": lanes,
            "layout": layout,
            "gathers": gathers,
            "reduces": name == "reduce-scatter",
            "after": i - 1,
            **extra,
        }
        if spec.algorithm == "ring":
            phases.append(ring_phase(name, after_scope="lane", **args))
        else:
            phases.append(direct_phase(name, stripe=spec.stripe, **args))
    return phases


def _domain(layout: tuple[int, int, int], network: Network) -> str:
    """Which links the sends of a group use: all inside nodes, none, or some."""
    _, size, stride = layout
    if network.node_size == 1 or stride % network.node_size == 0:
        return "network"
    inside = network.ranks <= network.node_size or network.node_size % (size * stride) == 0
    return "node" if inside else "mixed"


def _lanes(
    spec: Collective,
    network: Network,
    layout: tuple[int, int, int],
    domain: str,
    channels: int | None,
) -> int:
    if domain == "node":
        return channels or network.node_ports
    if network.relay is not None and spec.algorithm == "direct":
        if channels not in (None, network.ports):
            raise SpecError(
                f"network.channels: {channels} does not fit: where links join ranks directly, "
                f"direct has one lane per port; leave channels out or give {network.ports}"
            )
        return network.ports
    if channels is not None:
        return channels
    if network.relay is not None:
        return 1
    if spec.algorithm == "ring" and domain == "mixed" and layout[1] == network.ranks:
        return network.ports * network.node_size
    return max(network.ports, network.node_ports) if domain == "mixed" else network.ports


def _in_network(
    spec: Collective, network: Network, channels: int | None, domain: str, hardware: Hardware
) -> Program:
    ways = {}
    for name, ports in (("node", network.node_ports), ("network", network.ports)):
        lanes = channels or ports
        ways[name] = Level(name, lanes, hardware.weights(spec, name, lanes) if lanes else None)
    phases, trees, pieces = in_network_phases(
        spec, network, domain, hardware.in_network, hardware.owner, ways
    )
    plain = Schedule((), (), (), tuple(phases), spec.kind, spec.algorithm, tuple(trees))
    return Program(plain, tuple(pieces))


def _hierarchical(
    spec: Collective, network: Network, channels: int | None, hardware: Hardware
) -> Program:
    relay = network.relay
    grid = None if relay is None or network.node_size > 1 else relay.digits
    dimensions = spec.dimensions or grid
    if dimensions is not None:
        return _over_dimensions(spec, network, dimensions, channels)
    assert isinstance(spec.between, str)
    lanes = channels or (max(network.ports, 1) if relay is None else 1)
    phases, pieces = hierarchical_phases(
        ranks=network.ranks,
        node_size=network.node_size,
        lanes=lanes,
        between=spec.between,
        size_bytes=float(spec.size),
        element_bytes=spec.element_bytes or 0,
        pieces=spec.chunks,
        node_lanes=network.node_ports,
        node_weights=hardware.weights(spec, "node", network.node_ports),
        weights=hardware.weights(spec, "network", lanes),
    )
    return _program(spec, network, [], [], phases, pieces)


def _over_dimensions(
    spec: Collective, network: Network, dimensions: tuple[int, ...], channels: int | None
) -> Program:
    words = spec.between
    algorithms = (words,) * len(dimensions) if isinstance(words, str) else words
    if len(algorithms) != len(dimensions):
        raise SpecError(
            f"has {len(algorithms)} algorithms for {len(dimensions)} dimensions",
            where="collective.between",
            value=list(algorithms),
            remedy="give one for all, or one per dimension, inner to outer",
        )
    levels = levels_of(network, dimensions, algorithms, spec.group_stride, channels)
    element = spec.element_bytes or 0
    phases, pieces = level_phases(
        levels, network.ranks, float(spec.size), element, spec.chunks, spec.kind
    )
    return _program(spec, network, [], [], phases, pieces)


def _grid_rings(spec: Collective, network: Network) -> Program:
    if network.relay is None or network.node_size > 1:
        raise SpecError(
            f"needs ranks on a grid, which {network.kind} does not have",
            where="collective.algorithm",
            value=spec.algorithm,
            remedy='use network.kind = "torus", or algorithm = "ring" or "hierarchical"',
        )
    digits = network.relay.digits
    group = network.ranks if spec.group_size is None else spec.group_size
    spans = dimensions_of(network.relay, group, spec.group_stride)
    if spans is None:
        raise SpecError(
            f"times steps of {spec.group_stride} fills no whole dimensions of {list(digits)}",
            where="collective.group_size",
            value=group,
            remedy="rings go round whole dimensions; leave group_size out for all of them",
        )
    size, element = float(spec.size), spec.element_bytes or 0
    phases, pieces = grid_ring_phases(network.relay, spans, size, element, spec.kind)
    return _program(spec, network, [], [], phases, pieces)


def _program(spec: Collective, network: Network, orders, offsets, phases, pieces) -> Program:
    plain = Schedule(tuple(orders), tuple(offsets), (), tuple(phases), spec.kind, spec.algorithm)
    counted = tuple(_count_crossing(phase, plain, network) for phase in phases)
    return Program(replace(plain, phases=counted), tuple(pieces))


def _count_crossing(phase: Phase, schedule: Schedule, network: Network) -> Phase:
    """Note how many sends leave their switch, where all rounds are alike and they are few.

    In a ring only the neighbours at the edge of a leaf cross the fabric: the engine then works on
    those alone.
    """
    switched = network.relay is None and not network.by_table
    if phase.per_round or phase.domain != "network" or not switched:
        return phase
    # only who sends to whom matters, so that the phases of a ring share one compilation
    pattern = replace(phase, name="", after=-1, reduces=False, owner=(0, 0, False))
    crossing = int(_num_crossing(pattern, schedule.orders, network))
    is_few = 4 * crossing <= phase.lanes * network.ranks
    return replace(phase, crossing=crossing) if is_few else phase


# compiled as one: its dozens of small steps would take a second to compile one by one
@partial(jax.jit, static_argnames="phase")
def _num_crossing(phase: Phase, orders: tuple[jax.Array, ...], network: Network) -> jax.Array:
    schedule = Schedule(orders, (), (), (), "", "")
    dst, _ = peers(phase, schedule, network, 0)
    src = jnp.broadcast_to(jnp.arange(network.ranks), dst.shape)
    port = jnp.broadcast_to(jnp.arange(phase.lanes)[:, None] % network.ports, dst.shape)
    return network.fabric.crosses(src, dst, port).sum()
