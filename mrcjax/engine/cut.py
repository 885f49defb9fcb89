"""Sends cut by weights from ports of their own straight to others: their shortest derivative.

Where every lane has its port alone, needs only its rank's own data and meets nothing between the
ports, round k leaves when the work of all rounds before it is done, and a receiving port is done
at

    end = max over k of (head of round k + the work of rounds k and later).

As in `spread` one round decides each port's end and one its latest tail. With their numbers the
derivative is sums over rounds: of the sender's work before the deciding round, of the receiver's
from it on. One more pass over the rounds gives them, backwards for the reverse mode; nothing is
kept per round.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from mrcjax.collective.schedule import Phase
from mrcjax.engine.maxplus import later, move


class Given(NamedTuple):
    """What cut sends follow from, (lanes, ranks) unless said otherwise.

    lane_free, ingress_free: seconds. latency: of the sender's link, seconds. egress, ingress:
    bytes/s. whole: (1, ranks) bytes of a send by owner of its shard. source, destination: weights.
    """

    lane_free: jax.Array
    ingress_free: jax.Array
    latency: jax.Array
    egress: jax.Array
    ingress: jax.Array
    whole: jax.Array
    source: jax.Array
    destination: jax.Array


class Deciding(NamedTuple):
    """Rounds that decide, (lanes, ranks) each: -1 where none does.

    idle_at: the last that found a receiving port idle; latest_at: of its latest tail.
    """

    idle_at: jax.Array
    latest_at: jax.Array


class Kind(NamedTuple):
    """What is compiled for."""

    phase: Phase
    store_and_forward: bool


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def cut_rounds(kind: Kind, given: Given) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """All rounds of a phase whose every send is cut over the lanes by weights.

    Returns when lanes and receiving ports are free and the latest tails, (lanes, ranks) seconds,
    and the bytes of senders and of receivers, (2, lanes, ranks), which have no derivative.
    """
    never = jnp.full_like(given.lane_free, -jnp.inf)
    start = (given.lane_free, given.ingress_free, never, jnp.zeros((2, *never.shape), never.dtype))

    def one(k, state):
        lane, end, latest, used = state
        sent, taken, out_s, in_s = _work(kind, given, k)
        after = lane + out_s
        head, tail = _arriving(kind, k, sent > 0, lane, after, given.latency)
        end, latest = later(head, end) + in_s, later(latest, tail)
        return after, end, latest, used + jnp.stack([sent, taken])

    return jax.lax.fori_loop(0, kind.phase.rounds, one, start)


@cut_rounds.defjvp
def _cut_rounds_jvp(kind, primals, tangents):
    (given,), (tangent,) = primals, tangents
    never = jnp.full_like(given.lane_free, -jnp.inf)
    none = jnp.full(never.shape, -1, jnp.int32)
    start = (given.lane_free, given.ingress_free, never, jnp.zeros((2, *never.shape), never.dtype))

    def one(k, state):
        (lane, end, latest, used), (idle_at, latest_at) = state
        sent, taken, out_s, in_s = _work(kind, given, k)
        after = lane + out_s
        head, tail = _arriving(kind, k, sent > 0, lane, after, given.latency)
        deciding = jnp.where(head >= end, k, idle_at), jnp.where(tail > latest, k, latest_at)
        end, latest = jnp.maximum(head, end) + in_s, jnp.maximum(latest, tail)
        return (after, end, latest, used + jnp.stack([sent, taken])), deciding

    rounds = kind.phase.rounds
    found, deciding = jax.lax.fori_loop(0, rounds, one, (start, (none, none)))
    slopes = _tangent_p.bind(*given, *deciding, *tangent, kind=kind)
    return found, (*slopes, jnp.zeros_like(found[3]))


def _shift(phase: Phase, k) -> jax.Array:
    lane = jnp.arange(phase.lanes)
    return phase.first + k * phase.per_round + lane * phase.per_lane


def _owner(phase: Phase, k) -> jax.Array:
    """How far on from the sender the owner of what round k sends is, (1,)."""
    start, per_round, to_receiver = phase.owner
    owner = jnp.asarray(start + k * per_round)[None]
    return owner + _shift(phase, k)[:1] if to_receiver else owner


def _is_active(phase: Phase, k) -> jax.Array:
    return (_shift(phase, k) < phase.layout[1])[:, None]


def _seconds(bytes_: jax.Array, capacity: jax.Array) -> jax.Array:
    # a link that is down may go unused, and 0 / 0 has no derivative
    return jnp.where(bytes_ > 0, bytes_ / jnp.where(bytes_ > 0, capacity, 1.0), 0.0)


def _work(kind: Kind, given: Given, k):
    """Bytes and seconds of every lane's part, seen from the sender and from the receiver."""
    phase, layout = kind.phase, kind.phase.layout
    shift = _shift(phase, k)
    weight = given.source * move(given.destination, -shift, layout)
    whole = move(given.whole, -_owner(phase, k), layout)
    sent = jnp.where(_is_active(phase, k), whole * (weight / weight.sum(axis=0)), 0.0)
    taken = move(sent, shift, layout)
    return sent, taken, _seconds(sent, given.egress), _seconds(taken, given.ingress)


