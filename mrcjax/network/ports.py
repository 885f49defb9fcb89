"""The links at the ranks of a switched network: network ports, and ports into the node."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mrcjax.network.cuts import Cut
from mrcjax.network.links import Fabric, Network, TierBuilder, Wiring
from mrcjax.spec import AnyNetwork


def switched(
    spec: AnyNetwork,
    word: str,
    lay_out: Callable[[TierBuilder], tuple[Any, int]],
    cuts: Callable[[Wiring], Sequence[Cut]],
    rails: str = "",
) -> Wiring:
    """Wire ranks to switches: egress and ingress ports, node ports, then what `lay_out` adds.

    word: what a port is called, "rail", "plane" or "nic". lay_out: appends the links between
    switches and returns the fabric and the number of its cables. cuts: see `Wiring.fabric_cuts`.
    rails: see `Network`.
    """
    builder = TierBuilder()
    _add_ports(spec, word, builder)
    add_node_ports(spec, builder)
    fabric, cables = lay_out(builder)
    if hasattr(fabric, "no_link"):
        fabric = replace(fabric, no_link=builder.num_links)
    return finish(spec, builder, fabric, cables, cuts, rails=rails)


def finish(
    spec: AnyNetwork,
    builder: TierBuilder,
    fabric: Fabric,
    cables: int,
    cuts: Callable[[Wiring], Sequence[Cut]],
    rails: str = "",
) -> Wiring:
    """Close the list of links; a node adds a cable per rank."""
    network = Network(
        fabric=fabric,
        kind=spec.kind,
        ranks=spec.ranks,
        ports=spec.ports,
        node_size=spec.node_size,
        tiers=tuple(builder.tiers),
        node_ports=len(spec.node_rates) or 1,
        rails=rails,
    )
    return builder.wiring(network, cables + (spec.ranks if spec.node_size > 1 else 0), cuts)


def _add_ports(spec: AnyNetwork, word: str, builder: TierBuilder) -> None:
    ranks = spec.ranks
    if spec.ports == 0:
        return
    capacity = np.repeat(np.asarray(spec.port_rates) * spec.goodput, ranks)
    latency = np.repeat(np.asarray(spec.port_latencies), ranks)
    owner = np.tile(np.arange(ranks), spec.ports)
    for way in ("egress", "ingress"):
        builder.add(
            way,
            spec.ports * ranks,
            "port",
            capacity,
            latency,
            lambda i, way=way: f"rank {i % ranks} {way} {word} {i // ranks}",
            **{"sender" if way == "egress" else "receiver": owner},
        )


def add_node_ports(spec: AnyNetwork, builder: TierBuilder) -> None:
    """Append scale-up ports; goodput belongs to the network's links, `node_rate` is what it is."""
    rates, ranks = spec.node_rates, spec.ranks
    if not rates:
        return

    def name(i: int, way: str) -> str:
        plane = f" plane {i // ranks}" if len(rates) > 1 else ""
        return f"rank {i % ranks} node {way}{plane}"

    for way in ("egress", "ingress"):
        owner = np.tile(np.arange(ranks), len(rates))
        builder.add(
            f"node {way}",
            len(rates) * ranks,
            "port",
            np.repeat(rates, ranks),
            spec.node_path_latency,
            lambda i, way=way: name(i, way),
            **{"sender" if way == "egress" else "receiver": owner},
        )


def positions(spec: AnyNetwork, ports_per_plane: int) -> np.ndarray:
    """Place of every host port in its plane, (ports, ranks).

    "node": a node's ranks (and a rank's ports) side by side; "rail": all first ranks of the
    nodes, then all second ranks, so that a leaf holds one local index.
    """
    rank = np.arange(spec.ranks)
    nic = np.arange(ports_per_plane)[:, None]
    if spec.placement == "rail" and spec.node_size > 1:
        local, node = rank % spec.node_size, rank // spec.node_size
        # of a partly filled node the last local indices are missing
        before = np.cumsum([0, *np.bincount(local)])
        place = nic * spec.ranks + before[local] + node
    else:
        place = rank * ports_per_plane + nic
    return np.tile(place, (spec.ports // ports_per_plane, 1))
