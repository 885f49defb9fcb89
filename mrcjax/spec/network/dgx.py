"""Nodes of GPUs on NVSwitch, every local index on leaves of its own: rail-optimised trees."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from mrcjax import hardware
from mrcjax.spec.fields import Count, doc
from mrcjax.spec.network.base import Linked, check_radix, check_steps
from mrcjax.units import SpecError

Oversubscription = Annotated[float, Meta(ge=1)]


class NodeRails(Linked, frozen=True, kw_only=True):
    """What rail-optimised networks share: one adapter per GPU, a leaf holds one rail."""

    reducing: ClassVar[bool] = True
    scale_up_link: ClassVar[str] = "nvlink4"  # where the file names none
    scale_up_switch: ClassVar[str] = "nvswitch3"

    node_size: Annotated[Count, doc("GPUs (ranks) per node; the last may be partly filled.", 8)] = 8
    radix: Annotated[Count, doc("Ports of a switch between nodes; even.", 64)] = 64
    tiers: Annotated[Literal[2, 3], doc("Tiers of switches between nodes.", 2)] = 2
    oversubscription: Annotated[
        Oversubscription | tuple[Oversubscription, ...],
        doc("Capacity below a tier over capacity above it; a list has one per tier gap.", 1),
    ] = 1.0

    def _check(self):
        super()._check()
        check_radix(self.radix)
        if self.node_size == 1:
            raise SpecError(
                f"must be 2 or more in a {self.kind}",
                where="network.node_size",
                value=1,
                remedy='its nodes are what makes it; without nodes use kind = "fat_tree"',
            )
        if self.placement != "node":
            raise SpecError(
                f"has no effect in a {self.kind}",
                where="network.placement",
                value=self.placement,
                remedy="a leaf holds the ranks of equal index in their nodes; leave placement out",
            )
        check_steps(self.oversubscription, self.tiers)

    @property
    def oversubscriptions(self) -> tuple[float, ...]:
        """Oversubscription of each gap between tiers, lowest first."""
        steps = self.oversubscription
        return steps if isinstance(steps, tuple) else (float(steps),) * (self.tiers - 1)

    @property
    def node_rates(self) -> tuple[float, ...]:
        """Rate of a rank on each plane of its node, bytes/s before goodput."""
        if self.node is None and self.node_rate is None:
            return (hardware.link(self.scale_up_link).rate_bytes_per_s,)
        return super().node_rates

    @property
    def relayed(self) -> bool:
        """Whether what changes rails does so inside a node."""
        return True

    @property
    def joined(self) -> bool:
        """Whether the tops of the tree join the rails."""
        return False


class Dgx(NodeRails, frozen=True, kw_only=True, tag="dgx"):
    """DGX or HGX nodes: NVSwitch inside, a rail-optimised tree of two or three tiers between."""

    cross_rail: Annotated[
        Literal["pxn", "spine"],
        doc(
            "How ranks of unequal index in different nodes meet: through the GPU of the right "
            "rail in the sender's node, or through the spine.",
            "pxn",
        ),
    ] = "pxn"
    spine: Annotated[
        Literal["shared", "rail"],
        doc("Whether the tops of the tree join all rails, or each rail has its own.", "shared"),
    ] = "shared"

    def _check(self):
        super()._check()
        if self.spine == "rail" and self.cross_rail == "spine":
            raise SpecError(
                'does not go with network.spine = "rail", where no spine joins the rails',
                where="network.cross_rail",
                value=self.cross_rail,
                remedy='use cross_rail = "pxn" or spine = "shared"',
            )

    @property
    def relayed(self) -> bool:
        """Whether what changes rails does so inside a node."""
        return self.cross_rail == "pxn"

    @property
    def joined(self) -> bool:
        """Whether the tops of the tree join the rails."""
        return self.spine == "shared"
