"""Who sends what to whom in which round: functions of (round, rank, lane), tables where needed."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.network.graph import GraphFabric
from mrcjax.network.links import Network
from mrcjax.network.reduction import Tree
from mrcjax.pytree import pytree, static


@dataclass(frozen=True)
class Line:
    """The ranks that one lane's sends stay among: those that differ in one coordinate.

    A rank's position is rank // stride % size. step: 1 or -1, the way positions are counted.
    A line of size 1 keeps its lane idle.
    """

    size: int
    stride: int
    step: int = 1


@dataclass(frozen=True)
class Phase:
    """Rounds of one pattern. Ranks sit at positions of groups; a send goes `shift` positions on.

    With layout (blocks, size, stride) rank = (block * size + position) * stride + rest. Lane c of
    round k sends to position + first + k * per_round + c * per_lane; lanes whose shift exceeds
    size - 1 are idle. The chunk a send carries is the one of position + owner[0] + k * owner[1]
    (+ shift where owner[2]), counted from the sender's position.

    With `lines` each lane has its own layout and direction, shifts are the same for all lanes, and
    a lane is idle from round size - 1 on.
    """

    name: str
    domain: str  # links used: "network" | "node" | "mixed" (some pairs inside a node, some not)
    lanes: int
    rounds: int
    layout: tuple[int, int, int]
    first: int = 1
    per_round: int = 0
    per_lane: int = 0
    needs: str = "own"  # each send waits for: "own" data only | "lane": last arrival on its lane
    after: int = -1  # phase whose arrivals this one needs; -1 = none
    after_scope: str = "rank"  # of that phase: "rank": all lanes | "lane": the same lane
    reduces: bool = False
    owner: tuple[int, int, bool] = (0, 0, False)
    sizes: int = 0  # which entry of Params.chunk_bytes
    order: int = -1  # which entry of Schedule.orders relabels the positions per lane; -1 = none
    offsets: int = -1  # which entry of Schedule.offsets gives the shifts; -1 = none
    lines: tuple[Line, ...] = ()  # of each lane, in place of the layout; () = none
    hops: int | None = None  # links of the longest way on a relayed network; None = not counted
    table: int = -1  # which entry of Schedule.tables gives peers and needs; -1 = none
    crossing: int = -1  # sends of a round that leave their switch; -1 = not counted
    tree: int = -1  # which entry of Schedule.trees reduces and multicasts; -1 = none
    flow: str = ""  # what its switches do, see `engine.trees`
    extent: int = -1  # which entry of Schedule.extents says how much of it is there; -1 = all

    @property
    def is_along_lines(self) -> bool:
        """Whether every send goes to the next rank of its lane's line."""
        return bool(self.lines) and self.per_round == 0

    def rounds_of_lanes(self, extent: "Extent | None" = None) -> Any:
        """Rounds in which each lane sends, (lanes,) int: shifts grow with round and lane."""
        np_, size, rounds = np, self.layout[1], self.rounds
        if extent is not None:
            np_, size, rounds = jnp, extent.size, extent.rounds
        room = size - 1 - self.first - np_.arange(self.lanes) * self.per_lane
        steps = room // self.per_round + 1 if self.per_round else rounds
        return np_.where(room >= 0, np_.minimum(steps, rounds), 0)

    def shift(self, round_: jax.Array | int) -> jax.Array:
        """Positions from sender to receiver, (lanes,)."""
        return self.first + round_ * self.per_round + jnp.arange(self.lanes) * self.per_lane


@pytree
class Table:
    """Any pattern written out: used by tests and for imported algorithms.

    peer: (rounds, lanes, ranks) int, -1 = idle. needs: (rounds, lanes, ranks) int, what the send
    waits for: 0 nothing, 1 the rank's latest arrival on that lane, 2 everything that arrived.
    """

    peer: jax.Array
    needs: jax.Array


@pytree
class Extent:
    """How much is there of a phase laid out for more ranks than there are, () int each.

    ranks: the first ones take part, the others neither send nor receive. size: of the positions
    of each group, in the place of the layout's. rounds: in the place of the phase's, which say
    only whether there are any.
    """

    ranks: jax.Array
    size: jax.Array
    rounds: jax.Array


