"""From a spec to the arrays of one run: network, schedule, numbers, faults applied."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax import collective, network
from mrcjax.collective import Program, Schedule, traffic
from mrcjax.collective.traffic import Flows
from mrcjax.engine import Config, Params, Shares
from mrcjax.engine.arrival import MOST_SENDS
from mrcjax.engine.jitter import Jitter
from mrcjax.engine.plan import bound_to_ports, in_arrival_order
from mrcjax.faults import Draws, Scenario
from mrcjax.network import Wiring
from mrcjax.network.components import components
from mrcjax.network.route import mix
from mrcjax.spec import FaultsSpec, Graph, Spec, SpecError


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
    draws: Draws
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


def build(spec: Spec, *, known: dict[Any, Any] | None = None) -> Case:
    """Lay out network, schedule and numbers; raises SpecError for what cannot be built.

    Arrays have the spec's precision; float64 needs JAX's 64-bit mode, which the command line
    switches on and the library leaves alone.

    Args:
        spec: what to lay out.
        known: of many cases: networks and schedules by what they follow from, looked up and added
            to. Numbers are then NumPy arrays, to be stacked.
    """
    dtype = jnp.dtype(spec.engine.precision)
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise SpecError(
            'engine.precision: "float64" needs JAX\'s 64-bit mode; call '
            'jax.config.update("jax_enable_x64", True) first, or set engine.precision = "float32"'
        )
    array: Callable[..., Any] = jnp.asarray if known is None else np.asarray
    known = {} if known is None else known
    wiring = _recalled(known, (spec.network, dtype), lambda: network.build(spec.network))
    parts = None
    if spec.faults.random:
        key = (spec.network, dtype, "components")
        parts = _recalled(known, key, lambda: components(wiring))
    draws = Draws(spec.faults, wiring, parts)
    built, wiring = wiring, _routed_anew(spec, draws, wiring)
    if wiring.network.by_table and spec.traffic is None:
        pairs = np.indices((spec.network.ranks,) * 2).reshape(2, -1)
        network.refuse_unroutable(wiring, *pairs, detours=wiring is not built)
    flows = None
    if spec.traffic is None:

        def scheduled() -> Program:
            return collective.build(
                spec.the_collective, wiring.network, spec.network.channels, _hardware(spec)
            )

        key = (spec.the_collective, spec.network, dtype) if wiring is built else None
        program = _recalled(known, key, scheduled)
    else:
        program = Program(Schedule((), (), (), (), "traffic", spec.traffic.kind), ())
        flows = traffic.build(spec.traffic, spec.network, wiring)
    _refuse_lost_sums(spec.faults, draws, program)
    told = _told_of_faults(spec.faults, draws, wiring.network)
    wiring = wiring if told is wiring.network else replace(wiring, network=told)
    config = Config(spec.engine.switching, spec.engine.order, spec.engine.fast_forward)
    _refuse_too_many_sends(wiring.network, program, config)
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused with the result
        params = Params(
            **numbers(draws, 0, dtype, array),
            chunk_bytes=tuple(array(c.bytes, dtype) for c in program.chunks),
            endpoint_latency_s=array(float(spec.network.endpoint_latency), dtype),
            reduction_bytes_per_s=_reduction_rate(spec, dtype),
            window=None
            if spec.faults.window is None or not draws.is_lossy
            else array(float(spec.faults.window), dtype),
            in_network_efficiency=array(spec.network.in_network_efficiency, dtype)
            if any(phase.tree >= 0 for phase in program.schedule.phases)
            else None,
            shares=_shares(program, dtype),
        )
    return Case(spec, wiring, program, params, config, draws, flows)


def _recalled(known: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """What is known by this key, or is made now and known from then on; no key: made anew."""
    if key is None:
        return make()
    if key not in known:
        known[key] = make()
    return known[key]


def recut(case: Case, spec: Spec) -> Case:
    """The same network and numbers with the collective of another spec; for search loops."""
    program = collective.build(
        spec.the_collective, case.network, spec.network.channels, _hardware(spec)
    )
    dtype = case.params.capacity_bytes_per_s.dtype
    params = replace(
        case.params,
        chunk_bytes=tuple(jnp.asarray(c.bytes, dtype) for c in program.chunks),
        shares=_shares(program, dtype),
    )
    return replace(case, spec=spec, program=program, params=params)


def _shares(program: Program, dtype: jnp.dtype) -> Shares | None:
    cut = program.shares
    if cut is None:
        return None
    table = None if cut.table is None else jnp.asarray(cut.table, dtype)
    return Shares(jnp.asarray(cut.source, dtype), jnp.asarray(cut.destination, dtype), table)


def _hardware(spec: Spec) -> collective.Hardware:
    return collective.Hardware(
        {"network": spec.network.port_rates, "node": spec.network.node_rates},
        spec.network.in_network_levels,
        spec.network.in_network_owner,
    )


def _routed_anew(spec: Spec, draws: Draws, wiring: Wiring) -> Wiring:
    """A graph whose routes avoid what is down, where the spec asks for that.

    Not where scenarios have each their own: routes are what is compiled for.
    """
    faults = spec.faults
    if not isinstance(spec.network, Graph) or faults.reroute != "spread" or faults.scenarios > 1:
        return wiring
    up = draws.scenario().capacity_bytes_per_s > 0
    return wiring if up.all() else network.graph.avoid(spec.network, wiring, up)


def _refuse_lost_sums(faults: FaultsSpec, draws: Draws, program: Program) -> None:
    """Refuse what switches that reduce are not known to do: repeat what is lost, wait by round."""
    if not any(phase.tree >= 0 for phase in program.schedule.phases):
        return
    by_round = [f"jitter[{i}].at" for i, each in enumerate(faults.jitter) if each.at == "round"]
    for key, word in [(key, "delays of every round") for key in by_round] + (
        [("links", "lost packets")] if draws.is_lossy else []
    ):
        raise SpecError(
            f"has {word}, which are not known of switches that reduce",
            where=f"faults.{key}",
            remedy="leave them out, or use an algorithm other than in_network",
        )


def _told_of_faults(faults: FaultsSpec, draws: Draws, here: network.Network) -> network.Network:
    """The network, told whether sends go around what is down and whether packets get lost."""
    is_rerouted = faults.reroute != "none" and draws.may_be_down and here.can_reroute
    reroute = faults.reroute if is_rerouted else ""
    if (here.reroute, here.lossy) == (reroute, draws.is_lossy):
        return here
    return replace(here, reroute=reroute, lossy=draws.is_lossy)


def numbers(
    draws: Draws, scenario: int, dtype, array: Callable[..., Any] = jnp.asarray
) -> dict[str, Any]:
    """The entries of Params that differ between scenarios, of one of them."""
    drawn: Scenario = draws.scenario(scenario)
    return {
        "capacity_bytes_per_s": array(drawn.capacity_bytes_per_s, dtype),
        "latency_s": array(drawn.latency_s, dtype),
        "late_s": array(drawn.late_s, dtype),
        "loss": array(drawn.loss, dtype) if draws.is_lossy else None,
        "jitter": _jitter(draws.faults, scenario, dtype),
    }


def _jitter(faults: FaultsSpec, scenario: int, dtype) -> Jitter | None:
    for jitter in faults.jitter:
        if jitter.at == "round":
            sigma = jitter.mean if jitter.sigma is None else jitter.sigma
            mean_s, sigma_s = (jnp.asarray(float(x), dtype) for x in (jitter.mean, sigma))
            return Jitter(mean_s, sigma_s, mix(jitter.seed + scenario), jitter.kind)
    return None


def _reduction_rate(spec: Spec, dtype) -> jax.Array | None:
    """Rate of a lane's reducer, one for all ranks or one each."""
    rate = spec.network.reduction_rate
    if rate is None:
        return None
    if not spec.faults.slow:
        return jnp.asarray(float(rate), dtype)
    rates = np.full(spec.network.ranks, float(rate))
    for slow in spec.faults.slow:
        rates[slow.rank] /= slow.factor
    return jnp.asarray(rates, dtype)


def _refuse_too_many_sends(here: network.Network, program: Program, config: Config) -> None:
    if config.order == "arrival" and (here.reroute or here.lossy):
        raise SpecError(
            'engine.order: "arrival" does not go with links that are down and rerouted, nor with '
            'losses; use order = "auto"'
        )
    for phase in program.schedule.phases:
        sends = phase.rounds * phase.lanes * here.ranks
        at_once = bound_to_ports(phase, here) and in_arrival_order(here, phase, config)
        if at_once and sends > MOST_SENDS:
            raise SpecError(
                f'engine.order: "arrival" holds all sends of a phase at once, but "{phase.name}" '
                f'has {sends:,} and the most is {MOST_SENDS:,}; use order = "auto" or fewer ranks'
            )
