"""Several processes, on one machine or more, that share one run."""

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrcjax.spec import Spec


@dataclass(frozen=True)
class Group:
    """What the options of a command say of its fellow processes; see `devices.join`."""

    coordinator: str
    processes: int | None
    process: int | None

    def join(self) -> None:
        """Find the others; raises SpecError."""
        from mrcjax import devices

        devices.join(self.coordinator, self.processes, self.process)

    def is_first(self) -> bool:
        """Whether this process writes and prints."""
        from mrcjax import devices

        return devices.is_first()


def keep_stdout_clean() -> None:
    """Leave what is written past Python out of the output: Gloo tells there whom it has found."""
    sys.stdout.flush()
    ours = os.dup(sys.stdout.fileno())
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.stdout = open(ours, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)


def group_of(
    asked: "Spec", coordinator: str | None, processes: int | None, process: int | None
) -> Group | None:
    """Read the options; None where the run is of one process. Raises SpecError."""
    from mrcjax.spec import SpecError

    if coordinator is None:
        for option, value in (("processes", processes), ("process", process)):
            if value is not None:
                raise SpecError(
                    "has no meaning without --coordinator",
                    where=f"--{option}",
                    value=value,
                    remedy="give --coordinator HOST:PORT, the address of process 0",
                )
        return None
    if asked.engine.devices == 1:
        raise SpecError(
            "has no meaning for a run on one device",
            where="--coordinator",
            value=coordinator,
            remedy='give --set engine.devices=all, or set engine.devices = "all" in the spec',
        )
    group = Group(coordinator, processes, process)
    _check(group)
    return group


def _check(group: Group) -> None:
    """Refuse options that do not say where the others are, and which of them this is."""
    from mrcjax.spec import SpecError

    coordinator, processes, process = group.coordinator, group.processes, group.process
    options = (("--processes", processes), ("--process", process))
    is_auto = coordinator == "auto"
    host, _, port = coordinator.rpartition(":")
    if not is_auto and not (host and port.isdecimal() and 0 < int(port) < 2**16):
        raise SpecError(
            "is no address with a port",
            where="--coordinator",
            value=coordinator,
            remedy='write HOST:PORT, for example "node1:1234", or auto',
        )
    for option, value in options:
        if is_auto and value is not None:
            raise SpecError(
                "does not go with --coordinator auto, which finds it out",
                where=option,
                value=value,
                remedy="leave it out, or give HOST:PORT",
            )
        if not is_auto and value is None:
            raise SpecError(
                f"is missing beside --coordinator {coordinator}",
                where=option,
                remedy="give --processes N and --process 0 ... N-1, a different one to each",
            )
    if processes is not None and process is not None and not 0 <= process < processes:
        raise SpecError(
            f"is none of {processes} processes",
            where="--process",
            value=process,
            remedy=f"use 0 to {processes - 1}" if processes > 0 else "give --processes 1 or more",
        )
