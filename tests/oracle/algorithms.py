"""Sends of small collectives, written from the definitions of the algorithms.

The elements of a buffer are cut into one shard per rank; `element_bytes` may be any real number,
so a buffer of S bytes in equal real-valued chunks is `elements = ranks`, `element_bytes = S/ranks`.
Groups are lists of ranks; a rank's place in its list is its position p. Lanes are rails, or
channels of a ring.
"""

from collections.abc import Sequence

from . import Piece, Send
from .network import PathOf

Groups = Sequence[Sequence[int]]


def groups_of(ranks: int, size: int, stride: int = 1) -> list[list[int]]:
    """Return the groups i, i + stride, ..., of `size` ranks each."""
    block = size * stride
    if ranks % block:
        raise ValueError(f"ranks must be a multiple of size x stride = {block}, got {ranks}")
    return [
        [first + offset + stride * p for p in range(size)]
        for first in range(0, ranks, block)
        for offset in range(stride)
    ]


def cut(piece: Piece, parts: int) -> list[Piece]:
    """Cut (first, count) into parts whose counts differ by at most one, larger ones first."""
    first, count = piece
    pieces = []
    for part in range(parts):
        size = count // parts + (part < count % parts)
        pieces.append((first, size))
        first += size
    return pieces


def direct(
    collective: str,
    groups: Groups,
    rails: int,
    elements: int,
    element_bytes: float,
    path: PathOf,
    *,
    stripe: bool = False,
) -> list[Send]:
    """Return the direct algorithm: every rank sends to every other one, one hop.

    Without `stripe`, in round k lane r of position i sends to position i + 1 + kR + r on rail r;
    with it, all lanes send a part of the shard to position i + 1 + k.
    """
    sends: list[Send] = []
    for members in groups:
        args = (members, range(rails), (0, elements), element_bytes, path, stripe)
        if collective == "all_to_all":
            sends += _direct_phase(0, "all_to_all", "nothing", *args)
        if collective in ("reduce_scatter", "all_reduce"):
            sends += _direct_phase(0, "reduce_scatter", "nothing", *args)
        if collective == "all_gather":
            sends += _direct_phase(0, "all_gather", "nothing", *args)
        if collective == "all_reduce":
            sends += _direct_phase(1, "all_gather", "phase", *args)
    return sends


def _direct_phase(
    phase: int,
    collective: str,
    needs: str,
    members: Sequence[int],
    lanes: Sequence[int],
    buffer: Piece,
    element_bytes: float,
    path: PathOf,
    stripe: bool,
) -> list[Send]:
    n = len(members)
    shards = cut(buffer, n)
    sends = []
    for k in range(n):
        for i in range(n):
            for r, lane in enumerate(lanes):
                offset = 1 + k if stripe else 1 + k * len(lanes) + r
                if offset > n - 1:
                    continue
                j = (i + offset) % n
                # A gather spreads one's own shard; the others send what belongs to the peer.
                shard = shards[i] if collective == "all_gather" else shards[j]
                piece = cut(shard, len(lanes))[r] if stripe else shard
                op = "reduce" if collective == "reduce_scatter" else "copy"
                sends.append(
                    Send(
                        phase=phase,
                        round=k,
                        src=members[i],
                        lane=lane,
                        dst=members[j],
                        pieces=(piece,),
                        op=op,
                        bytes=piece[1] * element_bytes,
                        path=path(members[i], members[j], lane),
                        needs=needs,
                    )
                )
    return sends


def ring(
    collective: str,
    groups: Groups,
    channels: int,
    elements: int,
    element_bytes: float,
    path: PathOf,
) -> list[Send]:
    """Return one ring per channel; every shard is cut over the channels."""
    sends: list[Send] = []
    for members in groups:
        args = (members, range(channels), (0, elements), element_bytes, path)
        if collective in ("reduce_scatter", "all_reduce"):
            sends += _ring_phase(0, "reduce_scatter", "nothing", *args)
        if collective == "all_gather":
            sends += _ring_phase(0, "all_gather", "nothing", *args)
        if collective == "all_reduce":
            sends += _ring_phase(1, "all_gather", "channel", *args)
    return sends


