"""Moves real data along sends and says where a collective comes out wrong.

A send carries the data as it is when what it waits for has just arrived and nothing else has: the
earliest moment its dependencies allow. A schedule that is right only because other data happened
to be there already therefore comes out wrong here. What arrives in a round is never read by a send
of that round.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import is_needed, order_of
from .algorithms import cut

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce")


class WrongResult(AssertionError):
    """A schedule does not do what its collective promises."""


def execute(sends: Sequence[Any], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the buffer of each rank after `sends`.

    A send has `phase, round, src, lane, dst, pieces, op` and, where it has it, `needs` (without:
    everything that arrived in earlier rounds). A buffer is [elements], or [origin, elements] where
    a piece addresses the row of the rank that it comes from: the sender, unless the piece names it.
    """
    sends = sorted(sends, key=order_of)
    arrivals_at = defaultdict(list)
    for index, send in enumerate(sends):
        _check_send(send, inputs)
        arrivals_at[send.dst].append(index)
    _check_overwrites(sends, inputs)

    payload: list[list[np.ndarray]] = []
    met_by_lane: dict[tuple[int, int], set[int]] = defaultdict(set)

    def buffer_with(rank: int, arrivals: Sequence[int]) -> np.ndarray:
        buffer = inputs[rank].copy()
        for index in sorted(arrivals):
            for piece, data in zip(sends[index].pieces, payload[index], strict=True):
                where = _where(sends[index], piece, buffer)
                if sends[index].op == "reduce":
                    buffer[where] += data
                else:
                    buffer[where] = data
        return buffer

    for send in sends:
        # A lane keeps its order, so what its earlier sends waited for is there for the later ones.
        met = met_by_lane[send.src, send.lane]
        met.update(i for i in arrivals_at[send.src] if is_needed(send, sends[i]))
        buffer = buffer_with(send.src, tuple(met))
        payload.append([buffer[_where(send, piece, buffer)].copy() for piece in send.pieces])
    return [buffer_with(rank, arrivals_at[rank]) for rank in range(len(inputs))]


def check(
    collective: str,
    sends: Sequence[Any],
    ranks: int,
    elements: int,
    groups: Sequence[Sequence[int]] | None = None,
    *,
    shards: Sequence[tuple[int, int]] | None = None,
    root: int = 0,
    seed: int = 0,
) -> None:
    """Raise WrongResult at the first wrong element of the collective run in every group.

    Shard p belongs to position p of its group and is (first element, count); by default counts
    differ by at most one, larger ones first. `root` is a position. An all-gather starts from each
    rank's own shard of the whole buffer. In an all-to-all a rank holds a matrix [origin, elements]
    of which its own row is its input, and must end with its shard of every row of its group.
    """
    if collective not in COLLECTIVES:
        raise ValueError(f"collective must be one of {', '.join(COLLECTIVES)}, got {collective!r}")
    groups = groups if groups is not None else [list(range(ranks))]
    rng = np.random.default_rng(seed)
    # 40-bit numbers: no sum of a wrong set of ranks equals the right one, and none overflows.
    shape = (ranks, elements) if collective == "all_to_all" else (elements,)
    inputs = [rng.integers(1, 2**40, shape) for _ in range(ranks)]
    outputs = execute(sends, inputs)

    for members in groups:
        shard_of = shards if shards is not None else cut((0, elements), len(members))
        total = np.sum([inputs[rank] for rank in members], axis=0)
        for position, rank in enumerate(members):
            expected = np.full(shape, -1)
            first, count = shard_of[position]
            own = slice(first, first + count)
            if collective == "all_reduce" or (collective == "reduce" and position == root):
                expected[:] = total
            elif collective == "broadcast":
                expected[:] = inputs[members[root]]
            elif collective == "reduce_scatter":
                expected[own] = total[own]
            elif collective == "all_gather":
                for (begin, size), origin in zip(shard_of, members, strict=True):
                    expected[begin : begin + size] = inputs[origin][begin : begin + size]
            elif collective == "all_to_all":
                for origin in members:
                    expected[origin, own] = inputs[origin][origin, own]
            _compare(collective, rank, outputs[rank], expected)


def _compare(collective: str, rank: int, output: np.ndarray, expected: np.ndarray) -> None:
    """Raise at the first element that differs; an expected -1 says that any value will do."""
    wrong = np.argwhere((expected != -1) & (output != expected))
    if len(wrong):
        where = tuple(int(i) for i in wrong[0])
        element = where[0] if len(where) == 1 else where
        raise WrongResult(
            f"{collective}: rank {rank}, element {element} is {output[where]}, "
            f"must be {expected[where]} ({len(wrong)} wrong on this rank)"
        )


def _where(send: Any, piece: tuple[int, ...], buffer: np.ndarray) -> Any:
    first, count = piece[-2:]
    where = slice(first, first + count)
    if buffer.ndim == 1:
        return where
    return (piece[0] if len(piece) == 3 else send.src, where)


def _check_send(send: Any, inputs: Sequence[np.ndarray]) -> None:
    if send.op not in ("reduce", "copy"):
        raise ValueError(f"op must be reduce or copy, got {send.op!r} in {send}")
    if send.src == send.dst or not {send.src, send.dst} <= set(range(len(inputs))):
        raise ValueError(f"src and dst must be two of {len(inputs)} ranks, got {send}")
    elements = inputs[send.src].shape[-1]
    for piece in send.pieces:
        first, count = piece[-2:]
        if first < 0 or count < 0 or first + count > elements:
            raise ValueError(f"a piece must lie in {elements} elements, got {piece} in {send}")
        if len(piece) == 3 and inputs[send.src].ndim == 1:
            raise ValueError(f"only an all-to-all piece names an origin, got {piece} in {send}")


def _check_overwrites(sends: Sequence[Any], inputs: Sequence[np.ndarray]) -> None:
    """Refuse two writes of one element in one round unless both reduce: their order is open."""
    count_of: dict[tuple[int, int, int], np.ndarray] = {}
    has_copy: dict[tuple[int, int, int], np.ndarray] = {}
    for send in sends:
        key = (*order_of(send), send.dst)
        count = count_of.setdefault(key, np.zeros(inputs[send.dst].shape, int))
        copied = has_copy.setdefault(key, np.zeros(inputs[send.dst].shape, bool))
        for piece in send.pieces:
            where = _where(send, piece, count)
            count[where] += 1
            copied[where] |= send.op == "copy"
        clash = np.argwhere(copied & (count > 1))
        if len(clash):
            raise WrongResult(
                f"rank {send.dst}, element {clash[0].tolist()}: overwritten in phase {send.phase}, "
                f"round {send.round} while another send of that round writes it"
            )
