"""Turn a training spec into the list of all it assumes and what follows from that."""

from typing import Any, NamedTuple

from mrcjax.spec import TrainingSpec
from mrcjax.training.computing import (
    achievable_fraction_convention,
    flops_per_token,
    layer_parameters,
    parameters,
    step_computing_s,
)
from mrcjax.training.traffic import buckets
from mrcjax.units import Quantity, format_bytes, format_seconds

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


class Explanation(NamedTuple):
    """One line of ``explain``: value with its unit, where it comes from, how far to trust it."""

    field: str
    value: str
    source: str
    mark: str


def explain(training: TrainingSpec, ranks: int | None = None) -> list[Explanation]:
    """Return every assumption of the training step, then what follows from it by arithmetic.

    With ``ranks`` the parallel sizes and the computing time are among what follows.
    """
    lines = [
        Explanation(field, _with_unit(field, value), source, mark)
        for field, value, source, mark in training.explain()
    ]
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
            "computing time of a step": format_seconds(step_computing_s(training, ranks)),
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


def _with_unit(field: str, value: Any) -> str:
    if value is None:
        return "unknown"
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
