"""One run over several devices: ranks sharded over a mesh, also of several processes.

Arrays whose last axis counts ranks or links are cut into equal parts, one per device, and the
compiler partitions the engine around them: every device keeps the clocks of its own ranks. What
ranks tell each other is gathered once a round; clocks of single links that ranks share, and the
order in which those serve, are kept on every device.
"""

import hashlib
import socket
import time
from typing import Any, TypeVar

import jax
import msgspec
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mrcjax.spec import OutputSpec, Spec, SpecError, spec_to_toml

AXIS = "ranks"
ADDRESS_WAIT_S = 300  # for process 0 to listen
LONGEST_WAIT_S = 24 * 3600  # for all processes to come; until then Ctrl-C ends the waiting

T = TypeVar("T")


def mesh_of(spec: Spec) -> Mesh | None:
    """The devices that a spec asks for; None for one, which needs no mesh.

    Raises:
        SpecError: there are not so many, ranks or processes do not share them equally, or the
            processes of the run were given different specs.
    """
    asked, ranks = spec.engine.devices, spec.network.ranks
    if asked == 1:
        return None
    processes = jax.process_count()
    if processes > 1:
        _refuse_unlike(spec)
    every = jax.devices()
    count = len(every) if asked == "all" else asked
    if count > len(every):
        raise SpecError(
            f"asks for more than the {len(every)} that JAX has here",
            where="engine.devices",
            value=asked,
            remedy='use "all"; --xla_force_host_platform_device_count=N in XLA_FLAGS makes N of '
            "one processor",
        )
    if count % processes:
        raise SpecError(
            f"are not shared equally by {processes} processes",
            where="engine.devices",
            value=asked,
            remedy=f"use a multiple of {processes}",
        )
    if ranks % count:
        fits = [n for n in range(processes, count, processes) if ranks % n == 0]
        use = f"use {fits[-1]}, or" if fits else "use"
        raise SpecError(
            f"are {count}, which do not share {ranks:,} ranks equally",
            where="engine.devices",
            value=asked,
            remedy=f"{use} a number of ranks that is a multiple of {count}",
        )
    each = count // processes
    of_process = [[d for d in every if d.process_index == p][:each] for p in range(processes)]
    chosen = [device for some in of_process for device in some]
    if len(chosen) < count:
        raise SpecError(
            f"needs {each} devices in each of {processes} processes, one has fewer",
            where="engine.devices",
            value=asked,
            remedy="give all processes the same number of devices, or use fewer",
        )
    return Mesh(np.asarray(chosen), (AXIS,)) if count > 1 else None


def place(arrays: T, mesh: Mesh | None, ranks: int) -> T:
    """Put a pytree on the devices: what counts ranks or links is cut, the rest is on all.

    Every process holds the whole of `arrays` and puts its own devices' parts there.
    """
    if mesh is None:
        return arrays

    def placed(leaf: Any) -> jax.Array:
        values = np.asarray(leaf)
        sharding = NamedSharding(mesh, _cut(values.shape, mesh.size, ranks))
        return jax.make_array_from_callback(values.shape, sharding, lambda part: values[part])

    return jax.tree.map(placed, arrays)


def on_all(mesh: Mesh) -> NamedSharding:
    """How results are given back: whole, on every device, so that each process can read them."""
    return NamedSharding(mesh, PartitionSpec())


def name(mesh: Mesh | None) -> str:
    """The devices in words, e.g. "8 x cpu", "16 x NVIDIA H200 in 2 processes"."""
    if mesh is None:
        return jax.devices()[0].device_kind
    kinds = " and ".join(dict.fromkeys(d.device_kind for d in mesh.devices.flat))
    processes = len({d.process_index for d in mesh.devices.flat})
    return f"{mesh.size} x {kinds}" + (f" in {processes} processes" if processes > 1 else "")


def join(coordinator: str, processes: int | None, process: int | None) -> None:
    """Make this process one of those that share a run; before anything else that uses JAX.

    Args:
        coordinator: HOST:PORT of process 0, where the others find it; "auto" where Slurm, Open MPI
            or a TPU pod says all that there is to know.
        processes: how many there are.
        process: which one this is, from 0.

    Raises:
        SpecError: the others are not found.
    """
    settings: dict[str, Any] = {}
    if coordinator != "auto":
        settings = {
            "coordinator_address": coordinator,
            "num_processes": processes,
            "process_id": process,
            "cluster_detection_method": "deactivate",
        }
        if process != 0:
            _await_address(coordinator)
    try:
        # JAX ends the process where it has waited in vain
        jax.distributed.initialize(**settings, initialization_timeout=LONGEST_WAIT_S)
    except (RuntimeError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise SpecError(
            f"the processes did not find each other ({said})",
            where="--coordinator",
            value=coordinator,
            remedy="start every process with the same address, a free port on the machine of "
            "process 0"
            + ("; outside Slurm and Open MPI write HOST:PORT" if coordinator == "auto" else ""),
        ) from error


def is_first() -> bool:
    """Whether this process writes and prints what comes out; there is one that does."""
    return jax.process_index() == 0


def _await_address(coordinator: str) -> None:
    """Wait until process 0 is there, or refuse the address."""
    host, _, port = coordinator.rpartition(":")
    last = time.monotonic() + ADDRESS_WAIT_S
    while True:
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > last or isinstance(error, socket.gaierror):
                raise SpecError(
                    f"process 0 is not found ({(error.strerror or str(error)).lower()})",
                    where="--coordinator",
                    value=coordinator,
                    remedy="start process 0 there first, or give its address",
                ) from error
        time.sleep(0.2)


def _cut(shape: tuple[int, ...], count: int, ranks: int) -> PartitionSpec:
    """Cut the last axis, where ranks or links are, if it can be cut equally."""
    if not shape or shape[-1] < ranks or shape[-1] % count:
        return PartitionSpec()
    return PartitionSpec(*[None] * (len(shape) - 1), AXIS)


def _refuse_unlike(spec: Spec) -> None:
    """Refuse processes that would run different programs, and so wait for each other for ever."""
    text = spec_to_toml(msgspec.structs.replace(spec, output=OutputSpec()))
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32)
    every = np.asarray(multihost_utils.process_allgather(digest))
    unlike = np.flatnonzero((every != every[0]).any(axis=1))
    if len(unlike):
        raise SpecError(
            f"processes 0 and {unlike[0]} were given different specs",
            where="--coordinator",
            remedy="start all of them with the same spec and the same --set",
        )
