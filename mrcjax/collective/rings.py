"""`rings`: two rings per dimension of a grid at once, each piece of the buffer round all of them.

A reduce-scatter is the first half of it and an all-gather the second; the shard that a rank owns
is then a block of each piece, not one stretch of the buffer. Groups are whole dimensions: those
that they leave out have rings of their own, side by side.

The multi-dimensional ring of tori, with concurrent rotated rings: piece (j, direction) is
reduce-scattered round dimension j, then j + 1, ... and gathered back, so that in every step each
port belongs to one piece (Sack and Gropp, ACM Trans. Parallel Computing 1, 2015).
"""

from dataclasses import replace

import numpy as np

from mrcjax.collective.schedule import Line, Phase
from mrcjax.collective.shards import Chunks, cut
from mrcjax.network.links import Relay


def grid_ring_phases(
    relay: Relay, spans: list[int], size_bytes: float, element_bytes: int, kind: str
) -> tuple[list[Phase], list[Chunks]]:
    """Phases and chunk sizes over the dimensions `spans`; lane 2 j + direction.

    kind: "all_reduce", "reduce_scatter" or "all_gather".
    """
    steps = len(spans)
    scatters, gathers = [], []
    for step in range(steps):
        turned = [spans[(j + step) % steps] for j in range(steps)]
        lines = tuple(line_of(relay, d, way) for d in turned for way in (1, -1))
        name = "round dimensions " + ", ".join(map(str, turned))
        scatters.append(ring_along(f"reduce-scatter {name}", relay, lines, False, step))
        gathers.append(ring_along(f"all-gather {name}", relay, lines, True, step))
    phases = {
        "all_reduce": [*scatters, *reversed(gathers)],
        "reduce_scatter": scatters,
        "all_gather": [*reversed(gathers)],
    }[kind]
    phases = [replace(phase, after=number - 1) for number, phase in enumerate(phases)]
    return phases, _pieces(relay, spans, size_bytes, element_bytes)


def dimensions_of(relay: Relay, group_size: int, group_stride: int) -> list[int] | None:
    """Dimensions of more than one rank that a group fills; None where it fills no whole ones."""
    found, stride = [], 1
    for d, size in enumerate(relay.digits):
        if group_stride <= stride < group_size * group_stride and size > 1:
            found.append(d)
        stride *= size
    filled = found and line_of(relay, found[0]).stride == group_stride
    sizes = [relay.digits[d] for d in found]
    return found if filled and int(np.prod(sizes)) == group_size else None


def line_of(relay: Relay, dimension: int, step: int = 1) -> Line:
    """The line of a dimension of the grid."""
    sizes = relay.digits
    return Line(sizes[dimension], int(np.prod(sizes[:dimension], dtype=int)), step)


def ring_along(
    name: str, relay: Relay, lines: tuple[Line, ...], gathers: bool, sizes: int
) -> Phase:
    """One ring per lane along its line; see `ring_phase`."""
    return Phase(
        name,
        domain="network",
        lanes=len(lines),
        rounds=max(line.size for line in lines) - 1,
        layout=(1, int(np.prod(relay.digits)), 1),
        needs="lane",
        after_scope="lane",
        reduces=not gathers,
        owner=(0 if gathers else -1, -1, False),
        sizes=sizes,
        lines=lines,
        hops=max(_longest_step(relay, line) for line in lines),
    )


def _longest_step(relay: Relay, line: Line) -> int:
    """Links from a rank to the next of its line, the one from the last to the first included."""
    at = np.arange(line.size) * line.stride
    return int(relay.distance(at, np.roll(at, -1)).max())


def _pieces(relay: Relay, spans: list[int], size_bytes: float, element_bytes: int) -> list[Chunks]:
    """The block that each owner's chunk is, for every step of the scatter."""
    lines = [line_of(relay, d) for d in spans]
    ranks = np.arange(int(np.prod(relay.digits)))
    lane = np.arange(2 * len(spans))[:, None]
    start, size = cut(0.0, size_bytes, len(lane), lane, element_bytes)
    found = []
    for step in range(len(spans)):
        turned = [lines[(j + step) % len(lines)] for j in range(len(lines)) for _ in range(2)]
        rows = [
            cut(start[c], size[c], line.size, ranks // line.stride % line.size, element_bytes)
            for c, line in enumerate(turned)
        ]
        start, size = (np.stack(part) for part in zip(*rows, strict=True))
        equal = np.all(size == size[:, :1])
        found.append(Chunks(start, size[:, :1] if equal else size))
    return found
