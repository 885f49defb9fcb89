"""The torus and the mesh: ranks on a grid, each joined to its neighbours."""

import math
from typing import Annotated, Literal

import msgspec

from mrcjax import hardware
from mrcjax.spec.fields import (
    MAX_COUNT,
    Count,
    RatesPerPort,
    SecondsPerPort,
    default,
    doc,
    half_microsecond,
)
from mrcjax.spec.network.base import Network, one_of, part_rate
from mrcjax.units import SpecError


class Grid(Network, frozen=True, kw_only=True):
    """What torus and mesh have: ranks at the points of a grid, links to the next in each dimension.

    Rank = x0 + d0 x1 + d0 d1 x2 + ... for ``dims = [d0, d1, d2, ...]``. A rank has a port up (+1)
    and a port down (-1) in each dimension of more than one rank; a cable is a link each way.
    """

    dims: Annotated[tuple[Count, ...], doc("Ranks along each dimension.", [8, 8, 16])]
    ranks: Annotated[Count, doc("Number of ranks; absent: the product of dims.", 1024)] = 0
    link_rate: Annotated[
        RatesPerPort | None, doc("Rate of a link, or one per dimension.", "100 GB/s")
    ] = None
    link: Annotated[str | None, doc("Catalogue link.", "ici_v5p")] = None
    latency: Annotated[
        SecondsPerPort, doc("Latency of a link, or one per dimension.", "1 us", ["500 ns", "1 us"])
    ] = default(lambda: SecondsPerPort((half_microsecond(),), is_list=False))
    ties: Annotated[
        Literal["split", "up"],
        doc(
            "Two ways equally short round a dimension: half of a chunk each way, or SimGrid's rule "
            "(up, but down from the middle to 0).",
            "split",
        ),
    ] = "split"

    def __post_init__(self):
        if not self.dims:
            raise SpecError(
                "must not be an empty list",
                where="network.dims",
                value=[],
                remedy="write for example dims = [8, 8, 16]",
            )
        product = math.prod(self.dims)
        if product > MAX_COUNT:
            raise SpecError(
                f"makes {product:,} ranks",
                where="network.dims",
                value=list(self.dims),
                remedy=f"use at most {MAX_COUNT:,}",
            )
        if self.ranks not in (0, product):
            raise SpecError(
                f"does not fill network.dims = {list(self.dims)}",
                where="network.ranks",
                value=self.ranks,
                remedy=f"leave ranks out or give the product of dims, {product}",
            )
        msgspec.structs.force_setattr(self, "ranks", product)
        super().__post_init__()

    def _check(self):
        one_of("link_rate", self.link_rate, "link", self.link)
        for key, value, usual in (
            ("node_size", self.node_size, 1),
            ("placement", self.placement, "node"),
            ("switch", self.switch, None),
            ("channels", self.channels, None),
        ):
            if value != usual:
                raise SpecError(
                    f"has no meaning on a {self.kind}, whose ranks are joined directly",
                    where=f"network.{key}",
                    value=value,
                    remedy=f"leave {key} out",
                )
        _per_dimension(self.link_rate, self.dims, "network.link_rate")
        _per_dimension(self.latency, self.dims, "network.latency")
        self._check_pod()

    def _check_pod(self):
        part = None if self.link is None else hardware.link(self.link)
        if part is None or part.pod_ranks is None or self.ranks <= part.pod_ranks:
            return
        raise SpecError(
            f"makes {self.ranks:,} ranks, but a pod of {part.name} has {part.pod_ranks:,.0f}",
            where="network.dims",
            value=list(self.dims),
            remedy="use fewer, or give link_rate in place of link for a what-if",
        )

    @property
    def wraps(self) -> tuple[bool, ...]:
        """Whether the last and the first rank of each dimension are joined by a cable of their own.

        Never in a dimension of one rank.
        """
        raise NotImplementedError

    @property
    def dimension_of_port(self) -> tuple[int, ...]:
        """Dimension of every port: up, then down, of each dimension of more than one rank."""
        return tuple(d for d, size in enumerate(self.dims) for _ in range(2 if size > 1 else 0))

    @property
    def rates(self) -> tuple[float, ...]:
        """Rate of a link of each dimension, bytes/s, before goodput."""
        if self.link_rate is None:
            return (part_rate("network.link", self.link),) * len(self.dims)
        return _per_dimension(self.link_rate, self.dims, "network.link_rate")

    @property
    def latencies(self) -> tuple[float, ...]:
        """Latency of a link of each dimension, seconds."""
        return _per_dimension(self.latency, self.dims, "network.latency")

    @property
    def ports(self) -> int:
        """Number of ports; ranks at the edge of a mesh lack some."""
        return len(self.dimension_of_port)

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each port, bytes/s, before goodput."""
        rates = self.rates
        return tuple(rates[d] for d in self.dimension_of_port)

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """Latency of the link at each port, seconds."""
        latencies = self.latencies
        return tuple(latencies[d] for d in self.dimension_of_port)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Say where no one job gets a slice as large as this."""
        part = None if self.link is None else hardware.link(self.link)
        if part is None or part.slice_ranks is None or self.ranks <= part.slice_ranks:
            return ()
        return (
            f"network.dims: {self.ranks:,} ranks on {part.name} are a what-if: the largest slice "
            f"that one job can get has {part.slice_ranks:,.0f}",
        )


class Torus(Grid, frozen=True, tag="torus"):
    """A grid whose dimensions are rings, or those of them that ``wrap`` says.

    A wrapped dimension of two ranks has two parallel cables between them, each port its own, as
    in SimGrid; with ``double = false`` one, as in a mesh.
    """

    wrap: Annotated[
        bool | tuple[bool, ...],
        doc("Whether dimensions are rings; a list has one per dimension.", True, [True, False]),
    ] = True
    double: Annotated[
        bool, doc("Two cables between the ranks of a wrapped dimension of two.", True)
    ] = True

    def _check(self):
        super()._check()
        if isinstance(self.wrap, tuple) and len(self.wrap) != len(self.dims):
            raise SpecError(
                f"has {len(self.wrap)} values for {len(self.dims)} dimensions",
                where="network.wrap",
                value=list(self.wrap),
                remedy="give true, false, or one of them per dimension",
            )

    @property
    def wraps(self) -> tuple[bool, ...]:
        """See `Grid.wraps`."""
        wrap = self.wrap if isinstance(self.wrap, tuple) else (self.wrap,) * len(self.dims)
        least = 1 if self.double else 2
        return tuple(w and size > least for w, size in zip(wrap, self.dims, strict=True))


class Mesh(Grid, frozen=True, tag="mesh"):
    """A grid with edges: a torus without wrap."""

    @property
    def wraps(self) -> tuple[bool, ...]:
        """Never; see `Grid.wraps`."""
        return (False,) * len(self.dims)


def _per_dimension(
    values: RatesPerPort | SecondsPerPort | None, dims: tuple[int, ...], where: str
) -> tuple[float, ...]:
    if values is None:
        return ()
    if values.is_list and len(values) != len(dims):
        raise SpecError(
            f"has {len(values)} values for {len(dims)} dimensions",
            where=where,
            remedy="give one value for all dimensions, or one per dimension",
        )
    return values.spread(len(dims), where)
