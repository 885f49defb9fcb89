"""Any network: ranks and switches joined by a list of links."""

import functools
import math
import re
from collections import Counter
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, structs

from mrcjax.spec.fields import Count, Index, default, doc, half_microsecond
from mrcjax.spec.network.base import (
    DEFAULT_PATHS,
    LoadBalancing,
    Network,
    check_part,
    check_paths,
    part_rate,
)
from mrcjax.spec.records import Record, read_records
from mrcjax.units import BytesPerSecond, Seconds, SpecError

_RANK = re.compile(r"(?:rank )?(0|[1-9][0-9]{0,8})")
NodeName = Annotated[str, Meta(min_length=1)]


class GraphLink(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"from_": "from"}
):
    """One cable of a graph, or one direction only."""

    from_: Annotated[NodeName | Index, doc("Node at one end.", "rank 0", 0)]
    to: Annotated[NodeName | Index, doc("Node at the other end.", "leaf 1")]
    rate: Annotated[BytesPerSecond | None, doc("Rate of each direction.", "50 GB/s")] = None
    latency: Annotated[Seconds | None, doc("Latency of each direction.", "500 ns")] = None
    name: Annotated[NodeName | None, doc("Name of the cable.", "cable 7")] = None
    directed: Annotated[bool, doc("Only the direction from -> to.", True)] = False

    @property
    def ends(self) -> tuple[str, str]:
        """Both nodes by their full names."""
        return node_name(str(self.from_)), node_name(str(self.to))


class Graph(Network, frozen=True, tag="graph"):
    """Ranks and switches joined by any list of links, from a file or written here.

    The nodes called "0" to "n - 1", or "rank 0" to "rank n - 1", are the ranks; every other name
    is a switch. A link is a full duplex cable unless it is directed; parallel links are kept
    apart. CSV and JSON files have the columns from, to, rate, latency, name, directed.
    """

    ranks: Annotated[Count, doc("Number of ranks; absent: counted from the links.", 4)] = 0
    file: Annotated[NodeName | None, doc("CSV, JSON or GraphML file of links.", "net.csv")] = None
    links: Annotated[
        tuple[GraphLink, ...],
        doc("The links, where there is no file.", [{"from": "0", "to": "leaf", "rate": "50 GB/s"}]),
    ] = ()
    link_rate: Annotated[
        BytesPerSecond | None, doc("Rate of links that give none.", "400 Gbit/s")
    ] = None
    link: Annotated[str | None, doc("Catalogue link of those that give none.", "ethernet_400g")] = (
        None
    )
    latency: Annotated[Seconds, doc("Latency of links that give none.", "500 ns")] = default(
        half_microsecond
    )
    load_balancing: Annotated[
        LoadBalancing, doc("How packets choose among shortest paths.", "ideal")
    ] = "ideal"
    paths: Annotated[Count, doc("Paths sprayed over, with load_balancing = spray.", 256)] = (
        DEFAULT_PATHS
    )
    seed: Annotated[Index, doc("Seed of the random choice of paths.", 0)] = 0

    def _check_nodes(self):
        raise SpecError(
            "does not go with a graph",
            where="network.node_size",
            value=self.node_size,
            remedy="draw the links inside a node as links of the graph, and leave node_size out",
        )

    def _check(self):
        self._refuse_unused()
        check_paths(self.paths, self.load_balancing)
        if (self.file is None) == (not self.links):
            raise SpecError(
                "is missing" if self.file is None else "and network.links both give the links",
                where="network.file",
                remedy='give one of file = "net.csv" and links = [{ from = "0", to = "a" }, ...]',
            )
        if self.link_rate is not None and self.link is not None:
            raise SpecError(
                "and network.link_rate both give the rate",
                where="network.link",
                value=self.link,
                remedy="keep one of the two",
            )
        check_part("network.link", self.link)
        if not self.file:
            _check_links(self, self.links, [f"network.links[{i}]" for i in range(len(self.links))])
        if not self.ranks:
            structs.force_setattr(self, "ranks", count_ranks(self.rows()))

    def _refuse_unused(self):
        for key, value, usual in (
            ("node", self.node, None),
            ("node_rate", self.node_rate, None),
            ("placement", self.placement, "node"),
            ("switch", self.switch, None),
        ):
            if value != usual:
                raise SpecError(
                    "has no effect on a graph",
                    where=f"network.{key}",
                    value=value,
                    remedy=f"leave {key} out",
                )

    def rows(self) -> tuple[GraphLink, ...]:
        """Every link as it was given; reads the file, which may raise SpecError."""
        if self.file is None:
            return self.links
        path = Path(self.file)
        try:
            stamp = path.stat().st_mtime_ns
        except (OSError, ValueError):
            stamp = 0
        links, places = _from_file(path, stamp)
        _check_links(self, links, places)
        return links

    def rate_of(self, link: GraphLink) -> float:
        """Rate of a direction of a link, bytes/s, before goodput."""
        if link.rate is not None:
            return float(link.rate)
        return part_rate("network.link", self.link) if self.link_rate is None else self.link_rate

    def latency_of(self, link: GraphLink) -> float:
        """Latency of a link, seconds."""
        return float(self.latency if link.latency is None else link.latency)

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rates of the cables at the rank that has the least, bytes/s, before goodput."""
        rates: dict[str, list[float]] = {f"rank {rank}": [] for rank in range(self.ranks)}
        for link in self.rows():
            for end in link.ends[: 1 if link.directed else 2]:
                if end in rates:
                    rates[end].append(self.rate_of(link))
        return tuple(min(rates.values(), key=math.fsum))

    @property
    def port_latencies(self) -> tuple[float, ...]:
        """The section's latency for each of `port_rates`."""
        return (float(self.latency),) * len(self.port_rates)


