"""`rings`: two rings per dimension of a grid at once, each piece of the buffer round all of them.

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
    relay: Relay, size_bytes: float, element_bytes: int
) -> tuple[list[Phase], list[Chunks]]:
    """Phases and chunk sizes of an all-reduce over all ranks; lane 2 j + direction."""
    spans = [d for d, size in enumerate(relay.digits) if size > 1]
    steps = len(spans)
    scatters, gathers = [], []
    for step in range(steps):
        turned = [spans[(j + step) % steps] for j in range(steps)]
        lines = tuple(line_of(relay, d, way) for d in turned for way in (1, -1))
        name = "round dimensions " + ", ".join(map(str, turned))
        scatters.append(ring_along(f"reduce-scatter {name}", relay, lines, False, step))
        gathers.append(ring_along(f"all-gather {name}", relay, lines, True, step))
    phases = [*scatters, *reversed(gathers)]
    phases = [replace(phase, after=number - 1) for number, phase in enumerate(phases)]
    return phases, _pieces(relay, spans, size_bytes, element_bytes)


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
