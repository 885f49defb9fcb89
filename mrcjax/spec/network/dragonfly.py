"""Groups of routers, joined by global links."""

from typing import Annotated, Literal

from mrcjax.spec.fields import Count, doc
from mrcjax.spec.network.base import Linked
from mrcjax.units import SpecError


class Dragonfly(Linked, frozen=True, tag="dragonfly"):
    """Groups of fully joined routers, groups joined by global links."""

    hosts_per_router: Annotated[Count, doc("Ranks on a router.", 16)]
    routers_per_group: Annotated[Count, doc("Routers in a group.", 32)]
    global_links_per_router: Annotated[Count, doc("Links to other groups of a router.", 16)]
    groups: Annotated[Count, doc("Groups built.", 2)]
    routing: Annotated[
        Literal["minimal", "valiant", "ugal"],
        doc(
            "Way to another group: minimal, always by a third one, or by a third one where the "
            "cables of the two are full.",
            "minimal",
        ),
    ] = "minimal"

    def _check(self):
        super()._check()
        if self.routing != "minimal" and self.groups < 3:
            raise SpecError(
                f"needs a third group, but network.groups = {self.groups}",
                where="network.routing",
                value=self.routing,
                remedy='use at least 3 groups or routing = "minimal"',
            )
