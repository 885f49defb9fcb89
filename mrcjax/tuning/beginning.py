"""Where a search begins: the surrogate with the spec's own cut, and what is free of it."""

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.spec import Spec, TuneSpec
from mrcjax.tuning.checks import frees_rails, frees_shards
from mrcjax.tuning.classes import Classes
from mrcjax.tuning.limits import HALVES, REDUCING
from mrcjax.tuning.surrogate import Cutting, Load, load_of
from mrcjax.tuning.weights import Weights, given_shares


def beginning_load(spec: Spec, options: TuneSpec, classes: Classes, given: Weights) -> Load:
    """The surrogate's constants, with the spec's own cut for what is not free."""
    shard_bytes = None
    if given.shards is not None:
        shards = given.shards / given.shards.sum() * float(spec.the_collective.size)
        shard_bytes = np.bincount(classes.index, shards) / classes.count
    kind = spec.the_collective.kind
    halves = tuple(bool(to_receiver) for _, to_receiver in HALVES[kind])
    shares = None
    if not frees_rails(spec, options):
        shares = given_shares(classes, given)
    return load_of(
        classes,
        float(spec.the_collective.size),
        halves,
        given=shares,
        shard_bytes=shard_bytes,
        reduces=kind in REDUCING,
    )


def beginning_cutting(
    spec: Spec, options: TuneSpec, classes: Classes, start: Weights | None
) -> Cutting:
    """Logarithms to start from: the rates of both ports, or those of a given cut."""
    source = destination = table = shards = None
    if frees_rails(spec, options):
        typical = classes.on_average()
        ends = (typical.egress, typical.ingress)
        if start is not None and start.source is not None and start.destination is not None:
            ends = (start.source.T[classes.first], start.destination.T[classes.first])
        source, destination = (_log(end) for end in ends)
        if options.rails == "table":
            table = jnp.zeros(classes.live.shape)
            if start is not None and start.table is not None:
                table = _log(np.moveaxis(start.table, 0, 2))
    if frees_shards(spec, options):
        shards = jnp.zeros(len(classes.count))
        if start is not None and start.shards is not None:
            shards = _log(start.shards[classes.first])
    return Cutting(source, destination, table, shards)


def _log(weight: np.ndarray) -> jax.Array:
    """Logarithms; of zeros, which only ports that are down should have, something small."""
    best = weight.max(axis=-1, keepdims=True)
    return jnp.asarray(np.log(np.maximum(weight / np.where(best > 0, best, 1.0), 1e-12)))
