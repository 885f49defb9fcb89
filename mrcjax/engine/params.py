"""What goes into an emulation beside the indices, and what comes out."""

from dataclasses import dataclass

import jax

from mrcjax.engine.jitter import Jitter
from mrcjax.engine.watching import Seen
from mrcjax.pytree import pytree


@pytree
class Shares:
    """How every striped send is cut over the lanes, by weights >= 0.

    source       (lanes, ranks)                  weight of a lane at the sender
    destination  (lanes, ranks)                  weight of a lane at the receiver
    table        (rounds, lanes, ranks) or None  weight of each send at its sender; None = 1

    Lane c carries the product of its weights over the sum of the products of all lanes. Nothing
    of size ranks x ranks is needed where source and destination weights are enough.
    """

    source: jax.Array
    destination: jax.Array
    table: jax.Array | None = None


@pytree
class Params:
    """The tunable floats; traced, and any of them may be differentiated.

    capacity_bytes_per_s  (links,)                   capacity of each link, > 0
    latency_s             (links,)                   propagation delay of each link
    late_s                (ranks,)                   when each rank joins
    chunk_bytes           tuple of (lanes, ranks)    chunk of each (lane, owner); (lanes, 1) where
                                                     all ranks' are equal; for a table schedule
                                                     (rounds, lanes, ranks), bytes of each send;
                                                     for switches that reduce a pair of
                                                     (pieces, lanes, ranks or 1), see `engine.trees`
    endpoint_latency_s    ()                         software and NIC, once per message
    reduction_bytes_per_s (), (ranks,) or None       rate of a lane's reducer; None = infinite
    in_network_efficiency () or None                 share of a link's capacity reached while
                                                     switches reduce; None = all
    loss                  (links,) or None           share of the packets on a link that get lost;
                                                     they are sent again over the whole path
    window                () or None                 packets in flight that a loss sends again, too
                                                     (go-back-N); None = selective repeat
    jitter                Jitter or None             random delay of the sends of a rank and round
    shares                Shares or None             how sends are cut over the lanes of a phase
                                                     whose chunk_bytes have one row; None = as
                                                     chunk_bytes says
    """

    capacity_bytes_per_s: jax.Array
    latency_s: jax.Array
    late_s: jax.Array
    chunk_bytes: tuple[jax.Array, ...]
    endpoint_latency_s: jax.Array
    reduction_bytes_per_s: jax.Array | None = None
    in_network_efficiency: jax.Array | None = None
    loss: jax.Array | None = None
    window: jax.Array | None = None
    jitter: Jitter | None = None
    shares: Shares | None = None


@dataclass(frozen=True)
class Config:
    """How to emulate; hashed by value, each new value is a new compilation.

    switching: "cut_through" | "store_and_forward". order: "auto" takes the `share` rule on links
    that many chunks may meet on in rounds of 4,096 sends or more, "exact" never does (trunks
    and sprayed paths are always shared: they are not queues); "arrival" serves single cables in
    the order of arrival in phases whose sends need only their rank's own data. fast_forward: skip
    rounds that provably repeat the one before.
    """

    switching: str = "cut_through"
    order: str = "auto"
    fast_forward: bool = True


@pytree
class Times:
    """The result of one emulation.

    time_s: () completion time. finish_s: (ranks,) when each rank's data has arrived and its sends
    have left. link_bytes: (links,) bytes carried; a constant for differentiation. seen: single
    sends, where some ranks and links were watched.
    """

    time_s: jax.Array
    finish_s: jax.Array
    link_bytes: jax.Array
    seen: tuple[Seen, ...] = ()