def _arriving(kind: Kind, k, is_sent, begin, end, latency):
    """Head and tail behind the sender's link, at the receiver."""
    shift, layout = _shift(kind.phase, k), kind.phase.layout
    tail = move(jnp.where(is_sent, end + latency, -jnp.inf), shift, layout)
    if kind.store_and_forward:
        return tail, tail
    return move(jnp.where(is_sent, begin + latency, -jnp.inf), shift, layout), tail


# --- the linear map from tangents of `Given` to those of lane_free, end and latest ----------------


def _tangent(*args: jax.Array, kind: Kind):
    """Forward mode: the map itself, one pass over the rounds."""
    given, deciding, t = Given(*args[:8]), Deciding(*args[8:10]), Given(*args[10:])
    phase, layout = kind.phase, kind.phase.layout

    def one(k, state):
        lane, end, latest = state
        shift = _shift(phase, k)
        sent, taken, _, _ = _work(kind, given, k)
        sent_t = _sent_tangent(kind, given, t, k)
        taken_t = move(sent_t, shift, layout)
        after = lane + _seconds_tangent(sent, sent_t, given.egress, t.egress)
        tail = move(after + t.latency, shift, layout)
        head = tail if kind.store_and_forward else move(lane + t.latency, shift, layout)
        end = jnp.where(deciding.idle_at == k, head, end)
        end = end + _seconds_tangent(taken, taken_t, given.ingress, t.ingress)
        return after, end, jnp.where(deciding.latest_at == k, tail, latest)

    start = (t.lane_free, t.ingress_free, jnp.zeros_like(t.lane_free))
    return jax.lax.fori_loop(0, phase.rounds, one, start)


def _sent_tangent(kind: Kind, given: Given, t: Given, k):
    phase, layout = kind.phase, kind.phase.layout
    shift, owner = _shift(phase, k), _owner(phase, k)
    there = move(given.destination, -shift, layout)
    weight = given.source * there
    weight_t = t.source * there + given.source * move(t.destination, -shift, layout)
    total = weight.sum(axis=0)
    share = weight / total
    share_t = (weight_t - share * weight_t.sum(axis=0)) / total
    whole, whole_t = move(given.whole, -owner, layout), move(t.whole, -owner, layout)
    return jnp.where(_is_active(phase, k), whole_t * share + whole * share_t, 0.0)


def _seconds_tangent(bytes_, bytes_t, capacity, capacity_t):
    safe = jnp.where(bytes_ > 0, capacity, 1.0)
    return jnp.where(bytes_ > 0, (bytes_t - bytes_ / safe * capacity_t) / safe, 0.0)


