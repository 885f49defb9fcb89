"""Turn bucket times from the emulator into step time, utilisation, tokens/s and cost of a run.

Data-parallel traffic of a dense transformer: per bucket of layers a reduce-scatter of gradients
under the backward of the last micro-batch and an all-gather of parameters before and under the
forward of the first. ``buckets`` says which collectives to emulate, ``step`` takes their times.
All times are seconds; ``LEFT_OUT`` says what the model does not contain.
"""

from mrcjax.training.assumptions import Explanation, explain
from mrcjax.training.computing import (
    FLOP_CONVENTIONS,
    FlopConvention,
    achievable_fraction_convention,
    flops_per_token,
    layer_parameters,
    parameters,
)
from mrcjax.training.cost import RunCost, run_cost
from mrcjax.training.needed import achievable_fraction, batch_factor, bucket_factor
from mrcjax.training.overlap import (
    exposed_all_gather_s,
    exposed_closed_form_s,
    exposed_reduce_scatter_s,
)
from mrcjax.training.step_time import LEFT_OUT, TrainingStep, step
from mrcjax.training.traffic import (
    ACTIVATION_BYTES,
    OPTIMISER_STATE_BYTES,
    Bucket,
    Buckets,
    buckets,
)

__all__ = [
    "ACTIVATION_BYTES",
    "FLOP_CONVENTIONS",
    "LEFT_OUT",
    "OPTIMISER_STATE_BYTES",
    "Bucket",
    "Buckets",
    "Explanation",
    "FlopConvention",
    "RunCost",
    "TrainingStep",
    "achievable_fraction",
    "achievable_fraction_convention",
    "batch_factor",
    "bucket_factor",
    "buckets",
    "explain",
    "exposed_all_gather_s",
    "exposed_closed_form_s",
    "exposed_reduce_scatter_s",
    "flops_per_token",
    "layer_parameters",
    "parameters",
    "run_cost",
    "step",
]