@pytree
class Schedule:
    """Phases in program order, and the index arrays some of them need.

    orders[j]: (lanes, ranks) int, rank at each position of a lane's ring. offsets[j]: (rounds,
    lanes) int, mixed-radix offsets on direct wiring, 0 = idle. trees: switches that reduce.
    extents: numbers in the place of sizes of the phases; all of one number of ranks.
    """

    orders: tuple[jax.Array, ...]
    offsets: tuple[jax.Array, ...]
    tables: tuple[Table, ...]
    phases: tuple[Phase, ...] = static()
    kind: str = static()
    algorithm: str = static()
    trees: tuple[Tree, ...] = ()
    extents: tuple[Extent, ...] = ()

    def extent(self, phase: Phase) -> Extent | None:
        """How much of a phase is there; None = all of it."""
        return self.extents[phase.extent] if phase.extent >= 0 else None


def peers(
    phase: Phase, schedule: Schedule, network: Network, round_: jax.Array | int
) -> tuple[jax.Array, jax.Array]:
    """Receiver of every send of a round and whether it is sent, both (lanes, ranks)."""
    ranks = jnp.arange(network.ranks)[None, :]
    if phase.table >= 0:
        peer = schedule.tables[phase.table].peer[round_]
        # an idle lane sends to itself: routing that goes by load does not count it
        return jnp.where(peer >= 0, peer, ranks), peer >= 0
    if phase.offsets >= 0:
        offset = schedule.offsets[phase.offsets][round_][:, None]
        assert network.relay is not None
        return _digitwise_sum(ranks, offset, network.relay.digits), jnp.broadcast_to(
            offset > 0, (phase.lanes, network.ranks)
        )
    if phase.lines:
        size, _, _ = _columns(phase)
        active = jnp.broadcast_to(round_ < size - 1, (phase.lanes, network.ranks))
        return _along(phase, ranks, phase.first + round_ * phase.per_round), active
    extent = schedule.extent(phase)
    size = phase.layout[1] if extent is None else extent.size
    shift = phase.shift(round_)[:, None]
    active = jnp.broadcast_to(shift < size, (phase.lanes, network.ranks))
    active = active if extent is None else active & (ranks < extent.ranks)
    return _turned(phase, schedule, ranks, shift), active


def owners(
    phase: Phase, schedule: Schedule, network: Network, round_: jax.Array | int
) -> jax.Array:
    """Rank whose chunk each send of a round carries, (lanes, ranks)."""
    ranks = jnp.arange(network.ranks)[None, :]
    start, per_round, to_receiver = phase.owner
    if phase.offsets >= 0:
        return peers(phase, schedule, network, round_)[0] if to_receiver else ranks
    if phase.lines:
        move = start + round_ * per_round
        move = move + (phase.first + round_ * phase.per_round if to_receiver else 0)
        return _along(phase, ranks, move)
    move = start + round_ * per_round
    move = move + (phase.shift(round_)[:, None] if to_receiver else 0)
    return _turned(phase, schedule, ranks, move)


def _turned(phase: Phase, schedule: Schedule, ranks: jax.Array, move: jax.Array | int) -> jax.Array:
    """Rank `move` positions on in each group, (lanes, ranks); one that is not there stays."""
    _, size, stride = phase.layout
    extent = schedule.extent(phase)
    size = size if extent is None else extent.size
    if phase.order >= 0:
        order = schedule.orders[phase.order]
        position = jnp.argsort(order, axis=1)
        there = jnp.take_along_axis(order, (position + move) % size, axis=1)
    else:
        position = ranks // stride % size
        there = ranks + ((position + move) % size - position) * stride
    return there if extent is None else jnp.where(ranks < extent.ranks, there, ranks)


def _columns(phase: Phase) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Size, stride and step of each lane's line, (lanes, 1) int each."""
    table = np.asarray([(line.size, line.stride, line.step) for line in phase.lines])
    return table[:, :1], table[:, 1:2], table[:, 2:]


