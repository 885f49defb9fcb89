"""The folded Clos of two or three tiers."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from mrcjax.spec.fields import Count, PortCount, doc
from mrcjax.spec.network.base import Linked, LoadBalancing, check_radix, check_steps


class FatTree(Linked, frozen=True, kw_only=True, tag="fat_tree"):
    """A folded Clos of two or three tiers, with oversubscription between tiers."""

    reducing: ClassVar[bool] = True

    radix: Annotated[Count, doc("Ports of a switch; even.", 64)]
    tiers: Annotated[Literal[2, 3], doc("Tiers of switches.", 2)] = 2
    nics: Annotated[PortCount, doc("Network adapters per rank.", 1)] = 1
    load_balancing: Annotated[  # type: ignore[reportIncompatibleVariableOverride]
        LoadBalancing | Literal["d_mod_k"],
        doc(
            "How packets choose among parallel links and paths; d_mod_k: by the receiver's place.",
            "ideal",
        ),
    ] = "ideal"
    oversubscription: Annotated[
        Annotated[float, Meta(ge=1)] | tuple[Annotated[float, Meta(ge=1)], ...],
        doc("Capacity below a tier over capacity above it; a list has one per tier gap.", 1),
    ] = 1.0

    def _check(self):
        super()._check()
        check_radix(self.radix)
        check_steps(self.oversubscription, self.tiers)

    @property
    def oversubscriptions(self) -> tuple[float, ...]:
        """Oversubscription of each gap between tiers, lowest first."""
        steps = self.oversubscription
        return steps if isinstance(steps, tuple) else (float(steps),) * (self.tiers - 1)

    @property
    def ports(self) -> int:
        """Number of network adapters."""
        return self.nics