def node_name(name: str) -> str:
    """Give a node its full name: "3" is "rank 3"."""
    match = _RANK.fullmatch(name.strip())
    return f"rank {match.group(1)}" if match else name.strip()


def rank_of(name: str) -> int:
    """Return the rank that a node's name means; -1 for a switch."""
    match = _RANK.fullmatch(name)
    return int(match.group(1)) if match else -1


def count_ranks(links: tuple[GraphLink, ...]) -> int:
    """Count the ranks among the ends of links; SpecError unless they are 0..n-1."""
    found = {rank_of(end) for link in links for end in link.ends} - {-1}
    if not found:
        raise SpecError(
            "name no rank",
            where="network.links",
            remedy='ranks are the nodes called "0" to "n - 1", or "rank 0" to "rank n - 1"',
        )
    missing = next((rank for rank in range(len(found)) if rank not in found), None)
    if missing is not None:
        raise SpecError(
            f"name ranks up to {max(found)}, but not rank {missing}",
            where="network.links",
            remedy=f"ranks count from 0 without a gap; give network.ranks = {max(found) + 1} where "
            "some have no link",
        )
    return len(found)


@functools.lru_cache(maxsize=4)
def _from_file(path: Path, stamp: int) -> tuple[tuple[GraphLink, ...], tuple[str, ...]]:
    del stamp  # a file that changed is read again
    records = read_records(
        path, "network.file", "links", ("from", "to"), ("rate", "latency", "name", "directed")
    )
    return tuple(_link(record) for record in records), tuple(r.place for r in records)


def _link(record: Record) -> GraphLink:
    return GraphLink(
        from_=record.values["from"],
        to=record.values["to"],
        rate=record.quantity(BytesPerSecond, "rate"),
        latency=record.quantity(Seconds, "latency"),
        name=record.values.get("name") or None,
        directed=record.flag("directed"),
    )


def _check_links(graph: Graph, links: tuple[GraphLink, ...], places) -> None:
    names = Counter(link.name for link in links if link.name is not None)
    for link, place in zip(links, places, strict=True):
        one, other = link.ends
        if one == other:
            raise SpecError(
                f'joins "{one}" to itself', where=place, remedy="take it out, or mend an end"
            )
        if link.rate is None and graph.link_rate is None and graph.link is None:
            raise SpecError(
                "has no rate",
                where=place,
                remedy='give it one, or all of them network.link_rate = "50 GB/s"',
            )
        if link.name is not None and names[link.name] > 1:
            raise SpecError(
                "names two links",
                where=f"{place}, name",
                value=link.name,
                remedy="names must differ; leave them out to have them made",
            )
        for end in (one, other):
            if graph.ranks and rank_of(end) >= graph.ranks:
                raise SpecError(
                    f'has "{end}", but network.ranks is {graph.ranks}',
                    where=place,
                    remedy=f"ranks count from 0 to {graph.ranks - 1}; give a switch another name",
                )