def _along(phase: Phase, ranks: jax.Array, move: jax.Array | int) -> jax.Array:
    """Rank `move` positions on along each lane's line, (lanes, ranks)."""
    size, stride, step = _columns(phase)
    position = ranks // stride % size
    return ranks + ((position + step * move) % size - position) * stride


@pytree
class Route:
    """The links of every send of a round, hop by hop.

    hops: per hop the link, (lanes, ranks), or (paths, lanes, ranks) where a send takes several at
    once; `no_link` where it skips the hop. Path p of a send has entry p of every hop.
    shares: (paths, lanes, ranks) part of the send on each path, sum 1; None = equal parts. A path
    without a part must have `no_link` throughout.
    ports: hops at either end that belong to the ends; the lane is free again behind the last of
    them at the sender. moved: (lanes, ranks) bool, sends handed over to another lane's port.
    """

    hops: tuple[jax.Array, ...]
    shares: jax.Array | None = None
    moved: jax.Array | None = None
    ports: int = static(default=1)


def route(network: Network, phase: Phase, src: jax.Array, dst: jax.Array) -> Route:
    """Links from port to port for sends src -> dst, integer arrays of shape (lanes, ranks)."""
    if network.by_table:
        assert isinstance(network.fabric, GraphFabric)
        lane = jnp.broadcast_to(jnp.arange(phase.lanes)[:, None], dst.shape)
        return Route(*network.fabric.path(jnp.broadcast_to(src, dst.shape), dst, lane))
    return Route(_hops(network, phase, src, dst))


def _hops(network: Network, phase: Phase, src: jax.Array, dst: jax.Array) -> tuple[jax.Array, ...]:
    none = network.no_link
    lane = jnp.arange(phase.lanes)[:, None]
    if network.rails:
        return _rail_hops(network, lane, src, dst)
    if network.relay is not None:
        hops = _relayed(network, phase, src, dst)
        hops = (*hops, jnp.full(dst.shape, none)) if network.node_size > 1 else hops
    else:
        port = lane % network.ports
        inner = network.fabric.inner(
            jnp.broadcast_to(src, dst.shape), dst, jnp.broadcast_to(port, dst.shape), lane
        )
        egress = network.tier("egress").first + port * network.ranks + src
        ingress = network.tier("ingress").first + port * network.ranks + dst
        hops = (egress, *inner, ingress)
    if network.node_size == 1:
        return hops
    same = src // network.node_size == dst // network.node_size
    plane = lane % network.node_ports * network.ranks
    node_egress = network.tier("node egress").first + plane + src
    node_ingress = network.tier("node ingress").first + plane + dst
    hops = [jnp.where(same, none, hop) for hop in hops]
    hops[0] = jnp.where(same, node_egress, hops[0])
    hops[-1] = jnp.where(same, node_ingress, hops[-1])
    return tuple(hops)


def _relayed(
    network: Network, phase: Phase, src: jax.Array, dst: jax.Array
) -> tuple[jax.Array, ...]:
    """Links of sends that ranks on the way pass on."""
    relay, own_none = network.relay, network.tier("egress").count
    assert relay is not None
    port = jnp.arange(phase.lanes)[:, None] if phase.offsets >= 0 else None
    step = _columns(phase)[2] if phase.is_along_lines else None
    hops = relay.way(src, dst, port=port, step=step, most=phase.hops)
    return tuple(jnp.where(hop == own_none, network.no_link, hop) for hop in hops)


