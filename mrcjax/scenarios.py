"""Many scenarios of one spec as one batched program, and the pairs that a scenario cuts off."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.batched import ready_to_launch, width_of
from mrcjax.case import Case, numbers
from mrcjax.collective import Phase, Schedule
from mrcjax.collective.detour import detoured, none_dealt
from mrcjax.collective.schedule import peers
from mrcjax.network import Network
from mrcjax.network.reduction import Tree

MEMORY_BYTES = 2**28  # what the arrays of a batch may take, about
MOST_AT_ONCE = 32  # more scenarios in a batch run no faster


def scenario_times(
    case: Case, schedule: Schedule, progress: Callable[[int, int], None] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Emulate every scenario of the spec: completion times, and whether a link down was needed.

    Both (scenarios,). Scenarios run in batches that fit into memory, all by one program.
    `progress` is told how many of how many are done.
    """
    count = case.spec.faults.scenarios
    room = _batch_size(case, count)
    width = width_of((case.params, case.network, schedule), room)
    dtype = case.params.capacity_bytes_per_s.dtype
    times, cut_off = [], []
    for first in range(0, count, room):
        drawn = [
            numbers(case.draws, number, dtype, np.asarray)
            for number in range(first, min(first + room, count))
        ]
        inputs = [(replace(case.params, **each), case.network, schedule) for each in drawn]
        found = ready_to_launch(inputs, case.config, room, width)()
        for each, time_s, link_bytes in zip(
            drawn, np.asarray(found.time_s), np.asarray(found.link_bytes), strict=False
        ):
            times.append(float(time_s))
            cut_off.append(bool(((link_bytes > 0) & (each["capacity_bytes_per_s"] <= 0)).any()))
        if progress is not None:
            progress(min(first + room, count), count)
    return np.asarray(times), np.asarray(cut_off)


def _batch_size(case: Case, count: int) -> int:
    lanes = max((phase.lanes for phase in case.schedule.phases), default=1)
    ways = 1
    if case.network.reroute == "spread":
        ways = max(case.network.ports, case.network.node_size)
    sprays = any(tier.sharing == "spray" for tier in case.network.tiers)
    ways = max(ways, getattr(case.network.fabric, "paths", 1) if sprays else 1)
    each = 8 * (12 * case.network.num_links + 16 * lanes * ways * case.network.ranks)
    return int(np.clip(MEMORY_BYTES // each, 1, min(count, MOST_AT_ONCE)))


def cut_off_pair(case: Case, scenario: int) -> tuple[int, int, int] | None:
    """First pair of ranks whose send has only links that are down: sender, receiver, link."""
    dtype = case.params.capacity_bytes_per_s.dtype
    capacity = numbers(case.draws, scenario, dtype)["capacity_bytes_per_s"]
    network = replace(case.network, up=jnp.append(capacity > 0, True))
    for phase in case.schedule.phases:
        if phase.tree >= 0:
            found = _cut_off_from_tree(case.schedule.trees[phase.tree], np.asarray(network.up))
            if found is not None:
                return found
            continue
        for k in range(phase.rounds):
            bad, dst, link = _down_sends(network, case.schedule, phase, jnp.asarray(k))
            if bad.any():
                lane, src = (int(x[0]) for x in np.nonzero(np.asarray(bad)))
                return src, int(dst[lane, src]), int(link[lane, src])
    return None


def _cut_off_from_tree(tree: Tree, up: np.ndarray) -> tuple[int, int, int] | None:
    """The same on switches that reduce: up to the top, and from there down to another rank."""
    at = np.asarray(tree.parent[0])
    at = np.broadcast_to(np.arange(at.shape[1]), at.shape)
    chains: dict[str, list[np.ndarray]] = {"up": [], "down": []}
    for level, parent in enumerate(tree.parent):
        for way, links in (("up", tree.up[level]), ("down", tree.down[level])):
            chains[way].append(np.take_along_axis(np.asarray(links), at, axis=1))
        at = np.take_along_axis(np.asarray(parent), at, axis=1)
    for way, chain in chains.items():
        for link in chain:
            for lane, rank in np.argwhere(~up[link])[:1]:
                others = np.flatnonzero(at[lane] == at[lane, rank])
                other = int(others[others != rank][0]) if len(others) > 1 else int(rank)
                pair = (int(rank), other) if way == "up" else (other, int(rank))
                return (*pair, int(link[lane, rank]))
    return None


@partial(jax.jit, static_argnames="phase")
def _down_sends(network: Network, schedule: Schedule, phase: Phase, k: jax.Array):
    """Sends of a round that need a link that is down, their receivers, and that link."""
    assert network.up is not None
    dst, active = peers(phase, schedule, network, k)
    dst = jnp.broadcast_to(dst, active.shape)
    src = jnp.broadcast_to(jnp.arange(network.ranks)[None, :], active.shape)
    link = jnp.full(active.shape, network.no_link)
    ways, _ = detoured(network, phase, src, dst, active, none_dealt(network))
    for hop in ways.hops:
        down = jnp.where(network.up[hop], network.no_link, hop)
        down = down.min(axis=0) if down.ndim > active.ndim else down
        link = jnp.where(link == network.no_link, down, link)
    return active & (link != network.no_link), dst, link
