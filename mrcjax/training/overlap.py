"""Turn computing and transfer times of buckets into the communication that no computing hides."""

from collections.abc import Sequence


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
