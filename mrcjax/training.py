"""Turn bucket times from the emulator into step time, utilisation, tokens/s and cost of a run.

Data-parallel traffic of a dense transformer: per bucket of layers a reduce-scatter of gradients
under the backward of the last micro-batch and an all-gather of parameters before and under the
forward of the first. ``buckets`` says which collectives to emulate, ``step`` takes their times.
All times are seconds; ``LEFT_OUT`` says what the model does not contain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from mrcjax.spec import Assumption, TrainingSpec
from mrcjax.units import Quantity, format_bytes, format_rate, format_seconds

# How FLOPs per token are counted: attention over the whole square, over the half that a causal
# mask leaves, or 6 per parameter. An MFU means nothing without naming it.
FlopConvention = Literal["full", "causal", "parameters"]
FLOP_CONVENTIONS: tuple[FlopConvention, ...] = get_args(FlopConvention)

ACTIVATION_BYTES = 2  # activations are exchanged in bf16, FP8 training included
OPTIMISER_STATE_BYTES = 12  # per parameter: fp32 master copy and two moments

LEFT_OUT = """\
Left out of the training step: failures and checkpoints; data loading; stragglers other than
faults.late; slowdown of kernels by communication unless training.comm_slowdown is set; tensor- and
context-parallel traffic (it is part of training.achievable_fraction and must stay inside scale-up
nodes); pipeline sends; hiding of transfers under the pipeline bubble; the gradients and parameters
of embedding and output head on the wire (2 x vocab x hidden, 0.8% of llama2_70b; their FLOPs
are counted); clock throttling; mixture-of-experts all-to-all; storage and management networks."""


# --- model -------------------------------------------------------------------------------------


def layer_parameters(training: TrainingSpec) -> int:
    """Count the parameters of one layer: grouped-query attention, gated MLP, two norms."""
    shape = training.shape
    attention = 2 * shape.hidden**2 + 2 * shape.hidden * _kv_width(training)
    return attention + 3 * shape.ffn * shape.hidden + 2 * shape.hidden


def parameters(training: TrainingSpec) -> int:
    """Count the parameters: layers, embedding, output head, last norm."""
    shape = training.shape
    ends = 2 * shape.vocab * shape.hidden + shape.hidden
    return shape.layers * layer_parameters(training) + ends


def flops_per_token(training: TrainingSpec, attention: FlopConvention = "full") -> float:
    """Count FLOPs per token, forward and backward, in the named convention.

    "full" and "causal" count matrix products (not norms, not the look-up of the embedding) and
    attention scores; "parameters" is 6 per parameter, embedding included.
    """
    if attention == "parameters":
        return 6.0 * parameters(training)
    shape = training.shape
    projections = 2 * shape.hidden**2 + 2 * shape.hidden * _kv_width(training)
    per_layer = 6 * projections + 18 * shape.ffn * shape.hidden
    products = shape.layers * per_layer + 6 * shape.vocab * shape.hidden
    scores = 12 * shape.layers * shape.hidden * training.sequence
    return products + scores * {"full": 1.0, "causal": 0.5}[attention]


def _kv_width(training: TrainingSpec) -> int:
    shape = training.shape
    return shape.hidden // shape.heads * shape.kv_heads


# --- what to emulate ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Bucket:
    """One collective to emulate; ``size_bytes`` is the whole buffer, as ``collective.size``."""

    collective: Literal["reduce_scatter", "all_gather", "all_reduce"]
    size_bytes: float


@dataclass(frozen=True)
class Buckets:
    """The data-parallel collectives of a step.

    All ``num_groups`` groups run each bucket at the same time. Ranks {i, i + stride, ...} form a
    group (tensor index fastest, then data, then pipeline), as ``collective.group_size`` and
    ``collective.group_stride`` mean it. With one replica there is nothing to send.
    """

    gradient: Bucket | None  # reduce-scatter; the all-reduce without optimiser sharding
    parameter: Bucket | None  # all-gather; None without optimiser sharding
    num_buckets: int  # of each kind, per rank and step
    group_size: int
    group_stride: int
    num_groups: int
    sent_bytes: float  # per rank and step, over all buckets
    tensor_parallel_sent_bytes: float  # per rank and step, inside the tensor-parallel group
    warnings: tuple[str, ...] = ()

    @property
    def distinct(self) -> tuple[Bucket, ...]:
        """The collectives to emulate, one emulation each."""
        return tuple(b for b in (self.gradient, self.parameter) if b is not None)


def buckets(
    training: TrainingSpec,
    ranks: int,
    node_size: int,
    port_bytes_per_s: float | None = None,
) -> Buckets:
    """Return the collectives of one step; SpecError when the shape does not fit the ranks.

    All layers are alike, so all buckets are; embedding and output head are left out.
    ``port_bytes_per_s`` is what a rank can send over the network, all ports after goodput: it
    prices the tensor-parallel traffic in the warning for a network without large enough nodes.
    """
    training.check_ranks(ranks)
    tensor, pipeline = training.tensor_parallel, training.pipeline_parallel
    replicas = training.data_parallel(ranks)
    is_sharded = training.optimiser_sharding == "zero1"
    bucket_parameters = training.bucket_layers * layer_parameters(training) / tensor
    gradient_bytes = bucket_parameters * training.gradient_bytes
    gradient, parameter, num_buckets = None, None, 0
    sent_bytes = 0.0
    if replicas > 1:
        num_buckets = training.shape.layers // (pipeline * training.bucket_layers)
        kept = (replicas - 1) / replicas
        if is_sharded:
            gradient = Bucket("reduce_scatter", gradient_bytes)
            parameter = Bucket("all_gather", bucket_parameters * training.parameter_bytes)
            sent_bytes = num_buckets * kept * (gradient_bytes + parameter.size_bytes)
        else:
            gradient = Bucket("all_reduce", gradient_bytes)
            sent_bytes = num_buckets * kept * 2 * gradient_bytes
    return Buckets(
        gradient=gradient,
        parameter=parameter,
        num_buckets=num_buckets,
        group_size=replicas,
        group_stride=tensor,
        num_groups=ranks // replicas,
        sent_bytes=sent_bytes,
        tensor_parallel_sent_bytes=_tensor_parallel_bytes(training, ranks),
        warnings=(
            *_tensor_parallel_warning(training, ranks, node_size, port_bytes_per_s),
            *_state_warning(training),
        ),
    )


def _tensor_parallel_bytes(training: TrainingSpec, ranks: int) -> float:
    """Return what a rank sends per step: 4 all-gathers and 4 reduce-scatters per layer and pass."""
    tensor = training.tensor_parallel
    activations = training.sequence * training.micro_batch * training.shape.hidden
    layers = training.shape.layers // training.pipeline_parallel
    per_layer = 8 * activations * ACTIVATION_BYTES * (tensor - 1) / tensor
    return per_layer * layers * training.micro_batches(ranks)


def _tensor_parallel_warning(
    training: TrainingSpec, ranks: int, node_size: int, port_bytes_per_s: float | None
) -> list[str]:
    tensor = training.tensor_parallel
    if node_size % tensor == 0:
        return []
    sent_bytes = _tensor_parallel_bytes(training, ranks)
    cost = ""
    if port_bytes_per_s is not None:
        computing_s = _computing_s(training, ranks)
        cost = (
            f", {format_seconds(sent_bytes / port_bytes_per_s)} at "
            f"{format_rate(port_bytes_per_s)} beside {format_seconds(computing_s)} of computing"
        )
    nodes = "no nodes" if node_size == 1 else f"nodes of {node_size} ranks"
    return [
        f"training.tensor_parallel = {tensor} needs scale-up nodes of a multiple of {tensor} ranks "
        f"and this network has {nodes}: each rank would send up to {format_bytes(sent_bytes)} of "
        f"tensor-parallel traffic per step over the network{cost}; the step time does not "
        "contain it"
    ]


def _state_warning(training: TrainingSpec) -> list[str]:
    if training.optimiser_sharding != "none":
        return []
    share = parameters(training) / (training.tensor_parallel * training.pipeline_parallel)
    return [
        'training.optimiser_sharding = "none" keeps '
        f"{format_bytes(OPTIMISER_STATE_BYTES * share)} of optimiser state on every rank; "
        "training.optimiser_time must be that of the whole state"
    ]


# --- overlap -----------------------------------------------------------------------------------


def exposed_reduce_scatter_s(
    computing_s: Sequence[float], transfer_s: Sequence[float], slowdown: float = 0.0
) -> float:
    """Return by how much the transfers of a backward end after its computing alone would.

    Bucket k, in the order of the backward, is ready when its ``computing_s[k]`` is done, and
    buckets are served in order: end_k = max(ready_k, end_{k-1}) + transfer_k. Computing runs
    1 + ``slowdown`` times slower while a transfer is under way.
    """
    ready_s = end_s = 0.0
    for work_s, bucket_s in zip(computing_s, transfer_s, strict=True):
        # transfers released so far run back to back, so the link is busy until end_s
        ready_s += work_s + _slowed_s(end_s - ready_s, work_s, slowdown)
        end_s = max(ready_s, end_s) + bucket_s
    return max(ready_s, end_s) - sum(computing_s)


def exposed_all_gather_s(
    computing_s: Sequence[float], transfer_s: Sequence[float], slowdown: float = 0.0
) -> float:
    """Return by how much a forward that waits for its parameters ends after computing alone would.

    The transfers start together with the step and run back to back in the order of the forward;
    bucket k computes once its parameters have arrived and bucket k - 1 is computed.
    """
    total_s = sum(transfer_s)
    arrived_s = done_s = 0.0
    for work_s, bucket_s in zip(computing_s, transfer_s, strict=True):
        arrived_s += bucket_s
        start_s = max(arrived_s, done_s)
        done_s = start_s + work_s + _slowed_s(total_s - start_s, work_s, slowdown)
    return done_s - sum(computing_s)


def exposed_closed_form_s(num_buckets: int, transfer_s: float, computing_s: float) -> float:
    """Return what both recursions give for equal buckets without slowdown.

    ``transfer_s`` is of one bucket, ``computing_s`` of the whole backward or forward.
    """
    under_s = computing_s * (num_buckets - 1) / num_buckets
    return max(transfer_s, num_buckets * transfer_s - under_s)


def _slowed_s(busy_s: float, work_s: float, slowdown: float) -> float:
    """Return what ``work_s`` of computing loses while the link stays busy for ``busy_s`` more."""
    # of busy_s only busy_s / (1 + slowdown) is computed, unless the work ends before
    return min(max(busy_s, 0.0) * slowdown / (1 + slowdown), work_s * slowdown)


# --- the step ----------------------------------------------------------------------------------


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
    computing_s: float
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


def step(training: TrainingSpec, ranks: int, t_rs_s: float, t_ag_s: float = 0.0) -> TrainingStep:
    """Return the step whose gradient bucket takes ``t_rs_s`` and parameter bucket ``t_ag_s``.

    The times are those of ``buckets(...).gradient`` and ``.parameter``; 0 where there is none.
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
    computing_s = _computing_s(training, ranks)
    # counted FLOPs are a third forward, two thirds backward; what is recomputed is in the backward
    forward_s = computing_s / (3 * training.recompute_factor * micro_batches)
    backward_s = computing_s / micro_batches - forward_s
    stages = training.pipeline_parallel
    bubble_s = (stages - 1) / (training.interleave * micro_batches) * computing_s
    exposed_rs_s, exposed_ag_s = _exposed_s(
        training, sent.num_buckets, (t_rs_s, t_ag_s), (backward_s, forward_s)
    )
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
        utilisation=computing_s / step_s,
        mfu_full=mfu["full"],
        mfu_causal=mfu["causal"],
        mfu_parameters=mfu["parameters"],
        tokens_per_s=tokens / step_s,
    )


