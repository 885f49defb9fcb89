"""Looking at single sends: what an emulation keeps of every round beside its clocks, if asked.

The loops keep clocks only; a watched emulation runs the same rounds, none skipped, as a scan that
puts out what each round did to some ranks and links.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Schedule, owners, peers
from mrcjax.network.links import Network
from mrcjax.pytree import pytree, static

IDLE, SWITCH = -1, -2  # in the place of a peer: nothing is sent; switches reduce and multicast


@pytree
class Watch:
    """What to look at; traced. ranks: (ranks,) int. links: (links,) int."""

    ranks: jax.Array
    links: jax.Array


@pytree
class Seen:
    """Sends of the watched ranks, and what every round put on the watched links.

    All (phases, rounds, ...) for the phases `numbers`, which are alike. Of a send, (lanes, ranks):
    peer (int, see IDLE and SWITCH) and owner of the chunk (int, -1 = of many), bytes, when it
    may begin, when its last byte has left the rank, and when it has arrived (and is reduced) at
    the peer. Of a link, (links,): bytes of the round, and when it is done with them.
    """

    peer: jax.Array
    owner: jax.Array
    bytes: jax.Array
    begin_s: jax.Array
    left_s: jax.Array
    delivered_s: jax.Array
    link_bytes: jax.Array
    link_end_s: jax.Array
    numbers: tuple[int, ...] = static(default=())


def watched_rounds(
    step: Callable[[jax.Array, Any, Any], tuple[Any, Seen]], rounds: int, state: Any, operands: Any
) -> tuple[Any, Seen]:
    """Apply `step(round, state, operands)`, which also says what it saw, for every round."""
    return jax.lax.scan(lambda s, k: step(k, s, operands), state, jnp.arange(rounds))


def look(
    watch: Watch,
    phase: Phase,
    schedule: Schedule,
    network: Network,
    k: jax.Array,
    sends: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    work: jax.Array,
    free: jax.Array,
) -> Seen:
    """Return what round k did.

    sends: (lanes, ranks) each: bytes, when sends may begin (-inf where there is none), when they
    have left, and when what a rank receives on a lane has arrived. work, free: (links + 1,) bytes
    that the round put on the links, and their clocks.
    """
    sent, begin, left, arrival = sends
    dst, active = peers(phase, schedule, network, k)
    owner = dst if phase.table >= 0 else owners(phase, schedule, network, k)
    lane = jnp.arange(arrival.shape[0])[:, None]

    def here(x: jax.Array) -> jax.Array:
        return jnp.broadcast_to(x, arrival.shape)[:, watch.ranks]

    peer = here(dst)
    return Seen(
        peer=jnp.where(here(active & (begin > -jnp.inf)), peer, IDLE),
        owner=here(owner),
        bytes=here(sent),
        begin_s=here(begin),
        left_s=here(left),
        delivered_s=arrival[lane, peer],
        link_bytes=work[watch.links],
        link_end_s=free[watch.links],
    )


def of_phase(seen: Seen, number: int) -> Seen:
    """What was seen of one phase, with its number."""
    return replace(jax.tree.map(lambda x: x[None], seen), numbers=(number,))


def of_alike(seen: Seen, first: int) -> Seen:
    """What a scan over phases saw, which follow each other from number `first`."""
    count = seen.peer.shape[0]
    return replace(seen, numbers=tuple(range(first, first + count)))


def of_periods(seen: Seen, first: int, period: int) -> Seen:
    """What a scan over periods of phases saw; the first of these periods begins at `first`.

    The numbers inside count from the period before: they are `period` too large.
    """
    turns = seen.peer.shape[0]
    numbers = tuple(
        first + turn * period + n - period for turn in range(turns) for n in seen.numbers
    )
    return replace(
        jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), seen),
        numbers=numbers,
    )
