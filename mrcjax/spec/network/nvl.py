"""Scale-up domains larger than a server: NVL72 and what may follow it."""

from typing import Annotated, ClassVar

import msgspec

from mrcjax import hardware
from mrcjax.spec.fields import Count, doc
from mrcjax.spec.network.fat_tree import FatTree
from mrcjax.units import SpecError


class Nvl(FatTree, frozen=True, kw_only=True, tag="nvl"):
    """Domains of GPUs on planes of NVSwitch; several are joined by a fat tree.

    A domain of all ranks needs no tree, and no ``link``. Domains beyond the ports of one switch
    are a what-if: each plane is then a non-blocking tree of such switches.
    """

    scale_up_link: ClassVar[str] = "nvlink5"  # where the file names none
    scale_up_switch: ClassVar[str] = "nvswitch4"

    node_size: Annotated[Count, doc("GPUs (ranks) per scale-up domain.", 72)] = msgspec.field(
        default=72, name="domain"
    )
    radix: Annotated[Count, doc("Ports of a switch between domains; even.", 64)] = 64

    def _check(self):
        if self.node_size == 1:
            raise SpecError(
                "must be 2 or more",
                where="network.domain",
                value=1,
                remedy='without domains use kind = "fat_tree"',
            )
        if self.is_one_domain and self.link is None and self.link_rate is None:
            return
        super()._check()

    @property
    def is_one_domain(self) -> bool:
        """Whether all ranks are in one domain."""
        return self.ranks <= self.node_size

    @property
    def ports(self) -> int:
        """Network adapters of a rank; none where no link between domains is given."""
        return 0 if self.link is None and self.link_rate is None else self.nics

    @property
    def port_rates(self) -> tuple[float, ...]:
        """Rate of each adapter of a rank, bytes/s, before goodput."""
        return super().port_rates if self.ports else ()

    @property
    def node_rates(self) -> tuple[float, ...]:
        """Rate of a rank on each plane of its domain, bytes/s before goodput."""
        if self.node is None and self.node_rate is None:
            return (hardware.link(self.scale_up_link).rate_bytes_per_s,)
        return super().node_rates

    @property
    def domain_tiers(self) -> int:
        """Tiers of switches in a plane of a domain."""
        radix = hardware.scale_up_switch(self.scale_up_switch).radix
        tiers, most = 1, radix
        while most < min(self.node_size, self.ranks):
            tiers, most = tiers + 1, most * (radix // 2)
        return tiers

    @property
    def node_path_latency(self) -> float:
        """Latency of a rank's way up to the top of its domain, seconds: one link per tier."""
        return float(self.node_latency) * self.domain_tiers
