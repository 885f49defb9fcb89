"""Wafer-scale systems: several in data parallel on a tree that reduces, or one as a mesh."""

import math
from typing import Annotated, ClassVar, Literal

import msgspec

from mrcjax import hardware
from mrcjax.spec.fields import Count, RatesPerPort, SecondsPerPort, doc, half_microsecond
from mrcjax.spec.network.base import Linked
from mrcjax.spec.network.torus import Mesh
from mrcjax.units import BytesPerSecond, Seconds, SpecError, format_rate, format_seconds


class Wafer(Linked, frozen=True, kw_only=True, tag="wafer"):
    """Cerebras systems on SwarmX: every rank is a whole wafer, MemoryX is at the top of the tree.

    SwarmX sums gradients on the way up and broadcasts weights on the way down; it takes nothing
    from one wafer to another. What happens on a wafer is not part of it.

    With ``tiles`` there is one wafer and a rank is a tile of it, some hundred cores taken as one:
    a mesh of x by y ranks with all collectives of ``mesh``. What tiles do inside costs nothing.
    """

    reducing: ClassVar[bool] = True

    ranks: Annotated[
        Count, doc("Wafers on SwarmX, or absent with tiles, whose product it is then.", 8)
    ] = 0
    wafers: Annotated[Count | None, doc("Wafers; absent: ranks, and 1 with tiles.", 8)] = None
    tiles: Annotated[
        tuple[Count, Count] | None, doc("Tiles along both sides of one wafer.", [32, 32])
    ] = None
    latency: Annotated[  # type: ignore[reportIncompatibleVariableOverride]
        Seconds | None,
        doc("Latency of a link; absent: 500 ns, on a wafer its cores' over a tile.", "500 ns"),
    ] = None
    fan_out: Annotated[Literal[2, 4], doc("Members of a SwarmX switch.", 4)] = 4
    in_network: Annotated[  # type: ignore[reportIncompatibleVariableOverride]
        bool | None,
        doc("SwarmX does nothing but reduce and broadcast; on a wafer nothing does.", True),
    ] = None

    def __post_init__(self):
        ranks = self.wafers if self.tiles is None else math.prod(self.tiles)
        if self.tiles is not None and self.wafers not in (None, 1):
            raise SpecError(
                "does not go with network.tiles: of several wafers each is one rank on SwarmX",
                where="network.wafers",
                value=self.wafers,
                remedy="set wafers = 1, or leave tiles out",
            )
        if ranks is None and not self.ranks:
            raise SpecError(
                "is missing",
                where="network.ranks",
                remedy="give the number of wafers, ranks = 8, or tiles of one, tiles = [32, 32]",
            )
        if ranks is not None and self.ranks not in (0, ranks):
            given = "network.wafers" if self.tiles is None else "the product of network.tiles"
            raise SpecError(
                f"is not {given}, {ranks}",
                where="network.ranks",
                value=self.ranks,
                remedy="leave ranks out",
            )
        msgspec.structs.force_setattr(self, "ranks", ranks or self.ranks)
        if self.in_network is None:
            msgspec.structs.force_setattr(self, "in_network", self.tiles is None)
        super().__post_init__()

    def _check(self):
        if self.link is not None or self.link_rate is not None:
            super()._check()
        on_tree = "each is one rank on a tree that reduces"
        on_wafer = "whose tiles are joined directly"
        self._refuse(
            f"on a wafer: {on_tree}" if self.tiles is None else f"on a wafer {on_wafer}",
            ("node_size", self.node_size, 1),
            ("in_network", self.in_network, self.tiles is None),
            ("in_network_owner", self.in_network_owner, False),
            ("load_balancing", self.load_balancing, "ideal"),
        )
        if self.tiles is not None:
            self._refuse(
                f"on a wafer {on_wafer}",
                ("fan_out", self.fan_out, 4),
                ("link", self.link, None),
                ("switch", self.switch, None),
                ("channels", self.channels, None),
                ("placement", self.placement, "node"),
            )
            self._check_tiles()

    def _refuse(self, where: str, *entries: tuple[str, object, object]):
        for key, value, usual in entries:
            if value != usual:
                raise SpecError(
                    f"has no meaning {where}",
                    where=f"network.{key}",
                    value=value,
                    remedy=f"leave {key} out",
                )

    def _check_tiles(self):
        cores = hardware.link("wafer_core").pod_ranks
        if cores is not None and self.ranks > cores:
            raise SpecError(
                f"makes {self.ranks:,} tiles of {cores:,.0f} cores",
                where="network.tiles",
                value=list(self.tiles or ()),
                remedy="use fewer, coarser tiles",
            )

    @property
    def mesh(self) -> Mesh | None:
        """The tiles of one wafer as a mesh; None for wafers on SwarmX.

        A tile of a x b cores, were the grid of cores square, has b links to its neighbour, and a
        hop between tiles is a hops between cores.
        """
        if self.tiles is None:
            return None
        core = hardware.link("wafer_core")
        side = math.sqrt(core.pod_ranks or 0.0)
        links = [side / across for across in reversed(self.tiles)]
        rates, waits = [self.link_rate], [self.latency]
        if self.link_rate is None:
            edges = [core.rate_bytes_per_s * count for count in links]
            rates = [BytesPerSecond(edge, format_rate(edge)) for edge in edges]
        if self.latency is None:
            hops = [(core.latency_s or 0.0) * side / along for along in self.tiles]
            waits = [Seconds(hop, format_seconds(hop)) for hop in hops]
        return Mesh(
            dims=self.tiles,
            link_rate=RatesPerPort(rates, is_list=len(rates) > 1),  # type: ignore[arg-type]
            latency=SecondsPerPort(waits, is_list=len(waits) > 1),  # type: ignore[arg-type]
            goodput=self.goodput,
            endpoint_latency=self.endpoint_latency,
            reduction_rate=self.reduction_rate,
        )

    @property
    def in_network_levels(self) -> frozenset[str]:
        """SwarmX reduces, a wafer's tiles do not."""
        return frozenset() if self.tiles else super().in_network_levels

    @property
    def ports(self) -> int:
        """One link to SwarmX; of a tile as in a mesh."""
        return 1 if self.mesh is None else self.mesh.ports

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each port of a rank, bytes/s, before goodput."""
        return super().port_rates if self.mesh is None else self.mesh.port_rates

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of the link at each port of a rank, seconds."""
        if self.mesh is not None:
            return self.mesh.port_latencies
        return (float(half_microsecond() if self.latency is None else self.latency),)

    @property
    def link_bytes_per_s(self) -> float:
        """Rate of a link, bytes/s, before goodput; where none is given a system's on SwarmX."""
        if self.link is None and self.link_rate is None:
            return hardware.link("swarmx").rate_bytes_per_s
        return super().link_bytes_per_s

    @property
    def cautions(self) -> tuple[str, ...]:
        """Say how coarse the tiles are, and whence their links."""
        if self.tiles is None:
            return ()
        cores = (hardware.link("wafer_core").pod_ranks or 0.0) / self.ranks
        said = (
            f"network.tiles: a rank stands for about {cores:,.0f} cores, among which data is free"
        )
        if self.link_rate is None:
            said += "; the rate of its edges is derived from that of the whole wafer"
        return (said,)
