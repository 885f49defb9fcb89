"""Torus and mesh: dimension-order routing over the links between neighbours on a grid."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.network.cuts import Cut, at_ends
from mrcjax.network.flat_rails import Crossbar, gray_order
from mrcjax.network.links import TierBuilder, Wiring
from mrcjax.network.ports import finish
from mrcjax.pytree import pytree, static
from mrcjax.spec import Mesh, SpecError, Torus

WORDS = ("up", "down")


@pytree
class GridFabric(Crossbar):
    """Links from each rank to the next one up and down every dimension of more than one rank.

    Dimension order, the lowest first, each the shorter way round. Of two equally short ways a
    send takes both, half of it each (`ties` "split"; in all dimensions up, and in all down), or
    goes up, but down from the middle to 0 (`ties` "up", SimGrid's rule).
    """

    is_relay: ClassVar[bool] = True

    dims: tuple[int, ...] = static()
    wraps: tuple[bool, ...] = static()
    ties: str = static()

    @property
    def digits(self) -> tuple[int, ...]:
        """See `Relay.digits`."""
        return self.dims

    @property
    def ranks(self) -> int:
        """Ranks of the grid."""
        return math.prod(self.dims)

    @property
    def strides(self) -> tuple[int, ...]:
        """Step of the rank from one to the next in each dimension."""
        return tuple(math.prod(self.dims[:d]) for d in range(len(self.dims)))

    @property
    def firsts(self) -> tuple[int, ...]:
        """First link of port 0, 1, ..., then the number of links."""
        counts = []
        for size, wraps in zip(self.dims, self.wraps, strict=True):
            if size > 1:
                counts += [self.ranks if wraps else self.ranks // size * (size - 1)] * 2
        return (0, *np.cumsum(counts, dtype=int).tolist())

    @property
    def diameter(self) -> int:
        """Links of the longest of the shortest ways."""
        return diameter(self.dims, self.wraps)

    @property
    def splits(self) -> bool:
        """Whether some send has two ways of equal length; see `Relay.splits`."""
        return self.ties == "split" and any(
            wraps and size % 2 == 0 for size, wraps in zip(self.dims, self.wraps, strict=True)
        )

    def link(self, dimension: int, up: jax.Array, rank: jax.Array) -> jax.Array:
        """Link out of a rank, up or down a dimension of more than one rank."""
        size, stride = self.dims[dimension], self.strides[dimension]
        port = 2 * sum(s > 1 for s in self.dims[:dimension])
        first, second = self.firsts[port : port + 2]
        if self.wraps[dimension]:
            return jnp.where(up, first, second) + rank
        # the last rank of a line has no link up, the first none down
        position = rank // stride % size - jnp.where(up, 0, 1)
        line = rank // (stride * size) * (stride * (size - 1)) + rank % stride
        return jnp.where(up, first, second) + line + stride * position

    def goes_up(
        self, dimension: int, src: jax.Array, dst: jax.Array, step: np.ndarray | None = None
    ) -> jax.Array:
        """Whether a send goes up a dimension; with a leading axis of two ways where it splits."""
        size, stride = self.dims[dimension], self.strides[dimension]
        mine, theirs = src // stride % size, dst // stride % size
        if not self.wraps[dimension]:
            up = theirs > mine
            return jnp.stack([up, up]) if self.splits and step is None else up
        half, ahead = size // 2, (theirs - mine) % size
        if step is not None:
            return jnp.where(2 * ahead == size, step > 0, 2 * ahead < size)
        if self.splits:
            return jnp.stack([2 * ahead <= size, 2 * ahead < size])
        if self.ties == "split":
            return 2 * ahead < size
        above = (theirs > mine) & (theirs <= mine + half)
        return above | ((mine > half) & ((mine + half) % size >= theirs))

    def way(
        self,
        src: jax.Array,
        dst: jax.Array,
        *,
        port: jax.Array | None = None,
        step: np.ndarray | None = None,
        most: int | None = None,
    ) -> tuple[jax.Array, ...]:
        """One entry per link of the longest way; see `Relay.way`."""
        del port  # a lane's port is that of its first hop anyway
        src, dst = jnp.broadcast_arrays(src, dst)
        spans = [d for d, size in enumerate(self.dims) if size > 1]
        up = {d: self.goes_up(d, src, dst, step) for d in spans}
        start = jnp.stack([src, src]) if self.splits and step is None else src

        def onward(here: jax.Array, _) -> tuple[jax.Array, jax.Array]:
            link, beyond = jnp.full(here.shape, self.firsts[-1]), here
            for d in reversed(spans):
                size, stride = self.dims[d], self.strides[d]
                mine = here // stride % size
                differs = mine != dst // stride % size
                moved = here + ((mine + jnp.where(up[d], 1, -1)) % size - mine) * stride
                link = jnp.where(differs, self.link(d, up[d], here), link)
                beyond = jnp.where(differs, moved, beyond)
            return beyond, link

        # A loop however few the hops: of what is written out XLA makes one kernel on a CPU that
        # works every hop out anew from all before it, 600 times as slow for six hops.
        hops = self.diameter if most is None else most
        return tuple(jax.lax.scan(onward, start, length=hops)[1])

    def deal(self) -> np.ndarray:
        """Deal each offset to the port of its first hop; see `Relay.deal`.

        An offset goes up where its opposite goes down, and neighbouring offsets come far apart, so
        that every few rounds put the same load on all links of a dimension.
        """
        total = self.ranks
        digits = np.stack([np.arange(total) // s % n for s, n in self._grid()])
        opposite = sum((-x % n) * s for x, (s, n) in zip(digits, self._grid(), strict=True))
        lanes: list[np.ndarray] = []
        for d, size in enumerate(self.dims):
            if size == 1:
                continue
            starts = (digits[:d] == 0).all(axis=0) & (digits[d] > 0)
            alone = starts & (opposite == np.arange(total))
            tied = starts & ~alone & (2 * digits[d] == size) & (np.arange(total) < opposite)
            up = np.flatnonzero((starts & (2 * digits[d] < size)) | tied)
            either = np.flatnonzero(alone)
            lanes.append(_scattered(np.concatenate([up, either[::2]])))
            lanes.append(_scattered(np.concatenate([np.asarray(opposite)[up], either[1::2]])))
        rounds = max((len(lane) for lane in lanes), default=0)
        table = np.zeros((rounds, len(lanes)), np.int64)
        for lane, offsets in enumerate(lanes):
            table[np.arange(len(offsets)) * rounds // max(len(offsets), 1), lane] = offsets
        return table

    def _grid(self) -> list[tuple[int, int]]:
        return list(zip(self.strides, self.dims, strict=True))

    def loads(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Relay.loads`; ranks differ at the edge of a mesh, and in SimGrid's rule of ties."""
        spans = [(d, *grid) for d, grid in enumerate(self._grid()) if grid[1] > 1]
        uneven = self.ties == "up" and any(size % 2 == 0 for _, _, size in spans)
        if uneven or not all(self.wraps[d] for d, _, _ in spans):
            raise SpecError(
                "needs a network that looks the same from every rank",
                where="engine.aggregate",
                value=True,
                remedy='use a torus with all dimensions wrapped and ties = "split", '
                "or leave aggregate out",
            )
        offset, hops = np.arange(1, self.ranks), []
        for _, stride, size in spans:
            ahead = offset // stride % size
            up = np.where(2 * ahead < size, ahead, np.where(2 * ahead == size, ahead / 2, 0))
            hops += [up, np.minimum(ahead, size - ahead) - up]
        table = np.stack(hops, axis=1)
        return np.broadcast_to(np.arange(table.shape[1]), table.shape), table

    def ring_order(self) -> np.ndarray:
        """See `Relay.ring_order`."""
        return gray_order(self.dims)

    def distance(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Sum over the dimensions; see `Relay.distance`."""
        hops = np.zeros(np.broadcast(src, dst).shape, np.int64)
        for (stride, size), wraps in zip(self._grid(), self.wraps, strict=True):
            apart = np.abs(src // stride % size - dst // stride % size)
            hops += np.minimum(apart, size - apart) if wraps else apart
        return hops


def _scattered(values: np.ndarray) -> np.ndarray:
    """The same values in an order in which any few that follow each other lie all over."""
    count = len(values)
    step = max(round(count * 0.6180339887498949), 1)
    while math.gcd(step, count) > 1:
        step += 1
    return values[np.arange(count) * step % max(count, 1)]


def build(spec: Torus | Mesh) -> Wiring:
    """Wire a torus or a mesh."""
    fabric = GridFabric(dims=spec.dims, wraps=spec.wraps, ties=spec.ties)
    firsts = fabric.firsts
    count = firsts[-1]
    port = np.repeat(np.arange(spec.ports), np.diff(firsts))
    sender = np.concatenate([np.zeros(0, int), *(_senders(spec, p) for p in range(spec.ports))])
    dimension, down = np.asarray(spec.dimension_of_port, int)[port], port % 2
    stride, size = np.asarray(fabric.strides)[dimension], np.asarray(spec.dims)[dimension]
    position = sender // stride % size
    receiver = sender + ((position + 1 - 2 * down) % size - position) * stride
    builder = TierBuilder()
    builder.add(
        "egress",
        count,
        "cable",
        np.asarray(spec.port_rates)[port] * spec.goodput if count else 0.0,
        np.asarray(spec.port_latencies)[port] if count else 0.0,
        lambda i: f"rank {sender[i]} egress dimension {dimension[i]} {WORDS[down[i]]}",
        sender=sender,
        receiver=receiver,
    )
    return finish(spec, builder, fabric, count // 2, _slab_cuts)


def _senders(spec: Torus | Mesh, port: int) -> np.ndarray:
    """Ranks that have a link at a port, in the order of its links."""
    dimension = spec.dimension_of_port[port]
    size, ranks = spec.dims[dimension], np.arange(spec.ranks)
    position = ranks // math.prod(spec.dims[:dimension]) % size
    edge = size - 1 if port % 2 == 0 else 0
    return ranks if spec.wraps[dimension] else ranks[position != edge]


def _slab_cuts(wiring: Wiring) -> list[Cut]:
    """Ranks of equal coordinate, and halves of each dimension: only its links join the parts."""
    network, fabric = wiring.network, wiring.network.fabric
    assert isinstance(fabric, GridFabric)
    none = np.zeros(network.num_links, bool)
    found = []
    for d, (stride, size) in enumerate(zip(fabric.strides, fabric.dims, strict=True)):
        if size == 1:
            continue
        slab = np.arange(network.ranks) // stride % size
        ends = wiring.sender, wiring.receiver, none
        found.append(at_ends(f"slabs of dimension {d}", slab, *ends))
        if size > 2:
            half = (slab >= size // 2).astype(int)
            found.append(at_ends(f"halves of dimension {d}", half, *ends))
    return found


def bisection_bytes_per_s(spec: Torus | Mesh) -> float:
    """Capacity, one way, of the links between the two halves of the grid; 0 for one rank.

    A plane across a dimension cuts one link of each line, two where it wraps; the dimension with
    the least decides (Dally and Towles, Principles and Practices of Interconnection Networks,
    2004, section 3.3). Of an odd dimension the halves differ by one slab.
    """
    cut = [
        (2 if wraps else 1) * spec.ranks // size * rate * spec.goodput
        for size, wraps, rate in zip(spec.dims, spec.wraps, spec.rates, strict=True)
        if size > 1
    ]
    return min(cut, default=0.0)


def mean_hops(dims: tuple[int, ...], wraps: tuple[bool, ...]) -> float:
    """Mean links from rank to rank over all pairs, a rank with itself included.

    A ring of d has floor(d^2 / 4) / d, which is d / 4 for even d; a line (d^2 - 1) / (3 d).
    """
    return math.fsum(
        size**2 // 4 / size if wrapped else (size**2 - 1) / (3 * size)
        for size, wrapped in zip(dims, wraps, strict=True)
    )


def diameter(dims: tuple[int, ...], wraps: tuple[bool, ...]) -> int:
    """Links between the two ranks that are farthest apart."""
    return sum(
        size // 2 if wrapped else size - 1 for size, wrapped in zip(dims, wraps, strict=True)
    )
