"""Switches wired as a McKay-Miller-Siran graph: any two are joined over at most one other."""

from typing import Annotated

from mrcjax.spec.fields import Count, doc
from mrcjax.spec.network.base import Linked


class SlimFly(Linked, frozen=True, tag="slim_fly"):
    """2 q^2 switches of diameter 2 (Besta, Hoefler, SC 2014)."""

    q: Annotated[Count, doc("Prime power of the form 4 w - 1, 4 w or 4 w + 1.", 27)]
    hosts_per_switch: Annotated[
        Count | None, doc("Ranks on a switch; absent: half its ports to switches, rounded up.", 21)
    ] = None
