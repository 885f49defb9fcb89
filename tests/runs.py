"""Runs for tests: a case from a few keys, and its schedule written out send by send for oracles.

What a send of the engine waits for is more exact than the four words of `oracle.is_needed` (the
phases of pipelined chunks interleave), so `Wait`s are given one by one and `exact_needs` teaches
the oracles to read them.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import Send, Timing, chunk, event, executor

from mrcjax.case import Case, build
from mrcjax.collective.schedule import (
    Phase,
    Schedule,
    owners,
    peers,
    route,
    table_schedule,
)
from mrcjax.engine import Params, Times, emulate
from mrcjax.network import Network
from mrcjax.spec import load_spec

GB = 1e9
GIB = 2.0**30
US = 1e-6
MS = 1e-3

timed = jax.jit(emulate, static_argnames="config")
NODE_LANE = 1000  # lanes that send inside a node are not those that send between nodes
ALL_ROUNDS = 10**9


# ---- cases


def toml(**sections: dict[str, Any] | str) -> str:
    """Write sections of plain values as TOML text; a section that is a string is taken as it is."""
    lines = []
    for name, section in sections.items():
        if isinstance(section, str):
            lines += [f"[{name}]", section]
        elif section:
            lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in section.items())]
    return "\n".join(lines)


def case_of(
    network: dict, collective: dict, engine: dict | None = None, faults: str | dict | None = None
) -> Case:
    """Build a case from the keys of its sections."""
    sections = {"network": network, "collective": collective, "engine": engine or {}}
    return build(load_spec(toml(**sections, faults=faults or {})))


def flat(ranks: int, rails: int = 1, rate: str = "50 GB/s", latency: str = "500 ns", **more: Any):
    """Return the keys of a flat rail network; a path has two links."""
    keys = {"kind": "flat_rails", "ranks": ranks, "rails": rails}
    return {**keys, "rail_rate": rate, "latency": latency, **more}


def all_reduce(algorithm: str, size: str = "100 MB", **more: Any):
    """Return the keys of an all-reduce."""
    return {"kind": "all_reduce", "algorithm": algorithm, "size": size, **more}


def times_of(case: Case, params: Params | None = None) -> Times:
    """Emulate a case, with other numbers if given."""
    return timed(params or case.params, case.network, case.schedule, config=case.config)


def time_s(*sections: Any) -> float:
    """Build and emulate: completion time."""
    return float(times_of(case_of(*sections)).time_s)


def with_table(
    case: Case, peer: np.ndarray, bytes_: np.ndarray | float, needs: np.ndarray | None = None
) -> tuple[Case, Params]:
    """Replace the schedule of a case by a table, see `table_schedule`."""
    schedule, chunk_bytes = table_schedule(peer, bytes_, needs)
    program = replace(case.program, schedule=schedule, chunks=())
    return replace(case, program=program), replace(case.params, chunk_bytes=chunk_bytes)


def with_random_numbers(case: Case, seed: int, params: Params | None = None) -> Params:
    """Make every capacity, latency and start of a case random and different."""
    rng = np.random.default_rng(seed)
    params = params or case.params

    def scaled(values: jax.Array, low: float, high: float) -> jax.Array:
        return values * rng.uniform(low, high, values.shape)

    return replace(
        params,
        capacity_bytes_per_s=scaled(params.capacity_bytes_per_s, 0.4, 1.6),
        latency_s=scaled(params.latency_s, 0.2, 1.8),
        late_s=jnp.asarray(rng.exponential(100 * US, params.late_s.shape)),
    )


# ---- the schedule of a case, send by send


class Wait(NamedTuple):
    """Arrivals at the sender that a send waits for: of a phase, before a round, on a lane."""

    phase: int
    before_round: int
    lane: int | None  # None: on all lanes


@dataclass(frozen=True)
class ExactSend(Send):
    """A send that says exactly what it waits for."""

    waits: tuple[Wait, ...] = ()


def is_awaited(send: ExactSend, arrival: ExactSend) -> bool:
    """Say whether `send` waits for `arrival`: stands in for `oracle.is_needed`."""
    return arrival.dst == send.src and any(
        arrival.phase == wait.phase
        and arrival.round < wait.before_round
        and wait.lane in (None, arrival.lane)
        for wait in send.waits
    )


@contextmanager
def exact_waits() -> Iterator[None]:
    """Make the oracles obey the `waits` of a send."""
    with pytest.MonkeyPatch.context() as patch:
        for oracle in (chunk, event, executor):
            patch.setattr(oracle, "is_needed", is_awaited)
        yield


@dataclass(frozen=True)
class Expanded:
    """A case as the oracles take it.

    Hops that a send skips are links of its own without latency and with infinite capacity, since
    the engine and the oracle both handle hop after hop.
    """

    sends: list[ExactSend]
    ranks: int
    num_links: int
    capacity_bytes_per_s: list[float]
    latency_s: list[float]
    rule: list[str]
    options: dict[str, Any]

    def by(self, oracle: Any) -> Timing:
        """Time it by one of the two timing oracles."""
        options = dict(self.options)
        if oracle is chunk:
            options["rule"] = self.rule
        with exact_waits():
            return oracle.emulate(
                self.sends, self.ranks, self.capacity_bytes_per_s, self.latency_s, **options
            )


def expand(case: Case, params: Params | None = None) -> Expanded:
    """Write out every send of a case with its numbers."""
    params = params or case.params
    capacity = np.asarray(params.capacity_bytes_per_s).tolist()
    latency = np.asarray(params.latency_s).tolist()
    sends = sends_of(case, params)
    placed = []
    for send in sends:
        parts = []
        for weight, path in send.path:
            links = []
            for link in path:
                if link == case.network.no_link:
                    link = len(capacity)
                    capacity.append(math.inf)
                    latency.append(0.0)
                links.append(link)
            parts.append((weight, tuple(links)))
        placed.append(replace(send, path=tuple(parts)))
    rule = [rule_of_link(case, link) for link in range(case.network.num_links)]
    reduction = params.reduction_bytes_per_s
    return Expanded(
        placed,
        case.network.ranks,
        case.network.num_links,
        capacity,
        latency,
        rule + ["fifo"] * (len(capacity) - len(rule)),
        {
            "late_s": np.asarray(params.late_s).tolist(),
            "switching": case.config.switching,
            "endpoint_latency_s": float(params.endpoint_latency_s),
            "reduction_bytes_per_s": math.inf if reduction is None else float(reduction),
        },
    )


def rule_of_link(case: Case, link: int) -> str:
    """Name the rule by which a small case shares a link."""
    relay = case.network.relay
    is_shared = case.network.tier_of(link).sharing in ("trunk", "spray")
    return "share" if is_shared or (relay is not None and relay.splits) else "fifo"


def sends_of(case: Case, params: Params | None = None) -> list[ExactSend]:
    """Write out every send; pieces are (first byte, bytes) where those are whole numbers."""
    params = params or case.params
    schedule, sends = case.schedule, []
    for number, phase in enumerate(schedule.phases):
        if phase.rounds == 0:
            continue
        patterns = _patterns(case.network, schedule, phase)
        sizes = np.asarray(params.chunk_bytes[phase.sizes])
        starts = case.program.chunks[phase.sizes].start_bytes if case.program.chunks else None
        for k, lane, src in np.argwhere(patterns.is_active):
            owner = patterns.owner[k, lane, src]
            if phase.table >= 0:
                num_bytes = sizes[k, lane, src]
            else:
                num_bytes = sizes[lane, owner if sizes.shape[1] > 1 else 0]
            hops = [link[k, :, lane, src] for link in patterns.links]
            num_paths = max(len(hop) for hop in hops)
            paths = [tuple(int(hop[p % len(hop)]) for hop in hops) for p in range(num_paths)]
            sends.append(
                ExactSend(
                    phase=number,
                    round=int(k),
                    src=int(src),
                    lane=_lane(phase, lane),
                    dst=int(patterns.dst[k, lane, src]),
                    pieces=() if starts is None else ((starts[lane, owner], num_bytes),),
                    op="reduce" if phase.reduces else "copy",
                    bytes=float(num_bytes),
                    path=tuple((1 / num_paths, path) for path in paths),
                    waits=_waits(schedule, number, int(k), int(lane), int(src)),
                )
            )
    return sends


class Patterns(NamedTuple):
    """All rounds of a phase: (rounds, lanes, ranks), links (rounds, paths, lanes, ranks)."""

    dst: np.ndarray
    is_active: np.ndarray
    owner: np.ndarray
    links: tuple[np.ndarray, ...]


def _patterns(network: Network, schedule: Schedule, phase: Phase) -> Patterns:
    """Evaluate the engine's own functions round by round, without compiling a case's program."""
    shape = (phase.lanes, network.ranks)
    src = jnp.broadcast_to(jnp.arange(network.ranks), shape)
    rounds = []
    for k in range(phase.rounds):
        dst, is_active = peers(phase, schedule, network, k)
        dst = jnp.broadcast_to(dst, shape)
        owner = dst if phase.table >= 0 else owners(phase, schedule, network, k)
        links = route(network, phase, src, dst).hops
        links = tuple(np.broadcast_to(x, (*x.shape[:-2], *shape)) for x in links)
        links = tuple(x.reshape(-1, *shape) for x in links)
        owner = np.broadcast_to(owner, shape)
        rounds.append(Patterns(np.asarray(dst), np.asarray(is_active), owner, links))
    return jax.tree.map(lambda *each: np.stack(each), *rounds)


def _lane(phase: Phase, lane: int) -> int:
    return int(lane) + (NODE_LANE if phase.domain == "node" else 0)


def _waits(schedule: Schedule, number: int, k: int, lane: int, src: int) -> tuple[Wait, ...]:
    """Say what a send of round k waits for: of earlier phases, all that its data is made of."""
    phase = schedule.phases[number]
    own_lane = _lane(phase, lane)
    if phase.table >= 0:
        needs = int(schedule.tables[phase.table].needs[k, lane, src])
        return {0: (), 1: (Wait(number, k, own_lane),), 2: (Wait(number, k, None),)}[needs]
    if phase.needs == "lane" and k:
        return (Wait(number, k, own_lane),)
    waits, scopes, before = [], set(), number
    while (before := schedule.phases[number].after) >= 0:
        scopes.add(schedule.phases[number].after_scope)
        number = before
        if schedule.phases[number].rounds:
            waits.append(Wait(number, ALL_ROUNDS, own_lane if scopes == {"lane"} else None))
    return tuple(waits)
