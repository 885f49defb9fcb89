"""Turn the shape of a model into its parameters, its FLOPs per token and its computing time."""

from typing import Literal, get_args

from mrcjax.spec import TrainingSpec

# How FLOPs per token are counted: attention over the whole square, over the half that a causal
# mask leaves, or 6 per parameter. An MFU means nothing without naming it.
FlopConvention = Literal["full", "causal", "parameters"]
FLOP_CONVENTIONS: tuple[FlopConvention, ...] = get_args(FlopConvention)


def layer_parameters(training: TrainingSpec) -> int:
    """Count the parameters of one layer: grouped-query attention, gated MLP, two norms."""
    return _layer_matrices(training) + 2 * training.shape.hidden


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
    products = 6 * (shape.layers * _layer_matrices(training) + shape.vocab * shape.hidden)
    scores = 12 * shape.layers * shape.hidden * training.sequence
    return products + scores * {"full": 1.0, "causal": 0.5}[attention]


def achievable_fraction_convention(training: TrainingSpec) -> FlopConvention:
    """Return how the FLOPs behind the achievable fraction are counted.

    The catalogue's fractions count attention in full; one given in the spec is taken to count
    as ``training.attention`` says. So ``attention`` alone never changes the computing time.
    """
    return "full" if training.achievable_fraction is None else training.attention


def step_computing_s(training: TrainingSpec, ranks: int) -> float:
    """Return the computing time of a step, what is recomputed included."""
    counted = flops_per_token(training, achievable_fraction_convention(training))
    done = training.global_batch_tokens * counted * training.recompute_factor
    gpu = training.hardware
    return done / (ranks * gpu.peak_flops_per_s * gpu.achievable_fraction)


def _layer_matrices(training: TrainingSpec) -> int:
    """Count what a layer's matrices hold: each element is multiplied once per token and pass."""
    shape = training.shape
    kv_width = shape.hidden // shape.heads * shape.kv_heads
    attention = 2 * shape.hidden**2 + 2 * shape.hidden * kv_width
    return attention + 3 * shape.ffn * shape.hidden
