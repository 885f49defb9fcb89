"""Exact times on an ideal network: rails that never block, equal shards, nothing late.

A path takes `latency_s` from port to port (two links of a switched plane, one direct cable); S
are the bytes of a rank's buffer, b a rail's bytes/s, n the ranks.
"""

from math import ceil

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