def _cotangent(*args: jax.Array, kind: Kind) -> Given:
    """Reverse mode: its transpose, one pass over the rounds from the last to the first."""
    given, deciding = Given(*args[:8]), Deciding(*args[8:10])
    lane, end, latest = args[10:]
    phase, layout = kind.phase, kind.phase.layout
    zeros = jnp.zeros_like(lane)

    def one(back, state):
        k = phase.rounds - 1 - back
        work, sums = state  # work: what a second more of work of a sender's round costs
        shift, owner = _shift(phase, k), _owner(phase, k)
        there = move(given.destination, -shift, layout)
        weight = given.source * there
        total = weight.sum(axis=0)
        share = jnp.where(_is_active(phase, k), weight / total, 0.0)
        whole = move(given.whole, -owner, layout)
        sent = whole * share

        tails = jnp.where(deciding.latest_at == k, latest, 0.0)
        heads = jnp.where(deciding.idle_at == k, end, 0.0)
        tails, heads = (tails + heads, None) if kind.store_and_forward else (tails, heads)
        work = work + move(tails, -shift, layout)
        taking = jnp.where(k >= deciding.idle_at, end, 0.0)  # a second more of the receiver's
        is_sent = sent > 0
        taken = move(sent, shift, layout)
        out = jnp.where(is_sent, work / jnp.where(is_sent, given.egress, 1.0), 0.0)
        into = jnp.where(taken > 0, taking / jnp.where(taken > 0, given.ingress, 1.0), 0.0)
        per_byte = out + move(into, -shift, layout)
        of_whole = (per_byte * share).sum(axis=0)
        of_weight = jnp.where(_is_active(phase, k), whole / total * (per_byte - of_whole), 0.0)
        sums = Given(
            lane_free=sums.lane_free,
            ingress_free=sums.ingress_free,
            latency=sums.latency,
            egress=sums.egress + out * sent,
            ingress=sums.ingress + into * taken,
            whole=sums.whole + move(of_whole[None], owner, layout),
            source=sums.source + of_weight * there,
            destination=sums.destination + move(of_weight * given.source, shift, layout),
        )
        work = work if heads is None else work + move(heads, -shift, layout)
        return work, sums

    sums = Given(*(jnp.zeros_like(x) for x in given))
    work, sums = jax.lax.fori_loop(0, phase.rounds, one, (lane, sums))

    def of_capacity(summed, capacity):
        return jnp.where(summed != 0, -summed / jnp.where(summed != 0, capacity, 1.0), 0.0)

    return sums._replace(
        lane_free=work,
        ingress_free=jnp.where(deciding.idle_at < 0, end, zeros),
        latency=work - lane,
        egress=of_capacity(sums.egress, given.egress),
        ingress=of_capacity(sums.ingress, given.ingress),
    )


def _primitive(name: str, work, outputs) -> Primitive:
    """A primitive of many results; outputs: of each the number of an argument of its shape."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(jax.jit(work, static_argnames="kind"))
    primitive.def_abstract_eval(lambda *args, kind: [args[i] for i in outputs])
    mlir.register_lowering(primitive, mlir.lower_fun(work, multiple_results=True))

    def batched(args, dims, *, kind):
        found = jax.vmap(partial(work, kind=kind), in_axes=dims)(*args)
        return list(found), [0] * len(found)

    def differentiated(primals, tangents, *, kind):
        tangents = tuple(ad.instantiate_zeros(t) for t in tangents)
        return jax.jvp(partial(work, kind=kind), primals, tangents)

    batching.primitive_batchers[primitive] = batched
    ad.primitive_jvps[primitive] = differentiated
    return primitive


_tangent_p = _primitive("cut_rounds_tangent", _tangent, (0, 1, 0))
_cotangent_p = _primitive("cut_rounds_cotangent", _cotangent, range(8))


def _transpose(cotangents, *args, kind):
    fixed = args[:10]
    cotangents = [
        jnp.zeros_like(like) if isinstance(x, ad.Zero) else x
        for x, like in zip(cotangents, (fixed[0], fixed[1], fixed[0]), strict=True)
    ]
    found = _cotangent_p.bind(*fixed, *cotangents, kind=kind)
    return [None] * 10 + [
        x if ad.is_undefined_primal(t) else None for x, t in zip(found, args[10:], strict=True)
    ]


ad.primitive_transposes[_tangent_p] = _transpose
