"""Max-min fair rates by progressive filling, all bottlenecks of a pass at once.

Bertsekas and Gallager, Data Networks, section 6.5.2. The usual filling raises all rates together
and stops at one link after another. But a link whose share is the smallest for every flow on it
that still rises is a bottleneck whatever happens elsewhere, since the shares of the other links
only grow; so all such links freeze their flows in one pass.
"""

import jax
import jax.numpy as jnp

from mrcjax.pytree import pytree, static


@pytree
class Incidence:
    """Which flow loads which link: a flow of rate x loads a link with weight * x.

    link    (flows, entries) int32   0..links-1, or links where a row has fewer entries
    weight  (flows, entries)         above 0; 0 where there is no link
    """

    link: jax.Array
    weight: jax.Array
    links: int = static()


@pytree
class Filling:
    """Rates, and how they came about: all a derivative needs.

    rate    (flows,)         max-min fair rate, 0 for a flow that is not active
    turn    (flows,) int32   pass that froze the flow; 0 = not active
    entry   (flows,) int32   which of its entries froze it; -1 = its own limit
    usage   (flows,)         weights that shared that link's rest
    passes  () int32
    """

    rate: jax.Array
    turn: jax.Array
    entry: jax.Array
    usage: jax.Array
    passes: jax.Array


def same(dtype) -> float:
    """Relative difference up to which two numbers count as one: rounding, and no more."""
    return max(1e-12, 8 * float(jnp.finfo(dtype).eps))


