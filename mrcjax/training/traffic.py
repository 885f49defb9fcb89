"""Turn a model split over ranks into the collectives that one training step sends."""

from dataclasses import dataclass
from typing import Literal

from mrcjax.spec import TrainingSpec
from mrcjax.training.computing import layer_parameters, parameters, step_computing_s
from mrcjax.units import format_bytes, format_rate, format_seconds

ACTIVATION_BYTES = 2  # activations are exchanged in bf16, FP8 training included
OPTIMISER_STATE_BYTES = 12  # per parameter: fp32 master copy and two moments


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
    tensor_parallel_bytes = _tensor_parallel_bytes(training, ranks)
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
        tensor_parallel_sent_bytes=tensor_parallel_bytes,
        warnings=(
            *_tensor_parallel_warning(
                training, ranks, node_size, port_bytes_per_s, tensor_parallel_bytes
            ),
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
    training: TrainingSpec,
    ranks: int,
    node_size: int,
    port_bytes_per_s: float | None,
    sent_bytes: float,
) -> list[str]:
    tensor = training.tensor_parallel
    if node_size % tensor == 0:
        return []
    cost = ""
    if port_bytes_per_s is not None:
        cost = (
            f", {format_seconds(sent_bytes / port_bytes_per_s)} at "
            f"{format_rate(port_bytes_per_s)} beside "
            f"{format_seconds(step_computing_s(training, ranks))} of computing"
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
