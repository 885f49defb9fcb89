"""Which way a phase is taken: chosen from shapes and names alone, before anything is traced."""

from dataclasses import dataclass

from mrcjax.collective.schedule import Phase
from mrcjax.engine.params import Config
from mrcjax.engine.sharing import rule_of_many
from mrcjax.network.links import Network

MOST_SLOTS = 8  # lanes of a port that are ordered by comparing all pairs; more are sorted


@dataclass(frozen=True)
class Plan:
    """Static choices of one phase on one set of ports."""

    phase: Phase
    ports: int
    ranks: int
    per_port: int  # lanes of a port
    rule: str  # of inner hops: "share" | "sort"
    store_and_forward: bool
    masked: bool  # some lanes may be idle
    brief: bool  # arrivals follow from the last ingress end and the latest tail

    @property
    def lanes(self) -> int:
        """Lanes, idle ones that fill up the last port included."""
        return self.per_port * self.ports


def bound_to_ports(phase: Phase, network: Network) -> bool:
    """Whether every lane keeps to its own port and every send to one kind of link."""
    plain = phase.order < 0 and phase.offsets < 0 and phase.table < 0 and phase.tree < 0
    num_ports = network.node_ports if phase.domain == "node" else network.ports
    few = -(-phase.lanes // num_ports) <= MOST_SLOTS
    is_switched = network.relay is None and not network.by_table and not network.reroute
    at_ports = phase.domain == "node" or (phase.domain == "network" and is_switched)
    # what is lent goes over node links too, so all phases share their clocks
    return plain and few and at_ports and not network.lossy and not network.lends_ports


def inner_rule(network: Network, phase: Phase, config: Config) -> str:
    """How chunks share the links between ports; trunks and sprayed paths are never queues."""
    kinds = {tier.sharing for tier in network.tiers} - {"port"}
    if kinds & {"trunk", "spray"}:
        return "share"
    return rule_of_many(phase.lanes * network.ranks, config.order)


def _has_links_alone(network: Network, phase: Phase) -> bool:
    """Whether the lanes of a phase are bound to ports of their own, to the next rank of a line."""
    lines = [line for line in phase.lines if line.size > 1]
    # where some ranks lack a port, as on a mesh, two ranks may have one link for both steps
    complete = network.num_links == network.ports * network.ranks
    return phase.is_along_lines and phase.hops == 1 and complete and len({*lines}) == len(lines)


def outer_rule(network: Network, phase: Phase, config: Config) -> str:
    """How chunks share the first and last links of a phase on the general path.

    On a relayed network all links are such; what takes several ways at once is shared.
    """
    if _has_links_alone(network, phase):
        return "single"
    relay, is_inside = network.relay, phase.domain == "node"
    if relay is not None and relay.splits and not is_inside and not phase.is_along_lines:
        return "share"
    return rule_of_many(phase.lanes * network.ranks, config.order)


def in_arrival_order(network: Network, phase: Phase, config: Config) -> bool:
    """Whether a phase's links serve whoever comes first instead of round after round."""
    return (
        config.order == "arrival"
        and phase.domain == "network"
        and phase.needs == "own"
        and any(tier.sharing == "cable" for tier in network.tiers)
    )
