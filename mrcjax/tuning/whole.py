"""Every send whole on one rail: a relaxed cut rounded to an assignment, then polished."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.case import Case
from mrcjax.collective.shards import LaneShares, lane_shares
from mrcjax.engine import Params, Times, emulate
from mrcjax.spec import RailShares
from mrcjax.tuning.surrogate import Cutting, Load, load_time, shards_of, shares_of

PROPOSALS = 300

_emulate = jax.jit(emulate, static_argnames="config")


def assign(load: Load, cutting: Cutting) -> np.ndarray:
    """Put every send on one live rail, (ranks, ranks) int.

    One class per rank. Sends with the clearest preference go first, each to the rail whose two
    ports are then least busy; afterwards sends leave the busiest port while that helps.
    """
    shares = np.asarray(shares_of(load, cutting))
    seconds = _seconds_of_sends(load, np.asarray(shards_of(load, cutting)))
    ports = _Ports(shares.shape[0], shares.shape[2])
    rail = np.zeros(shares.shape[:2], int)
    margin = np.sort(shares, axis=2)
    margin = margin[:, :, -1] - margin[:, :, -2] if shares.shape[2] > 1 else margin[:, :, 0]
    for pair in np.argsort(-margin, axis=None, kind="stable"):
        i, j = divmod(int(pair), shares.shape[0])
        if i != j:
            after = ports.after(i, j, seconds)
            rail[i, j] = int(np.argmin(after - 1e-9 * after.min() * shares[i, j]))
            ports.put(i, j, rail[i, j], seconds, 1)
    _relieve(ports, rail, seconds)
    return rail


def rounding_loss(load: Load, cutting: Cutting, rail: np.ndarray) -> float:
    """Seconds by which whole sends are slower than the relaxed cut, by the loads of the ports."""
    before = float(load_time(load, cutting, jnp.asarray(1e-3))[1])
    rounded = replace(load, given=jnp.asarray(np.eye(load.egress.shape[1])[rail]))
    after = float(load_time(rounded, Cutting(shards=cutting.shards), jnp.asarray(1e-3))[1])
    return after - before


def dealt(load: Load, cutting: Cutting) -> np.ndarray:
    """Put every send on the rail on which it would end first, round after round: (ranks, ranks).

    Knows the order of the sends but not the relaxed cut; without damage it deals the rails in turn.
    """
    shards = np.asarray(shards_of(load, cutting))
    seconds = _seconds_of_sends(load, shards)
    ranks, rails = np.asarray(load.egress).shape
    leaves, enters = np.zeros((ranks, rails)), np.zeros((ranks, rails))
    rail, sender, every = np.zeros((ranks, ranks), int), np.arange(ranks), np.arange(rails)
    for k in range(ranks - 1):
        receiver = (sender + k + 1) % ranks
        left = leaves + seconds[0, sender, receiver]
        end = np.maximum(leaves, enters[receiver]) + seconds[1, sender, receiver]
        end = np.maximum(end, left)
        turn = 1e-6 * np.nanmin(end) * ((every - k) % rails)  # between equals
        chosen = np.argmin(end + turn, axis=1)
        rail[sender, receiver] = chosen
        leaves[sender, chosen] = left[sender, chosen]
        enters[receiver, chosen] = end[sender, chosen]
    return rail


def polish(
    case: Case,
    rail: np.ndarray,
    *,
    proposals: int = PROPOSALS,
    seed: int = 0,
    is_stopped: Callable[[], bool] = lambda: False,
) -> tuple[np.ndarray, list[float]]:
    """Move single sends of the rank that ends last while the engine's own time gets shorter.

    case: cut by whole sends already. Returns the assignment and the time after each proposal.
    """
    rng = np.random.default_rng(seed)
    ranks, lanes = case.network.ranks, case.network.ports

    def times(params: Params) -> Times:
        return _emulate(params, case.network, case.schedule, config=case.config)

    up = _up(case)
    best, now = rail.copy(), times(_with_rails(case, rail, lanes))
    way = [float(now.time_s)]
    for _ in range(proposals):
        if is_stopped():
            break
        last = int(np.argmax(np.asarray(now.finish_s)))
        other = (last + int(rng.integers(1, ranks))) % ranks
        i, j = (last, other) if rng.random() < 0.5 else (other, last)
        choices = np.flatnonzero(up[0, :, i] & up[1, :, j])
        trial = best.copy()
        trial[i, j] = rng.choice(choices)
        if trial[i, j] != best[i, j]:
            found = times(_with_rails(case, trial, lanes))
            if float(found.time_s) <= way[-1]:
                best, now = trial, found
        way.append(float(now.time_s))
    return best, way


def _up(case: Case) -> np.ndarray:
    """Which ports are up, (2, rails, ranks)."""
    network, rates = case.network, np.asarray(case.params.capacity_bytes_per_s)
    tiers = [network.tier(way) for way in ("egress", "ingress")]
    parts = [rates[tier.first : tier.first + tier.count] for tier in tiers]
    return np.stack([part.reshape(network.ports, network.ranks) > 0 for part in parts])


def _with_rails(case: Case, rail: np.ndarray, lanes: int) -> Params:
    shares = RailShares(rail=tuple(map(tuple, rail.tolist())))
    cut: LaneShares = lane_shares(shares, len(rail), lanes, lanes)
    given = case.params.shares
    assert given is not None
    table = jnp.asarray(cut.table, given.source.dtype)
    return replace(case.params, shares=replace(given, table=table))


class _Ports:
    """Seconds of work on every egress and ingress port, (ranks, rails)."""

    def __init__(self, ranks: int, rails: int) -> None:
        self.out, self.into = np.zeros((ranks, rails)), np.zeros((ranks, rails))

    def after(self, i: int, j: int, seconds: np.ndarray) -> np.ndarray:
        """How busy the busier of both ports would be, by rail; infinite where one is down."""
        return np.maximum(self.out[i] + seconds[0, i, j], self.into[j] + seconds[1, i, j])

    def put(self, i: int, j: int, rail: int, seconds: np.ndarray, sign: int) -> None:
        """Add a send to a rail, or take it away with sign -1."""
        self.out[i, rail] += sign * seconds[0, i, j, rail]
        self.into[j, rail] += sign * seconds[1, i, j, rail]


def _seconds_of_sends(load: Load, shards: np.ndarray) -> np.ndarray:
    """Seconds that both halves of each send take on its ports, (2, senders, receivers, rails)."""
    bytes_ = sum(
        np.broadcast_to(shards[None] if to_receiver else shards[:, None], (len(shards),) * 2)
        for to_receiver in load.halves
    )
    with np.errstate(divide="ignore"):
        pace = 1.0 / np.asarray(load.egress)[:, None], 1.0 / np.asarray(load.ingress)[None]
    return np.stack(
        [
            np.asarray(bytes_)[:, :, None] * np.broadcast_to(p, (len(shards),) * 2 + p.shape[-1:])
            for p in pace
        ]
    )


def _relieve(ports: _Ports, rail: np.ndarray, seconds: np.ndarray) -> None:
    """Move sends off the busiest port while both ports of the new rail stay below it."""
    ranks, rails = ports.out.shape
    for _ in range(4 * ranks * rails):
        busy = np.stack([ports.out, ports.into])
        way, rank, r = (int(x) for x in np.unravel_index(np.argmax(busy), busy.shape))
        others = [k for k in range(ranks) if k != rank]
        pairs = [(rank, k) if way == 0 else (k, rank) for k in others]
        moves = []
        for i, j in pairs:
            if rail[i, j] == r:
                after = ports.after(i, j, seconds)
                after[r] = np.inf
                moves.append((after.min(), i, j, int(np.argmin(after))))
        if not moves or min(moves)[0] >= busy.max() * (1 - 1e-12):
            return
        _, i, j, better = min(moves)
        ports.put(i, j, r, seconds, -1)
        rail[i, j] = better
        ports.put(i, j, better, seconds, 1)
