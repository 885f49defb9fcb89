"""What a cut costs by the loads of the ports alone: bytes over rate, no order, no waiting.

A makespan's gradient touches one port or two; here the maximum is smoothed over all of them, with
a temperature that goes to zero.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.pytree import pytree, static
from mrcjax.tuning.classes import Classes


class Cutting(NamedTuple):
    """What is tuned: logarithms of weights, or None where a thing is not free.

    source, destination: (classes or ranks, rails); table: (rows, rows, rails) or None; shards:
    (classes or ranks,).
    """

    source: jax.Array | None = None
    destination: jax.Array | None = None
    table: jax.Array | None = None
    shards: jax.Array | None = None


@pytree
class Load:
    """The constants of the surrogate, (classes, rails) unless said otherwise.

    count: (classes,). given: (classes, classes, rails), the cut where rails are not free.
    reduction: (classes,) bytes/s of a rail's reducers in the first half; None = infinite. halves:
    for each half of the collective, whether a send carries its receiver's shard; the halves follow
    each other, or are one where they are pipelined.
    """

    count: jax.Array
    egress: jax.Array
    ingress: jax.Array
    egress_start_s: jax.Array
    ingress_start_s: jax.Array
    given: jax.Array | None
    shard_bytes: jax.Array  # (classes,)
    size_bytes: jax.Array  # ()
    reduction: jax.Array | None
    halves: tuple[bool, ...] = static()
    pipelined: bool = static(default=False)


def load_of(
    classes: Classes,
    size_bytes: float,
    halves: tuple[bool, ...],
    *,
    given: np.ndarray | None = None,
    shard_bytes: np.ndarray | None = None,
    reduces: bool = True,
    pipelined: bool = False,
) -> Load:
    """Collect the constants; without shard_bytes all own the same.

    reduces: whether what arrives in the first half is reduced.
    """
    reduction = None
    if reduces and classes.reduction is not None:
        reduction = classes.reduction * classes.lanes
    if shard_bytes is None:
        shard_bytes = np.full(len(classes.count), size_bytes / classes.ranks)
    return Load(
        count=jnp.asarray(classes.count),
        egress=jnp.asarray(classes.egress),
        ingress=jnp.asarray(classes.ingress),
        egress_start_s=jnp.asarray(classes.egress_start_s),
        ingress_start_s=jnp.asarray(classes.ingress_start_s),
        given=None if given is None else jnp.asarray(given),
        shard_bytes=jnp.asarray(shard_bytes),
        size_bytes=jnp.asarray(size_bytes),
        reduction=None if reduction is None else jnp.asarray(reduction),
        halves=halves,
        pipelined=pipelined,
    )


def shares_of(load: Load, cutting: Cutting) -> jax.Array:
    """Part of a send on each rail, (senders, receivers, rails); 0 on rails that are down."""
    if cutting.source is None or cutting.destination is None:
        assert load.given is not None
        return load.given
    score = cutting.source[:, None] + cutting.destination[None]
    if cutting.table is not None:
        score = score + cutting.table
    live = (load.egress > 0)[:, None] & (load.ingress > 0)[None]
    # a rank that sends by other rails than it receives by has none to itself, and needs none
    is_joined = live.any(axis=-1, keepdims=True)
    shares = jax.nn.softmax(jnp.where(live | ~is_joined, score, -jnp.inf), axis=-1)
    return jnp.where(live, shares, 0.0)


def shards_of(load: Load, cutting: Cutting) -> jax.Array:
    """Bytes that a rank of each class owns, (classes,)."""
    if cutting.shards is None:
        return load.shard_bytes
    weight = jnp.exp(cutting.shards - cutting.shards.max())
    return load.size_bytes * weight / (load.count * weight).sum()


def port_bytes(load: Load, cutting: Cutting) -> jax.Array:
    """Bytes that every port of a rank sends and takes in each half, (halves, 2, classes, rails)."""
    shares, shards = shares_of(load, cutting), shards_of(load, cutting)
    receivers = load.count[None] - jnp.eye(load.count.shape[0])
    found = []
    for to_receiver in load.halves:
        sent = shares * (shards[None, :, None] if to_receiver else shards[:, None, None])
        out = (receivers[:, :, None] * sent).sum(axis=1)
        into = (receivers.T[:, :, None] * sent).sum(axis=0)
        found.append(jnp.stack([out, into]))
    return jnp.stack(found)


def port_seconds(load: Load, bytes_: jax.Array) -> jax.Array:
    """Seconds of work of every port in each half, (halves, 2, classes, rails)."""
    return _seconds(bytes_, jnp.stack([load.egress, load.ingress]))


def load_time(load: Load, cutting: Cutting, temperature: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Smooth and exact time of a cut by loads: the busiest port of each half, or of both at once.

    temperature: () as a part of the time, > 0. The log-sum-exp exceeds the maximum by at most
    temperature x ln(ports) of it.
    """
    return time_of_bytes(load, port_bytes(load, cutting), temperature)


def time_of_bytes(
    load: Load, bytes_: jax.Array, temperature: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The same from the bytes of the ports; reducers count as ports of the first half."""
    seconds = port_seconds(load, bytes_)
    start = jnp.stack([load.egress_start_s, load.ingress_start_s])
    if load.reduction is not None:
        reducing = bytes_[:, 1] / load.reduction[:, None]
        reducing = reducing.at[1:].set(0.0)
        seconds = jnp.concatenate([seconds, reducing[:, None]], axis=1)
        start = jnp.concatenate([start, load.ingress_start_s[None]])
    if load.pipelined:
        seconds = seconds.sum(axis=0, keepdims=True)
    ends = jnp.where(seconds > 0, seconds + start, 0.0).reshape(seconds.shape[0], -1)
    exact = ends.max(axis=1).sum()
    return smooth_max(ends, temperature * jax.lax.stop_gradient(exact)).sum(), exact


def smooth_max(values: jax.Array, width: jax.Array) -> jax.Array:
    """Log-sum-exp over the last axis, in the values' unit; at most width x ln(size) too large."""
    top = jax.lax.stop_gradient(values.max(axis=-1, keepdims=True))
    summed = jnp.exp((values - top) / width).sum(axis=-1)
    return top[..., 0] + width * jnp.log(summed)


def _seconds(bytes_: jax.Array, rate: jax.Array) -> jax.Array:
    return jnp.where(rate > 0, bytes_ / jnp.where(rate > 0, rate, 1.0), 0.0)
