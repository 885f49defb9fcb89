"""From routes to the arrays of the filling: only what two flows can meet on takes part in it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.engine.maxplus import latest
from mrcjax.pytree import pytree


@pytree
class Layout:
    """Entries of every flow, sorted into those on shared links and those on links of its own.

    An entry is a flow on a link, an item one place of a route; several items of one flow on one
    link make one entry, whose weight is their sum.

    links         (shared,) int32         number of each shared link in the network
    link          (flows, entries) int32  place in `links`, or shared where there is none
    entry         (flows, entries) int32  the entry there, or num_entries
    own_link      (flows, owned) int32    links that no other flow takes, by number; 0 where none
    own_entry     (flows, owned) int32    the entry there, or num_entries
    entry_of_item (flows * items,) int32  which entry each item adds to, or num_entries
    """

    links: Any
    link: Any
    entry: Any
    own_link: Any
    own_entry: Any
    entry_of_item: Any


def lay_out(routes: np.ndarray, links: int, owner: np.ndarray | None = None) -> Layout:
    """Sort out routes (flows, paths, hops) that are known, -1 = no link.

    A link that one flow alone takes bounds that flow and nothing else, so it becomes part of the
    flow's own limit. On a fat tree that is most of the links that a permutation uses. owner:
    (flows,) int, flows of one owner never meet (sends of one lane); default all differ.
    """
    flows = routes.shape[0]
    flat = routes.reshape(flows, routes.shape[1] * routes.shape[2])
    flow, column = np.nonzero(flat >= 0)
    link = flat[flow, column].astype(np.int64)
    entry_of_item = np.arange(flow.size)
    is_shared = _is_shared(link, flow if owner is None else owner[flow], links)
    alone = link[~is_shared[link]]
    if routes.shape[1] > 1 or alone.size != np.count_nonzero(np.bincount(alone)):
        keys, entry_of_item = np.unique(flow * links + link, return_inverse=True)
        flow, link = keys // links, keys % links
    entries = flow.size
    every_item = np.full(flat.shape, entries, np.int32)
    every_item[flat >= 0] = entry_of_item.reshape(-1)
    used = np.flatnonzero(is_shared)
    place = np.cumsum(is_shared) - 1
    shared, owned = np.flatnonzero(is_shared[link]), np.flatnonzero(~is_shared[link])
    return Layout(
        links=used.astype(np.int32),
        link=_rows(flow[shared], place[link[shared]], flows, used.size, least=1),
        entry=_rows(flow[shared], shared, flows, entries, least=1),
        own_link=_rows(flow[owned], link[owned], flows, 0),
        own_entry=_rows(flow[owned], owned, flows, entries),
        entry_of_item=every_item.reshape(-1),
    )


def _is_shared(link: np.ndarray, owner: np.ndarray, links: int) -> np.ndarray:
    """Which links have entries of more than one owner, (links,) bool."""
    any_owner = np.zeros(links, owner.dtype)
    any_owner[link] = owner
    is_shared = np.zeros(links, bool)
    is_shared[link[any_owner[link] != owner]] = True
    return is_shared


def _rows(
    flow: np.ndarray, value: np.ndarray, flows: int, blank: int, least: int = 0
) -> np.ndarray:
    """Values, sorted by flow, as rows (flows, most of any flow), filled up with `blank`."""
    count = np.bincount(flow, minlength=flows)
    column = np.arange(flow.size) - np.repeat(np.cumsum(count) - count, count)
    rows = np.full((flows, count.max(initial=least)), blank, np.int32)
    rows[flow, column] = value
    return rows


def lay_out_unknown(routes: jax.Array, links: int) -> Layout:
    """The same for routes that are traced: every item is an entry, every link may be shared."""
    flows = routes.shape[0]
    flat = routes.reshape(flows, routes.shape[1] * routes.shape[2])
    items = jnp.arange(flat.size, dtype=jnp.int32)
    none = jnp.zeros((flows, 0), jnp.int32)
    return Layout(
        links=jnp.arange(links, dtype=jnp.int32),
        link=jnp.where(flat >= 0, flat, links).astype(jnp.int32),
        entry=items.reshape(flat.shape),
        own_link=none,
        own_entry=none,
        entry_of_item=items,
    )


def entry_weights(layout: Layout, item_weight: Any, entries: int) -> Any:
    """Weight of every entry (entries + 1,), the last 0, from that of every item.

    In NumPy where all is known: XLA takes seconds to fold a large constant scatter.
    """
    xp = jnp if isinstance(item_weight, jax.Array) else np
    if xp is np:
        weight = np.bincount(layout.entry_of_item, item_weight, entries + 1)
        return np.where(np.arange(entries + 1) < entries, weight, 0.0).astype(item_weight.dtype)
    weight = jnp.zeros(entries + 1, item_weight.dtype).at[layout.entry_of_item].add(item_weight)
    return weight.at[-1].set(0.0)


def spread(layout: Layout, weight: jax.Array, capacity: jax.Array):
    """Links (flows, entries), their weights, and limits (flows,) of the flows' own links.

    weight: of `entry_weights`, capacity: (all links,). An entry of weight 0 is on no link.
    """
    shared, own = weight[layout.entry], weight[layout.own_entry]
    link = jnp.where(shared > 0, layout.link, layout.links.shape[0])
    if own.shape[1] == 0:
        return link, shared, jnp.full(own.shape[0], jnp.inf, capacity.dtype)
    limits = jnp.where(own > 0, capacity[layout.own_link] / jnp.where(own > 0, own, 1.0), jnp.inf)
    tightest = jnp.argmin(limits, axis=1)[:, None]
    return link, shared, jnp.take_along_axis(limits, tightest, axis=1)[:, 0]


def default_weights(routes: Any, dtype) -> Any:
    """Equal weights (flows, paths) over the paths that have a link; NumPy for NumPy."""
    xp = jnp if isinstance(routes, jax.Array) else np
    is_path = xp.any(routes >= 0, axis=2)
    paths = xp.maximum(xp.sum(is_path, axis=1, keepdims=True), 1)
    return xp.where(is_path, 1.0 / paths, 0.0).astype(dtype)


def item_weights(routes: Any, weights: Any) -> Any:
    """What one unit of rate puts on each place of a route, (flows * items,); NumPy for NumPy."""
    are_known = not any(isinstance(x, jax.Array) for x in (routes, weights))
    xp = np if are_known else jnp
    each = xp.repeat(weights, routes.shape[2], axis=1).reshape(-1)
    return xp.where(routes.reshape(-1) >= 0, each, 0.0)


def path_latency(routes: jax.Array, weights: jax.Array, latency: jax.Array) -> jax.Array:
    """Latency of the longest path in use, (flows,); latency: (links,)."""
    links = latency.shape[0]
    per_link = jnp.append(latency, 0.0)
    of_path = jnp.sum(per_link[jnp.where(routes >= 0, routes, links)], axis=2)
    of_path = jnp.where(weights > 0, of_path, 0.0)
    return latest(of_path.T) if routes.shape[1] else jnp.zeros(routes.shape[0], latency.dtype)


def bytes_of_links(
    routes: jax.Array, item_weight: jax.Array, arrived: jax.Array, links: int
) -> jax.Array:
    """Bytes carried by every link, (links,), from those that arrived of each flow, (flows,)."""
    carried = item_weight * jnp.repeat(arrived, routes.shape[1] * routes.shape[2])
    number = jnp.where(routes >= 0, routes, links).reshape(-1)
    total = jnp.zeros(links + 1, arrived.dtype).at[number].add(carried)[:-1]
    return jax.lax.stop_gradient(total)
