"""Ways around links that are down: other ports of the rank, other NICs of its node, other cables.

Where the ranks have several ports, each on a plane of its own, a send may take any plane whose
links are up from end to end. Where a rank has one port and sits in a node, the others of the node
lend theirs: the data goes to a neighbour inside the node, out by the neighbour's port, in by the
port of the same place in the other node, and from there to the receiver. A choice among cables
by hash is made again until the cables are up.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Route, route
from mrcjax.network.clos import NEXT_WAY
from mrcjax.network.links import Network
from mrcjax.pytree import pytree

TRIES = 64  # of the hash; with half of the cables down one of 2^64 sends finds none


@pytree
class Ends:
    """Where sends leave and enter the network: ranks and port, integer arrays of one shape."""

    src: jax.Array
    dst: jax.Array
    port: jax.Array


@pytree
class Dealt:
    """Chunks that left and entered by each port beyond its own, (ports, ranks) real numbers."""

    out: jax.Array
    into: jax.Array


def none_dealt(network: Network) -> Dealt:
    """Before the first round of a phase; empty where nothing is rerouted."""
    nothing = jnp.zeros((network.ports, network.ranks) if network.reroute else (0, 0))
    return Dealt(nothing, nothing)


def detoured(
    network: Network,
    phase: Phase,
    src: jax.Array,
    dst: jax.Array,
    active: jax.Array,
    dealt: Dealt,
    size: int | jax.Array | None = None,
) -> tuple[Route, Dealt]:
    """`route`, with sends whose own way is down on the ways that are left.

    `network.reroute` = "spread": equal parts on all of them; chunks that `direct` deals whole to
    the ports stay whole and go where fewest went. "neighbour": all on the next port that is up. A
    send that has no way left keeps its own. active: (lanes, ranks) bool, what is sent. dealt: what
    was dealt in the rounds before, and comes back with this round. size: () int, positions of a
    group that are there; None = all.
    """
    if not network.reroute:
        return route(network, phase, src, dst), dealt
    lane = jnp.broadcast_to(jnp.arange(phase.lanes)[:, None], dst.shape)
    own = Ends(jnp.broadcast_to(src, dst.shape), dst, lane % network.ports)
    inside = (
        own.src // network.node_size == own.dst // network.node_size
        if network.node_size > 1
        else jnp.zeros(dst.shape, bool)
    )
    ways = _ways(network, own)
    own_up = _is_up(network, own, lane) | inside
    others_up = _is_up(network, ways, lane[None])
    stays = own_up | ~others_up.any(axis=0)
    is_dealt = network.ports > 1 and phase.per_lane > 0
    if network.reroute == "neighbour":
        index = _nth(others_up, _place(network, own) + 1, jnp.zeros((), jnp.int32))
    elif is_dealt:
        size = phase.layout[1] if size is None else size
        extra = (size - 1) % phase.lanes % network.ports
        index, dealt = _deal(network, phase, own, others_up, active & ~stays, dealt, extra)
    else:
        return _several(network, own, ways, others_up, lane, inside, stays), dealt
    chosen = _where(stays, own, _take(ways, index))
    return _single(network, own, chosen, lane, inside, ~stays, is_dealt), dealt


def _ways(network: Network, own: Ends) -> Ends:
    """All ways of every send: by each port of the rank, or of the node; (ways, lanes, ranks)."""
    size = network.node_size
    if network.ports > 1 or size == 1:
        way = jnp.arange(network.ports)[:, None, None]
        shape = (network.ports, *own.port.shape)
        return Ends(
            jnp.broadcast_to(own.src, shape),
            jnp.broadcast_to(own.dst, shape),
            jnp.broadcast_to(way, shape),
        )
    way = jnp.arange(size)[:, None, None]
    shape = (size, *own.port.shape)
    return Ends(
        own.src // size * size + way,
        own.dst // size * size + way,
        jnp.broadcast_to(own.port, shape),
    )


def _place(network: Network, own: Ends) -> jax.Array:
    """Which of the ways is a send's own."""
    return own.port if network.ports > 1 else own.src % network.node_size