def _exposed_s(
    training: TrainingSpec,
    num_buckets: int,
    transfer_s: tuple[float, float],
    computing_s: tuple[float, float],
) -> tuple[float, float]:
    """Return what stays exposed of gradients (backward) and of parameters (forward)."""
    if num_buckets == 0:
        return 0.0, 0.0
    if not training.overlap:
        return num_buckets * transfer_s[0], num_buckets * transfer_s[1]
    slowdown = training.comm_slowdown
    exposed = []
    for recursion, bucket_s, phase_s in zip(
        (exposed_reduce_scatter_s, exposed_all_gather_s), transfer_s, computing_s, strict=True
    ):
        # without transfers the difference of two equal sums would be a rounding error
        exposed.append(
            recursion([phase_s / num_buckets] * num_buckets, [bucket_s] * num_buckets, slowdown)
            if bucket_s > 0
            else 0.0
        )
    return exposed[0], exposed[1]


def _computing_s(training: TrainingSpec, ranks: int) -> float:
    counted = flops_per_token(training, achievable_fraction_convention(training))
    done = training.global_batch_tokens * counted * training.recompute_factor
    gpu = training.hardware
    return done / (ranks * gpu.peak_flops_per_s * gpu.achievable_fraction)


def achievable_fraction_convention(training: TrainingSpec) -> FlopConvention:
    """Return how the FLOPs behind the achievable fraction are counted.

    The catalogue's fractions count attention in full; one given in the spec is taken to count
    as ``training.attention`` says. So ``attention`` alone never changes the computing time.
    """
    return "full" if training.achievable_fraction is None else training.attention


