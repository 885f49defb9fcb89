"""The links of a network: blocks of equal links, their names, and the container `Network`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, cast

import jax
import numpy as np

from mrcjax.network.cuts import Cut, at_ends
from mrcjax.pytree import pytree, static


@dataclass(frozen=True)
class LinkTier:
    """A block of links of one kind, contiguous in every link array.

    `sharing` says how chunks may meet on a link of this tier: "port" (one rank's port, ordered),
    "trunk" (many cables as one), "cable" (one cable chosen by hash or by minimal routing),
    "spray" (one cable of many that carry a share of a chunk).
    """

    name: str
    first: int
    count: int
    sharing: str


class Fabric(Protocol):
    """What lies between the sender's and the receiver's port.

    `together` groups the inner hops that share links, where any do: a link that is the first hop
    of one send and the third of another.
    """

    together: ClassVar[tuple[tuple[int, ...], ...]]

    def inner(
        self, src: jax.Array, dst: jax.Array, port: jax.Array, lane: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Link of every inner hop for sends src -> dst; `no_link` where a send skips the hop.

        Args are integer arrays of one shape; each result has that shape, or (paths, *shape) where
        a chunk is sprayed over several links of the hop with equal shares.
        """
        ...

    def crosses(self, src: jax.Array, dst: jax.Array, port: jax.Array) -> jax.Array:
        """Whether sends src -> dst have an inner hop at all, bool of the same shape."""
        ...


class Relay(Fabric, Protocol):
    """A fabric whose links join ranks: those on the way pass a send on.

    Links are in tier "egress". Digits are the coordinates of a rank, the first varies fastest: a
    rank is x0 + d0 x1 + d0 d1 x2 + ... Arrays of sends are (lanes, ranks) int.
    """

    is_relay: ClassVar[bool]

    @property
    def digits(self) -> tuple[int, ...]:
        """Size of each coordinate."""
        ...

    @property
    def splits(self) -> bool:
        """Whether `way` gives several ways, each with an equal part of a send."""
        ...

    def way(
        self,
        src: jax.Array,
        dst: jax.Array,
        *,
        port: jax.Array | None = None,
        step: np.ndarray | None = None,
        most: int | None = None,
    ) -> tuple[jax.Array, ...]:
        """Links of src -> dst, hop by hop, each (lanes, ranks) or (paths, lanes, ranks).

        port: (lanes, 1) port that each lane was dealt to by `deal`; None = any. step: (lanes, 1)
        1 up or -1 down, the one way to take of two equally short ones; None = the fabric's rule.
        most: hops of the longest of these ways, where it is known. A hop that is skipped is the
        number of links.
        """
        ...

    def deal(self) -> np.ndarray:
        """All offsets but 0, as mixed-radix numbers, dealt to the ports: (rounds, ports) int.

        0 = idle. Rank and offset are added digit by digit.
        """
        ...

    def loads(self) -> tuple[np.ndarray, np.ndarray]:
        """Ports that a send by each offset from 1 on passes, and how many links of each port.

        (offsets, k) int and float, the same from every rank. Raises SpecError where ranks differ.
        """
        ...

    def ring_order(self) -> np.ndarray:
        """Ranks in an order whose neighbours are joined directly where that can be, (ranks,)."""
        ...

    def distance(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Links of the shortest way; NumPy int arrays that broadcast."""
        ...


@pytree
class Network:
    """Where every link is and which links a send crosses: indices only, no rates.

    Links come in tiers; in a switched network tier "egress" has link port * ranks + rank, and
    "ingress" likewise; "node egress" has plane * ranks + rank. `fabric` gives the links in between.

    `reroute` says what becomes of sends whose port or cable is down, "spread" | "neighbour", ""
    where they stay as they are; `lossy`, whether packets get lost. Then phases take the general
    path of the engine, which is told by `up` (links + 1,) bool what is down.
    """

    fabric: Fabric
    kind: str = static()
    ranks: int = static()
    ports: int = static()  # network ports of a rank
    node_size: int = static()  # ranks of a scale-up node; 1 = none
    tiers: tuple[LinkTier, ...] = static()
    node_ports: int = static(default=1)  # planes inside a node, one port of a rank on each
    rails: str = static(default="")  # sends change rails inside nodes, switches join them: "joined"
    # or keep them "apart"; "": sends take whatever way the fabric gives
    by_table: bool = static(default=False)  # the fabric gives whole routes, ranks have no ports
    reroute: str = static(default="")
    lossy: bool = static(default=False)
    up: jax.Array | None = None

    @property
    def num_links(self) -> int:
        """Length of every link array."""
        return self.tiers[-1].first + self.tiers[-1].count

    @property
    def no_link(self) -> int:
        """The index that means "this hop is skipped"."""
        return self.num_links

    @property
    def relay(self) -> Relay | None:
        """The fabric where its links join ranks directly; None in a switched network."""
        return cast(Relay, self.fabric) if getattr(self.fabric, "is_relay", False) else None

    @property
    def can_reroute(self) -> bool:
        """Whether sends can be led around links that are down: where ports lead to switches."""
        is_dealt = getattr(self.fabric, "deals_paths", False)
        return self.relay is None and not self.by_table and not self.rails and not is_dealt

    @property
    def lends_ports(self) -> bool:
        """Whether ranks of a node send through each other's ports where their own is down."""
        return bool(self.reroute) and self.ports == 1 and self.node_size > 1

    def tier(self, name: str) -> LinkTier:
        """The tier called `name`."""
        return next(tier for tier in self.tiers if tier.name == name)

    def tier_of(self, link: int) -> LinkTier:
        """The tier that link index `link` belongs to."""
        return next(t for t in self.tiers if t.first <= link < t.first + t.count)


@dataclass(frozen=True)
class Wiring:
    """A built network with its numbers, still in NumPy.

    capacity_bytes_per_s, latency_s: (links,). cables: (links,) int, how many cables a link stands
    for (a trunk is many), all in one direction. sender, receiver: (links,) int, the rank at either
    end of a link, -1 where a switch is. `local_names[tier](i)` names link i of a tier.
    `num_cables` counts physical cables (a trunk is many). `fabric_cuts(network)` gives the natural
    partitions beyond ranks and nodes.
    """

    network: Network
    capacity_bytes_per_s: np.ndarray
    latency_s: np.ndarray
    cables: np.ndarray
    sender: np.ndarray
    receiver: np.ndarray
    local_names: dict[str, Callable[[int], str]]
    num_cables: int
    fabric_cuts: Callable[["Wiring"], Sequence[Cut]]

    @property
    def num_physical_links(self) -> int:
        """Directed links there are: two per cable, on a graph one per direction that is wired."""
        return self.network.num_links if self.network.by_table else 2 * self.num_cables

    def link_name(self, link: int) -> str:
        """A name people can read and faults can match, e.g. "rank 5 egress rail 3"."""
        tier = self.network.tier_of(link)
        return self.local_names[tier.name](link - tier.first)

    def cuts(self) -> list[Cut]:
        """The natural partitions of the network: ranks, nodes, and those of its fabric."""
        return self._cuts

    @cached_property
    def _cuts(self) -> list[Cut]:
        network = self.network
        everyone = np.arange(network.ranks)
        inside = np.zeros(network.num_links, bool)
        for tier in network.tiers:
            if tier.name.startswith("node"):
                inside[tier.first : tier.first + tier.count] = True
        found = [at_ends("ports", everyone, self.sender, self.receiver, np.zeros_like(inside))]
        if network.node_size > 1 and network.ranks > network.node_size:
            nodes = everyone // network.node_size
            found.append(at_ends("nodes", nodes, self.sender, self.receiver, inside))
        return [*found, *self.fabric_cuts(self)]


class TierBuilder:
    """Collects tiers in order and hands out their first index."""

    def __init__(self) -> None:
        """Start with no link."""
        self.tiers: list[LinkTier] = []
        self.capacities: list[np.ndarray] = []
        self.latencies: list[np.ndarray] = []
        self.cables: list[np.ndarray] = []
        self.ends: list[tuple[np.ndarray, np.ndarray]] = []
        self.names: dict[str, Callable[[int], str]] = {}

    @property
    def num_links(self) -> int:
        """Links so far."""
        return sum(t.count for t in self.tiers)

    def add(
        self,
        name: str,
        count: int,
        sharing: str,
        capacity: np.ndarray | float,
        latency: np.ndarray | float,
        local_name: Callable[[int], str],
        *,
        cables: np.ndarray | int = 1,
        sender: np.ndarray | int = -1,
        receiver: np.ndarray | int = -1,
    ) -> int:
        """Append `count` links and return the index of the first.

        cables: how many a link stands for; sender, receiver: rank at either end, -1 = a switch;
        (count,) or one for all.
        """
        first = self.num_links
        self.tiers.append(LinkTier(name, first, count, sharing))
        self.capacities.append(np.broadcast_to(np.asarray(capacity, np.float64), (count,)))
        self.latencies.append(np.broadcast_to(np.asarray(latency, np.float64), (count,)))
        self.cables.append(np.broadcast_to(np.asarray(cables, np.int64), (count,)))
        self.ends.append((np.broadcast_to(sender, (count,)), np.broadcast_to(receiver, (count,))))
        self.names[name] = local_name
        return first

    def wiring(
        self, network: Network, num_cables: int, fabric_cuts: Callable[[Wiring], Sequence[Cut]]
    ) -> Wiring:
        """Close the list."""
        return Wiring(
            network,
            np.concatenate(self.capacities),
            np.concatenate(self.latencies),
            np.concatenate(self.cables),
            np.concatenate([sender for sender, _ in self.ends]),
            np.concatenate([receiver for _, receiver in self.ends]),
            self.names,
            num_cables,
            fabric_cuts,
        )
