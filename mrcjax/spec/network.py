"""Say what a network is: one frozen struct per kind, checked when it is made.

Sizes of the topology itself (does a tree of this radix hold so many ranks) are checked where
the network is built.
"""

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mrcjax import hardware
from mrcjax.spec.fields import (
    MAX_PORTS,
    Count,
    Fraction,
    Index,
    PortCount,
    RatesPerPort,
    SecondsPerPort,
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
    (bytes/s before goodput, seconds per link).
    """

    ranks: Annotated[Count, doc("Number of ranks (GPUs).", 1024)]
    node_size: Annotated[Count, doc("Ranks per scale-up node; 1 means no nodes.", 8)] = 1
    node: Annotated[str | None, doc("Catalogue link inside a node.", "nvlink4")] = None
    node_rate: Annotated[
        BytesPerSecond | None, doc("Rate of a rank inside its node.", "450 GB/s")
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

    def __post_init__(self):
        if self.node is not None and self.node_rate is not None:
            raise SpecError(
                "and network.node_rate both give the rate inside a node",
                where="network.node",
                value=self.node,
                remedy="keep one of the two",
            )
        _check_part("network.node", self.node)
        if self.switch is not None:
            _named("network.switch", lambda name: hardware.switch(name), self.switch)
        if self.node_size > 1:
            self._check_nodes()
        self._check()

    def _check_nodes(self):
        if self.node is None and self.node_rate is None:
            raise SpecError(
                f"is missing with node_size = {self.node_size}",
                where="network.node_rate",
                remedy='add for example node_rate = "450 GB/s" or node = "nvlink4"',
            )
        if self.ranks % self.node_size:
            raise SpecError(
                f"must divide network.ranks = {self.ranks}",
                where="network.node_size",
                value=self.node_size,
                remedy=f"{_next_multiple(self.ranks, self.node_size)} ranks would fill the nodes",
            )

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
    def node_bytes_per_s(self) -> float | None:
        """Rate of a rank inside its node, bytes/s before goodput; None without nodes."""
        if self.node_size == 1:
            return None
        if self.node is not None:
            return hardware.link(self.node).rate_bytes_per_s
        return None if self.node_rate is None else float(self.node_rate)


class FlatRails(Network, frozen=True, tag="flat_rails"):
    """Independent rails, each a non-blocking plane over all ranks or wired directly.

    With ``reach`` a list of group sizes, rail group d joins the ranks that differ only in
    coordinate d and has (size - 1) rails; with "direct" every pair of ranks has its own cable.
    """

    rails: Annotated[PortCount | None, doc("Rails (ports) per rank.", 8)] = None
    rail_rate: Annotated[
        RatesPerPort | None, doc("Rate of a rail, or one per rail.", "400 Gbit/s")
    ] = None
    rail: Annotated[str | None, doc("Catalogue link of every rail.", "ethernet_400g")] = None
    latency: Annotated[SecondsPerPort, doc("Latency of a link, or one per rail.", "500 ns")] = (
        default(lambda: SecondsPerPort((half_microsecond(),), is_list=False))
    )
    reach: Annotated[
        Literal["all", "direct"] | tuple[Annotated[int, Meta(ge=2, le=2**31 - 1)], ...],
        doc("Peers a rail meets without a switch.", "all", "direct", [32, 32]),
    ] = "all"
    plane: Annotated[
        Literal["auto", "optical"],
        doc('Hardware of a plane; "optical" is a what-if: passive, without switches.', "auto"),
    ] = "auto"

    def _check(self):
        _one_of("rail_rate", self.rail_rate, "rail", self.rail)
        if self.reach == ():
            raise SpecError(
                "must not be an empty list",
                where="network.reach",
                value=[],
                remedy='write "all", "direct" or group sizes such as [32, 32]',
            )
        if isinstance(self.reach, tuple) and math.prod(self.reach) != self.ranks:
            raise SpecError(
                f"has groups for {math.prod(self.reach)} ranks, not network.ranks = {self.ranks}",
                where="network.reach",
                value=self.reach,
                remedy="the product of the group sizes must be the number of ranks",
            )
        if self._wired() > MAX_PORTS:
            raise SpecError(
                f"takes {self._wired()} rails per rank",
                where="network.reach",
                value=self.reach,
                remedy=f"use more, smaller groups (at most {MAX_PORTS} rails)",
            )
        if self.plane == "optical" and self.reach != "all":
            raise SpecError(
                'works only with network.reach = "all"',
                where="network.plane",
                value=self.plane,
                remedy="direct wiring has no planes; leave plane out",
            )
        self._check_rails()
        # made here once so that a list of the wrong length is refused at load
        _ = self.port_rates, self.port_latencies

    def _check_rails(self):
        if self.rails is None:
            if isinstance(self.reach, tuple):
                return
            raise SpecError(
                "is missing", where="network.rails", remedy="add it, for example rails = 8"
            )
        if isinstance(self.reach, tuple) and self.rails != self._wired():
            raise SpecError(
                f"must be {self._wired()} with network.reach = {list(self.reach)}",
                where="network.rails",
                value=self.rails,
                remedy="a group of g ranks takes g - 1 rails; leave rails out to have it computed",
            )
        if self.reach == "direct" and self.rails != self.ranks - 1:
            cables = self.ranks * (self.ranks - 1) // 2
            raise SpecError(
                f'must be {self.ranks - 1} with network.reach = "direct"',
                where="network.rails",
                value=self.rails,
                remedy=f"a cable between every two of {self.ranks} ranks makes {cables} cables; "
                'use reach = "all" (switched planes) or group sizes such as reach = [32, 32]',
            )

    def _wired(self) -> int:
        return sum(size - 1 for size in self.reach) if isinstance(self.reach, tuple) else 0

    @property
    def ports(self) -> int:
        """Number of rails."""
        return self._wired() if self.rails is None else self.rails

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each rail, bytes/s, before goodput."""
        if self.rail_rate is not None:
            return self.rail_rate.spread(self.ports, "network.rail_rate")
        return (_part_rate("network.rail", self.rail),) * self.ports

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of a link of each rail, seconds."""
        return self.latency.spread(self.ports, "network.latency")


class MrcPlanes(Network, frozen=True, tag="mrc_planes"):
    """Planes of two-tier Clos networks, one port of every rank on each, packets sprayed."""

    planes: Annotated[PortCount, doc("Planes (ports) per rank.", 8)]
    radix: Annotated[Count, doc("Ports of a switch at the plane's rate; even.", 512)]
    plane_rate: Annotated[BytesPerSecond | None, doc("Rate of a port.", "100 Gbit/s")] = None
    rail: Annotated[str | None, doc("Catalogue link of every port.", "ethernet_100g")] = None
    latency: Annotated[Seconds, doc("Latency of a link.", "500 ns")] = default(half_microsecond)
    load_balancing: Annotated[LoadBalancing, doc("How packets choose among paths.", "spray")] = (
        "spray"
    )
    paths: Annotated[Count, doc("Paths sprayed over, with load_balancing = spray.", 256)] = (
        DEFAULT_PATHS
    )
    seed: Annotated[Index, doc("Seed of the random choice of paths.", 0)] = 0

    def _check(self):
        _one_of("plane_rate", self.plane_rate, "rail", self.rail)
        _check_radix(self.radix)
        _check_paths(self.paths, self.load_balancing)

    @property
    def ports(self) -> int:
        """Number of planes."""
        return self.planes

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each port, bytes/s, before goodput."""
        rate = self.plane_rate
        one = _part_rate("network.rail", self.rail) if rate is None else float(rate)
        return (one,) * self.planes

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of a link of each plane, seconds."""
        return (float(self.latency),) * self.planes


class FatTree(Network, frozen=True, tag="fat_tree"):
    """A folded Clos of two or three tiers, with oversubscription between tiers."""

    radix: Annotated[Count, doc("Ports of a switch; even.", 64)]
    tiers: Annotated[Literal[2, 3], doc("Tiers of switches.", 2)] = 2
    nics: Annotated[PortCount, doc("Network adapters per rank.", 1)] = 1
    link_rate: Annotated[BytesPerSecond | None, doc("Rate of a link.", "400 Gbit/s")] = None
    link: Annotated[str | None, doc("Catalogue link.", "infiniband_ndr")] = None
    latency: Annotated[Seconds, doc("Latency of a link.", "500 ns")] = default(half_microsecond)
    oversubscription: Annotated[
        Annotated[float, Meta(ge=1)] | tuple[Annotated[float, Meta(ge=1)], ...],
        doc("Capacity below a tier over capacity above it; a list has one per tier gap.", 1),
    ] = 1.0
    load_balancing: Annotated[LoadBalancing, doc("How packets choose among paths.", "ideal")] = (
        "ideal"
    )
    paths: Annotated[Count, doc("Paths sprayed over, with load_balancing = spray.", 256)] = (
        DEFAULT_PATHS
    )
    seed: Annotated[Index, doc("Seed of the random choice of paths.", 0)] = 0

    def _check(self):
        _one_of("link_rate", self.link_rate, "link", self.link)
        _check_radix(self.radix)
        _check_paths(self.paths, self.load_balancing)
        steps = self.oversubscription
        if isinstance(steps, tuple) and len(steps) != self.tiers - 1:
            raise SpecError(
                f"needs {self.tiers - 1} values for {self.tiers} tiers",
                where="network.oversubscription",
                value=steps,
                remedy="give one number for all, or one per gap between tiers, lowest first",
            )

    @property
    def oversubscriptions(self) -> tuple[float, ...]:
        """Oversubscription of each gap between tiers, lowest first."""
        steps = self.oversubscription
        return steps if isinstance(steps, tuple) else (float(steps),) * (self.tiers - 1)

    @property
    def ports(self) -> int:
        """Number of network adapters."""
        return self.nics

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each adapter, bytes/s, before goodput."""
        rate = self.link_rate
        one = _part_rate("network.link", self.link) if rate is None else float(rate)
        return (one,) * self.nics

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of a link at each adapter, seconds."""
        return (float(self.latency),) * self.nics


class Dragonfly(Network, frozen=True, tag="dragonfly"):
    """Groups of fully joined routers, groups joined by global links."""

    hosts_per_router: Annotated[Count, doc("Ranks on a router.", 16)]
    routers_per_group: Annotated[Count, doc("Routers in a group.", 32)]
    global_links_per_router: Annotated[Count, doc("Links to other groups of a router.", 16)]
    groups: Annotated[Count, doc("Groups built.", 2)]
    link_rate: Annotated[BytesPerSecond | None, doc("Rate of a link.", "400 Gbit/s")] = None
    link: Annotated[str | None, doc("Catalogue link.", "infiniband_ndr")] = None
    latency: Annotated[Seconds, doc("Latency of a link.", "500 ns")] = default(half_microsecond)
    load_balancing: Annotated[
        LoadBalancing, doc("How packets choose among parallel links.", "ideal")
    ] = "ideal"
    paths: Annotated[Count, doc("Paths sprayed over, with load_balancing = spray.", 256)] = (
        DEFAULT_PATHS
    )
    seed: Annotated[Index, doc("Seed of the random choice of paths.", 0)] = 0

    def _check(self):
        _one_of("link_rate", self.link_rate, "link", self.link)
        _check_paths(self.paths, self.load_balancing)

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of the one port, bytes/s, before goodput."""
        rate = self.link_rate
        return (_part_rate("network.link", self.link) if rate is None else float(rate),)

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of a link, seconds."""
        return (float(self.latency),)


AnyNetwork = FlatRails | MrcPlanes | FatTree | Dragonfly
NETWORK_KINDS: dict[str, type[Network]] = {
    "flat_rails": FlatRails,
    "mrc_planes": MrcPlanes,
    "fat_tree": FatTree,
    "dragonfly": Dragonfly,
}


def _next_multiple(value: int, step: int) -> int:
    return -(-value // step) * step


def _named(where: str, find, name: str):
    try:
        return find(name)
    except SpecError as error:
        raise error.at(where) from None


def _check_part(where: str, name: str | None):
    if name is not None:
        _named(where, hardware.link, name)


def _part_rate(where: str, name: str | None) -> float:
    if name is None:
        raise SpecError("is missing", where=where, remedy='add it, for example "ethernet_400g"')
    return _named(where, hardware.link, name).rate_bytes_per_s


def _one_of(rate_key: str, rate: object, part_key: str, part: str | None):
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
    _check_part(f"network.{part_key}", part)


def _check_radix(radix: int):
    if radix % 2:
        raise SpecError(
            "must be even",
            where="network.radix",
            value=radix,
            remedy=f"a leaf splits its ports in half; use {radix + 1}",
        )


def _check_paths(paths: int, load_balancing: str):
    if paths != DEFAULT_PATHS and load_balancing != "spray":
        raise SpecError(
            f'has no effect with network.load_balancing = "{load_balancing}"',
            where="network.paths",
            value=paths,
            remedy='set load_balancing = "spray" or leave paths out',
        )
