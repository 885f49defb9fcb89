"""Small networks as plain lists: capacity and latency per link, and the path of a send."""

from collections.abc import Callable
from dataclasses import dataclass

from . import Path

PathOf = Callable[[int, int, int], Path]


@dataclass
class Network:
    """Links of a small network; the lists may be edited to make links slow or far."""

    ranks: int
    capacity_bytes_per_s: list[float]
    latency_s: list[float]
    path: PathOf
    """Link ids from (src rank, dst rank, lane)."""


def ports(ranks: int, rails: int, rate: float, latency_s: float) -> Network:
    """Build one crossbar per rail: egress ports first, then ingress ports, [rank][rail] each."""
    num_ports = ranks * rails

    def path(src: int, dst: int, lane: int) -> Path:
        return (src * rails + lane, num_ports + dst * rails + lane)

    return Network(ranks, [rate] * (2 * num_ports), [latency_s] * (2 * num_ports), path)


def private_links(ranks: int, rate: float, latency_s: float) -> Network:
    """Build a link of its own for each ordered pair of ranks."""

    def path(src: int, dst: int, lane: int) -> Path:
        return (src * ranks + dst,)

    return Network(ranks, [rate] * ranks**2, [latency_s] * ranks**2, path)


def ring_edges(ranks: int, rate: float, latency_s: float) -> Network:
    """Build the directed ring: link i goes from rank i to rank i + 1."""

    def path(src: int, dst: int, lane: int) -> Path:
        if dst != (src + 1) % ranks:
            raise ValueError(f"the ring has no link from rank {src} to rank {dst}")
        return (src,)

    return Network(ranks, [rate] * ranks, [latency_s] * ranks, path)


def trunked(ranks: int, rate: float, trunk_rate: float, latency_s: float) -> Network:
    """Build ports around one trunk that every path crosses; the trunk is the last link."""
    trunk = 2 * ranks

    def path(src: int, dst: int, lane: int) -> Path:
        return (src, trunk, ranks + dst)

    return Network(ranks, [rate] * trunk + [trunk_rate], [latency_s] * (trunk + 1), path)


def nodes_on_rails(
    nodes: int, node_size: int, rails: int, node_rate: float, rail_rate: float, latency_s: float
) -> Network:
    """Build a crossbar per node, reached on lane `rails`, in front of one crossbar per rail."""
    ranks = nodes * node_size
    between = ports(ranks, rails, rail_rate, latency_s)
    num_rail_links = 2 * ranks * rails

    def path(src: int, dst: int, lane: int) -> Path:
        if lane < rails:
            return between.path(src, dst, lane)
        if src // node_size != dst // node_size:
            raise ValueError(f"ranks {src} and {dst} are in different nodes")
        return (num_rail_links + src, num_rail_links + ranks + dst)

    return Network(
        ranks,
        between.capacity_bytes_per_s + [node_rate] * (2 * ranks),
        between.latency_s + [latency_s] * (2 * ranks),
        path,
    )
