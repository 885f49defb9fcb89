"""Groups of routers, joined by global links."""

from typing import Annotated

from mrcjax.spec.fields import Count, doc
from mrcjax.spec.network.base import Linked


class Dragonfly(Linked, frozen=True, tag="dragonfly"):
    """Groups of fully joined routers, groups joined by global links."""

    hosts_per_router: Annotated[Count, doc("Ranks on a router.", 16)]
    routers_per_group: Annotated[Count, doc("Routers in a group.", 32)]
    global_links_per_router: Annotated[Count, doc("Links to other groups of a router.", 16)]
    groups: Annotated[Count, doc("Groups built.", 2)]
