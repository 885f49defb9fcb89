"""From a `[traffic]` section and a network to flows with their routes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.collective.schedule import Phase, Route, route
from mrcjax.network import Wiring, refuse_unroutable
from mrcjax.network.graph import GraphFabric
from mrcjax.network.graph_links import links_of
from mrcjax.network.links import Network
from mrcjax.spec import Graph, Record, SpecError, Traffic, node_name
from mrcjax.units import Bytes, Seconds

MOST_ITEMS = 2**24  # sends x paths x links of a path, that one run may write out


@dataclass(frozen=True)
class Flows:
    """Flows in NumPy, (flows,) each unless said.

    src, dst: ranks. size_bytes. start_s: earliest start. after: (pairs, 2) int, a flow and one
    whose arrival it waits for. delay_s: from the last such arrival to the start. routes: (flows,
    paths, hops) int, -1 = no link. weights: (flows, paths) share on each path. order: (flows,) int,
    flows so that each comes behind those it waits for.
    """

    src: np.ndarray
    dst: np.ndarray
    size_bytes: np.ndarray
    start_s: np.ndarray
    after: np.ndarray
    delay_s: np.ndarray
    routes: np.ndarray
    weights: np.ndarray
    order: np.ndarray

    def firsts(self) -> list[np.ndarray]:
        """The flows that each flow waits for, by flow."""
        count = np.bincount(self.after[:, 0], minlength=len(self.src))
        by_flow = self.after[np.argsort(self.after[:, 0], kind="stable"), 1]
        return np.split(by_flow, np.cumsum(count)[:-1])


def build(spec: Traffic, network_spec, wiring: Wiring) -> Flows:
    """Lay out the flows; raises SpecError for what the file or the network cannot do.

    A flow whose route is not given goes in equal parts over all channels of its rank (one per port
    unless `network.channels` says otherwise), each by the path a send of that channel would take.
    """
    network = wiring.network
    rows = spec.records() if spec.kind == "file" else []
    src, dst, size = _pattern(spec, wiring) if not rows else _of_file(rows, network.ranks)
    lanes = network_spec.channels or (network.ports if network.relay is None else 1)
    given = _given(rows, src, dst, wiring, network_spec)
    wanted = np.array([f not in given for f in range(len(src))], bool)
    refuse_unroutable(wiring, src[wanted], dst[wanted])
    routes, weights = _routes(network, src[wanted], dst[wanted], lanes, len(src))
    routes, weights = _with_given(routes, weights, wanted, given)
    start, delay = (
        np.array([float(row.quantity(Seconds, key) or 0) for row in rows] or np.zeros(len(src)))
        for key in ("start", "delay")
    )
    after = _after(rows)
    for flow, row in enumerate(rows):
        if row.values.get("delay") and not (after[:, 0] == flow).any():
            raise row.error("delay", "has no effect without after", "use start for a time")
    order = _order(rows, after, len(src))
    return Flows(src, dst, size, start, after, delay, routes, weights, order)


def _pattern(spec: Traffic, wiring: Wiring) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ranks = wiring.network.ranks
    everyone = np.arange(ranks)
    if spec.kind == "permutation":
        src, dst = everyone, np.random.default_rng(spec.seed).permutation(ranks)
    elif spec.kind == "incast":
        senders = ranks - 1 if spec.senders is None else spec.senders
        src = (spec.to + 1 + np.arange(senders)) % ranks
        dst = np.full(senders, spec.to)
    elif spec.kind == "all_to_all":
        if ranks * (ranks - 1) > MOST_ITEMS:
            raise _too_many(ranks * (ranks - 1), 1)
        src = np.repeat(everyone, ranks - 1)
        dst = (src + 1 + np.tile(np.arange(ranks - 1), ranks)) % ranks
    else:
        src, dst = _neighbours(spec, wiring)
    moves = src != dst  # a rank that a permutation leaves where it is sends nothing
    size = 0.0 if spec.size is None else float(spec.size)
    return src[moves], dst[moves], np.full(moves.sum(), size)


def _neighbours(spec: Traffic, wiring: Wiring) -> tuple[np.ndarray, np.ndarray]:
    """Ranks a stride apart; without strides those that a link joins, if any are."""
    joins = (wiring.sender >= 0) & (wiring.receiver >= 0)
    if spec.strides is None and joins.any():
        pairs = np.stack([wiring.sender[joins], wiring.receiver[joins]])
        src, dst = np.unique(pairs, axis=1)  # parallel cables count once
        return src, dst
    strides = spec.strides or (1, -1)
    src = np.tile(np.arange(wiring.network.ranks), len(strides))
    return src, (src + np.repeat(strides, wiring.network.ranks)) % wiring.network.ranks


def _of_file(rows: list[Record], ranks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.array([[_rank(row, key, ranks) for key in ("src", "dst")] for row in rows])
    for row, (src, dst) in zip(rows, ends, strict=True):
        if src == dst:
            raise row.error("dst", f"is src too: rank {src} sends to itself", "take the send out")
    return ends[:, 0], ends[:, 1], np.array([_size(row) for row in rows])


def _rank(row: Record, key: str, ranks: int) -> int:
    text = node_name(row.values[key]).removeprefix("rank ")
    if not text.isdecimal() or int(text) >= ranks:
        raise row.error(key, "must be a rank", f"ranks count from 0 to {ranks - 1}")
    return int(text)


def _size(row: Record) -> float:
    """Bytes as a plain number, which the column's name is the unit of, or a size with its unit."""
    text = row.values["bytes"]
    try:
        size = float(text)
    except ValueError:
        return float(row.quantity(Bytes, "bytes"))
    if not 0 <= size < np.inf:
        raise row.error("bytes", "must be finite and not negative", "write for example 1000000")
    return size


