"""Switches in a grid, joined with all others of their row in every dimension."""

from typing import Annotated, Literal

from msgspec import Meta

from mrcjax.spec.fields import Count, doc
from mrcjax.spec.network.base import Linked
from mrcjax.units import SpecError


class HyperX(Linked, frozen=True, tag="hyperx"):
    """Switches that differ in one coordinate are joined (Ahn et al., SC 2009)."""

    dims: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...],
        doc("Switches in each dimension; the first varies fastest.", [8, 8]),
    ]
    hosts_per_switch: Annotated[Count, doc("Ranks on a switch.", 8)]
    cables: Annotated[Count, doc("Parallel cables between two joined switches.", 1)] = 1
    routing: Annotated[
        Literal["any_order", "dimension_order"],
        doc("In which order a packet corrects the coordinates in which it is off.", "any_order"),
    ] = "any_order"

    def _check(self):
        super()._check()
        if not self.dims:
            raise SpecError(
                "must not be an empty list",
                where="network.dims",
                value=[],
                remedy="write the number of switches in each dimension, such as [8, 8]",
            )
