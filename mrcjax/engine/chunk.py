"""Engine `chunk`: whole chunks on links, rounds in order, no barrier between ranks."""

import jax
import jax.numpy as jnp

from mrcjax.collective.schedule import Phase, Schedule
from mrcjax.engine import paths, ports
from mrcjax.engine.maxplus import later, latest
from mrcjax.engine.params import Config, Params, Times
from mrcjax.network.links import Network

NEVER = -jnp.inf


DEFAULT = Config()


def emulate(
    params: Params, network: Network, schedule: Schedule, *, config: Config = DEFAULT
) -> Times:
    """Time a schedule on a network.

    Pure; may be jitted (config static), vmapped, and differentiated in every float of `params`,
    forward and reverse. Ranks finish when their data has arrived and their sends have left; a
    rank that takes part in nothing finishes when it joins (params.late_s).
    """
    dtype = params.capacity_bytes_per_s.dtype
    none = jnp.zeros((network.num_links + 1,), dtype)
    fabric_free, link_bytes = none.at[-1].set(NEVER), none
    finish = params.late_s
    by_ports: dict[str, ports.Ports] = {}
    by_paths: paths.Lanes | None = None
    arrivals: list[jax.Array] = []
    for phase in schedule.phases:
        entry = _entry(phase, arrivals, network.ranks, dtype)
        with jax.named_scope(phase.name.replace(" ", "_")):
            if phase.rounds == 0:
                arrivals.append(entry)
                continue
            if bound_to_ports(phase, network):
                here = by_ports.get(phase.domain)
                if here is None:
                    here = _new_ports(phase, network, params.late_s)
                here, fabric_free, arrived, sent = ports.run_phase(
                    params, network, schedule, config, phase, here, fabric_free, entry
                )
                by_ports[phase.domain] = here
                left = here.lane_free
            else:
                if by_paths is None:
                    by_paths = _new_lanes(phase, network, params.late_s)
                rule = ports.inner_rule(network, phase, config)
                by_paths, arrived, sent = paths.run_phase(
                    params, network, schedule, config, phase, by_paths, entry, rule
                )
                left = by_paths.lane_free
        # What a phase starts from is there too: data that only the rank itself holds is not sent.
        arrivals.append(later(arrived, entry))
        link_bytes = link_bytes + sent
        finish = later(later(latest(arrived), latest(left)), finish)
    return Times(
        time_s=latest(finish),
        finish_s=finish,
        link_bytes=jax.lax.stop_gradient(link_bytes[:-1]),
    )


def bound_to_ports(phase: Phase, network: Network) -> bool:
    """Whether every lane keeps to its own port and every send to one kind of link."""
    plain = phase.order < 0 and phase.offsets < 0 and phase.table < 0
    return plain and (phase.domain == "node" or (phase.domain == "network" and not network.wired))


def _entry(phase: Phase, arrivals: list[jax.Array], ranks: int, dtype) -> jax.Array:
    """When the data of a phase's first sends is there, (lanes, ranks)."""
    shape = (phase.lanes, ranks)
    if phase.after < 0:
        return jnp.full(shape, NEVER, dtype)
    before = arrivals[phase.after]
    if phase.after_scope == "lane":
        return before
    return jnp.broadcast_to(latest(before), shape)


def _new_ports(phase: Phase, network: Network, late_s: jax.Array) -> ports.Ports:
    num = 1 if phase.domain == "node" else network.ports
    lanes = -(-phase.lanes // num) * num
    idle = jnp.zeros((num, network.ranks), late_s.dtype)
    return ports.Ports(
        lane_free=jnp.broadcast_to(late_s, (lanes, network.ranks)),
        egress_free=idle,
        ingress_free=idle,
        reducer_free=jnp.zeros((lanes, network.ranks), late_s.dtype),
    )


def _new_lanes(phase: Phase, network: Network, late_s: jax.Array) -> paths.Lanes:
    shape = (phase.lanes, network.ranks)
    return paths.Lanes(
        lane_free=jnp.broadcast_to(late_s, shape),
        link_free=jnp.zeros((network.num_links + 1,), late_s.dtype).at[-1].set(NEVER),
        reducer_free=jnp.zeros(shape, late_s.dtype),
    )