def _after(rows: list[Record]) -> np.ndarray:
    """Pairs (flow, flow that it waits for), (pairs, 2)."""
    ids = [row.values.get("id") or str(number) for number, row in enumerate(rows)]
    place = {name: number for number, name in enumerate(ids)}
    if len(place) != len(ids):
        twice = next(i for i, name in enumerate(ids) if place[name] != i)
        raise rows[twice].error("id", f'"{ids[twice]}" names two sends', "ids must differ")
    pairs = []
    for number, row in enumerate(rows):
        for name in filter(None, map(str.strip, row.values.get("after", "").split(";"))):
            if name not in place:
                raise row.error("after", f'names no send: "{name}"', "use ids, or places from 0 on")
            pairs.append((number, place[name]))
    return np.array(sorted(set(pairs)), np.int64).reshape(-1, 2)


def _order(rows: list[Record], after: np.ndarray, flows: int) -> np.ndarray:
    """Flows so that each comes behind those it waits for; SpecError where they go round."""
    waits = np.bincount(after[:, 0], minlength=flows)
    followers: list[list[int]] = [[] for _ in range(flows)]
    for flow, first in after:
        followers[first].append(flow)
    order = [int(flow) for flow in np.flatnonzero(waits == 0)]
    for flow in order:
        for follower in followers[flow]:
            waits[follower] -= 1
            if waits[follower] == 0:
                order.append(follower)
    if len(order) < flows:
        stuck = next(i for i in range(flows) if waits[i] > 0)
        raise rows[stuck].error("after", "waits for itself in the end", "break the circle")
    return np.array(order, np.int64)


def _given(
    rows: list[Record], src: np.ndarray, dst: np.ndarray, wiring: Wiring, network_spec
) -> dict[int, list[int]]:
    """Flow -> links of its given route."""
    if not any(row.values.get("route") for row in rows):
        return {}
    network = wiring.network
    links = {wiring.link_name(link): link for link in range(network.num_links)}
    look_up = _graph_steps(links, network_spec, network) if network.by_table else links.get
    given = {}
    for flow, row in enumerate(rows):
        words = [word.strip() for word in row.values.get("route", "").split(";") if word.strip()]
        if words:
            given[flow] = _route_of(row, words, int(src[flow]), int(dst[flow]), wiring, look_up)
    return given


def _route_of(
    row: Record, words: list[str], src: int, dst: int, wiring: Wiring, look_up: Callable
) -> list[int]:
    """Links of a route given as link names or, on a graph, as node names, ends included."""
    fabric, found = wiring.network.fabric, []
    if isinstance(fabric, GraphFabric):
        tail, head = np.asarray(fabric.tail), np.asarray(fabric.head)
        here = src
        steps = words
        nodes = [look_up(word) for word in map(node_name, words)]
        if all(isinstance(node, Node) for node in nodes):
            if [int(n) for n in (nodes[0], nodes[-1])] != [src, dst]:
                raise row.error("route", f"must lead from rank {src} to rank {dst}", "name both")
            steps = words[1:]
        for word in steps:
            link = look_up(node_name(word), here)
            if link is None or tail[link] != here:
                raise row.error("route", f'cannot go on with "{word}"', "name the links in order")
            found.append(int(link))
            here = int(head[link])
        is_there = here == dst
    else:
        for word in words:
            if look_up(word) is None:
                example = wiring.link_name(0)
                raise row.error("route", f'"{word}" is no link', f'one is called "{example}"')
            found.append(look_up(word))
        is_there = (wiring.sender[found[0]], wiring.receiver[found[-1]]) == (src, dst)
    if not is_there:
        raise row.error("route", f"must lead from rank {src} to rank {dst}", "mend its ends")
    return found


