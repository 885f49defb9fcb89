"""From a spec to the arrays of one run: network, schedule, numbers, faults applied."""

import fnmatch
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax import collective, network
from mrcjax.collective import Program, Schedule, traffic
from mrcjax.collective.traffic import Flows
from mrcjax.engine import Config, Params
from mrcjax.engine.arrival import MOST_SENDS
from mrcjax.engine.plan import bound_to_ports, in_arrival_order
from mrcjax.network import Wiring
from mrcjax.spec import LinkFault, Spec, SpecError


@dataclass(frozen=True)
class Case:
    """Everything `emulate` needs, and the names and pieces behind it.

    With traffic in the place of a collective the schedule is empty and `flows` says what is sent.
    """

    spec: Spec
    wiring: Wiring
    program: Program
    params: Params
    config: Config
    flows: Flows | None = None

    @property
    def size_bytes(self) -> float:
        """Bytes of a rank; of traffic, of all flows."""
        if self.flows is not None:
            return float(self.flows.size_bytes.sum())
        return float(self.spec.the_collective.size)

    @property
    def network(self) -> network.Network:
        """Where the links are."""
        return self.wiring.network

    @property
    def schedule(self) -> collective.Schedule:
        """Who sends what when."""
        return self.program.schedule


def build(spec: Spec) -> Case:
    """Lay out network, schedule and numbers; raises SpecError for what cannot be built.

    Arrays have the spec's precision; float64 needs JAX's 64-bit mode, which the command line
    switches on and the library leaves alone.
    """
    dtype = jnp.dtype(spec.engine.precision)
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise SpecError(
            'engine.precision: "float64" needs JAX\'s 64-bit mode; call '
            'jax.config.update("jax_enable_x64", True) first, or set engine.precision = "float32"'
        )
    wiring = network.build(spec.network)
    if wiring.network.by_table and spec.traffic is None:
        pairs = np.indices((spec.network.ranks,) * 2).reshape(2, -1)
        network.refuse_unreachable(wiring, *pairs)
    flows = None
    if spec.traffic is None:
        hardware = collective.Hardware(
            {"network": spec.network.port_rates, "node": spec.network.node_rates},
            spec.network.in_network_levels,
            spec.network.in_network_owner,
        )
        channels = spec.network.channels
        program = collective.build(spec.the_collective, wiring.network, channels, hardware)
    else:
        program = Program(Schedule((), (), (), (), "traffic", spec.traffic.kind), ())
        flows = traffic.build(spec.traffic, spec.network, wiring)
    capacity, latency = _with_faults(wiring, spec.faults.links)
    late = np.zeros(spec.network.ranks)
    for fault in spec.faults.late:
        late[fault.rank] = float(fault.by)
    reduction = spec.network.reduction_rate
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused with the result
        params = Params(
            capacity_bytes_per_s=jnp.asarray(capacity, dtype),
            latency_s=jnp.asarray(latency, dtype),
            late_s=jnp.asarray(late, dtype),
            chunk_bytes=tuple(jnp.asarray(c.bytes, dtype) for c in program.chunks),
            endpoint_latency_s=jnp.asarray(float(spec.network.endpoint_latency), dtype),
            reduction_bytes_per_s=None
            if reduction is None
            else jnp.asarray(float(reduction), dtype),
            in_network_efficiency=jnp.asarray(spec.network.in_network_efficiency, dtype)
            if any(phase.tree >= 0 for phase in program.schedule.phases)
            else None,
        )
    config = Config(spec.engine.switching, spec.engine.order, spec.engine.fast_forward)
    _refuse_too_many_sends(wiring.network, program, config)
    return Case(spec, wiring, program, params, config, flows)


def _with_faults(wiring: Wiring, faults: tuple[LinkFault, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Capacities and latencies with every fault applied to the links whose name it matches."""
    capacity, latency = wiring.capacity_bytes_per_s.copy(), wiring.latency_s.copy()
    if not faults:
        return capacity, latency
    names = [wiring.link_name(i) for i in range(len(capacity))]
    for number, fault in enumerate(faults):
        hit = [i for i, name in enumerate(names) if fnmatch.fnmatchcase(name, fault.match)]
        if not hit:
            example = ", ".join(f'"{names[t.first]}"' for t in wiring.network.tiers)
            raise SpecError(
                f'faults.links[{number}].match: "{fault.match}" names no link of this network; '
                f"its links are called for example {example}"
            )
        capacity[hit] *= fault.rate
        latency[hit] += float(fault.add_latency)
    return capacity, latency


def _refuse_too_many_sends(here: network.Network, program: Program, config: Config) -> None:
    for phase in program.schedule.phases:
        sends = phase.rounds * phase.lanes * here.ranks
        at_once = bound_to_ports(phase, here) and in_arrival_order(here, phase, config)
        if at_once and sends > MOST_SENDS:
            raise SpecError(
                f'engine.order: "arrival" holds all sends of a phase at once, but "{phase.name}" '
                f'has {sends:,} and the most is {MOST_SENDS:,}; use order = "auto" or fewer ranks'
            )
