"""Say what is reduced, gathered or exchanged, by which algorithm and how it is cut."""

from typing import Annotated, Literal

from msgspec import Struct

from mrcjax.spec.fields import Count, doc
from mrcjax.spec.shares import RailShares, Weights
from mrcjax.units import Bytes, SpecError

Between = Literal["direct", "ring"]


class Collective(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What must hold afterwards, by which algorithm, on how many bytes per rank."""

    kind: Annotated[
        Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all"],
        doc("What must hold afterwards.", "all_reduce"),
    ]
    size: Annotated[Bytes, doc("Buffer of a rank, as in nccl-tests.", "1 GB")]
    algorithm: Annotated[
        Literal["direct", "ring", "hierarchical", "rings", "in_network"],
        doc("How it is done.", "direct"),
    ] = "direct"
    group_size: Annotated[
        Count | None, doc("Ranks per group, all groups at once; absent: all ranks.", 128)
    ] = None
    group_stride: Annotated[Count, doc("Step between ranks of a group.", 8)] = 1
    stripe: Annotated[bool, doc("Cut every shard over all rails (direct only).", True)] = False
    element_bytes: Annotated[
        Count | None, doc("Bytes of an element; absent: shards are exact fractions.", 2)
    ] = None
    between: Annotated[
        Between | tuple[Between, ...],
        doc(
            "Algorithm between nodes, or in each dimension, inner to outer (hierarchical only).",
            "direct",
            ["direct", "ring"],
        ),
    ] = "direct"
    dimensions: Annotated[
        tuple[Count, ...] | None,
        doc("Ranks along each dimension, inner to outer (hierarchical only).", [2, 8]),
    ] = None
    chunks: Annotated[
        Count, doc("Pipelined pieces (hierarchical, in_network, or direct all_reduce).", 8)
    ] = 1
    split: Annotated[
        Literal["equal", "proportional"],
        doc("How a piece is cut over lanes: equally, or by the rates of their ports.", "equal"),
    ] = "equal"
    shards: Annotated[
        Weights | None,
        doc("Weight of the shard each rank owns (direct only); absent: equal.", [1, 2]),
    ] = None
    rail_shares: Annotated[
        RailShares | None,
        doc("How every send is cut over the rails (direct with stripe only); absent: equally."),
    ] = None

    @property
    def outermost(self) -> str:
        """The algorithm between nodes, or in the outermost dimension."""
        if self.algorithm != "hierarchical":
            return self.algorithm
        return self.between if isinstance(self.between, str) else self.between[-1]

    def __post_init__(self):
        if self.kind == "all_to_all" and self.algorithm != "direct":
            raise SpecError(
                "does not do an all_to_all",
                where="collective.algorithm",
                value=self.algorithm,
                remedy='use algorithm = "direct"',
            )
        if self.stripe and self.algorithm != "direct":
            raise SpecError(
                f'has no effect with collective.algorithm = "{self.algorithm}"',
                where="collective.stripe",
                value=self.stripe,
                remedy='use algorithm = "direct" or leave stripe out',
            )
        whole = self.algorithm == "direct" and not self.stripe
        if self.split != "equal" and whole:
            raise SpecError(
                'has no effect with collective.algorithm = "direct", whose shards go whole',
                where="collective.split",
                value=self.split,
                remedy="set stripe = true, or leave split out",
            )
        if self.element_bytes is not None and self.size % self.element_bytes:
            raise SpecError(
                f"must divide collective.size = {float(self.size):.15g} B",
                where="collective.element_bytes",
                value=self.element_bytes,
                remedy="use a whole number of elements, or leave element_bytes out",
            )
        if self.group_size is None and self.group_stride != 1:
            raise SpecError(
                "has no effect without collective.group_size",
                where="collective.group_stride",
                value=self.group_stride,
                remedy="add for example group_size = 128",
            )
        self._check_hierarchical()
        self._check_weights()
        if self.algorithm == "direct" and self.chunks > 1 and self.element_bytes is not None:
            raise SpecError(
                "does not go with collective.chunks in the direct algorithm",
                where="collective.element_bytes",
                value=self.element_bytes,
                remedy="pieces are exact fractions there; leave element_bytes out",
            )

    def _check_weights(self):
        for key, wanted in (("shards", "direct"), ("rail_shares", "direct")):
            if getattr(self, key) is None:
                continue
            if self.algorithm != wanted or self.group_size is not None:
                raise SpecError(
                    "needs the direct algorithm over all ranks",
                    where=f"collective.{key}",
                    remedy=f'use algorithm = "direct" without group_size, or leave {key} out',
                )
            if self.element_bytes is not None:
                raise SpecError(
                    f"does not go with collective.{key}",
                    where="collective.element_bytes",
                    value=self.element_bytes,
                    remedy="weights cut in exact fractions; leave element_bytes out",
                )
            if self.split != "equal":
                raise SpecError(
                    f"does not go with collective.{key}",
                    where="collective.split",
                    value=self.split,
                    remedy="weights say how sends are cut; leave split out",
                )
        if self.rail_shares is not None and not self.stripe:
            raise SpecError(
                "needs collective.stripe = true",
                where="collective.rail_shares",
                remedy="only a striped send is cut over rails; set stripe = true",
            )
        if self.shards is not None and self.kind == "all_to_all":
            raise SpecError(
                "has no meaning in an all_to_all",
                where="collective.shards",
                remedy="nobody owns a shard there; leave shards out",
            )

    def _check_hierarchical(self):
        if self.algorithm != "hierarchical":
            for key, value, usual in (
                ("between", self.between, "direct"),
                ("dimensions", self.dimensions, None),
                ("chunks", self.chunks, 1),
            ):
                if key == "chunks" and self.algorithm == "direct" and self.kind == "all_reduce":
                    continue
                if value != usual and (key, self.algorithm) != ("chunks", "in_network"):
                    raise SpecError(
                        f'has no effect with collective.algorithm = "{self.algorithm}"',
                        where=f"collective.{key}",
                        value=value,
                        remedy=f'use algorithm = "hierarchical" or leave {key} out',
                    )
        if self.algorithm not in ("hierarchical", "rings"):
            return
        in_nodes = self.algorithm == "hierarchical" and self.dimensions is None
        if in_nodes and self.kind != "all_reduce":
            raise SpecError(
                f"does not do {self.kind} without collective.dimensions",
                where="collective.algorithm",
                value=self.algorithm,
                remedy='name the dimensions, inner to outer, or use algorithm = "direct" or "ring"',
            )
        if in_nodes and self.group_size is not None:
            raise SpecError(
                'does not go with collective.algorithm = "hierarchical"',
                where="collective.group_size",
                value=self.group_size,
                remedy="name the dimensions of a group, or leave group_size out",
            )
        if self.kind != "all_reduce" and self.element_bytes is not None:
            raise SpecError(
                f"does not go with {self.kind} by {self.algorithm}, where a shard is many blocks",
                where="collective.element_bytes",
                value=self.element_bytes,
                remedy="leave element_bytes out: shards are then exact fractions",
            )
