"""Say what `tune` may change and how it searches."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mrcjax.spec.fields import Count, Index, doc
from mrcjax.units import Seconds, SpecError

Positive = Annotated[float, Meta(gt=0)]


class TuneSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is free, and how the descent goes."""

    rails: Annotated[
        Literal["shares", "table", "whole", "fixed"],
        doc(
            "How sends go over rails: cut by weights of source and destination, by a weight of "
            "its own for every pair, whole on one rail each, or as the collective says.",
            "shares",
        ),
    ] = "shares"
    shards: Annotated[
        bool | None,
        doc("Whether the bytes that each rank owns are free; absent: in an all_reduce.", True),
    ] = None
    chunks: Annotated[
        Annotated[tuple[Count, ...], Meta(min_length=1)] | None,
        doc("Numbers of pipelined pieces to try; absent: that of the collective.", [1, 8, 64]),
    ] = None
    channels: Annotated[
        Annotated[tuple[Count, ...], Meta(min_length=1)] | None,
        doc(
            "Numbers of lanes per rank to try, multiples of the rails; absent: that of the "
            "network. They make a difference where a lane reduces in time, or chunks are stored "
            "before they are forwarded.",
            [8, 16],
        ),
    ] = None
    objective: Annotated[
        Literal["mean", "p95", "worst", "step"] | None,
        doc(
            "What to make small of the completion times of faults.scenarios: their mean, their "
            "95th percentile or the largest; absent: p95. Or the training step of [training], "
            "whose buckets are then tuned in the place of the collective.",
            "worst",
        ),
    ] = None
    alike: Annotated[
        bool | None,
        doc(
            "Whether ranks that random faults hit with the same chances are cut alike; false: "
            "each by its own record in these scenarios; absent: true with faults.scenarios.",
            False,
        ),
    ] = None
    target_time: Annotated[
        Seconds | None,
        doc("Find the rate of the rails that gives this time, and tune nothing.", "2.1 ms"),
    ] = None
    steps: Annotated[Count, doc("Steps down the loads of the ports.", 800)] = 800
    engine_steps: Annotated[
        Index | None,
        doc("Steps down the engine's own time; absent: up to 100, fewer at scale.", 100),
    ] = None
    learning_rate: Annotated[Positive, doc("First step size of Adam, in logarithms.", 0.02)] = 0.02
    temperature: Annotated[
        tuple[Positive, Positive],
        doc("First and last smoothing, as parts of the time.", [0.02, 0.0001]),
    ] = (0.02, 0.0001)
    programme: Annotated[
        bool, doc("Solve the linear programme where it has at most a million variables.", True)
    ] = True

    def __post_init__(self):
        if self.target_time is not None and self.target_time <= 0:
            raise SpecError(
                "must be above zero",
                where="tune.target_time",
                value=self.target_time,
                remedy='write for example "2.1 ms"',
            )
        if self.rails == "fixed" and self.shards is False:
            raise SpecError(
                "leaves nothing free with tune.shards = false",
                where="tune.rails",
                value=self.rails,
                remedy='use rails = "shares" or shards = true',
            )
        if self.temperature[1] > self.temperature[0]:
            raise SpecError(
                "must fall",
                where="tune.temperature",
                value=self.temperature,
                remedy="write the larger value first, for example [0.02, 0.0001]",
            )