class Node(int):
    """Number of a node of a graph, where links are numbers too."""


def _graph_steps(links: dict[str, int], network_spec: Graph, network: Network) -> Callable:
    """A function: name -> Node, or None; (name, node we are at) -> link, or None."""
    fabric = network.fabric
    assert isinstance(fabric, GraphFabric)
    wired = links_of(network_spec)
    nodes = {name: Node(number) for number, name in enumerate(wired.nodes)}
    cables: dict[tuple[str, int], int] = {}
    between: dict[tuple[int, int], int] = {}
    rows = network_spec.rows()
    for link, (cable, tail, head) in enumerate(
        zip(wired.cable, wired.tail, wired.head, strict=True)
    ):
        between.setdefault((int(tail), int(head)), link)
        if rows[cable].name is not None:
            cables[rows[cable].name, int(tail)] = link

    def look_up(name: str, here: int | None = None):
        if here is None:
            return nodes.get(name)
        if name in links:
            return links[name]
        if (name, here) in cables:
            return cables[name, here]
        return between.get((here, nodes[name])) if name in nodes else None

    return look_up


def _too_many(sends: int, items: int) -> SpecError:
    return SpecError(
        f"would be {sends:,} sends over {items:,} links of paths each, {sends * items:,} in all; "
        f"the most is {MOST_ITEMS:,}",
        where="[traffic]",
        remedy="use fewer ranks, or fewer network.paths or network.channels",
    )


@partial(jax.jit, static_argnames="phase")
def _route(network: Network, phase: Phase, src: jax.Array, dst: jax.Array) -> Route:
    return route(network, phase, src, dst)


def _routes(
    network: Network, src: np.ndarray, dst: np.ndarray, lanes: int, flows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Links and shares of flows over all lanes, (flows, paths, hops) and (flows, paths)."""
    if not len(src):
        return np.full((0, 1, 1), -1, np.int32), np.ones((0, 1))
    phase = Phase("flows", "mixed", lanes, 1, (1, network.ranks, 1))
    ends = [jnp.broadcast_to(jnp.asarray(x, jnp.int32), (lanes, len(src))) for x in (src, dst)]
    shapes = jax.eval_shape(partial(_route, network, phase), *ends).hops
    items = len(shapes) * lanes * max(h.shape[0] if len(h.shape) > 2 else 1 for h in shapes)
    if flows * items > MOST_ITEMS:
        raise _too_many(flows, items)
    found = _route(network, phase, *ends)
    routes, shares = laid_out(found, network.no_link, (lanes, len(src)))
    # (paths, lanes, flows, hops) -> (flows, paths, hops)
    routes = np.moveaxis(routes, 2, 0).reshape(len(src), -1, routes.shape[-1])
    return routes, np.moveaxis(shares, 2, 0).reshape(len(src), -1) / lanes


def laid_out(found: Route, no_link: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """A route as arrays: links (paths, *shape, hops), -1 = none, and shares (paths, *shape)."""
    hops = [np.asarray(hop) for hop in found.hops]
    paths = max(hop.shape[0] if hop.ndim > len(shape) else 1 for hop in hops)
    links = np.stack([np.broadcast_to(hop, (paths, *shape)) for hop in hops], axis=-1)
    links = np.where(links == no_link, -1, links).astype(np.int32)
    shares = np.full((paths, *shape), 1 / paths) if found.shares is None else found.shares
    return links, np.broadcast_to(np.asarray(shares, np.float64), (paths, *shape))


def _with_given(
    routes: np.ndarray, weights: np.ndarray, wanted: np.ndarray, given: dict[int, list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Put given routes between those that were looked up."""
    if not given:
        return routes, weights
    hops = max(routes.shape[2], *(len(links) for links in given.values()))
    whole = np.full((len(wanted), routes.shape[1], hops), -1, np.int32)
    shares = np.zeros((len(wanted), routes.shape[1]))
    whole[wanted, :, : routes.shape[2]] = routes
    shares[wanted] = weights
    for flow, links in given.items():
        whole[flow, 0, : len(links)] = links
        shares[flow, 0] = 1.0
    return whole, shares
