"""Counts the switches and cables of each family from its radix; closed forms, no arrays.

The formulas are those of Al-Fares et al., SIGCOMM 2008 (fat tree), Kim et al., ISCA 2008
(dragonfly) and of the multi-plane Clos of the MRC paper (arXiv:2605.04333, figure 1).
"""

from dataclasses import dataclass

from mrcjax.spec import SpecError


@dataclass(frozen=True)
class ClosSizes:
    """One or more equal planes of a folded Clos.

    A plane has `pods` pods (one in a two-tier tree) of `leaves_per_pod` leaves; a leaf has
    `hosts_per_leaf` ports down and `uplinks` up. In two tiers the uplinks end at `spines`
    switches; in three at `aggs` switches per pod, each with `agg_uplinks` to
    `cores_per_agg` cores. `host_ports` is the number of used host ports of a plane.
    """

    tiers: int
    planes: int
    radix: int
    host_ports: int
    hosts_per_leaf: int
    uplinks: int
    pods: int
    leaves_per_pod: int
    spines: int
    aggs: int
    agg_uplinks: int
    cores_per_agg: int

    @property
    def leaves(self) -> int:
        """Leaves of one plane that hold a host."""
        return -(-self.host_ports // self.hosts_per_leaf)

    @property
    def switches(self) -> dict[str, int]:
        """Switches by tier, over all planes."""
        if self.tiers == 2:
            per_plane = {"leaf": self.leaves, "spine": self.spines}
        else:
            per_plane = {
                "leaf": self.leaves,
                "aggregation": self.pods * self.aggs,
                "core": self.aggs * self.cores_per_agg,
            }
        return {tier: count * self.planes for tier, count in per_plane.items() if count}

    @property
    def host_cables(self) -> int:
        """Cables from a NIC port to a leaf, over all planes."""
        return self.planes * self.host_ports

    @property
    def switch_cables(self) -> int:
        """Cables between switches, over all planes; a tree of one leaf needs none."""
        if self.spines == 0 and self.aggs == 0:
            return 0
        upper = self.pods * self.aggs * self.agg_uplinks if self.cores_per_agg else 0
        return self.planes * (self.leaves * self.uplinks + upper)


def clos(
    *,
    where: str,
    ranks: int,
    tiers: int,
    planes: int,
    ports_per_plane: int,
    radix: int,
    oversubscription: tuple[float, ...],
) -> ClosSizes:
    """Size `planes` equal folded Clos networks for `ranks` ranks.

    `oversubscription[t]` is ports down over ports up of a switch of tier t.
    Raises SpecError where the tree cannot hold the ranks, with the sizes that it can.
    """
    down, up = split(radix, oversubscription[0], where)
    ports = ranks * ports_per_plane
    if tiers == 2:
        largest = radix * down
        _check_fits(where, ranks, largest // ports_per_plane, radix, tiers)
        leaves = -(-ports // down)
        spines = _tops(leaves, up, radix) if leaves > 1 else 0
        return ClosSizes(2, planes, radix, ports, down, up, 1, leaves, spines, 0, 0, 0)
    agg_down, agg_up = split(radix, oversubscription[1], where)
    leaves_per_pod = agg_down
    aggs = up
    largest = radix * leaves_per_pod * down
    _check_fits(where, ranks, largest // ports_per_plane, radix, tiers)
    leaves = -(-ports // down)
    pods = -(-leaves // leaves_per_pod)
    if leaves == 1:
        return ClosSizes(3, planes, radix, ports, down, up, 1, 1, 0, 0, 0, 0)
    cores_per_agg = _tops(pods, agg_up, radix) if pods > 1 else 0
    agg_uplinks = agg_up if pods > 1 else 0
    return ClosSizes(
        3, planes, radix, ports, down, up, pods, leaves_per_pod, 0, aggs, agg_uplinks, cores_per_agg
    )


def _tops(switches: int, uplinks: int, radix: int) -> int:
    """Fewest upper switches for cable j of each lower switch to end at number j mod tops.

    A remainder of uplinks / tops falls on the same upper switches from everywhere, so the
    quotient of all ports may be one or a few too small.
    """
    tops = -(-switches * uplinks // radix)
    while switches * -(-uplinks // tops) > radix:
        tops += 1
    return tops


def split(radix: int, oversubscription: float, where: str) -> tuple[int, int]:
    """Ports down and up of a switch; SpecError where one of them would be none."""
    up = round(radix / (1 + oversubscription))
    if up < 1 or radix - up < 1:
        raise SpecError(
            f"{where}.radix: {radix} ports cannot be split {oversubscription:g}:1 into ports down "
            "and up; give a larger radix or a smaller oversubscription"
        )
    return radix - up, up


def _check_fits(where: str, ranks: int, largest: int, radix: int, tiers: int) -> None:
    if ranks > largest:
        more = ", or note that three tiers hold more" if tiers == 2 else ""
        raise SpecError(
            f"{where}.ranks: {ranks} does not fit: {tiers} tiers of {radix}-port switches hold at "
            f"most {largest} ranks; use ranks <= {largest} or a larger {where}.radix{more}"
        )


@dataclass(frozen=True)
class DragonflySizes:
    """`groups` groups of `routers` routers, each with `hosts` ranks and `global_ports` ports.

    `global_cables[o - 1]` is the number of parallel cables from any group i to group i + o.
    """

    hosts: int
    routers: int
    global_ports: int
    groups: int
    ranks: int
    global_cables: tuple[int, ...]

    @property
    def radix(self) -> int:
        """Ports a router needs."""
        return self.hosts + self.routers - 1 + self.global_ports

    @property
    def switches(self) -> dict[str, int]:
        """Routers by tier."""
        return {"router": self.groups * self.routers}

    @property
    def host_cables(self) -> int:
        """Cables from NIC to router."""
        return self.ranks

    @property
    def local_cables(self) -> int:
        """Cables inside groups."""
        return self.groups * self.routers * (self.routers - 1) // 2

    @property
    def switch_cables_global(self) -> int:
        """Cables between groups."""
        return self.groups * sum(self.global_cables) // 2


def dragonfly(
    *, where: str, ranks: int, hosts: int, routers: int, global_ports: int, groups: int
) -> DragonflySizes:
    """Size a dragonfly; surplus global ports become parallel cables, spread evenly.

    Raises SpecError where the groups cannot be joined pairwise or the ranks do not fit.
    """
    most_groups = routers * global_ports + 1
    if groups > most_groups:
        raise SpecError(
            f"{where}.groups: {groups} groups cannot be joined pairwise: a group has {routers} x "
            f"{global_ports} = {most_groups - 1} global ports; use at most {most_groups} groups"
        )
    largest = hosts * routers * groups
    if ranks > largest:
        need = -(-ranks // (hosts * routers))
        remedy = f"{where}.groups = {need}" if need <= most_groups else "larger groups"
        raise SpecError(
            f"{where}.ranks: {ranks} does not fit: {groups} groups of {routers} routers with "
            f"{hosts} hosts hold at most {largest} ranks; use ranks <= {largest} or {remedy}"
        )
    return DragonflySizes(
        hosts, routers, global_ports, groups, ranks, _cables(routers * global_ports, groups)
    )


def _cables(ports: int, groups: int) -> tuple[int, ...]:
    """Cables per group offset 1..groups-1: even, and the same for o and groups - o.

    An odd remainder goes to the offset that is its own opposite, or stays unused.
    """
    if groups == 1:
        return ()
    base, rest = divmod(ports, groups - 1)
    counts = [base] * (groups - 1)
    for offset in range(1, rest // 2 + 1):
        counts[offset - 1] += 1
        counts[groups - offset - 1] += 1
    if rest % 2 and groups % 2 == 0:
        counts[groups // 2 - 1] += 1
    return tuple(counts)


@dataclass(frozen=True)
class DirectSizes:
    """Direct wiring by coordinates: rank group d joins ranks that differ only in digit d."""

    ranks: int
    reach: tuple[int, ...]

    @property
    def ports(self) -> int:
        """Links per rank."""
        return sum(g - 1 for g in self.reach)

    @property
    def cables(self) -> int:
        """Cables in all."""
        return self.ranks * self.ports // 2


def direct_wiring(*, where: str, ranks: int, reach: tuple[int, ...]) -> DirectSizes:
    """Size direct wiring; raises SpecError unless the group sizes multiply to the ranks."""
    product = 1
    for g in reach:
        product *= g
    if product != ranks:
        raise SpecError(
            f"{where}.reach: {list(reach)} wires {product} ranks, but {where}.ranks is {ranks}; "
            f"give group sizes whose product is {ranks}, or ranks = {product}"
        )
    return DirectSizes(ranks, reach)
