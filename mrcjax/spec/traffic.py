"""Say which flows to send where no collective is meant: a pattern, or a file of sends."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mrcjax.spec.fields import Count, Index, doc
from mrcjax.spec.records import Record, read_records
from mrcjax.units import Bytes, SpecError

# the keys that each pattern reads beside its size
_KEYS = {
    "permutation": ("size", "seed"),
    "incast": ("size", "to", "senders"),
    "all_to_all": ("size",),
    "nearest_neighbour": ("size", "strides"),
    "file": ("file",),
}


class Traffic(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Flows between ranks, all at once unless a file says otherwise.

    permutation: every rank sends to one, no two to the same, drawn by `seed`; a rank drawn for
    itself sends nothing. incast: the `senders` ranks after `to` send to it. nearest_neighbour:
    every rank sends to rank + stride, for every stride, ranks in a ring. file: the sends that a
    file lists.
    """

    kind: Annotated[
        Literal["permutation", "incast", "all_to_all", "nearest_neighbour", "file"],
        doc("Pattern.", "permutation"),
    ]
    size: Annotated[Bytes | None, doc("Bytes of every flow.", "100 MB")] = None
    seed: Annotated[Index, doc("Seed of a permutation.", 0)] = 0
    to: Annotated[Index, doc("Receiver of an incast.", 0)] = 0
    senders: Annotated[Count | None, doc("Senders of an incast; absent: all others.", 16)] = None
    strides: Annotated[
        tuple[Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)], ...] | None,
        doc(
            "Steps to the neighbours of a rank; absent: the ranks it is joined to directly, on a "
            "torus, mesh or graph, else the ranks before and after it.",
            [1, -1],
        ),
    ] = None
    file: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        doc("CSV or JSON file: src, dst, bytes, start, route, id, after, delay.", "flows.csv"),
    ] = None

    def __post_init__(self):
        for key, usual in (
            ("size", None), ("seed", 0), ("to", 0), ("senders", None), ("strides", None),
            ("file", None),
        ):  # fmt: skip
            if getattr(self, key) != usual and key not in _KEYS[self.kind]:
                raise SpecError(
                    f'has no effect with traffic.kind = "{self.kind}"',
                    where=f"traffic.{key}",
                    value=getattr(self, key),
                    remedy=f"leave {key} out",
                )
        for key, example in (("size", '"100 MB"'), ("file", '"flows.csv"')):
            if getattr(self, key) is None and key in _KEYS[self.kind]:
                raise SpecError(
                    f'is missing with traffic.kind = "{self.kind}"',
                    where=f"traffic.{key}",
                    remedy=f"add it, for example {key} = {example}",
                )
        if self.strides == ():
            raise SpecError("must not be an empty list", where="traffic.strides", value=[])

    def check_ranks(self, ranks: int):
        """Refuse what names ranks that do not exist."""
        if self.to >= ranks:
            raise SpecError(
                f"must be below network.ranks = {ranks}", where="traffic.to", value=self.to,
                remedy=f"ranks count from 0 to {ranks - 1}",
            )  # fmt: skip
        if self.senders is not None and self.senders >= ranks:
            raise SpecError(
                f"must be below network.ranks = {ranks}", where="traffic.senders",
                value=self.senders, remedy=f"there are {ranks - 1} other ranks",
            )  # fmt: skip
        for stride in self.strides or ():
            if ranks > 1 and stride % ranks == 0:
                raise SpecError(
                    f"leads from a rank to itself with network.ranks = {ranks}",
                    where="traffic.strides",
                    value=stride,
                    remedy="use strides between 1 and ranks - 1, or negative ones",
                )

    def records(self) -> list[Record]:
        """Read the file of sends; raises SpecError."""
        assert self.file is not None
        return read_records(
            Path(self.file),
            "traffic.file",
            "sends",
            ("src", "dst", "bytes"),
            ("start", "route", "id", "after", "delay"),
        )