def _is_up(network: Network, ends: Ends, lane: jax.Array) -> jax.Array:
    """Whether both ports and the trunks between them are up, bool of the shape of `ends`."""
    assert network.up is not None
    up = network.up[_egress(network, ends)] & network.up[_ingress(network, ends)]
    if _by_hash(network):
        return up
    shape = ends.port.shape
    lane = jnp.broadcast_to(lane, shape)
    for link in network.fabric.inner(ends.src, ends.dst, ends.port, lane):
        up = up & network.up[link]
    return up


def _egress(network: Network, ends: Ends) -> jax.Array:
    return network.tier("egress").first + ends.port * network.ranks + ends.src


def _ingress(network: Network, ends: Ends) -> jax.Array:
    return network.tier("ingress").first + ends.port * network.ranks + ends.dst


def _by_hash(network: Network) -> bool:
    return any(tier.sharing in ("cable", "spray") for tier in network.tiers)


def _deal(
    network: Network,
    phase: Phase,
    own: Ends,
    up: jax.Array,
    moved: jax.Array,
    dealt: Dealt,
    extra: int | jax.Array,
) -> tuple[jax.Array, Dealt]:
    """Choose the port of every moved chunk: where sender and receiver have had fewest so far.

    Lane by lane: on a lane the receivers are a permutation of the senders, so all ranks choose at
    once. Ports that have one chunk fewer from the start come first. up: (ports, lanes, ranks).
    extra: ports below it have one chunk more.
    """
    num = network.ports
    port = jnp.arange(num)[:, None]
    order = (port - extra) % num
    more = port < extra
    ranks = jnp.arange(network.ranks)
    chosen = []
    for lane in range(phase.lanes):
        dst = own.dst[lane]
        load = jnp.maximum(dealt.out, dealt.into[:, dst]) + more
        cost = jnp.where(up[:, lane], load * num + order, jnp.inf)
        way = jnp.argmin(cost, axis=0)
        one = moved[lane].astype(dealt.out.dtype)
        out = dealt.out.at[way, ranks].add(one)
        dealt = Dealt(out, dealt.into.at[way, dst].add(one))
        chosen.append(way)
    return jnp.stack(chosen), dealt


def _nth(up: jax.Array, first: jax.Array | int, number: jax.Array) -> jax.Array:
    """Index of the number-th way that is up, counted from way `first` and going round.

    up: (ways, ...) bool; first, number: (...) int. 0 where no way is up.
    """
    num = up.shape[0]
    way = jnp.arange(num).reshape(-1, *([1] * (up.ndim - 1)))
    ahead = jnp.cumsum(up, axis=0) - up  # ways that are up before each
    start = (up & (way < first % num)).sum(axis=0)
    count = jnp.maximum(up.sum(axis=0), 1)
    turn = (ahead - start) % count
    return jnp.argmax(up & (turn == number % count), axis=0)


def _take(ways: Ends, index: jax.Array) -> Ends:
    """One way of every send; index: (lanes, ranks), or (paths, lanes, ranks) for several."""
    at = index if index.ndim == 3 else index[None]

    def pick(x: jax.Array) -> jax.Array:
        taken = jnp.take_along_axis(x, at, axis=0)
        return taken if index.ndim == 3 else taken[0]

    return jax.tree.map(pick, ways)


def _where(condition: jax.Array, a: Ends, b: Ends) -> Ends:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _single(
    network: Network, own: Ends, taken: Ends, lane, inside, moved: jax.Array, is_dealt: bool
) -> Route:
    """Every send on one way."""
    hops = _all_hops(network, own, taken, lane, inside)
    hand_over = moved if is_dealt else None
    return Route(hops, moved=hand_over, ports=_num_ports(network))


def _several(
    network: Network, own: Ends, ways: Ends, up: jax.Array, lane, inside, stays: jax.Array
) -> Route:
    """Sends in equal parts on all ways that are up."""
    if any(tier.sharing == "spray" for tier in network.tiers):
        return _sprayed(network, own, ways, up, lane, inside, stays)
    first = jnp.arange(up.shape[0])[:, None, None] == 0
    parts = jnp.where(stays, first, up / jnp.maximum(up.sum(axis=0), 1))
    hops = _all_hops(network, own, _where(stays, own, ways), lane, inside)
    return _parted(network, hops, parts)