# --- the run -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunCost:
    """Hours, dollars and energy of a whole run; electricity is at the meter (times PUE)."""

    hours: float
    gpu_usd: float
    network_usd: float  # its share of the network's life
    electricity_usd: float
    total_usd: float
    average_watts: float  # GPUs and network, at the meter
    energy_kwh: float

    def rows(self) -> list[tuple[str, str]]:
        """Return label and text of each line of a table."""
        return [
            ("hours", f"{self.hours:,.1f}"),
            ("GPUs", _dollars(self.gpu_usd)),
            ("network", _dollars(self.network_usd)),
            ("electricity", _dollars(self.electricity_usd)),
            ("total", _dollars(self.total_usd)),
            ("average power", f"{self.average_watts / 1e3:,.1f} kW"),
            ("energy", f"{self.energy_kwh:,.0f} kWh"),
        ]


def run_cost(
    training: TrainingSpec,
    step: TrainingStep,
    ranks: int,
    network_watts: float,
    network_usd: float,
) -> RunCost:
    """Return what ``training.run_tokens`` cost at this step time.

    ``network_usd`` is the purchase, written off over ``training.network_life_hours``.
    ``network_watts`` is what the measured power of a server does not contain: switches and modules,
    and adapters beyond the usual one per GPU.
    """
    if ranks != step.ranks:
        raise ValueError(f"the step is of {step.ranks} ranks, got ranks = {ranks}")
    gpu = training.hardware
    hours = training.run_tokens / step.tokens_per_s / 3600
    server_watts = ranks * gpu.server_watts * gpu.server_load
    average_watts = (server_watts + network_watts) * training.pue
    energy_kwh = hours * average_watts / 1e3
    gpu_usd = hours * ranks * gpu.gpu_hour_usd
    network_share_usd = hours * network_usd / training.network_life_hours
    electricity_usd = energy_kwh * training.electricity_usd_per_kwh
    return RunCost(
        hours=hours,
        gpu_usd=gpu_usd,
        network_usd=network_share_usd,
        electricity_usd=electricity_usd,
        total_usd=gpu_usd + network_share_usd + electricity_usd,
        average_watts=average_watts,
        energy_kwh=energy_kwh,
    )


