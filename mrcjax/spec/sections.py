"""Say what to run: collective, engine, output, and the whole spec with its cross rules."""

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mrcjax.spec.faults import FaultsSpec
from mrcjax.spec.fields import Count, default, doc, no_time
from mrcjax.spec.network import AnyNetwork, FlatRails, Graph, Grid, Wafer
from mrcjax.spec.shares import RailShares, Weights, check_shards
from mrcjax.spec.traffic import Traffic
from mrcjax.spec.training import TrainingSpec
from mrcjax.spec.tune import TuneSpec
from mrcjax.units import Bytes, Seconds, SpecError

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


class EngineSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which engine emulates, and how exactly."""

    kind: Annotated[Literal["chunk", "fluid"], doc("Engine.", "chunk")] = "chunk"
    switching: Annotated[
        Literal["cut_through", "store_and_forward"],
        doc("Whether a switch forwards a chunk before all of it is in.", "cut_through"),
    ] = "cut_through"
    order: Annotated[
        Literal["auto", "exact", "arrival"],
        doc("How chunks sharing a link are ordered.", "auto"),
    ] = "auto"
    fast_forward: Annotated[bool, doc("Skip rounds that repeat the last one exactly.", True)] = True
    aggregate: Annotated[
        bool,
        doc(
            "All-to-all by classes of alike flows, all started together, at max-min fair rates; "
            "for sizes whose sends are too many to emulate one by one.",
            True,
        ),
    ] = False
    precision: Annotated[Literal["float64", "float32"], doc("Floating-point type.", "float64")] = (
        "float64"
    )
    quantum: Annotated[
        Seconds, doc("Events closer than this are taken as one (fluid only).", "1 us")
    ] = default(no_time)
    devices: Annotated[
        Literal["all"] | Count,
        doc("Devices that share the ranks of one run, of all processes together.", "all", 8),
    ] = 1

    def __post_init__(self):
        given = (
            ("switching", self.switching, "cut_through"),
            ("order", self.order, "auto"),
            ("fast_forward", self.fast_forward, True),
            ("devices", self.devices, 1),
        )
        if self.kind == "chunk":
            given = (("quantum", self.quantum, 0),)
        for key, value, usual in given:
            if value != usual:
                raise SpecError(
                    f'has no meaning with engine.kind = "{self.kind}"',
                    where=f"engine.{key}",
                    value=value,
                    remedy=f"leave {key} out, or use the other engine",
                )


class OutputSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to keep of a run."""

    file: Annotated[
        Annotated[str, Meta(min_length=1)] | None, doc("Archive to write (HDF5).", "run.h5")
    ] = None
    figures: Annotated[bool, doc("Write figures beside the archive.", True)] = False


