"""Runs over several devices for tests, in a process of its own: prints one JSON object.

How many devices there are is settled when JAX starts. Arguments: names of cases, in one word; and
those of `devices.join`, if it is one of several processes.
"""

import json
import re
import sys

from runs import all_reduce, flat, toml

FLAT = flat(64, 4, latency=["500 ns", "700 ns", "500 ns", "1 us"])
LATE = 'late = [{ rank = 5, by = "300 us" }]'
DOWN = '{ match = "rank 3 egress rail 1", rate = 0.0 }'
HALF = '{ match = "rank 9 * rail *", rate = 0.5, add_latency = "3 us" }'
CASES = {
    "direct": toml(network=FLAT, collective=all_reduce("direct")),
    "ring": toml(network=FLAT, collective=all_reduce("ring"), faults=f"{LATE}\nlinks = [{HALF}]"),
    "faulty": toml(
        network=FLAT,
        collective=all_reduce("direct"),
        faults=f'{LATE}\nlinks = [{DOWN}, {HALF}]\nreroute = "spread"',
    ),
}
FASTER = CASES["direct"].replace("50 GB/s", "80 GB/s").replace("100 MB", "30 MB")


def on_all(text: str) -> str:
    """Return the same spec on all devices."""
    return text + '\n[engine]\ndevices = "all"\n'


def main(cases: list[str], join: list[str]) -> dict:
    """Run cases on all devices and tell what came out and how the work was shared."""
    import mrcjax
    from mrcjax import devices, programs

    if join:
        coordinator, processes, process = join
        devices.join(coordinator, int(processes), int(process))
    found = {}
    for name in cases:
        programs.forget()
        outcome = mrcjax.run(mrcjax.load_spec(on_all(CASES[name])))
        code = [program.as_text() for program in programs.known()]
        found[name] = {
            "finish_s": outcome.finish_s.tolist(),
            "link_bytes": outcome.link_bytes.tolist(),
            "time_s": outcome.time_s,
            "device": outcome.device,
            "carried": [shape for text in code for shape in carried_by_loops(text)],
        }
    return found if join else found | {"faster": other_numbers()}


def other_numbers() -> dict:
    """Run a case with two sets of numbers: time of the second, and what it compiled."""
    import jax

    import mrcjax

    mrcjax.run(mrcjax.load_spec(on_all(CASES["direct"])))
    compiled: list[float] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds) if "backend_compile" in event else None
    )
    faster = mrcjax.run(mrcjax.load_spec(on_all(FASTER)))
    return {"time_s": faster.time_s, "compiled": len(compiled)}


def carried_by_loops(code: str) -> list[list[int]]:
    """Shapes of the float64 arrays that the loops of compiled code carry, constants too."""
    carries = re.findall(r"%while\S* = \((.*?)\) while\(", code)
    shapes = [shape for text in carries for shape in re.findall(r"f64\[([\d,]+)\]", text)]
    return [[int(size) for size in shape.split(",")] for shape in shapes]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1].split(), sys.argv[2:])))
