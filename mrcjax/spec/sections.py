"""Say what to run: collective, engine, output, and the whole spec with its cross rules."""

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

from mrcjax.spec.collective import Collective
from mrcjax.spec.faults import FaultsSpec
from mrcjax.spec.fields import Count, default, doc, no_time
from mrcjax.spec.network import AnyNetwork, FlatRails, Graph, Grid, Wafer
from mrcjax.spec.shares import check_shards
from mrcjax.spec.traffic import Traffic
from mrcjax.spec.training import TrainingSpec
from mrcjax.spec.tune import TuneSpec
from mrcjax.units import Seconds, SpecError


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
        lanes = network.ports if network.channels is None else network.channels
        if not is_plane or network.node_size > 1 or lanes % network.ports:
            raise SpecError(
                'with stripe needs a flat_rails network with reach = "all", without nodes, '
                "one lane per rail or a multiple",
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
