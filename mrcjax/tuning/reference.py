"""Simple cuts that need no search: what a tuned one has to beat."""

import numpy as np

from mrcjax.tuning.classes import Classes
from mrcjax.tuning.programme import water_filled
from mrcjax.tuning.weights import Weights


def references(classes: Classes, half_bytes: float) -> dict[str, Weights]:
    """Name -> cut, shards equal.

    "equal": over the rails that are up at both ends; "source": in proportion to the sender's
    rates; "source x destination": to the product of both ends'; "water filling": by what each
    rail can carry from when its latency allows to when all are done, where latencies differ.
    half_bytes: what a rank sends in one half of the collective.
    """
    index = classes.index
    up_out, up_in = (rate[index].T > 0 for rate in (classes.egress, classes.ingress))
    out, into = (
        (rate / rate.max(axis=1, keepdims=True))[index].T
        for rate in (classes.egress, classes.ingress)
    )
    found = {
        "equal": Weights(up_out.astype(float), up_in.astype(float)),
        "source": Weights(out, up_in.astype(float)),
        "source x destination": Weights(out, into),
    }
    start = classes.egress_start_s
    if (start != start[:, :1]).any():
        time = water_filled(classes.egress, start, np.full(len(start), half_bytes))
        carried = classes.egress * np.maximum(time[:, None] - start, 0.0)
        carried = carried / carried.max(axis=1, keepdims=True)
        found["water filling"] = Weights(carried[index].T, up_in.astype(float))
    return found
