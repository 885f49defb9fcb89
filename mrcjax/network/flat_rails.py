"""The flat rail mesh: a non-blocking plane per rail, or direct wiring by coordinates."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.network import sizes
from mrcjax.network.cuts import Cut, at_ends
from mrcjax.network.links import TierBuilder, Wiring
from mrcjax.network.ports import add_node_ports, finish, switched
from mrcjax.pytree import pytree, static
from mrcjax.spec import FlatRails


@pytree
class Crossbar:
    """A non-blocking plane: nothing between the sender's and the receiver's port."""

    together: ClassVar[tuple[tuple[int, ...], ...]] = ()

    def inner(
        self, src: jax.Array, dst: jax.Array, port: jax.Array, lane: jax.Array
    ) -> tuple[jax.Array, ...]:
        """No inner hop."""
        del src, dst, port, lane
        return ()

    def crosses(self, src: jax.Array, dst: jax.Array, port: jax.Array) -> jax.Array:
        """Never."""
        del dst, port
        return jnp.zeros(src.shape, bool)


@pytree
class DirectWiring(Crossbar):
    """Hamming graph: port (d, o) of a rank leads to the rank whose digit d is larger by o.

    Digit 0 varies fastest. A send that differs in several digits is relayed digit by digit,
    starting at the digit of its lane's port and going round; all relays use egress links.
    """

    is_relay: ClassVar[bool] = True

    reach: tuple[int, ...] = static()
    ranks: int = static()

    @property
    def digits(self) -> tuple[int, ...]:
        """Group sizes; see `Relay.digits`."""
        return self.reach

    @property
    def splits(self) -> bool:
        """Never; see `Relay.splits`."""
        return False

    def way(
        self,
        src: jax.Array,
        dst: jax.Array,
        *,
        port: jax.Array | None = None,
        step: np.ndarray | None = None,
        most: int | None = None,
    ) -> tuple[jax.Array, ...]:
        """One entry per digit; see `Relay.way`.

        A lane of `direct` starts at the digit of its port, any other send at the lowest digit in
        which the two ranks differ.
        """
        del step, most
        if port is not None:
            first_digit = jnp.asarray(digit_of_port(self.reach))[port]
        else:
            first_digit = self._lowest_that_differs(src, dst)
        no_link = self.ranks * sum(g - 1 for g in self.reach)
        digits = len(self.reach)
        strides = np.cumprod((1, *self.reach[:-1]))
        starts = np.cumsum((0, *(g - 1 for g in self.reach[:-1])))
        here, hops = src, []
        for turn in range(digits):
            digit = (first_digit + turn) % digits
            size = jnp.asarray(self.reach)[digit]
            stride = jnp.asarray(strides)[digit]
            mine, theirs = here // stride % size, dst // stride % size
            offset = (theirs - mine) % size
            link = (jnp.asarray(starts)[digit] + offset - 1) * self.ranks + here
            hops.append(jnp.where(offset == 0, no_link, link))
            here = here + (theirs - mine) * stride
        return tuple(hops)

    def _lowest_that_differs(self, src: jax.Array, dst: jax.Array) -> jax.Array:
        digit, stride = jnp.zeros_like(dst), 1
        found = jnp.zeros(dst.shape, bool)
        for d, size in enumerate(self.reach):
            differs = src // stride % size != dst // stride % size
            digit = jnp.where(differs & ~found, d, digit)
            found, stride = found | differs, stride * size
        return digit

    def deal(self) -> np.ndarray:
        """See `Relay.deal`; the port is the first hop."""
        return direct_offsets(self.reach)

    def loads(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Relay.loads`."""
        rest, first, ports, hops = np.arange(1, self.ranks), 0, [], []
        for size in self.reach:
            rest, digit = np.divmod(rest, size)
            ports.append(np.maximum(first + digit - 1, 0))
            hops.append((digit > 0).astype(float))
            first += size - 1
        return np.stack(ports, axis=1), np.stack(hops, axis=1)

    def ring_order(self) -> np.ndarray:
        """See `Relay.ring_order`."""
        return gray_order(self.reach)

    def distance(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Digits that differ; see `Relay.distance`."""
        stride, hops = 1, np.zeros(np.broadcast(src, dst).shape, np.int64)
        for size in self.reach:
            hops += src // stride % size != dst // stride % size
            stride *= size
        return hops


def direct_offsets(reach: tuple[int, ...]) -> np.ndarray:
    """Deal every offset vector to a lane whose port is the first hop: (rounds, ports) int.

    Entry: the offset as a mixed-radix number, 0 = idle. An offset with several non-zero digits
    may start at any of them. Taking turns by the sum of the digits evens out large digits, taking
    the emptier port small ones; the dealing with fewer rounds is used.
    """
    dealt = (_deal(reach, by_load) for by_load in (False, True))
    return min(dealt, key=len)


def _deal(reach: tuple[int, ...], by_load: bool) -> np.ndarray:
    starts = np.cumsum((0, *(g - 1 for g in reach[:-1])))
    lanes: list[list[int]] = [[] for _ in range(sum(g - 1 for g in reach))]
    for offset in range(1, int(np.prod(reach))):
        rest, ports, total = offset, [], 0
        for d, g in enumerate(reach):
            rest, digit = divmod(rest, g)
            total += digit
            if digit:
                ports.append(int(starts[d]) + digit - 1)
        turn = total % len(ports)
        ports = ports[turn:] + ports[:turn]
        port = min(ports, key=lambda p: len(lanes[p])) if by_load else ports[0]
        lanes[port].append(offset)
    table = np.zeros((max(map(len, lanes)), len(lanes)), np.int64)
    for lane, offsets in enumerate(lanes):
        table[: len(offsets), lane] = offsets
    return table


def digit_of_port(reach: tuple[int, ...]) -> np.ndarray:
    """Digit of every port, (ports,) int."""
    return np.repeat(np.arange(len(reach)), [g - 1 for g in reach])


def gray_order(reach: tuple[int, ...]) -> np.ndarray:
    """Ranks in an order whose neighbours differ in one digit (reflected mixed-radix Gray code).

    The step from the last to the first is a single link too where the slowest digit's size is
    even; otherwise it is relayed.
    """
    order, stride = np.zeros(1, np.int64), 1
    for size in reach:
        runs = [order[:: 1 if digit % 2 == 0 else -1] + digit * stride for digit in range(size)]
        order, stride = np.concatenate(runs), stride * size
    return order


def build(spec: FlatRails) -> Wiring:
    """Wire non-blocking planes, or the ranks directly."""
    if spec.reach == "all":
        cables = spec.ranks * spec.ports
        return switched(spec, "rail", lambda builder: (Crossbar(), cables), lambda wiring: ())
    reach = (spec.ranks,) if isinstance(spec.reach, str) else spec.reach
    return _build_direct(spec, reach)


def _build_direct(spec: FlatRails, reach: tuple[int, ...]) -> Wiring:
    size = sizes.direct_wiring(where="network", ranks=spec.ranks, reach=reach)
    ranks = spec.ranks
    names = [f"digit {d} to +{o}" for d, g in enumerate(reach) for o in range(1, g)]
    builder = TierBuilder()
    builder.add(
        "egress",
        size.ports * ranks,
        "cable",
        np.repeat(np.asarray(spec.port_rates) * spec.goodput, ranks),
        np.repeat(np.asarray(spec.port_latencies), ranks),
        lambda i: f"rank {i % ranks} egress rail {i // ranks} ({names[i // ranks]})",
        sender=np.tile(np.arange(ranks), size.ports),
        receiver=_receivers(ranks, reach),
    )
    add_node_ports(spec, builder)
    fabric = DirectWiring(reach=reach, ranks=ranks)
    return finish(spec, builder, fabric, size.cables, _digit_cuts)


def _receivers(ranks: int, reach: tuple[int, ...]) -> np.ndarray:
    """Rank at the far end of every link, (ports * ranks,)."""
    everyone = np.arange(ranks)
    far, stride = [], 1
    for size in reach:
        own = everyone // stride % size
        far += [everyone + ((own + o) % size - own) * stride for o in range(1, size)]
        stride *= size
    return np.concatenate(far)


def _digit_cuts(wiring: Wiring) -> list[Cut]:
    """Ranks of equal digit d: only links of digit d join the parts."""
    network, fabric = wiring.network, wiring.network.fabric
    assert isinstance(fabric, DirectWiring)
    if network.node_size > 1:
        return []
    found, stride = [], 1
    none = np.zeros(network.num_links, bool)
    for d, size in enumerate(fabric.reach):
        part = np.arange(network.ranks) // stride % size
        found.append(at_ends(f"digit {d}", part, wiring.sender, wiring.receiver, none))
        stride *= size
    return found