# --- what was assumed --------------------------------------------------------------------------


class Explanation(NamedTuple):
    """One line of ``explain``: value with its unit, where it comes from, how far to trust it."""

    field: str
    value: str
    source: str
    mark: str


_UNITS = {
    "sequence": "tokens",
    "global_batch_tokens": "tokens",
    "micro_batch": "sequences",
    "tensor_parallel": "ranks",
    "pipeline_parallel": "stages",
    "interleave": "virtual stages",
    "gradient_bytes": "B",
    "parameter_bytes": "B",
    "bucket_layers": "layers",
    "run_tokens": "tokens",
    "gpu_hour_usd": "$/h",
    "server_watts": "W",
    "electricity_usd_per_kwh": "$/kWh",
    "network_life_hours": "h",
}


def explain(training: TrainingSpec, ranks: int | None = None) -> list[Explanation]:
    """Return every assumption of the training step, then what follows from it by arithmetic.

    With ``ranks`` the parallel sizes and the computing time are among what follows.
    """
    lines = [_explained(assumption) for assumption in training.explain()]
    derived = {
        "parameters": f"{parameters(training):,}",
        "parameters of a layer": f"{layer_parameters(training):,}",
        "FLOPs per token, attention in full": _gflop(flops_per_token(training, "full")),
        "FLOPs per token, causal attention": _gflop(flops_per_token(training, "causal")),
        "FLOPs per token, 6 x parameters": _gflop(flops_per_token(training, "parameters")),
        "attention as counted in achievable_fraction": achievable_fraction_convention(training),
    }
    if ranks is not None:
        sent = buckets(training, ranks, node_size=training.tensor_parallel)
        derived |= {
            "replicas (data-parallel group)": f"{sent.group_size:,}",
            "groups at once": f"{sent.num_groups:,}",
            "micro-batches per replica": f"{training.micro_batches(ranks):,}",
            "computing time of a step": format_seconds(_computing_s(training, ranks)),
            "data-parallel bytes sent per rank and step": format_bytes(sent.sent_bytes),
            "tensor-parallel bytes sent per rank and step": format_bytes(
                sent.tensor_parallel_sent_bytes
            ),
        }
        derived |= {
            f"{bucket.collective} bucket": f"{format_bytes(bucket.size_bytes)} x {sent.num_buckets}"
            for bucket in sent.distinct
        }
    return lines + [Explanation(field, value, "arithmetic", "") for field, value in derived.items()]


def _explained(assumption: Assumption) -> Explanation:
    field, value, source, mark = assumption
    return Explanation(field, _with_unit(field, value), source, mark)


def _with_unit(field: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Quantity | str):
        return str(value)
    if field == "peak_flops":
        return f"{value / 1e12:,.6g} TFLOP/s"
    unit = _UNITS.get(field, "")
    # "1 sequence", but "8 sequences"
    return f"{value:,.15g} {unit.removesuffix('s') if value == 1 else unit}".strip()


def _gflop(flops: float) -> str:
    return f"{flops / 1e9:.2f} GFLOP"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}%"


def _dollars(usd: float) -> str:
    return f"{usd:,.0f} $"
