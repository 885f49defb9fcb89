"""Switches wired at random, each with the same number of cables."""

from typing import Annotated

from mrcjax.spec.fields import Count, Index, doc
from mrcjax.spec.network.base import Linked
from mrcjax.units import SpecError


class Jellyfish(Linked, frozen=True, tag="jellyfish"):
    """A random regular graph of switches (Singla et al., NSDI 2012)."""

    switches: Annotated[Count, doc("Switches built.", 64)]
    network_ports: Annotated[Count, doc("Ports of a switch that lead to other switches.", 12)]
    hosts_per_switch: Annotated[Count, doc("Ranks on a switch.", 8)]
    wiring_seed: Annotated[Index, doc("Seed of the random wiring.", 0)] = 0

    def _check(self):
        super()._check()
        if self.network_ports >= self.switches:
            raise SpecError(
                f"must be below network.switches = {self.switches}",
                where="network.network_ports",
                value=self.network_ports,
                remedy="two switches are joined by at most one cable; "
                + (
                    f"use at most {self.switches - 1}" if self.switches > 1 else "use more switches"
                ),
            )
        if self.network_ports == 1 and self.switches > 2:
            raise SpecError(
                f"cannot join network.switches = {self.switches}",
                where="network.network_ports",
                value=1,
                remedy="use at least 2",
            )
        if self.switches * self.network_ports % 2:
            raise SpecError(
                f"leaves a port over with network.switches = {self.switches}",
                where="network.network_ports",
                value=self.network_ports,
                remedy="a cable has two ends; make one of the two numbers even",
            )
