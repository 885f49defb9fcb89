"""A cut in numbers: by class while it is searched for, by rank where it is run and written."""

from dataclasses import dataclass

import msgspec
import numpy as np

from mrcjax.spec import RailShares, Spec, SpecError
from mrcjax.tuning.classes import Classes
from mrcjax.tuning.surrogate import Cutting


@dataclass(frozen=True)
class Weights:
    """How a collective is cut: what a `[collective]` section takes.

    source, destination: (rails, ranks); table: (rails, ranks, ranks), sender then receiver; rail:
    (ranks, ranks) int; shards: (ranks,). None = equal. chunks: pipelined pieces; channels: lanes of
    a rank, equal ones on each rail; None = as before.
    """

    source: np.ndarray | None = None
    destination: np.ndarray | None = None
    table: np.ndarray | None = None
    rail: np.ndarray | None = None
    shards: np.ndarray | None = None
    chunks: int | None = None
    channels: int | None = None

    def into(self, spec: Spec) -> Spec:
        """The spec that is cut this way, without its [tune] section."""
        cut = {key: _tuples(getattr(self, key)) for key in RailShares.__struct_fields__}
        shares = RailShares(**cut) if any(v is not None for v in cut.values()) else None
        collective = msgspec.structs.replace(
            spec.the_collective,
            stripe=True,
            rail_shares=shares,
            shards=_tuples(self.shards),
            chunks=self.chunks or spec.the_collective.chunks,
        )
        network = spec.network
        if self.channels is not None:
            network = msgspec.structs.replace(network, channels=self.channels)
        return msgspec.structs.replace(spec, network=network, collective=collective, tune=None)


def weights_of_spec(spec: Spec) -> Weights:
    """The weights that a spec gives."""
    shares = spec.the_collective.rail_shares or RailShares()
    cut = {key: getattr(shares, key) for key in RailShares.__struct_fields__}
    return Weights(
        **{key: None if value is None else np.asarray(value) for key, value in cut.items()},
        shards=None
        if spec.the_collective.shards is None
        else np.asarray(spec.the_collective.shards),
        chunks=spec.the_collective.chunks,
        channels=spec.network.channels,
    )


def is_alike(classes: Classes, weights: Weights) -> bool:
    """Whether a cut treats all ranks of a class alike."""
    if weights.table is not None or weights.rail is not None:
        return not classes.alike
    ends = (weights.source, weights.destination, weights.shards)
    kinds = [end[..., classes.first][..., classes.index] == end for end in ends if end is not None]
    return not classes.alike or all(bool(same.all()) for same in kinds)


def given_shares(classes: Classes, weights: Weights) -> np.ndarray:
    """Part of a send on each rail by class, (classes, classes, rails), for fixed rails.

    Raises SpecError where the weights of ranks with like ports differ: classes then do not do.
    """
    rails, index = classes.rails, classes.index
    ends = [
        np.ones((rails, classes.ranks)) if weight is None else weight
        for weight in (weights.source, weights.destination)
    ]
    if weights.table is not None or weights.rail is not None:
        raise SpecError(
            "by pair cannot stay as they are while shards are tuned",
            where="collective.rail_shares",
            remedy='use tune.rails = "table" or "whole", or source and destination weights',
        )
    of_class = [end[:, classes.first] for end in ends]
    if any((kind[:, index] != end).any() for kind, end in zip(of_class, ends, strict=True)):
        raise SpecError(
            "differ between ranks with like ports",
            where="collective.rail_shares",
            remedy='free the rails too, with tune.rails = "shares"',
        )
    weight = of_class[0].T[:, None] * of_class[1].T[None]
    total = weight.sum(axis=2, keepdims=True)
    return weight / np.where(total > 0, total, 1.0)


def weights_of_cutting(classes: Classes, cutting: Cutting, given: Weights) -> Weights:
    """Spread the logarithms of classes over their ranks; what was not tuned is taken as given."""
    source, destination, table = given.source, given.destination, given.table
    if cutting.source is not None and cutting.destination is not None:
        source = _of_ranks(classes, cutting.source, classes.egress)
        destination = _of_ranks(classes, cutting.destination, classes.ingress)
        table = None
    if cutting.table is not None:
        score = np.asarray(cutting.table)[classes.index][:, classes.index]
        table = np.moveaxis(np.exp(score - score.max(axis=2, keepdims=True)), 2, 0)
    shards = given.shards
    if cutting.shards is not None:
        score = np.asarray(cutting.shards)[classes.index]
        shards = np.exp(score - score.max())
    rail = None if cutting.source is not None else given.rail
    return Weights(source, destination, table, rail, shards)


def _of_ranks(classes: Classes, score, rate: np.ndarray) -> np.ndarray:
    """Weights (rails, ranks) with a largest of 1 at every rank; 0 for ports that are down."""
    score = np.where(rate > 0, np.asarray(score), -np.inf)
    best = score.max(axis=1, keepdims=True)
    weight = np.exp(score - np.where(np.isfinite(best), best, 0.0))
    return weight[classes.index].T


def _tuples(values):
    """Nested tuples, as a spec holds them."""

    def frozen(items):
        return tuple(map(frozen, items)) if isinstance(items, list) else items

    return None if values is None else frozen(values.tolist())
