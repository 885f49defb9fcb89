"""What all networks have, and the checks that several kinds share."""

import math
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from mrcjax import hardware
from mrcjax.spec.fields import (
    Count,
    Fraction,
    Index,
    RatesPerPort,
    default,
    doc,
    half_microsecond,
    no_time,
)
from mrcjax.units import BytesPerSecond, Seconds, SpecError

LoadBalancing = Literal["ideal", "ecmp", "spray"]
DEFAULT_PATHS = 256


class Network(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    """What all networks have: ranks, scale-up nodes, software and NIC terms.

    ``ports``, ``port_rates`` and ``port_latencies`` give a rank's network ports as plain floats
    (bytes/s before goodput, seconds per link). The last node may be partly filled.
    """

    reducing: ClassVar[bool] = False  # whether switches between nodes may reduce

    ranks: Annotated[Count, doc("Number of ranks (GPUs).", 1024)]
    node_size: Annotated[Count, doc("Ranks per scale-up node; 1 means no nodes.", 8)] = 1
    node: Annotated[str | None, doc("Catalogue link inside a node.", "nvlink4")] = None
    node_rate: Annotated[
        RatesPerPort | None,
        doc("Rate of a rank inside its node; a list: of each plane of switches.", "450 GB/s"),
    ] = None
    node_latency: Annotated[Seconds, doc("Latency of a link inside a node.", "500 ns")] = default(
        half_microsecond
    )
    placement: Annotated[
        Literal["node", "rail"],
        doc("Who shares a leaf: ranks of one node, or ranks of equal index in their node.", "node"),
    ] = "node"
    channels: Annotated[Count | None, doc("Sending lanes per rank; absent: one per port.", 4)] = (
        None
    )
    endpoint_latency: Annotated[
        Seconds, doc("Software and NIC time added once per message.", "4.36 us")
    ] = default(no_time)
    goodput: Annotated[Fraction, doc("Share of a link's rate that payload gets.", 0.96)] = 1.0
    reduction_rate: Annotated[
        BytesPerSecond | None, doc("Rate at which a lane reduces; absent: infinite.", "1 TB/s")
    ] = None
    switch: Annotated[
        str | None, doc("Catalogue switch; absent: chosen by capacity.", "switch_51t2")
    ] = None
    in_network: Annotated[
        bool | Literal["node", "network"],
        doc("Switches that reduce and multicast: all, those in nodes, those between.", True),
    ] = False
    in_network_efficiency: Annotated[
        Fraction, doc("Share of a link's rate reached while switches reduce.", 0.85)
    ] = 1.0
    in_network_owner: Annotated[
        bool,
        doc("What a node's switches reduced passes the rank that owns the shard (NVLS).", True),
    ] = False

    def __post_init__(self):
        if self.node is not None and self.node_rate is not None:
            raise SpecError(
                "and network.node_rate both give the rate inside a node",
                where="network.node",
                value=self.node,
                remedy="keep one of the two",
            )
        check_part("network.node", self.node)
        if self.switch is not None:
            named("network.switch", lambda name: hardware.switch(name), self.switch)
        if self.node_size > 1:
            self._check_nodes()
        self._check_in_network()
        self._check()

    def _check_nodes(self):
        if not self.node_rates:
            raise SpecError(
                f"is missing with node_size = {self.node_size}",
                where="network.node_rate",
                remedy='add for example node_rate = "450 GB/s" or node = "nvlink4"',
            )

    def _check_in_network(self):
        if not self.in_network:
            for key, usual in (("in_network_efficiency", 1.0), ("in_network_owner", False)):
                if getattr(self, key) != usual:
                    raise SpecError(
                        "has no effect where no switch reduces",
                        where=f"network.{key}",
                        value=getattr(self, key),
                        remedy="set in_network = true or leave it out",
                    )
            return
        wanted = {"node", "network"} if self.in_network is True else {self.in_network}
        if not wanted & self._levels_there():
            place = {"node": "inside nodes", "network": "between nodes"}.get(
                str(self.in_network), "at all"
            )
            raise SpecError(
                f"needs switches that reduce, and a {self.kind} like this has none {place}",
                where="network.in_network",
                value=self.in_network,
                remedy="switches between nodes may reduce in fat_tree, mrc_planes, dgx, rail_only, "
                "nvl and wafer, those inside nodes with node_size and node_rate",
            )

        if self.in_network_owner and "node" not in self.in_network_levels:
            raise SpecError(
                "has no effect where no switch inside a node reduces",
                where="network.in_network_owner",
                value=True,
                remedy='set in_network = true or "node" on a network with nodes, or leave it out',
            )

    def _levels_there(self) -> set[str]:
        between = {"network"} if self.reducing else set()
        return between | ({"node"} if self.node_size > 1 else set())

    @property
    def may_reduce(self) -> bool:
        """Whether it has switches that `in_network` can set to reduce."""
        return bool(self._levels_there())

    @property
    def in_network_levels(self) -> frozenset[str]:
        """Where switches reduce: "node", "network", both or neither."""
        if not self.in_network:
            return frozenset()
        there = self._levels_there()
        return frozenset(there if self.in_network is True else {self.in_network})

    def _check(self):
        """Check the rules of one kind."""

    @property
    def kind(self) -> str:
        """The kind as the file writes it."""
        return str(self.__struct_config__.tag)

    @property
    def ports(self) -> int:
        """Number of network ports of a rank."""
        return 1

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each port of a rank, bytes/s, before goodput."""
        raise NotImplementedError

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of the links at each port of a rank, seconds."""
        raise NotImplementedError

    @property
    def cautions(self) -> tuple[str, ...]:
        """What a reader of the results must know about this network, one sentence each."""
        return ()

    @property
    def nodes(self) -> int:
        """Number of scale-up nodes, a partly filled one included."""
        return -(-self.ranks // self.node_size)

    @property
    def node_rates(self) -> tuple[float, ...]:
        """Rate of a rank on each plane of its node, bytes/s before goodput; () without nodes."""
        if self.node_size == 1:
            return ()
        if self.node is not None:
            return (hardware.link(self.node).rate_bytes_per_s,)
        return () if self.node_rate is None else tuple(float(rate) for rate in self.node_rate)

    @property
    def node_bytes_per_s(self) -> float | None:
        """Rate of a rank inside its node over all planes, bytes/s; None without nodes."""
        return math.fsum(self.node_rates) if self.node_rates else None

    @property
    def node_path_latency(self) -> float:
        """Latency of a rank's link to the switches of its node, seconds."""
        return float(self.node_latency)


class Linked(Network, frozen=True, kw_only=True):
    """A switched network whose links are all of one rate: rate, latency, load balancing."""

    link_rate: Annotated[BytesPerSecond | None, doc("Rate of a link.", "400 Gbit/s")] = None
    link: Annotated[str | None, doc("Catalogue link.", "infiniband_ndr")] = None
    latency: Annotated[Seconds, doc("Latency of a link.", "500 ns")] = default(half_microsecond)
    load_balancing: Annotated[
        LoadBalancing, doc("How packets choose among parallel links and paths.", "ideal")
    ] = "ideal"
    paths: Annotated[Count, doc("Paths sprayed over, with load_balancing = spray.", 256)] = (
        DEFAULT_PATHS
    )
    seed: Annotated[Index, doc("Seed of the random choice of paths.", 0)] = 0

    def _check(self):
        one_of("link_rate", self.link_rate, "link", self.link)
        check_paths(self.paths, self.load_balancing)

    @property
    def link_bytes_per_s(self) -> float:
        """Rate of a link, bytes/s, before goodput."""
        rate = self.link_rate
        return part_rate("network.link", self.link) if rate is None else float(rate)

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each port of a rank, bytes/s, before goodput."""
        return (self.link_bytes_per_s,) * self.ports

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of a link at each port of a rank, seconds."""
        return (float(self.latency),) * self.ports


def named(where: str, find, name: str):
    """Look a catalogue name up; its SpecError says where the name stands."""
    try:
        return find(name)
    except SpecError as error:
        raise error.at(where) from None


def check_part(where: str, name: str | None):
    """Refuse a link that the catalogue does not have."""
    if name is not None:
        named(where, hardware.link, name)


def part_rate(where: str, name: str | None) -> float:
    """Rate of a catalogue link, bytes/s; SpecError where none is named."""
    if name is None:
        raise SpecError("is missing", where=where, remedy='add it, for example "ethernet_400g"')
    return named(where, hardware.link, name).rate_bytes_per_s


def one_of(rate_key: str, rate: object, part_key: str, part: str | None):
    """Refuse a rate given twice or not at all."""
    example = f'{rate_key} = "400 Gbit/s" or {part_key} = "ethernet_400g"'
    if rate is None and part is None:
        raise SpecError("is missing", where=f"network.{rate_key}", remedy=f"add one of {example}")
    if rate is not None and part is not None:
        raise SpecError(
            f"and network.{rate_key} both give the rate",
            where=f"network.{part_key}",
            value=part,
            remedy="keep one of the two",
        )
    check_part(f"network.{part_key}", part)


def check_radix(radix: int):
    """Refuse a switch whose ports cannot be split in half."""
    if radix % 2:
        raise SpecError(
            "must be even",
            where="network.radix",
            value=radix,
            remedy=f"a leaf splits its ports in half; use {radix + 1}",
        )


def check_paths(paths: int, load_balancing: str):
    """Refuse a number of paths where nothing is sprayed."""
    if paths != DEFAULT_PATHS and load_balancing != "spray":
        raise SpecError(
            f'has no effect with network.load_balancing = "{load_balancing}"',
            where="network.paths",
            value=paths,
            remedy='set load_balancing = "spray" or leave paths out',
        )


def check_steps(steps: float | tuple[float, ...], tiers: int):
    """Refuse a list of oversubscriptions that does not fit the tiers."""
    if isinstance(steps, tuple) and len(steps) != tiers - 1:
        raise SpecError(
            f"needs {tiers - 1} values for {tiers} tiers",
            where="network.oversubscription",
            value=steps,
            remedy="give one number for all, or one per gap between tiers, lowest first",
        )
