"""An all-to-all as classes of alike flows on classes of alike links: never ranks x ranks.

Where all ranks see the same network (torus, direct wiring) flows of equal offset are alike, and so
are the links of a port. In a switched network with evenly shared trunks flows between the same two
switches are alike, and so are the ports under one switch.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from mrcjax.network.clos import ClosFabric
from mrcjax.network.dragonfly import DragonflyFabric
from mrcjax.network.flat_rails import Crossbar
from mrcjax.network.links import Network, Relay, Wiring
from mrcjax.spec import SpecError


@dataclass(frozen=True)
class Quotient:
    """Classes of flows and of links.

    Flow classes are (classes,), link classes (kinds,); one more kind stands for "no link".
    """

    kinds: np.ndarray  # (classes, hops) int, link class of each hop
    loads: np.ndarray  # (classes, hops), flows of the class on one link of that kind
    part: np.ndarray  # (classes,) part of a pair's bytes that one flow carries
    capacity_bytes_per_s: np.ndarray  # (kinds + 1,), infinite for "no link"
    latency_s: np.ndarray  # (classes,) of the way
    kind_of_link: np.ndarray  # (links,) int
    ends: np.ndarray  # (classes, 2) int, sites of senders and receivers
    sites: np.ndarray  # (ports, ranks) int, site of each port of each rank


def all_to_all_classes(
    wiring: Wiring,
    capacity_bytes_per_s: np.ndarray,
    latency_s: np.ndarray,
    flows_of_port: np.ndarray | None,
) -> Quotient:
    """Sort the flows of an all-to-all over all ranks into classes.

    capacity_bytes_per_s, latency_s: (links,), faults applied. flows_of_port: (ports,) peers that
    a rank sends to over each port of a switched network, each pair over one port; None = every
    pair over all ports alike. Raises SpecError where links that should be alike are not.
    """
    relay = wiring.network.relay
    if relay is not None:
        return _relayed(wiring, relay, capacity_bytes_per_s, latency_s)
    return _switched(wiring, capacity_bytes_per_s, latency_s, flows_of_port)


def _relayed(wiring: Wiring, relay: Relay, capacity: np.ndarray, latency: np.ndarray) -> Quotient:
    network = wiring.network
    kinds, hops = relay.loads()
    of_link = np.repeat(np.arange(network.ports), network.ranks)
    capacity, latency = _of_kinds(wiring, of_link, network.ports, capacity, latency)
    classes = len(kinds)
    return Quotient(
        kinds,
        hops,
        np.ones(classes),
        capacity,
        (latency[kinds] * hops).sum(axis=1),
        of_link,
        np.zeros((classes, 2), int),
        np.zeros((1, network.ranks), int),
    )


def _switched(
    wiring: Wiring, capacity: np.ndarray, latency: np.ndarray, flows_of_port: np.ndarray | None
) -> Quotient:
    network = wiring.network
    places = _places(network)
    num_sites = int(places.max()) + 1
    sites = places + num_sites * np.arange(network.ports)[:, None]
    egress, ingress = network.tier("egress"), network.tier("ingress")
    num = num_sites * network.ports
    of_link = np.arange(network.num_links) + 2 * num  # inner links are each their own kind
    of_link[egress.first : egress.first + egress.count] = sites.reshape(-1)
    of_link[ingress.first : ingress.first + ingress.count] = sites.reshape(-1) + num
    capacity, latency = _of_kinds(wiring, of_link, 2 * num + network.num_links, capacity, latency)
    rows = []
    for port in range(network.ports):
        share = 1.0 if flows_of_port is None else flows_of_port[port] / (network.ranks - 1)
        rows.append(_pairs(network, places[port], port, share, num_sites, num))
    ends, kinds, loads = (np.concatenate(part) for part in zip(*rows, strict=True))
    part = 1.0 if flows_of_port is not None else 1 / network.ports
    return Quotient(
        kinds,
        loads,
        np.full(len(kinds), part),
        capacity,
        latency[kinds].sum(axis=1),
        of_link,
        ends,
        sites,
    )


def _pairs(
    network: Network, place: np.ndarray, port: int, share: float, num_sites: int, num: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends, kinds and loads of the flows between all pairs of places on one port."""
    used, first, members = np.unique(place, return_index=True, return_counts=True)
    a, b = (x.reshape(-1) for x in np.meshgrid(*[np.arange(len(used))] * 2, indexing="ij"))
    peers = members[b] - (a == b)  # of one rank at a
    kept = peers > 0
    a, b, peers = a[kept], b[kept], peers[kept]
    src, dst = (jnp.asarray(first[x], jnp.int32) for x in (a, b))
    where = jnp.full(src.shape, port, jnp.int32)
    inner = [np.asarray(hop) for hop in network.fabric.inner(src, dst, where, where)]
    none = 2 * num + network.num_links
    inner = [np.where(hop == network.no_link, none, hop + 2 * num) for hop in inner]
    site_a, site_b = (used[x] + num_sites * port for x in (a, b))
    back = members[a] - (a == b)  # senders at a to one rank at b
    between = np.where(a == b, 0, members[a] * members[b]).astype(float)
    kinds = np.stack([site_a, site_b + num, *inner], axis=1)
    loads = np.stack([peers, back, *[between] * len(inner)], axis=1) * share
    return np.stack([site_a, site_b], axis=1), kinds, np.where(kinds == none, 0.0, loads)


def _places(network: Network) -> np.ndarray:
    """Switch that each port of each rank is on, (ports, ranks) int."""
    fabric, shape = network.fabric, (network.ports, network.ranks)
    if type(fabric) is Crossbar:
        return np.zeros(shape, int)
    if isinstance(fabric, ClosFabric | DragonflyFabric) and fabric.load_balancing == "ideal":
        is_clos = isinstance(fabric, ClosFabric)
        switch = fabric.leaf_of_port if is_clos else fabric.router_of_rank
        return np.broadcast_to(np.asarray(switch, int), shape)
    raise SpecError(
        f"is not known on {network.kind} with hashed paths or of any graph",
        where="engine.aggregate",
        value=True,
        remedy='use load_balancing = "ideal" or "spray", or leave aggregate out',
    )


def _of_kinds(
    wiring: Wiring, kind: np.ndarray, count: int, capacity: np.ndarray, latency: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Capacity and latency of each kind, and of none; (count + 1,) each."""
    first = np.full(count, -1)
    first[kind[::-1]] = np.arange(len(kind))[::-1]
    differs = (capacity != capacity[first[kind]]) | (latency != latency[first[kind]])
    if differs.any():
        odd = int(np.flatnonzero(differs)[0])
        raise SpecError(
            f'takes links for alike of which "{wiring.link_name(odd)}" differs from '
            f'"{wiring.link_name(int(first[kind[odd]]))}"',
            where="engine.aggregate",
            value=True,
            remedy="leave aggregate out, or let the faults hit all links of a kind alike",
        )
    known = first >= 0
    return (
        np.append(np.where(known, capacity[first], 1.0), np.inf),
        np.append(np.where(known, latency[first], 0.0), 0.0),
    )
