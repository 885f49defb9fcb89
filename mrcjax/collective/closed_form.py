"""Exact times on an ideal network: rails that never block, equal shards, nothing late.

A path takes `latency_s` from port to port (two links of a switched plane, one direct cable); S
are the bytes of a rank's buffer, b a rail's bytes/s, n the ranks.
"""

from math import ceil, prod

PHASES = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}


def direct_s(
    ranks: int,
    rails: int,
    size_bytes: float,
    rate_bytes_per_s: float,
    latency_s: float,
    *,
    kind: str = "all_reduce",
    stripe: bool = False,
) -> float:
    """Time `direct`: each phase takes ceil((n - 1) / R) S / (n b) and one path's latency.

    A port sends back to back, so latency counts once per phase. With `stripe` every shard is cut
    over all rails and no rail is idle in the last round: (n - 1) S / (n R b).
    """
    shard_s = size_bytes / ranks / rate_bytes_per_s
    rounds = (ranks - 1) / rails if stripe else ceil((ranks - 1) / rails)
    return PHASES[kind] * (rounds * shard_s + latency_s) if ranks > 1 else 0.0


def ring_s(
    ranks: int,
    rails: int,
    size_bytes: float,
    rate_bytes_per_s: float,
    latency_s: float,
    *,
    kind: str = "all_reduce",
) -> float:
    """Time `ring` with one channel per rail: each phase takes (n - 1) (S / (n R b) + latency)."""
    step_s = size_bytes / (ranks * rails * rate_bytes_per_s) + latency_s
    return PHASES[kind] * (ranks - 1) * step_s


def ring_with_slow_link_s(
    ranks: int,
    size_bytes: float,
    rate_bytes_per_s: float,
    slow_bytes_per_s: float,
    latency_s: float,
) -> float:
    """Time a ring all-reduce on one rail of which one port has a lower rate, n >= 3.

    With K = 2 (n - 1) steps, c = S / (n b) and c' at the slow port: either the slow port sends all
    its K chunks back to back, or data goes round and passes it twice: max(K c' + a, K (c + a) +
    2 (c' - c)). The second holds for a port that is barely slow.
    """
    if ranks < 3:
        raise ValueError(
            f"ranks must be at least 3, got {ranks}: a ring of two passes it each step"
        )
    steps = 2 * (ranks - 1)
    usual_s = size_bytes / ranks / rate_bytes_per_s
    slow_s = size_bytes / ranks / slow_bytes_per_s
    return max(steps * slow_s + latency_s, steps * (usual_s + latency_s) + 2 * (slow_s - usual_s))


def grid_rings_s(
    dims: tuple[int, ...], size_bytes: float, rate_bytes_per_s: float, latency_s: float
) -> float:
    """Time `rings` on a torus of D equal dimensions, all of them wrapped.

    2 sum(d - 1) latencies and 2 (N - 1) / N S / (2 D b): every port is busy all the time. Of
    unequal dimensions this is a lower bound.
    """
    ranks, spans = prod(dims), [size for size in dims if size > 1]
    latencies = 2 * sum(size - 1 for size in spans) * latency_s
    if not spans:
        return 0.0
    return latencies + 2 * (ranks - 1) / ranks * size_bytes / (2 * len(spans) * rate_bytes_per_s)


def levels_s(
    dims: tuple[int, ...],
    size_bytes: float,
    rates_bytes_per_s: tuple[float, ...],
    latencies_s: tuple[float, ...],
    between: tuple[str, ...] = (),
) -> float:
    """Time `hierarchical` over dimensions, inner to outer, one chunk: phase after phase.

    rates: what a rank sends at in each dimension; latencies: of a path in each. between: "ring"
    (2 (d - 1) latencies) or "direct" (2) for each, all rings where left out. A direct dimension
    on R ports must have d - 1 divisible by R.
    """
    total, size = 0.0, size_bytes
    words = between or ("ring",) * len(dims)
    for ranks, rate, latency, word in zip(dims, rates_bytes_per_s, latencies_s, words, strict=True):
        messages = ranks - 1 if word == "ring" else min(ranks - 1, 1)
        total += 2 * messages * latency + 2 * (ranks - 1) / ranks * size / rate
        size /= ranks
    return total