def fair_rates(
    incidence: Incidence, capacity: jax.Array, limit: jax.Array, active: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Rates (flows,) of the active flows, 0 for the others, and the number of passes.

    Args:
        incidence: who loads what.
        capacity: (links,) bytes/s, finite, 0 = down.
        limit: (flows,) bytes/s, bound of each flow's own, by links nobody else uses; inf = none.
        active: (flows,) bool.
    """
    room = _at(jnp.append(capacity, 0.0), incidence.link)

    def advance(carry):
        rate, passes = carry
        level, frozen, _, _ = _freeze(incidence, room, limit, rate)
        return jnp.where(frozen, level, rate), passes + 1

    def rises(carry):
        # every pass freezes a flow, unless a number is not one
        return jnp.any(carry[0] < 0) & (carry[1] <= active.size)

    rates = jnp.where(active, -1.0, 0.0).astype(capacity.dtype)
    rates, passes = jax.lax.while_loop(rises, advance, (rates, jnp.zeros((), jnp.int32)))
    return jnp.where(rates < 0, jnp.nan, rates), passes


def fill(incidence: Incidence, capacity: jax.Array, limit: jax.Array, active: jax.Array) -> Filling:
    """`fair_rates` with what froze each flow; same arguments."""
    room = _at(jnp.append(capacity, 0.0), incidence.link)

    def advance(filling):
        level, frozen, is_neck, usage = _freeze(incidence, room, limit, filling.rate)
        entry = jnp.argmax(is_neck, axis=1).astype(jnp.int32)
        entry = jnp.where(jnp.any(is_neck, axis=1), entry, -1)
        shared = jnp.take_along_axis(usage, jnp.maximum(entry, 0)[:, None], axis=1)[:, 0]
        return Filling(
            rate=jnp.where(frozen, level, filling.rate),
            turn=jnp.where(frozen, filling.passes + 1, filling.turn),
            entry=jnp.where(frozen, entry, filling.entry),
            usage=jnp.where(frozen & (entry >= 0), shared, filling.usage),
            passes=filling.passes + 1,
        )

    flows = active.shape
    start = Filling(
        rate=jnp.where(active, -1.0, 0.0).astype(capacity.dtype),
        turn=jnp.zeros(flows, jnp.int32),
        entry=jnp.full(flows, -1, jnp.int32),
        usage=jnp.ones(flows, capacity.dtype),
        passes=jnp.zeros((), jnp.int32),
    )
    return jax.lax.while_loop(
        lambda f: jnp.any(f.rate < 0) & (f.passes <= active.size), advance, start
    )


def _freeze(incidence: Incidence, capacity: jax.Array, limit: jax.Array, rate: jax.Array):
    """One pass. A negative rate still rises; sums are made afresh, so that no error adds up.

    capacity: (flows, entries), of the link of each entry. Returns the level of each flow, which
    flows freeze at it, at which of their entries, and the usage of the links there.
    """
    links, weight = incidence.links, incidence.weight
    rises = (rate < 0)[:, None]
    # a flow either asks for a share or has taken its own, so that one scatter makes both sums
    asks_or_takes = jnp.where(rises, weight, weight * rate[:, None])
    place = incidence.link + jnp.where(rises, 0, links + 1)
    sums = jnp.zeros(2 * (links + 1), rate.dtype)
    sums = sums.at[place].add(asks_or_takes, mode="promise_in_bounds")
    usage, load = _at(sums, incidence.link), _at(sums, incidence.link + links + 1)
    is_asked = (usage > 0) & (incidence.link < links)
    rest = jnp.maximum(capacity - load, 0.0)
    share = jnp.where(is_asked, rest / jnp.where(is_asked, usage, 1.0), jnp.inf)
    level = jnp.minimum(jnp.min(share, axis=1, initial=jnp.inf), limit)
    nearly = level * (1 + same(rate.dtype))
    lower_elsewhere = rises & (share > nearly[:, None])
    blocked = jnp.zeros(links + 1, bool)
    blocked = blocked.at[incidence.link].max(lower_elsewhere, mode="promise_in_bounds")
    is_neck = rises & is_asked & ~_at(blocked, incidence.link)
    frozen = jnp.any(is_neck, axis=1) | (rises[:, 0] & (limit <= nearly))
    return level, frozen, is_neck, usage


def _at(array: jax.Array, place: jax.Array) -> jax.Array:
    return array.at[place].get(mode="promise_in_bounds")


def _on_links(incidence: Incidence, values: jax.Array) -> jax.Array:
    """Sum (flows, entries) values per link; (links + 1,), the last for entries of no link."""
    blank = jnp.zeros(incidence.links + 1, values.dtype)
    return blank.at[incidence.link].add(values, mode="promise_in_bounds")


def rates_tangent(
    incidence: Incidence, filling: Filling, capacity: jax.Array, limit: jax.Array, weight: jax.Array
) -> jax.Array:
    """Tangent (flows,) of the rates, linear in those of capacity, limit and weight.

    A bottleneck l is full, so that its flows change by what its capacity and the flows frozen
    before leave them: usage * dx = dc - sum(dw x) - sum(w dx over flows frozen earlier).
    """
    moved = _on_links(incidence, weight * filling.rate[:, None])[:-1]
    own = jnp.append(capacity - moved, 0.0)
    neck = _neck(incidence, filling)
    is_own = (filling.turn > 0) & (filling.entry < 0)

    def advance(carry):
        turn, rate = carry
        load = _on_links(incidence, incidence.weight * rate[:, None])
        new = (own - load)[neck] / filling.usage
        return turn + 1, jnp.where(filling.turn == turn, jnp.where(is_own, limit, new), rate)

    start = jnp.ones((), jnp.int32), jnp.zeros_like(filling.rate)
    return jax.lax.while_loop(lambda carry: carry[0] <= filling.passes, advance, start)[1]


def rates_adjoint(
    incidence: Incidence, filling: Filling, rate: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Transpose of `rates_tangent`: cotangents of capacity (links,), limit (flows,) and weight."""
    neck, links = _neck(incidence, filling), incidence.links
    is_own = (filling.turn > 0) & (filling.entry < 0)

    def advance(carry):
        turn, rate, capacity = carry
        now = (filling.turn == turn) & ~is_own
        pull = (
            jnp.zeros(links + 1, rate.dtype).at[neck].add(jnp.where(now, rate / filling.usage, 0.0))
        )
        pull = pull.at[-1].set(0.0)
        back = jnp.sum(incidence.weight * pull[incidence.link], axis=1)
        earlier = (filling.turn < turn) & (filling.turn > 0)
        return turn - 1, jnp.where(earlier, rate - back, rate), capacity + pull

    start = filling.passes, rate, jnp.zeros(links + 1, rate.dtype)
    _, rate, capacity = jax.lax.while_loop(lambda carry: carry[0] > 0, advance, start)
    weight = -capacity[incidence.link] * filling.rate[:, None]
    return capacity[:-1], jnp.where(is_own, rate, 0.0), weight


def _neck(incidence: Incidence, filling: Filling) -> jax.Array:
    """The link that froze each flow, (flows,); `links` where none did."""
    entry = jnp.maximum(filling.entry, 0)[:, None]
    neck = jnp.take_along_axis(incidence.link, entry, axis=1)[:, 0]
    return jnp.where(filling.entry >= 0, neck, incidence.links)
