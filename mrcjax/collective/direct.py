"""`direct`: every rank sends each shard straight to its owner, R peers at a time over R lanes.

The all-pairs algorithm: reduce-scatter by sending, then all-gather in the same order.
"""

from dataclasses import replace

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


def pipelined(scatter: Phase, gather: Phase, pieces: int) -> list[Phase]:
    """An all-reduce in pieces: each is gathered behind the scattering of the next.

    All pieces are of one size, and cut alike. A rank's sends keep this order; only what they wait
    for is another.
    """
    phases, at = [replace(scatter, after=-1)], 0
    for _ in range(pieces - 1):
        phases.append(replace(scatter, after=-1))
        phases.append(replace(gather, after=at))
        at = len(phases) - 2
    return [*phases, replace(gather, after=at)]