def _ring_phase(
    phase: int,
    collective: str,
    needs: str,
    members: Sequence[int],
    lanes: Sequence[int],
    buffer: Piece,
    element_bytes: float,
    path: PathOf,
) -> list[Send]:
    """Return n - 1 rounds to the next position; `needs` is that of round 0."""
    n = len(members)
    shards = cut(buffer, n)
    sends = []
    for k in range(n - 1):
        for p in range(n):
            src = members[p]
            dst = members[(p + 1) % n]
            shard = shards[(p - k) % n if collective == "all_gather" else (p - k - 1) % n]
            for r, lane in enumerate(lanes):
                piece = cut(shard, len(lanes))[r]
                sends.append(
                    Send(
                        phase=phase,
                        round=k,
                        src=src,
                        lane=lane,
                        dst=dst,
                        pieces=(piece,),
                        op="copy" if collective == "all_gather" else "reduce",
                        bytes=piece[1] * element_bytes,
                        path=path(src, dst, lane),
                        needs="channel" if k else needs,
                    )
                )
    return sends


def hierarchical(
    nodes: int,
    node_size: int,
    rails: int,
    elements: int,
    element_bytes: float,
    path: PathOf,
    *,
    between: str = "ring",
    stripe: bool = False,
) -> list[Send]:
    """Return an all-reduce in four phases over nodes of consecutive ranks.

    In the node a direct reduce-scatter gives local rank l the slice l of the node's sum; ranks of
    equal l reduce that slice over the nodes ("ring" or "direct"; reduce-scatter, all-gather); in
    the node a direct all-gather spreads the slices. Inside a node the lane is number `rails`.
    """
    slices = cut((0, elements), node_size)
    inside = groups_of(nodes * node_size, node_size)
    in_node_args = ([rails], (0, elements), element_bytes, path, False)
    sends: list[Send] = []
    for members in inside:
        sends += _direct_phase(0, "reduce_scatter", "nothing", members, *in_node_args)
        sends += _direct_phase(3, "all_gather", "phase", members, *in_node_args)
    for local in range(node_size):
        members = [node * node_size + local for node in range(nodes)]
        args = (members, range(rails), slices[local], element_bytes, path)
        if between == "ring":
            sends += _ring_phase(1, "reduce_scatter", "phase", *args)
            sends += _ring_phase(2, "all_gather", "channel", *args)
        elif between == "direct":
            sends += _direct_phase(1, "reduce_scatter", "phase", *args, stripe)
            sends += _direct_phase(2, "all_gather", "phase", *args, stripe)
        else:
            raise ValueError(f"between must be ring or direct, got {between!r}")
    return sends


def halving_doubling(
    groups: Groups, elements: int, element_bytes: float, path: PathOf
) -> list[Send]:
    """Return an all-reduce that halves towards peers n/2, n/4, ..., 1 away and doubles back."""
    sends = []
    for members in groups:
        n = len(members)
        if n & (n - 1):
            raise ValueError(f"halving-doubling needs a power of two ranks, got {n}")
        shards = cut((0, elements), n)
        distances = [n >> (1 + k) for k in range(n.bit_length() - 1)]
        for phase, rounds in enumerate((distances, distances[::-1])):
            for k, distance in enumerate(rounds):
                for p in range(n):
                    peer = p ^ distance
                    # Position p is responsible for the aligned block of `distance` shards it is in.
                    owner = peer if phase == 0 else p
                    first = owner // distance * distance
                    pieces = tuple(shards[first : first + distance])
                    sends.append(
                        Send(
                            phase=phase,
                            round=k,
                            src=members[p],
                            lane=0,
                            dst=members[peer],
                            pieces=pieces,
                            op="reduce" if phase == 0 else "copy",
                            bytes=sum(count for _, count in pieces) * element_bytes,
                            path=path(members[p], members[peer], 0),
                            needs="nothing" if phase == k == 0 else "channel",
                        )
                    )
    return sends
