"""Wafer-scale systems in data parallel, on a tree that reduces and broadcasts."""

from typing import Annotated, ClassVar, Literal

from mrcjax import hardware
from mrcjax.spec.fields import doc
from mrcjax.spec.network.base import Linked
from mrcjax.units import SpecError


class Wafer(Linked, frozen=True, kw_only=True, tag="wafer"):
    """Cerebras systems on SwarmX: every rank is a whole wafer, MemoryX is at the top of the tree.

    SwarmX sums gradients on the way up and broadcasts weights on the way down; it takes nothing
    from one wafer to another. What happens on a wafer is not part of it: ``mesh`` emulates one.
    """

    reducing: ClassVar[bool] = True

    fan_out: Annotated[Literal[2, 4], doc("Members of a SwarmX switch.", 4)] = 4
    in_network: Annotated[bool, doc("SwarmX does nothing but reduce and broadcast.", True)] = True

    def _check(self):
        if self.link is not None or self.link_rate is not None:
            super()._check()
        for key, value, usual in (
            ("node_size", self.node_size, 1),
            ("in_network", self.in_network, True),
            ("in_network_owner", self.in_network_owner, False),
            ("load_balancing", self.load_balancing, "ideal"),
        ):
            if value != usual:
                raise SpecError(
                    "has no meaning on a wafer: each is one rank on a tree that reduces",
                    where=f"network.{key}",
                    value=value,
                    remedy=f"leave {key} out",
                )

    @property
    def link_bytes_per_s(self) -> float:
        """Rate of a link, bytes/s, before goodput; where none is given a system's on SwarmX."""
        if self.link is None and self.link_rate is None:
            return hardware.link("swarmx").rate_bytes_per_s
        return super().link_bytes_per_s
