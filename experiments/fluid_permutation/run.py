"""How long does the fluid engine take for a permutation on a large fat tree, against SimGrid?"""

import argparse
import os
import resource
import statistics
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.engine import simulate_flows
from mrcjax.network.xgft import d_mod_k_routes, fat_tree_shape

RESULTS = Path(__file__).parents[2] / "results"
# Platform -> CPU seconds of SimGrid 4.1 for the same flows, whole process, two shared cores.
SIMGRID_CPU_S = {
    "3;8,8,16;1,8,8;1,1,1": 0.05,
    "3;16,16,16;1,16,16;1,1,1": 0.39,
    "3;16,16,32;1,16,16;1,1,1": 1.25,
    "3;16,16,64;1,16,16;1,1,1": 4.47,
}
SEED, RUNS = 0, 9

# One core, as SimGrid has: a second thread that mostly waits would count as work.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def permutation(platform: str):
    """Arguments of `simulate_flows`: 100 MB from every host to a random one, all at once."""
    shape = fat_tree_shape(platform)
    hosts = np.arange(shape.hosts)
    routes = d_mod_k_routes(shape, hosts, np.random.default_rng(SEED).permutation(hosts))
    return routes, np.full(shape.num_links, 50e9), np.full(hosts.size, 100e6), None, 500e-9


def cpu_s() -> float:
    """User and system time of this process, all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(run) -> tuple:
    """Seconds of the first run, median wall and CPU seconds of those after it, and the result."""
    start = time.perf_counter()
    jax.block_until_ready(run())
    first = time.perf_counter() - start
    walls, spent = [], []
    for _ in range(RUNS):
        wall, cpu = time.perf_counter(), cpu_s()
        times = jax.block_until_ready(run())
        spent.append(cpu_s() - cpu)
        walls.append(time.perf_counter() - wall)
    return first, statistics.median(walls), statistics.median(spent), times


def main() -> None:
    """Print the table; write results/fluid_permutation.txt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="the smallest tree")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write into")
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    lines = [
        "python experiments/fluid_permutation/run.py",
        "ms; `laid out`: routes sorted out once, compiled; `whole`: every time, one call",
        "hosts   completion   events   passes   first   laid out: wall      CPU   whole: wall"
        "      CPU   SimGrid 4.1 CPU   over laid out   over whole",
    ]
    for platform, theirs in list(SIMGRID_CPU_S.items())[: 1 if asked.short else None]:
        routes, capacity, *others = permutation(platform)

        def flows(capacity, routes=routes, others=others):
            return simulate_flows(routes, capacity, *others)

        first, wall, cpu, times = measure(partial(jax.jit(flows), jnp.asarray(capacity)))
        _, whole, whole_cpu, _ = measure(partial(flows, capacity))
        lines.append(
            f"{times.finish_s.size:5d}   {1e3 * float(times.finish_s.max()):10.4f}"
            f"   {int(times.events):6d}   {int(times.passes):6d}   {1e3 * first:5.0f}"
            f"   {1e3 * wall:14.1f}   {1e3 * cpu:6.1f}   {1e3 * whole:11.1f}"
            f"   {1e3 * whole_cpu:6.1f}   {1e3 * theirs:15.0f}   {theirs / cpu:13.1f}"
            f"   {theirs / whole_cpu:10.1f}"
        )
    text = "\n".join(lines)
    print(text)
    asked.results.mkdir(parents=True, exist_ok=True)
    (asked.results / "fluid_permutation.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
