"""`direct`: every rank sends each shard straight to its owner, R peers at a time over R lanes.

The all-pairs algorithm: reduce-scatter by sending, then all-gather in the same order.
"""

from mrcjax.collective.schedule import Phase


def direct_phase(
    name: str, *, lanes: int, layout: tuple[int, int, int], stripe: bool, gathers: bool, **kwargs
) -> Phase:
    """One pass over all peers; `gathers`: the sender's own shard goes to everyone."""
    peers = layout[1] - 1
    return Phase(
        name,
        lanes=lanes,
        rounds=peers if stripe else -(-peers // lanes),
        layout=layout,
        first=1,
        per_round=1 if stripe else lanes,
        per_lane=0 if stripe else 1,
        owner=(0, 0, not gathers),
        **kwargs,
    )
