"""Chunk sizes: equal real numbers, or whole elements that differ by at most one."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Chunks:
    """The piece of the buffer that each (lane, owner) stands for, (lanes, ranks) or (lanes, 1).

    Equal chunks keep one column: the engine then has nothing to look up per send.
    """

    start_bytes: np.ndarray  # (lanes, ranks)
    bytes: np.ndarray  # (lanes, ranks), or (lanes, 1) where all are equal


def cut(
    start: np.ndarray | float, size: np.ndarray | float, parts: int, index: np.ndarray, element: int
) -> tuple[np.ndarray, np.ndarray]:
    """Start and size of piece `index` of a range cut in `parts`, all in bytes.

    element = 0 cuts into equal real numbers; else pieces are whole elements, differ by at most
    one, sum to the range, and the first ones get the larger.
    """
    if not element:
        piece = np.asarray(size) / parts
        return start + index * piece, np.broadcast_to(piece, np.broadcast(piece, index).shape)
    elements = np.rint(np.asarray(size) / element).astype(np.int64)
    base, rest = elements // parts, elements % parts
    before = index * base + np.minimum(index, rest)
    return start + before * float(element), (base + (index < rest)) * float(element)


def cut_by(
    start: np.ndarray, size: np.ndarray, weights: np.ndarray, element: int
) -> tuple[np.ndarray, np.ndarray]:
    """Start and size of pieces in proportion to `weights`, (pieces, ranks) bytes each.

    With elements a piece ends at the nearest whole element.
    """
    ends = np.cumsum(weights / np.sum(weights))[:, None] * size
    ends[-1] = size
    if element:
        ends = np.rint(ends / element) * element
    begins = np.concatenate([np.zeros_like(ends[:1]), ends[:-1]])
    return start + begins, ends - begins


def chunks(
    start: np.ndarray | float,
    size: np.ndarray | float,
    parts: int,
    position: np.ndarray,
    lanes: int,
    element: int,
    whole: bool,
    weights: np.ndarray | None = None,
) -> Chunks:
    """Cut a range in one shard per position; a send carries it whole, or it is cut over `lanes`.

    position: (ranks,) position of each rank in its group; start, size: () or (ranks,) bytes.
    weights: (lanes,) shares of the lanes; None = equal.
    """
    shard_start, shard = cut(start, size, parts, position, element)
    lane_of_shard = np.zeros((lanes, 1), int) if whole else np.arange(lanes)[:, None]
    if weights is None or whole:
        lane_start, lane = cut(shard_start, shard, 1 if whole else lanes, lane_of_shard, element)
    else:
        lane_start, lane = cut_by(shard_start, shard, weights, element)
    if np.all(lane == lane[:, :1]):
        lane = lane[:, :1]
    return Chunks(np.asarray(lane_start), np.asarray(lane))
