"""The flat rail mesh and the planes of MRC."""

import math
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from mrcjax.spec.fields import (
    MAX_PORTS,
    Count,
    Index,
    PortCount,
    RatesPerPort,
    SecondsPerPort,
    default,
    doc,
    half_microsecond,
)
from mrcjax.spec.network.base import (
    DEFAULT_PATHS,
    LoadBalancing,
    Network,
    check_paths,
    check_radix,
    one_of,
    part_rate,
)
from mrcjax.units import BytesPerSecond, Seconds, SpecError


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
        one_of("rail_rate", self.rail_rate, "rail", self.rail)
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
        return (part_rate("network.rail", self.rail),) * self.ports

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of a link of each rail, seconds."""
        return self.latency.spread(self.ports, "network.latency")


class MrcPlanes(Network, frozen=True, tag="mrc_planes"):
    """Planes of two-tier Clos networks, one port of every rank on each, packets sprayed."""

    reducing: ClassVar[bool] = True

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
        one_of("plane_rate", self.plane_rate, "rail", self.rail)
        check_radix(self.radix)
        check_paths(self.paths, self.load_balancing)

    @property
    def ports(self) -> int:
        """Number of planes."""
        return self.planes

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each port, bytes/s, before goodput."""
        rate = self.plane_rate
        one = part_rate("network.rail", self.rail) if rate is None else float(rate)
        return (one,) * self.planes

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of a link of each plane, seconds."""
        return (float(self.latency),) * self.planes
