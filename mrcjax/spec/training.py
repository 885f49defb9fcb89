"""Say which training step surrounds the collective, every assumption a field with its source."""

import math
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct

from mrcjax import hardware as catalogue
from mrcjax.spec.fields import Count, Fraction, default, doc
from mrcjax.units import FlopsPerSecond, Seconds, SpecError, Watts

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]


class ModelShape(Struct, frozen=True, kw_only=True):
    """A dense transformer: layers, widths, attention heads, vocabulary."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int


PRICES = ("gpu_hour_usd", "server_watts", "server_load")

MODELS = {
    "llama2_70b": ModelShape(layers=80, hidden=8192, ffn=28672, heads=64, kv_heads=8, vocab=32000),
}


class TrainingHardware(Struct, frozen=True, kw_only=True):
    """What the step model needs of a GPU, from the catalogue unless the spec overrides it.

    Prices and power are None where neither has them: the step has a time then, and no cost.
    """

    peak_flops_per_s: float
    achievable_fraction: float
    gpu_hour_usd: float | None
    server_watts: float | None
    server_load: float | None

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Keys of what a cost needs and nobody gave."""
        return tuple(key for key in PRICES if getattr(self, key) is None)


class Assumption(NamedTuple):
    """One line of ``TrainingSpec.explain``."""

    field: str
    value: Any
    source: str
    mark: str


class TrainingSpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Model, batch, parallelism, GPU and prices of a training run.

    Use ``shape`` and ``hardware`` for what may come from a preset or the catalogue.
    """

    model: Annotated[Literal["llama2_70b"], doc("Model preset.", "llama2_70b")] = "llama2_70b"
    layers: Annotated[Count | None, doc("Transformer layers; absent: preset.", 80)] = None
    hidden: Annotated[Count | None, doc("Hidden size; absent: preset.", 8192)] = None
    ffn: Annotated[Count | None, doc("Width of the MLP; absent: preset.", 28672)] = None
    heads: Annotated[Count | None, doc("Attention heads; absent: preset.", 64)] = None
    kv_heads: Annotated[Count | None, doc("Key-value heads; absent: preset.", 8)] = None
    vocab: Annotated[Count | None, doc("Vocabulary; absent: preset.", 32000)] = None
    attention: Annotated[
        Literal["full", "causal"], doc("How the FLOPs of attention are counted.", "full")
    ] = "full"
    sequence: Annotated[Count, doc("Tokens in a sequence.", 4096)] = 4096
    global_batch_tokens: Annotated[Count, doc("Tokens per step.", 4194304)] = 4_194_304
    micro_batch: Annotated[Count, doc("Sequences in a micro-batch.", 1)] = 1
    tensor_parallel: Annotated[Count, doc("Tensor-parallel ranks.", 8)] = 8
    pipeline_parallel: Annotated[Count, doc("Pipeline stages.", 1)] = 1
    interleave: Annotated[Count, doc("Virtual stages per rank.", 1)] = 1
    optimiser_sharding: Annotated[
        Literal["zero1", "none"],
        doc("zero1: reduce-scatter and all-gather; none: one all-reduce.", "zero1"),
    ] = "zero1"
    gradient_bytes: Annotated[Count, doc("Bytes per gradient on the wire.", 2)] = 2
    parameter_bytes: Annotated[Count, doc("Bytes per parameter on the wire.", 2)] = 2
    bucket_layers: Annotated[Count, doc("Layers in a communication bucket.", 1)] = 1
    overlap: Annotated[bool, doc("Communicate under computing.", True)] = True
    gpu: Annotated[str, doc("Catalogue GPU.", "h100")] = "h100"
    precision: Annotated[Literal["bf16", "fp8"], doc("Which peak of the GPU counts.", "bf16")] = (
        "bf16"
    )
    peak_flops: Annotated[
        FlopsPerSecond | None, doc("Peak of a GPU; absent: catalogue.", "989 TFLOP/s")
    ] = None
    achievable_fraction: Annotated[
        Fraction | None, doc("Fraction of peak while computing; absent: catalogue.", 0.54)
    ] = None
    recompute_factor: Annotated[
        Annotated[float, Meta(ge=1)], doc("FLOPs done over FLOPs counted.", 1.0)
    ] = 1.0
    optimiser_time: Annotated[Seconds, doc("Optimiser step.", "10 ms")] = default(
        lambda: Seconds(10e-3, "10 ms")
    )
    comm_slowdown: Annotated[
        NotNegative, doc("Slowdown of kernels while communicating; 0.1 is 10%.", 0.0)
    ] = 0.0
    run_tokens: Annotated[Positive, doc("Training tokens of one run.", 2.0e12)] = 2.0e12
    gpu_hour_usd: Annotated[
        NotNegative | None,
        doc("GPU-hour without network and electricity; absent: catalogue.", 2.1),
    ] = None
    server_watts: Annotated[
        Watts | None, doc("Server power per GPU; absent: catalogue.", "1050 W")
    ] = None
    server_load: Annotated[
        Fraction | None, doc("Average over full server power; absent: catalogue.", 0.9)
    ] = None
    electricity_usd_per_kwh: Annotated[NotNegative, doc("Price of electricity.", 0.09)] = 0.09
    pue: Annotated[
        Annotated[float, Meta(ge=1)], doc("Power of the site over power of the machines.", 1.3)
    ] = 1.3
    network_life_hours: Annotated[
        Positive, doc("Hours over which the network is written off.", 35040)
    ] = 35040.0

    def __post_init__(self):
        shape = self.shape
        _divides("tensor_parallel", self.tensor_parallel, "heads", shape.heads)
        _divides("heads", shape.heads, "hidden", shape.hidden)
        _divides("kv_heads", shape.kv_heads, "heads", shape.heads)
        if self.interleave > 1 and self.pipeline_parallel == 1:
            raise SpecError(
                "has no effect with training.pipeline_parallel = 1",
                where="training.interleave",
                value=self.interleave,
                remedy="leave interleave out, or set pipeline_parallel = 4",
            )
        stages = self.pipeline_parallel * self.interleave
        if shape.layers % stages:
            raise SpecError(
                f"times interleave = {self.interleave} must divide layers = {shape.layers}",
                where="training.pipeline_parallel",
                value=self.pipeline_parallel,
                remedy="every stage holds the same number of layers",
            )
        layers_of_stage = shape.layers // self.pipeline_parallel
        if layers_of_stage % self.bucket_layers:
            raise SpecError(
                f"must divide the {layers_of_stage} layers of a pipeline stage",
                where="training.bucket_layers",
                value=self.bucket_layers,
                remedy="all buckets have the same size; 1 is the usual choice",
            )
        _divides("sequence", self.sequence, "global_batch_tokens", self.global_batch_tokens)
        _ = self.hardware

    @property
    def shape(self) -> ModelShape:
        """The model: the preset with the spec's overrides."""
        preset = MODELS[self.model]
        given = {key: getattr(self, key) for key in ModelShape.__struct_fields__}
        return ModelShape(**{k: getattr(preset, k) if v is None else v for k, v in given.items()})

    @property
    def hardware(self) -> TrainingHardware:
        """The GPU: the catalogue's values with the spec's overrides, SI floats."""
        values: dict[str, Any] = {
            field: self._from_gpu(key)[0] for key, (field, _) in self._gpu_fields().items()
        }
        return TrainingHardware(**values)

    def data_parallel(self, ranks: int) -> int:
        """Return the number of replicas on so many ranks."""
        return ranks // (self.tensor_parallel * self.pipeline_parallel)

    def micro_batches(self, ranks: int) -> int:
        """Return the micro-batches of a replica per step."""
        replicas = self.data_parallel(ranks)
        return self.global_batch_tokens // (self.sequence * self.micro_batch * replicas)

    def check_ranks(self, ranks: int):
        """Refuse a rank count that parallelism or batch do not divide."""
        shard = self.tensor_parallel * self.pipeline_parallel
        if ranks % shard:
            raise SpecError(
                f"times pipeline_parallel = {self.pipeline_parallel} must divide "
                f"network.ranks = {ranks}",
                where="training.tensor_parallel",
                value=self.tensor_parallel,
                remedy=f"use a multiple of {shard} ranks, or smaller parallel sizes",
            )
        replicas = self.data_parallel(ranks)
        per_pass = self.sequence * self.micro_batch * replicas
        if self.global_batch_tokens % per_pass:
            fitting = max(1, round(self.global_batch_tokens / per_pass)) * per_pass
            fewer = self._most_ranks(ranks)
            or_fewer = f", or network.ranks = {fewer}" if fewer else ""
            raise SpecError(
                f"must be a multiple of {per_pass} (sequence x micro_batch x {replicas} replicas)",
                where="training.global_batch_tokens",
                value=self.global_batch_tokens,
                remedy=f"use for example global_batch_tokens = {fitting}{or_fewer}",
            )

    def _most_ranks(self, ranks: int) -> int:
        """Return the largest count up to ``ranks`` that the batch divides over; 0 when none."""
        passes, rest = divmod(self.global_batch_tokens, self.sequence * self.micro_batch)
        if rest:
            return 0
        most = self.data_parallel(ranks)
        low = [d for d in range(1, math.isqrt(passes) + 1) if passes % d == 0]
        replicas = max(d for i in low for d in (i, passes // i) if d <= most)
        return replicas * self.tensor_parallel * self.pipeline_parallel

    def explain(self) -> list[Assumption]:
        """Return every field with the value in force, its source and its mark.

        A value that the spec overrides has the source "spec" and no mark.
        """
        lines = []
        usual = TrainingSpec()
        gpu_fields = self._gpu_fields()
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if value != getattr(usual, field):
                lines.append(Assumption(field, value, "spec", ""))
            elif field in gpu_fields:
                value, source = self._from_gpu(field)
                lines.append(Assumption(field, value, source.source, source.mark))
            else:
                if field in ModelShape.__struct_fields__:
                    value = getattr(self.shape, field)
                lines.append(Assumption(field, value, *TRAINING_SOURCES[field]))
        return lines

    def _gpu_fields(self) -> dict[str, tuple[str, str]]:
        """Key of the spec -> (field of TrainingHardware, field of the catalogue's GPU)."""
        return {
            "peak_flops": ("peak_flops_per_s", f"peak_{self.precision}_flops_per_s"),
            "achievable_fraction": ("achievable_fraction", f"achievable_{self.precision}"),
            "gpu_hour_usd": ("gpu_hour_usd", "hour_usd"),
            "server_watts": ("server_watts", "server_watts"),
            "server_load": ("server_load", "server_load"),
        }

    def _from_gpu(self, key: str) -> tuple[float | None, catalogue.Source]:
        given = getattr(self, key)
        if given is not None:
            return float(given), catalogue.Source("spec", "")
        try:
            part = catalogue.gpu(self.gpu)
        except SpecError as error:
            raise error.at("training.gpu") from None
        field = self._gpu_fields()[key][1]
        value = getattr(part, field)
        if value is None and key in PRICES:
            return None, catalogue.Source("not in the catalogue", "")
        if value is None:
            raise SpecError(
                f'is missing: the catalogue has no {field} for gpu = "{self.gpu}"',
                where=f"training.{key}",
                remedy=f"add training.{key}, or use a GPU that has it, such as h100",
            )
        return value, part.source(field)


_GPU = ("catalogue, by gpu and precision", "")
_LLAMA2 = "Llama 2, arXiv:2307.09288"
_DGXC = "github.com/NVIDIA/dgxc-benchmarking, llama3.1/README_70b.md"
_OVERLAP = "docs.nvidia.com, NeMo, communication overlap"
_MEGATRON = "github.com/NVIDIA/Megatron-LM, distributed_data_parallel_config.py"

# Where each default comes from, and its mark (see mrcjax.hardware.MARKS). The fields that name
# the catalogue take the source of the GPU's own entry: see TrainingSpec.explain.
TRAINING_SOURCES: dict[str, tuple[str, str]] = {
    "model": (_DGXC, "A"),
    "layers": (_DGXC, "A"),
    "hidden": (_DGXC, "A"),
    "ffn": (_DGXC, "A"),
    "heads": (_DGXC, "A"),
    "kv_heads": (_DGXC, "A"),
    "vocab": (_DGXC, "A"),
    "attention": (f"{_DGXC} counts attention in full", "A"),
    "sequence": (_LLAMA2, "B"),
    "global_batch_tokens": (f"{_LLAMA2}: 4M tokens", "B"),
    "micro_batch": ("usual at this size", "B"),
    "tensor_parallel": ("fits 80 GB per GPU and stays inside an 8-GPU node", "C"),
    "pipeline_parallel": ("no bubble, so that the network's share shows", "C"),
    "interleave": ("no pipeline", "C"),
    "optimiser_sharding": (f"{_MEGATRON}, distributed optimiser", "A"),
    "gradient_bytes": (f"{_OVERLAP}: bf16", "A"),
    "parameter_bytes": (f"{_OVERLAP}: bf16", "A"),
    "bucket_layers": (f"{_OVERLAP}: one transformer layer", "A"),
    "overlap": (_OVERLAP, "A"),
    "gpu": ("what the public 70B benchmarks ran on", "A"),
    "precision": ("what the public 70B benchmarks ran in", "A"),
    "peak_flops": _GPU,
    "achievable_fraction": _GPU,
    "recompute_factor": ("flash attention; Korthikanti et al., arXiv:2205.05198", "C"),
    "optimiser_time": ("bound by memory, a shard of the state each", "C"),
    "comm_slowdown": (f"{_MEGATRON}: 1 to 16 SMs communicate; 0 to 0.1 is realistic", "C"),
    "run_tokens": (f"{_LLAMA2}: 2.0e12 tokens", "B"),
    "gpu_hour_usd": _GPU,
    "server_watts": _GPU,
    "server_load": _GPU,
    "electricity_usd_per_kwh": (
        "US industry 8.2 to 9.3 cents, Jan 2025 to Jan 2026, via ycharts.com",
        "B",
    ),
    "pue": ("new builds 1.1 to 1.3; Uptime Institute survey 2025: mean 1.54", "C"),
    "network_life_hours": ("4 years x 8,760 h", "C"),
}


def _divides(key: str, value: int, whole_key: str, whole: int):
    if whole % value:
        raise SpecError(
            f"must divide training.{whole_key} = {whole}",
            where=f"training.{key}",
            value=value,
            remedy=f"use a divisor of {whole}",
        )
