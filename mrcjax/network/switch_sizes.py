"""Counts of the networks of equal switches with ranks on each; closed forms, no arrays.

Besta, Hoefler, SC 2014 (Slim Fly); Ahn et al., SC 2009 (HyperX); Singla et al., NSDI 2012
(Jellyfish).
"""

import math
from dataclasses import dataclass

from mrcjax.network.galois import prime_power
from mrcjax.spec import SpecError


@dataclass(frozen=True)
class SwitchSizes:
    """`num_switches` switches, each with `hosts` ports to ranks and `network_ports` to others."""

    ranks: int
    hosts: int
    num_switches: int
    network_ports: int

    @property
    def radix(self) -> int:
        """Ports a switch needs."""
        return self.hosts + self.network_ports

    @property
    def endpoints(self) -> int:
        """Ranks that fit."""
        return self.hosts * self.num_switches

    @property
    def switches(self) -> dict[str, int]:
        """Switches by tier."""
        return {"switch": self.num_switches}

    @property
    def host_cables(self) -> int:
        """Cables from NIC to switch."""
        return self.ranks

    @property
    def switch_cables(self) -> int:
        """Cables between switches."""
        return self.num_switches * self.network_ports // 2


def slim_fly(*, where: str, q: int, hosts: int | None = None, ranks: int | None = None):
    """Size a Slim Fly: 2 q^2 switches with (3 q - d) / 2 ports to others, where q = 4 w + d.

    hosts: None = half the ports to others, rounded up. ranks: None = as many as fit. The counts
    hold for any such q; the graph exists where q is a prime power. Raises SpecError for q of no
    such form and for ranks that do not fit.
    """
    if q < 3 or q % 4 == 2:
        raise SpecError(
            "is not 4 w - 1, 4 w or 4 w + 1 with w >= 1",
            where=f"{where}.q",
            value=q,
            remedy=f"use {_nearest(q)}",
        )
    ports = (3 * q - (q % 4 if q % 4 < 2 else -1)) // 2
    hosts = -(-ports // 2) if hosts is None else hosts
    remedy = "a larger q or more hosts_per_switch"
    return _fitting(where, ranks, hosts, 2 * q * q, ports, remedy)


def check_slim_fly_exists(where: str, q: int) -> None:
    """Refuse q without a finite field."""
    if prime_power(q) is None:
        raise SpecError(
            "is no prime power, so there is no such graph (its counts are those of no network)",
            where=f"{where}.q",
            value=q,
            remedy=f"use {_nearest(q)}",
        )


def _nearest(q: int) -> str:
    """The prime powers on either side of q that a graph exists for."""

    def fits(p: int) -> bool:
        return p >= 3 and p % 4 != 2 and prime_power(p) is not None

    below = next((p for p in range(q - 1, 2, -1) if fits(p)), None)
    above = next(p for p in range(max(q + 1, 3), 2 * q + 8) if fits(p))
    return f"q = {above}" if below is None else f"q = {below} or q = {above}"


def hyperx(
    *, where: str, dims: tuple[int, ...], hosts: int, cables: int = 1, ranks: int | None = None
) -> SwitchSizes:
    """Size a HyperX; ranks: None = as many as fit. Raises SpecError for ranks that do not fit."""
    ports = cables * sum(size - 1 for size in dims)
    remedy = "larger dims or more hosts_per_switch"
    return _fitting(where, ranks, hosts, math.prod(dims), ports, remedy)


def jellyfish(
    *, where: str, switches: int, network_ports: int, hosts: int, ranks: int | None = None
) -> SwitchSizes:
    """Size a random regular graph; ranks: None = as many as fit. Raises SpecError as the others."""
    remedy = "more switches or more hosts_per_switch"
    return _fitting(where, ranks, hosts, switches, network_ports, remedy)


def _fitting(
    where: str, ranks: int | None, hosts: int, switches: int, network_ports: int, remedy: str
) -> SwitchSizes:
    most = switches * hosts
    ranks = most if ranks is None else ranks
    if ranks > most:
        raise SpecError(
            f"does not fit: {switches} switches with {hosts} hosts hold at most {most} ranks",
            where=f"{where}.ranks",
            value=ranks,
            remedy=f"use ranks <= {most}, {remedy}",
        )
    return SwitchSizes(ranks, hosts, switches, network_ports)
