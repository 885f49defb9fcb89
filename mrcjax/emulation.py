"""`run`: from a spec to its outcome, bounds and binding resource included."""

import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax.sharding import Mesh

from mrcjax import aggregate, devices
from mrcjax.case import Case, build
from mrcjax.collective import Phase, Schedule
from mrcjax.engine import Config, Times, emulate, lay_out_sends
from mrcjax.findings import outcome_of, refuse_cut_off
from mrcjax.fluid import Written, fair, write_out
from mrcjax.outcome import Outcome, Scenarios
from mrcjax.programs import compiled, structure
from mrcjax.round_order import order_warning
from mrcjax.scenarios import scenario_times
from mrcjax.spec import Spec

_jitted = {
    emulate: jax.jit(emulate, static_argnames="config").lower,
    fair: jax.jit(fair).lower,
}
_sharded: dict[Mesh, Any] = {}


def precision(name: str) -> AbstractContextManager:
    """JAX's 64-bit mode for the time of one run; the global setting is left as it was."""
    return jax.enable_x64(True) if name == "float64" else nullcontext()


def run(spec: Spec, *, brief: bool = False, known: dict | None = None) -> Outcome:
    """Emulate a spec: what `mrcjax run` does. Several threads may do so at once.

    Args:
        spec: what to emulate.
        brief: compile without optimisation, where the rounds to run are few: about half the time
            to compile, several times that to run. The results are the same.
        known: times by what was emulated, looked up and added to. A reduce-scatter and an
            all-gather of equal shards, for one, are the same sends.

    Raises:
        SpecError: for what cannot be built, and where a link that is down is needed.
    """
    if spec.engine.aggregate:
        return _run_aggregated(spec)
    with precision(spec.engine.precision):
        started = time.perf_counter()
        mesh = devices.mesh_of(spec)
        case = build(spec)
        written = write_out(case) if spec.engine.kind == "fluid" else None
        inputs = inputs_of(case, written)
        placed = devices.place(inputs, mesh, spec.network.ranks)
        built = time.perf_counter()
        engine = emulate if written is None else fair
        emulation = _compile(placed, case.config, brief, engine, mesh)
        ready = time.perf_counter()
        if known is None:
            found = jax.block_until_ready(emulation(*placed))
        else:
            found = _recall(known, inputs, case.config, lambda: emulation(*placed))
        done = time.perf_counter()
        wall_s = {"build": built - started, "compile": ready - built, "run": done - ready}
        outcome = outcome_of(case, found, wall_s, written, devices.name(mesh))
        if written is not None:
            return outcome

        def again(config: Config) -> float:
            return float(_compile(placed, config, brief, emulate, mesh)(*placed).time_s)

        said = order_warning(case, outcome.time_s, outcome.schedule_bound_s, again)
        outcome = replace(outcome, warnings=(*outcome.warnings, *([said] if said else [])))
        return _with_scenarios(case, outcome, inputs[-1])


def _with_scenarios(case: Case, outcome: Outcome, schedule: Schedule) -> Outcome:
    """The outcome with the completion times of all scenarios, where the spec asks for several."""
    if case.spec.faults.scenarios == 1:
        return outcome
    started = time.perf_counter()
    times_s, is_cut_off = scenario_times(case, schedule)
    if is_cut_off.any():
        refuse_cut_off(case, int(np.flatnonzero(is_cut_off)[0]))
    wall_s = outcome.wall_s | {"scenarios": time.perf_counter() - started}
    return replace(outcome, wall_s=wall_s, scenarios=Scenarios(times_s))


def inputs_of(case: Case, written: Written | None = None) -> tuple:
    """Arguments of `emulate`, or of `fair` where the sends are written out."""
    if written is None:
        return case.params, case.network, plain_schedule(case)
    params = case.params
    dtype = params.capacity_bytes_per_s.dtype
    quantum = jnp.asarray(float(case.spec.engine.quantum), dtype)
    layout = lay_out_sends(written.sends, case.network.num_links)
    return written.sends, layout, params.capacity_bytes_per_s, params.latency_s, quantum


def _run_aggregated(spec: Spec) -> Outcome:
    """The same for an all-to-all by classes of alike flows."""
    started = time.perf_counter()
    aggregate.check(spec)
    even = spec
    if getattr(spec.network, "load_balancing", "") == "spray":
        # so many flows spread over many paths load all cables alike, as one trunk
        network = msgspec.structs.replace(spec.network, load_balancing="ideal", paths=256)
        even = msgspec.structs.replace(spec, network=network)
    with precision(spec.engine.precision):
        case = replace(build(even), spec=spec)
        built = time.perf_counter()
        times = aggregate.times_of(case)
        wall_s = {"build": built - started, "compile": 0.0, "run": time.perf_counter() - built}
        return outcome_of(case, times, wall_s)


