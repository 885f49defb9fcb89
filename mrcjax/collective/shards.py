"""Chunk sizes: equal real numbers, or whole elements that differ by at most one."""

from dataclasses import dataclass

import numpy as np

from mrcjax.spec import Collective, RailShares, SpecError


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


@dataclass(frozen=True)
class LaneShares:
    """Weights by which every send is cut over the lanes; see `engine.Shares`.

    source, destination: (lanes, ranks); table: (rounds, lanes, ranks) by round and sender, or None.
    """

    source: np.ndarray
    destination: np.ndarray
    table: np.ndarray | None


def weighted_chunks(spec: Collective, ranks: int, lanes: int) -> Chunks:
    """Shards in proportion to the weights of a spec: (1, ranks) where they are striped.

    Of the first of `spec.chunks` pieces, which are all cut alike. Without stripe every lane
    carries whole shards, (lanes, ranks).
    """
    weights = np.ones(ranks) if spec.shards is None else np.asarray(spec.shards, np.float64)
    sizes = float(spec.size) / spec.chunks * (weights / weights.sum())
    rows = 1 if spec.stripe else lanes
    start = np.broadcast_to(np.cumsum(sizes) - sizes, (rows, ranks))
    bytes_ = np.broadcast_to(sizes, (rows, ranks))
    return Chunks(start, bytes_[:, :1] if (sizes == sizes[0]).all() else bytes_)


def lane_shares(shares: RailShares | None, ranks: int, rails: int, lanes: int) -> LaneShares:
    """Read the weights of a spec; SpecError where a send could go over no lane at all.

    lanes: a multiple of the rails, whose lanes have equal parts; lane c is on rail c % rails.
    """
    shares = RailShares() if shares is None else shares
    ones = np.ones((rails, ranks))
    source = ones if shares.source is None else np.asarray(shares.source, np.float64)
    into = ones if shares.destination is None else np.asarray(shares.destination, np.float64)
    table = None if shares.table is None else np.asarray(shares.table, np.float64)
    if shares.rail is not None:
        table = np.arange(rails)[:, None, None] == np.asarray(shares.rail)
    if table is not None:
        table = _by_round(table.astype(np.float64))
    _refuse_unreachable(source, into, table)
    per_rail = lanes // rails
    source, into = (np.tile(weights, (per_rail, 1)) for weights in (source, into))
    return LaneShares(source, into, None if table is None else np.tile(table, (1, per_rail, 1)))


def _by_round(table: np.ndarray) -> np.ndarray:
    """(lanes, senders, receivers) -> (rounds, lanes, senders), in round k the (k + 1)-th next."""
    ranks = table.shape[1]
    sender = np.arange(ranks)
    receiver = (sender + np.arange(1, ranks)[:, None]) % ranks
    return np.moveaxis(table[:, sender, receiver], 0, 1)


def _refuse_unreachable(source: np.ndarray, into: np.ndarray, table: np.ndarray | None) -> None:
    """Ranks with zeros at the same lanes are alike, so that pairs of patterns are enough."""
    if table is not None:
        ranks = source.shape[1]
        receiver = (np.arange(ranks) + np.arange(1, ranks)[:, None]) % ranks
        total = (source * np.moveaxis(into[:, receiver], 0, 1) * table).sum(axis=1)
        dead = [(int(i), int(receiver[k, i])) for k, i in np.argwhere(total <= 0)[:1]]
    else:
        patterns = [np.unique(w.T > 0, axis=0, return_inverse=True) for w in (source, into)]
        (out, of_sender), (enters, of_receiver) = patterns
        meet = out.astype(int) @ enters.astype(int).T
        dead = []
        for a, b in np.argwhere(meet == 0):
            i = int(np.argmax(of_sender.reshape(-1) == a))
            others = np.flatnonzero(of_receiver.reshape(-1) == b)
            dead += [(i, int(j)) for j in others[others != i][:1]]
    if dead:
        sender, receiver = dead[0]
        raise SpecError(
            f"leaves no rail for the send from rank {sender} to rank {receiver}",
            where="collective.rail_shares",
            remedy="give one rail a weight above 0 at both ends",
        )