def _rail_hops(
    network: Network, lane: jax.Array, src: jax.Array, dst: jax.Array
) -> tuple[jax.Array, ...]:
    """Hops of a send where rails are changed inside nodes; see `port_hops`.

    It goes through the rank of the receiver's local index in the sender's node; where a partly
    filled node has none, through the rank of the sender's local index in the receiver's node.
    """
    none, m = network.no_link, network.node_size
    src, lane = jnp.broadcast_to(src, dst.shape), jnp.broadcast_to(lane, dst.shape)
    plane = lane % network.node_ports * network.ranks
    first = {
        name: network.tier(name).first
        for name in ("egress", "ingress", "node egress", "node ingress")
    }
    port = lane % network.ports * network.ranks
    inside = src // m == dst // m
    turns = ~inside & (src % m != dst % m)
    via = src // m * m + dst % m
    early = turns & (via < network.ranks)
    leaves = jnp.where(early, via, src)  # who sends on the rail
    late = turns & ~early
    enters = jnp.where(late, dst // m * m + src % m, dst)  # who receives from it
    rail = [
        jnp.where(inside, none, hop)
        for hop in network.fabric.inner(leaves, enters, lane % network.ports, lane)
    ]
    out, into = first["node egress"] + plane, first["node ingress"] + plane
    hops = [
        jnp.where(inside | early, out + src, first["egress"] + port + src),
        jnp.where(early, into + via, none),
        jnp.where(early, first["egress"] + port + via, none),
        *rail,
        jnp.where(inside, into + dst, first["ingress"] + port + enters),
    ]
    if network.ranks % m:
        hops += [jnp.where(late, out + enters, none), jnp.where(late, into + dst, none)]
    return tuple(hops)


def port_hops(network: Network, num_hops: int, ports: int = 1) -> tuple[int, ...]:
    """Which hops of a route are at ranks: the others are between switches; ports: see `Route`."""
    if network.relay is not None or network.by_table:
        return tuple(range(num_hops))
    if not network.rails:
        return (*range(ports), *range(num_hops - ports, num_hops))
    trailing = 3 if network.ranks % network.node_size else 1
    return (0, 1, 2, *range(num_hops - trailing, num_hops))


def _digitwise_sum(ranks: jax.Array, offset: jax.Array, reach: tuple[int, ...]) -> jax.Array:
    total, stride = jnp.zeros_like(ranks + offset), 1
    for size in reach:
        total = total + (ranks // stride + offset // stride) % size * stride
        stride *= size
    return total


def table_schedule(
    peer: np.ndarray, bytes_: np.ndarray, needs: np.ndarray | None = None
) -> tuple[Schedule, tuple[jax.Array, ...]]:
    """Write a schedule out by hand: returns it with its chunk sizes (Params.chunk_bytes).

    Args:
        peer: (rounds, ranks, lanes) int, receiver of each send, -1 = idle.
        bytes_: (rounds, ranks, lanes) bytes.
        needs: (rounds, ranks, lanes) int: 0 nothing (default), 1 the rank's latest arrival on the
            lane, 2 everything that arrived at the rank before.

    Raises ValueError for shapes that differ or receivers that do not exist.
    """
    peer = np.asarray(peer)
    sizes = np.broadcast_to(np.asarray(bytes_, np.float64), peer.shape)
    needs = np.zeros(peer.shape, np.int32) if needs is None else np.asarray(needs)
    if peer.ndim != 3 or needs.shape != peer.shape:
        raise ValueError(
            f"peer and needs must both be (rounds, ranks, lanes), got {peer.shape} and "
            f"{needs.shape}"
        )
    rounds, ranks, lanes = peer.shape
    if peer.min(initial=-1) < -1 or peer.max(initial=-1) >= ranks:
        raise ValueError(f"peer must lie in -1..{ranks - 1}, got {peer.min()}..{peer.max()}")
    if (peer == np.arange(ranks)[None, :, None]).any():
        raise ValueError("peer: a rank cannot send to itself")
    if needs.min(initial=0) < 0 or needs.max(initial=0) > 2:
        raise ValueError(f"needs must be 0, 1 or 2, got {needs.min()}..{needs.max()}")
    if sizes.min(initial=0) < 0:
        raise ValueError(f"bytes_ must not be negative, got {sizes.min()}")

    def lane_major(x: np.ndarray, dtype) -> jax.Array:
        return jnp.asarray(np.moveaxis(x, 2, 1), dtype)

    schedule = Schedule(
        orders=(),
        offsets=(),
        tables=(Table(lane_major(peer, np.int32), lane_major(needs, np.int32)),),
        phases=(Phase("table", "mixed", lanes, rounds, (1, ranks, 1), table=0),) if rounds else (),
        kind="table",
        algorithm="table",
    )
    return schedule, (lane_major(sizes, np.dtype(np.float64)),)
