"""Refuse what cannot be tuned, in words."""

from mrcjax.spec import FlatRails, Spec, SpecError, TuneSpec
from mrcjax.tuning.classes import Classes
from mrcjax.tuning.damage import check_faults

MOST_PAIRS = 20_000_000  # pairs of classes times rails that the loads are worked out for


def check(spec: Spec, options: TuneSpec) -> None:
    """Refuse what cannot be tuned; raises SpecError."""
    network, collective = spec.network, spec.the_collective
    is_plane = isinstance(network, FlatRails) and network.reach == "all"
    if not is_plane or network.node_size > 1:
        raise SpecError(
            "can be tuned only as planes without nodes",
            where="network.kind",
            value=network.kind,
            remedy='use kind = "flat_rails" with reach = "all"',
        )
    _check_channels(spec, options)
    if collective.algorithm != "direct" or collective.group_size is not None:
        raise SpecError(
            "can be tuned only over all ranks",
            where="collective.algorithm",
            value=collective.algorithm,
            remedy='use algorithm = "direct" without group_size',
        )
    if collective.element_bytes is not None:
        raise SpecError(
            "does not go with tuning, which cuts in exact fractions",
            where="collective.element_bytes",
            value=collective.element_bytes,
            remedy="leave element_bytes out",
        )
    if collective.split != "equal":
        raise SpecError(
            "does not go with tuning, which finds the cut over rails itself",
            where="collective.split",
            value=collective.split,
            remedy="leave split out",
        )
    check_faults(spec, scenarios=True)
    _check_scenarios(spec, options)
    if network.ranks < 2:
        raise SpecError(
            "leaves nothing to tune", where="network.ranks", value=network.ranks, remedy="use 2"
        )
    if options.shards and collective.kind != "all_reduce":
        raise SpecError(
            f"is given by what a {collective.kind} is",
            where="tune.shards",
            value=True,
            remedy="only an all_reduce may place its shards freely; leave shards out",
        )
    if options.chunks and max(options.chunks) > 1 and collective.kind != "all_reduce":
        raise SpecError(
            f"cannot be pipelined in a {collective.kind}",
            where="tune.chunks",
            value=options.chunks,
            remedy="it has one half only; leave chunks out",
        )
    if not frees_rails(spec, options) and not frees_shards(spec, options):
        raise SpecError(
            "leaves nothing free here",
            where="tune.rails",
            value=options.rails,
            remedy="with one rail or fixed rails only the shards of an all_reduce can be tuned",
        )
    cuts = collective.stripe or network.ports == 1
    if not frees_rails(spec, options) and not cuts:
        raise SpecError(
            "needs sends that are striped over the rails",
            where="tune.rails",
            value=options.rails,
            remedy="set collective.stripe = true, or free the rails",
        )


def _check_channels(spec: Spec, options: TuneSpec) -> None:
    rails = spec.network.ports
    given = {"network.channels": (spec.network.channels,), "tune.channels": options.channels or ()}
    for where, counts in given.items():
        for count in counts:
            if count is not None and count % rails:
                raise SpecError(
                    f"must be a multiple of the {rails} rails, whose lanes have equal parts",
                    where=where,
                    value=count,
                    remedy=f"use for example {-(-count // rails) * rails}",
                )
            if count is not None and count != rails and options.rails == "whole":
                raise SpecError(
                    'does not go with rails = "whole", where a send has one lane',
                    where=where,
                    value=count,
                    remedy=f"use {rails}, or leave channels out",
                )


def _check_scenarios(spec: Spec, options: TuneSpec) -> None:
    given = {"objective": options.objective, "alike": options.alike}
    if spec.faults.scenarios > 1:
        if options.rails == "whole":
            raise SpecError(
                "is not known of several scenarios",
                where="tune.rails",
                value=options.rails,
                remedy='use rails = "shares" or "table", or faults.scenarios = 1',
            )
        if options.rails == "table" and options.alike:
            raise SpecError(
                'does not go with rails = "table", which treats every pair on its own',
                where="tune.alike",
                value=options.alike,
                remedy='leave it out, or use rails = "shares"',
            )
        return
    for key, value in given.items():
        if value is not None:
            raise SpecError(
                "has no effect with one scenario",
                where=f"tune.{key}",
                value=value,
                remedy=f"set faults.scenarios to how many there should be, or leave {key} out",
            )


def frees_rails(spec: Spec, options: TuneSpec) -> bool:
    """Whether the cut over rails is free."""
    return options.rails != "fixed" and spec.network.ports > 1


def frees_shards(spec: Spec, options: TuneSpec) -> bool:
    """Whether what each rank owns is free."""
    return options.shards is not False and spec.the_collective.kind == "all_reduce"


def lanes_per_rail(spec: Spec, options: TuneSpec) -> list[int]:
    """Numbers of lanes on a rail: as the spec stands, then those to try."""
    counts = [spec.network.channels or spec.network.ports, *(options.channels or ())]
    return [count // spec.network.ports for count in counts]


def check_size(classes: Classes) -> None:
    """Refuse more pairs of classes than the loads can be worked out for."""
    pairs = len(classes.count) ** 2 * classes.rails
    if pairs > MOST_PAIRS:
        raise SpecError(
            f"has {len(classes.count):,} ranks that all differ; pairs of them times rails are "
            f"{pairs:,} and the most is {MOST_PAIRS:,}",
            where="network.ranks",
            value=classes.ranks,
            remedy='use fewer ranks, ports of fewer different rates, or tune.rails = "shares"',
        )