def _sprayed(
    network: Network, own: Ends, ways: Ends, up: jax.Array, lane, inside, stays: jax.Array
) -> Route:
    """The paths of a send dealt in turn to the ways that are up; each path hashes for itself."""
    fabric = network.fabric
    num = fabric.paths  # type: ignore[attr-defined]
    count = jnp.clip(up.sum(axis=0), 1, num)
    path = jnp.arange(num)[:, None, None]
    turn = path % count
    nth = jnp.stack([_nth(up, 0, jnp.asarray(i)) for i in range(up.shape[0])])
    taken = _where(stays, own, _take(ways, jnp.take_along_axis(nth, turn, axis=0)))
    alone = replace(network, fabric=replace(fabric, paths=1))  # type: ignore[type-var]
    salt = lane + path * (lane.max() + 1)
    hops = _all_hops(alone, own, taken, salt, inside)
    of_way = num // count + (turn < num % count)
    return _parted(network, hops, jnp.where(stays, 1.0 / num, 1.0 / (count * of_way)))


def _parted(network: Network, hops: tuple[jax.Array, ...], parts: jax.Array) -> Route:
    hops = tuple(jnp.where(parts > 0, hop, network.no_link) for hop in hops)
    return Route(hops, parts, ports=_num_ports(network))


def _num_ports(network: Network) -> int:
    return 3 if network.lends_ports else 1


def _all_hops(network: Network, own: Ends, taken: Ends, lane, inside) -> tuple[jax.Array, ...]:
    """Links from the sender to the receiver by way of the ends taken; see `Route`."""
    none = network.no_link
    shape = taken.port.shape
    inner = _inner(network, taken, jnp.broadcast_to(lane, shape))
    out, into = _egress(network, taken), _ingress(network, taken)
    if network.node_size == 1:
        return (out, *inner, into)
    node_out, node_in = (network.tier(f"node {way}").first for way in ("egress", "ingress"))
    out = jnp.where(inside, node_out + own.src, out)
    into = jnp.where(inside, node_in + own.dst, into)
    inner = tuple(jnp.where(inside, none, link) for link in inner)
    if not network.lends_ports:
        return (out, *inner, into)
    lent = (taken.src != own.src) & ~inside
    borrowed = (taken.dst != own.dst) & ~inside
    return (
        jnp.where(lent, node_out + own.src, none),
        jnp.where(lent, node_in + taken.src, none),
        out,
        *inner,
        into,
        jnp.where(borrowed, node_out + taken.dst, none),
        jnp.where(borrowed, node_in + own.dst, none),
    )


def _inner(network: Network, ends: Ends, lane: jax.Array) -> tuple[jax.Array, ...]:
    """Links between the ports; where a hash chose a cable that is down it is asked again."""

    def ask(salt: jax.Array) -> tuple[jax.Array, ...]:
        links = network.fabric.inner(ends.src, ends.dst, ends.port, lane + salt)
        one_each = ends.port.ndim == 3 and bool(links) and links[0].ndim == 4
        links = tuple(link[0] for link in links) if one_each else links
        return tuple(jnp.asarray(link, jnp.int32) for link in links)

    links = ask(jnp.zeros((), jnp.int32))
    if not links or not _by_hash(network):
        return links
    up = network.up
    assert up is not None
    ports_up = up[_egress(network, ends)] & up[_ingress(network, ends)]

    def broken(links: tuple[jax.Array, ...]) -> jax.Array:
        fine = jnp.ones((), bool)
        for link in links:
            fine = fine & up[link]
        return ports_up & ~fine

    def again(carry):
        tries, links = carry
        bad = broken(links)
        fresh = ask((tries + 1) * NEXT_WAY)
        return tries + 1, tuple(
            jnp.where(bad, new, old) for new, old in zip(fresh, links, strict=True)
        )

    def unsettled(carry):
        return (carry[0] < TRIES) & broken(carry[1]).any()

    return jax.lax.while_loop(unsettled, again, (jnp.zeros((), jnp.int32), links))[1]
