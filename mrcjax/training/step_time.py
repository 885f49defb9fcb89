"""Turn the times of a step's buckets into the time and utilisation of the step."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mrcjax.spec import TrainingSpec
from mrcjax.training.computing import (
    FLOP_CONVENTIONS,
    FlopConvention,
    flops_per_token,
    step_computing_s,
)
from mrcjax.training.overlap import exposed_all_gather_s, exposed_reduce_scatter_s
from mrcjax.training.traffic import buckets
from mrcjax.units import format_seconds

LEFT_OUT = """\
Left out of the training step: failures and checkpoints; data loading; stragglers other than those
of [faults]; slowdown of kernels by communication unless training.comm_slowdown is set; tensor- and
context-parallel traffic (it is part of training.achievable_fraction and must stay inside scale-up
nodes); pipeline sends; hiding of transfers under the pipeline bubble; the gradients and parameters
of embedding and output head on the wire (2 x vocab x hidden, 0.8% of llama2_70b; their FLOPs
are counted); clock throttling; mixture-of-experts all-to-all; storage and management networks."""


@dataclass(frozen=True)
class TrainingStep:
    """One training step. ``utilisation`` is computing over step time, an MFU is FLOPs over peak.

    The MFUs differ only in how FLOPs per token are counted (``FLOP_CONVENTIONS``); ``mfu`` is the
    one that ``training.attention`` names.
    """

    ranks: int
    replicas: int
    micro_batches: int  # per replica
    global_batch_tokens: int
    attention: FlopConvention
    gradient_bucket_s: float
    parameter_bucket_s: float
    forward_s: float  # of one micro-batch on one rank
    backward_s: float  # of one micro-batch on one rank, recomputing included
    computing_s: float  # of the slowest rank, for which the others wait
    bubble_s: float
    exposed_reduce_scatter_s: float  # of the all-reduce without optimiser sharding
    exposed_all_gather_s: float
    optimiser_s: float
    step_s: float
    utilisation: float
    mfu_full: float
    mfu_causal: float
    mfu_parameters: float
    tokens_per_s: float

    @property
    def exposed_s(self) -> float:
        """Communication that no computing hides, seconds per step."""
        return self.exposed_reduce_scatter_s + self.exposed_all_gather_s

    @property
    def bucket_times_s(self) -> tuple[float, float]:
        """Seconds of a gradient bucket and of a parameter bucket; 0 where there is none."""
        return self.gradient_bucket_s, self.parameter_bucket_s

    @property
    def mfu(self) -> float:
        """Model FLOP utilisation in the convention ``attention``."""
        return {
            "full": self.mfu_full,
            "causal": self.mfu_causal,
            "parameters": self.mfu_parameters,
        }[self.attention]

    def rows(self) -> list[tuple[str, str]]:
        """Return label and text of each line of a table."""
        return [
            ("replicas x micro-batches", f"{self.replicas:,} x {self.micro_batches:,}"),
            ("gradient bucket", format_seconds(self.gradient_bucket_s)),
            ("parameter bucket", format_seconds(self.parameter_bucket_s)),
            ("computing", format_seconds(self.computing_s)),
            ("pipeline bubble", format_seconds(self.bubble_s)),
            ("exposed gradients", format_seconds(self.exposed_reduce_scatter_s)),
            ("exposed parameters", format_seconds(self.exposed_all_gather_s)),
            ("optimiser", format_seconds(self.optimiser_s)),
            ("step", format_seconds(self.step_s)),
            ("utilisation (computing / step)", _percent(self.utilisation)),
            ("MFU, attention in full", _percent(self.mfu_full)),
            ("MFU, causal attention", _percent(self.mfu_causal)),
            ("MFU, 6 x parameters", _percent(self.mfu_parameters)),
            ("tokens/s", f"{self.tokens_per_s:,.0f}"),
        ]


def step(
    training: TrainingSpec,
    ranks: int,
    t_rs_s: float,
    t_ag_s: float = 0.0,
    slowest: float = 1.0,
) -> TrainingStep:
    """Return the step whose gradient bucket takes ``t_rs_s`` and parameter bucket ``t_ag_s``.

    The times are those of ``buckets(...).gradient`` and ``.parameter``; 0 where there is none.
    ``slowest``: times that the slowest rank computes as long as the others, who wait for it;
    utilisation counts what they compute.
    Pipeline parallelism adds its bubble and leaves layers / stages on a rank.
    """
    for name, time_s in (("t_rs_s", t_rs_s), ("t_ag_s", t_ag_s)):
        if not (math.isfinite(time_s) and time_s >= 0):
            raise ValueError(f"{name} must be finite and not negative, got {time_s}")
    # nodes only matter for the warnings
    sent = buckets(training, ranks, node_size=training.tensor_parallel)
    for name, time_s, bucket in (
        ("t_rs_s", t_rs_s, sent.gradient),
        ("t_ag_s", t_ag_s, sent.parameter),
    ):
        if bucket is None and time_s != 0:
            raise ValueError(f"{name} must be 0, got {time_s}: the step has no such bucket")

    micro_batches = training.micro_batches(ranks)
    useful_s = step_computing_s(training, ranks)
    computing_s = useful_s * slowest
    # counted FLOPs are a third forward, two thirds backward; what is recomputed is in the backward
    forward_s = computing_s / (3 * training.recompute_factor * micro_batches)
    backward_s = computing_s / micro_batches - forward_s
    stages = training.pipeline_parallel
    bubble_s = (stages - 1) / (training.interleave * micro_batches) * computing_s
    exposed_rs_s = _exposed_s(
        training, sent.num_buckets, t_rs_s, backward_s, exposed_reduce_scatter_s
    )
    exposed_ag_s = _exposed_s(training, sent.num_buckets, t_ag_s, forward_s, exposed_all_gather_s)
    optimiser_s = float(training.optimiser_time)
    step_s = computing_s + bubble_s + exposed_rs_s + exposed_ag_s + optimiser_s

    tokens = training.global_batch_tokens
    peak_flops = ranks * training.hardware.peak_flops_per_s * step_s
    mfu = {c: tokens * flops_per_token(training, c) / peak_flops for c in FLOP_CONVENTIONS}
    return TrainingStep(
        ranks=ranks,
        replicas=training.data_parallel(ranks),
        micro_batches=micro_batches,
        global_batch_tokens=tokens,
        attention=training.attention,
        gradient_bucket_s=t_rs_s,
        parameter_bucket_s=t_ag_s,
        forward_s=forward_s,
        backward_s=backward_s,
        computing_s=computing_s,
        bubble_s=bubble_s,
        exposed_reduce_scatter_s=exposed_rs_s,
        exposed_all_gather_s=exposed_ag_s,
        optimiser_s=optimiser_s,
        step_s=step_s,
        utilisation=useful_s / step_s,
        mfu_full=mfu["full"],
        mfu_causal=mfu["causal"],
        mfu_parameters=mfu["parameters"],
        tokens_per_s=tokens / step_s,
    )


def _exposed_s(
    training: TrainingSpec,
    num_buckets: int,
    bucket_s: float,
    computing_s: float,
    recursion: Callable[[Sequence[float], Sequence[float], float], float],
) -> float:
    """Return what stays exposed of transfers of ``bucket_s`` each beside ``computing_s`` in all."""
    # without transfers the difference of two equal sums would be a rounding error
    if bucket_s == 0:
        return 0.0
    if not training.overlap:
        return num_buckets * bucket_s
    bucket_computing_s = computing_s / num_buckets
    return recursion(
        [bucket_computing_s] * num_buckets, [bucket_s] * num_buckets, training.comm_slowdown
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}%"
