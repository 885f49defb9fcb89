"""How a buffer is cut by weights: what each rank owns, and what goes over which rail."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from mrcjax.spec.fields import Index, doc
from mrcjax.units import SpecError

Weight = Annotated[float, Meta(ge=0)]
Weights = tuple[Weight, ...]


class RailShares(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The part of a send that goes over each rail: in proportion to the product of the weights.

    A send from i to j puts source[r][i] x destination[r][j] x table[r][i][j] on rail r, over the
    sum of that over the rails; weights left out are 1. `rail` puts every send whole on one rail.
    Where network.channels gives a rail several lanes, they have equal parts.
    """

    source: Annotated[
        tuple[Weights, ...] | None,
        doc("Weight of each rail (rows) at each sender.", [[1, 1], [2, 1]]),
    ] = None
    destination: Annotated[
        tuple[Weights, ...] | None,
        doc("Weight of each rail (rows) at each receiver.", [[1, 1], [2, 1]]),
    ] = None
    table: Annotated[
        tuple[tuple[Weights, ...], ...] | None,
        doc("Weight of each rail for every sender (rows) and receiver.", [[[0, 1], [1, 0]]]),
    ] = None
    rail: Annotated[
        tuple[tuple[Index, ...], ...] | None,
        doc("Rail of the whole send from each rank (rows) to each.", [[0, 1], [1, 0]]),
    ] = None

    def __post_init__(self):
        others = (self.source, self.destination, self.table)
        if self.rail is not None and any(weights is not None for weights in others):
            raise SpecError(
                "and weights both say how a send is cut",
                where="collective.rail_shares.rail",
                remedy="keep rail, or source, destination and table",
            )

    def check(self, ranks: int, rails: int):
        """Refuse weights that do not fit the network."""
        where = "collective.rail_shares"
        for key in ("source", "destination", "table"):
            weights = getattr(self, key)
            if weights is not None:
                _check_length(f"{where}.{key}", weights, rails, "rails")
                for rail, row in enumerate(weights):
                    _check_length(f"{where}.{key}[{rail}]", row, ranks, "ranks")
        for rail, rows in enumerate(self.table or ()):
            for rank, row in enumerate(rows):
                _check_length(f"{where}.table[{rail}][{rank}]", row, ranks, "ranks")
        if self.rail is not None:
            _check_length(f"{where}.rail", self.rail, ranks, "ranks")
            for rank, row in enumerate(self.rail):
                _check_length(f"{where}.rail[{rank}]", row, ranks, "ranks")
                if max(row) >= rails:
                    raise SpecError(
                        f"must be below the number of rails, {rails}",
                        where=f"{where}.rail[{rank}][{row.index(max(row))}]",
                        value=max(row),
                        remedy=f"rails count from 0 to {rails - 1}",
                    )


def check_shards(shards: Weights, ranks: int):
    """Refuse shard weights that do not fit the network."""
    _check_length("collective.shards", shards, ranks, "ranks")
    if max(shards) <= 0:
        raise SpecError(
            "are all zero",
            where="collective.shards",
            remedy="give at least one rank a weight above 0",
        )


def _check_length(where: str, values: Sequence, wanted: int, noun: str):
    if len(values) != wanted:
        raise SpecError(
            f"has {len(values)} entries for {wanted} {noun}",
            where=where,
            remedy=f"give one for each of the {noun}",
        )