def times_of(case: Case) -> Times:
    """Times of a built case, by the code that `run` compiles for it; for search loops."""
    inputs = inputs_of(case)
    return _compile(inputs, case.config, False, emulate)(*inputs)


def scenarios_of(case: Case) -> Scenarios | None:
    """Completion times of all scenarios of a built case, as `run` gives them; None where it is one.

    Infinite where a link that is down is needed.
    """
    if case.spec.faults.scenarios == 1:
        return None
    times_s, is_cut_off = scenario_times(case, plain_schedule(case))
    return Scenarios(np.where(is_cut_off, np.inf, times_s))


def plain_schedule(case: Case) -> Schedule:
    """The schedule without what makes no difference to its times, so that more runs share code.

    With equal chunks it does not matter whose chunk is sent, and without a reducer's rate not
    whether it is reduced.
    """
    equal = all(chunks.shape[-1] == 1 for chunks in case.params.chunk_bytes)
    sizes = _first_alike(case.params.chunk_bytes)
    phases = [replace(phase, sizes=sizes[phase.sizes]) for phase in case.schedule.phases]
    if not equal or case.params.reduction_bytes_per_s is not None:
        return replace(case.schedule, phases=tuple(phases))
    phases = [replace(p, name="sends", owner=(0, 0, False), reduces=False) for p in phases]
    return replace(case.schedule, phases=tuple(_joined(phases)), kind="", algorithm="")


def _first_alike(arrays: tuple[jax.Array, ...]) -> list[int]:
    """Number of the first array that is equal to each."""
    first: dict[tuple, int] = {}
    values = [np.asarray(array) for array in arrays]
    return [first.setdefault((x.shape, x.tobytes()), number) for number, x in enumerate(values)]


def _joined(phases: list[Phase]) -> list[Phase]:
    """Phases with those made one that only continue the one before, lane by lane.

    The all-gather of a ring is such a one: its sends wait for the last arrival on their lane, as
    all others do. Half as many loops to compile.
    """
    joined: list[Phase] = []
    place: list[int] = []  # of each phase among the joined
    for number, phase in enumerate(phases):
        before = joined[-1] if joined else None
        is_awaited_here_only = [p.after for p in phases].count(number - 1) == 1
        if before is not None and is_awaited_here_only and _continues(phase, number - 1, before):
            joined[-1] = replace(before, rounds=before.rounds + phase.rounds)
        else:
            after = phase.after if phase.after < 0 else place[phase.after]
            joined.append(replace(phase, after=after))
        place.append(len(joined) - 1)
    return joined


def _continues(phase: Phase, last: int, before: Phase) -> bool:
    """Whether a phase goes on with the rounds of the one before, which is number `last`."""
    if (phase.after, phase.after_scope, phase.needs) != (last, "lane", "lane"):
        return False
    if phase.table >= 0 or phase.lines:  # there the round's number counts
        return False
    rounds, after, scope = before.rounds, before.after, before.after_scope
    return replace(phase, rounds=rounds, after=after, after_scope=scope) == before


def _compile(
    inputs: tuple, config: Config, brief: bool, engine: Callable, mesh: Mesh | None = None
):
    """Compile once per structure, shapes and devices; numbers are arguments."""
    lower = _jitted[engine] if mesh is None else _sharded_emulation(mesh).lower
    static = {"config": config} if engine is emulate else {}
    # elsewhere than on the CPU the option costs more than it saves
    is_brief = brief and jax.default_backend() == "cpu"
    options: dict[str, str | bool] = {"xla_backend_optimization_level": "0"} if is_brief else {}
    key = (engine, structure_of(inputs, config), brief, mesh)
    return compiled(key, lambda: lower(*inputs, **static), options)


def _sharded_emulation(mesh: Mesh) -> Any:
    """The engine on several devices; every process gets the whole result."""
    whole = devices.on_all(mesh)
    return _sharded.setdefault(
        mesh, jax.jit(emulate, static_argnames="config", out_shardings=whole)
    )


def structure_of(inputs: tuple, config: Config) -> Hashable:
    """What runs that share compiled code have in common."""
    return structure(inputs), config


def _recall(known: dict, inputs: tuple, config: Config, emulation: Callable[[], Any]) -> Any:
    """Emulate what is not known yet."""
    numbers = tuple(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(inputs))
    key = (structure_of(inputs, config), numbers)
    if key not in known:
        known[key] = jax.block_until_ready(emulation())
    return known[key]