class Spec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole run as the TOML file gives it."""

    network: AnyNetwork
    collective: Collective | None = None
    traffic: Traffic | None = None
    engine: EngineSpec = default(EngineSpec)
    faults: FaultsSpec = default(FaultsSpec)
    training: TrainingSpec | None = None
    tune: TuneSpec | None = None
    output: OutputSpec = default(OutputSpec)

    def __post_init__(self):
        self._check_work()
        self._check_engine()
        self._check_groups()
        ranks = self.network.ranks
        self.faults.check(
            ranks,
            reduces_in_time=self.network.reduction_rate is not None,
            trains=self.training is not None,
        )
        if self.training is not None:
            self.training.check_ranks(ranks)
        self._check_weights()

    def _check_weights(self):
        network, collective = self.network, self.collective
        if collective is None:
            return
        if collective.shards is not None:
            check_shards(collective.shards, network.ranks)
        key = "shards" if collective.rail_shares is None else "rail_shares"
        if getattr(collective, key) is None or not collective.stripe:
            return
        is_plane = isinstance(network, FlatRails) and network.reach == "all"
        if not is_plane or network.node_size > 1 or network.channels not in (None, network.ports):
            raise SpecError(
                'with stripe needs a flat_rails network with reach = "all", without nodes, '
                "one lane per rail",
                where=f"collective.{key}",
                remedy=f"leave {key} out",
            )
        if collective.rail_shares is not None:
            collective.rail_shares.check(network.ranks, network.ports)
        self._check_weights_are_known(f"collective.{key}")

    def _check_weights_are_known(self, key: str):
        """Refuse what does not cut sends by weights: other engines, lost packets, detours."""
        faults = self.faults
        lossy = [
            f"faults.{name}[{i}].loss"
            for name in ("links", "random")
            for i, each in enumerate(getattr(faults, name))
            if each.loss > 0
        ]
        for where, is_given in (
            ("engine.kind", self.engine.kind != "chunk"),
            ("engine.aggregate", self.engine.aggregate),
            ("faults.reroute", faults.reroute != "none"),
            *((name, True) for name in lossy),
        ):
            if is_given:
                raise SpecError(
                    f"does not go with {key} and stripe",
                    where=where,
                    remedy=f"leave it out, or leave {key} out",
                )

    @property
    def the_collective(self) -> Collective:
        """The collective; SpecError where the spec has traffic in its place."""
        if self.collective is None:
            raise SpecError(
                "section [collective] is missing", remedy="what is asked needs a collective"
            )
        return self.collective

    @property
    def _is_on_swarmx(self) -> bool:
        return isinstance(self.network, Wafer) and self.network.tiles is None

    @property
    def _is_grid(self) -> bool:
        return isinstance(self.network, Grid) or (
            isinstance(self.network, Wafer) and self.network.tiles is not None
        )

    def _check_work(self):
        if self.collective is None and self.traffic is None:
            raise SpecError(
                "section [collective] is missing",
                remedy="add it, or [traffic] for flows that are no collective; "
                "`mrcjax spec --example flat_rails` prints one to start from",
            )
        if self.traffic is None:
            return
        for section in ("collective", "training"):
            if getattr(self, section) is not None:
                raise SpecError(
                    f"section [traffic] does not go with [{section}]", remedy="keep one of the two"
                )
        if self.engine.kind != "fluid":
            raise SpecError(
                "does not emulate [traffic]",
                where="engine.kind",
                value=self.engine.kind,
                remedy='use engine.kind = "fluid"',
            )
        self.traffic.check_ranks(self.network.ranks)

    def _check_engine(self):
        if self.engine.kind == "fluid" and self.network.reduction_rate is not None:
            raise SpecError(
                'has no meaning with engine.kind = "fluid"',
                where="network.reduction_rate",
                value=self.network.reduction_rate,
                remedy='leave it out, or use engine.kind = "chunk"',
            )
        if self.engine.kind == "fluid":
            self.faults.check_fluid()
        reduces = self.collective is not None and self.collective.algorithm == "in_network"
        if self.engine.kind == "fluid" and (reduces or self._is_on_swarmx):
            raise SpecError(
                "has no switches that reduce",
                where="engine.kind",
                value=self.engine.kind,
                remedy='use engine.kind = "chunk" with algorithm = "in_network"',
            )
        if self.engine.order == "arrival" and isinstance(self.network, Graph):
            raise SpecError(
                "has no effect on a graph",
                where="engine.order",
                value=self.engine.order,
                remedy='use order = "auto", or engine.kind = "fluid"',
            )
        several = self.engine.devices != 1
        for where, is_given in (
            ("engine.aggregate", self.engine.aggregate),
            ("faults.scenarios", self.faults.scenarios > 1),
        ):
            if several and is_given:
                raise SpecError(
                    f"does not go with {where}",
                    where="engine.devices",
                    value=self.engine.devices,
                    remedy="leave one of the two out",
                )

    def _check_groups(self):
        if self.collective is None:
            return
        ranks, collective = self.network.ranks, self.collective
        if self._is_on_swarmx:
            _check_on_wafers(collective)
        self._check_dimensions(collective)
        has_dimensions = collective.dimensions is not None or self._is_grid
        is_flat = self.network.node_size == 1 and not has_dimensions
        if collective.algorithm == "hierarchical" and is_flat:
            add_nodes = 'add node_size = 8 and node_rate = "450 GB/s" under [network], '
            if isinstance(self.network, Graph):
                add_nodes = ""
            raise SpecError(
                "needs scale-up nodes, but network.node_size is 1",
                where="collective.algorithm",
                value=collective.algorithm,
                remedy=f'{add_nodes}name collective.dimensions, or use algorithm = "direct"',
            )
        in_nodes = collective.algorithm == "hierarchical" and collective.dimensions is None
        if in_nodes and ranks % self.network.node_size:
            raise SpecError(
                f"needs full nodes, and network.ranks = {ranks} leaves one of "
                f"{self.network.node_size} partly filled",
                where="collective.algorithm",
                value=collective.algorithm,
                remedy=f"use {self.network.nodes * self.network.node_size} ranks, "
                'or algorithm = "ring" or "direct"',
            )
        if collective.algorithm == "in_network" and not self.network.in_network_levels:
            what = "set network.in_network = true"
            if not self.network.may_reduce:
                what = f"a {self.network.kind} like this has none: choose another network.kind"
            raise SpecError(
                "needs switches that reduce, and network.in_network is false",
                where="collective.algorithm",
                value=collective.algorithm,
                remedy=("" if self._is_grid else f"{what}, or ")
                + 'use algorithm = "direct" or "ring"',
            )
        if collective.group_size is None:
            return
        span = collective.group_size * collective.group_stride
        if ranks % span:
            raise SpecError(
                f"times group_stride = {collective.group_stride} must divide "
                f"network.ranks = {ranks}",
                where="collective.group_size",
                value=collective.group_size,
                remedy="leave group_size out for one group of all ranks",
            )

    def _check_dimensions(self, collective: Collective):
        if collective.dimensions is None:
            if isinstance(collective.between, tuple) and not self._is_grid:
                raise SpecError(
                    "is a list without collective.dimensions",
                    where="collective.between",
                    value=list(collective.between),
                    remedy="give one algorithm, or name the dimensions",
                )
            return
        grouped = collective.group_size is not None
        ranks = collective.group_size or self.network.ranks
        product = math.prod(collective.dimensions)
        if product != ranks:
            name = "collective.group_size" if grouped else "network.ranks"
            raise SpecError(
                f"has dimensions for {product} ranks, not {name} = {ranks}",
                where="collective.dimensions",
                value=list(collective.dimensions),
                remedy=f"give dimensions whose product is {ranks}",
            )


def _check_on_wafers(collective: Collective):
    """Refuse all that the tree over wafers does not do."""
    for key, value, only in (
        ("kind", collective.kind, "all_reduce"),
        ("algorithm", collective.algorithm, "in_network"),
        ("group_size", collective.group_size, None),
    ):
        if value != only:
            raise SpecError(
                "does not go with wafers, which meet only in the sum over all of them",
                where=f"collective.{key}",
                value=value,
                remedy=f'use {key} = "{only}"' if only else f"leave {key} out",
            )
