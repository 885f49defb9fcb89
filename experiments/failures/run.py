"""What do failed cables cost on flat rails, MRC planes and a fat tree of equal injection rate?"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mrcjax
from mrcjax import archive
from mrcjax.archive import Column, Table
from mrcjax.outcome import Outcome
from mrcjax.report import plot
from mrcjax.report.table import table_text

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
FAILED = (0, 1, 4, 16, 32)
NETWORKS = {
    "flat rails": 'kind = "flat_rails"\nrails = 8\nrail_rate = "100 Gbit/s"',
    "MRC planes": (
        'kind = "mrc_planes"\nplanes = 8\nplane_rate = "100 Gbit/s"\nradix = 512\n'
        'load_balancing = "ideal"'
    ),
    "fat tree": 'kind = "fat_tree"\nlink_rate = "800 Gbit/s"\nradix = 64',
}
COLUMNS = (
    Column("network", "network"),
    Column("failed", "cables failed"),
    Column("min", "min", "ms", 1e-3),
    Column("median", "median", "ms", 1e-3),
    Column("p95", "p95", "ms", 1e-3),
    Column("p99", "p99", "ms", 1e-3),
    Column("max", "max", "ms", 1e-3),
    Column("slowdown", "median / healthy"),
    Column("worst", "max / healthy"),
)


def spec(network: str, ranks: int, failed: int, scenarios: int) -> mrcjax.Spec:
    """An all-reduce over nodes of eight, with cables drawn at random that are down both ways."""
    faults = (
        ""
        if failed == 0
        else f"""
[faults]
random = [{{ what = "cable", count = {failed}, seed = 1 }}]
reroute = "spread"
scenarios = {scenarios}"""
    )
    return mrcjax.load_spec(f"""
[network]
{NETWORKS[network]}
ranks = {ranks}
latency = "500 ns"
node_size = 8
node = "nvlink5"
[collective]
kind = "all_reduce"
algorithm = "hierarchical"
between = "direct"
size = "8 GB"
{faults}""")


def emulated(ranks: int, scenarios: int) -> dict[str, Outcome]:
    """Outcome by "network, failed cables"; a study per core at a time."""

    def study(network: str, failed: int) -> Outcome:
        started = time.perf_counter()
        outcome = mrcjax.run(spec(network, ranks, failed, scenarios))
        print(f"{network}, {failed} failed: {time.perf_counter() - started:.1f} s", flush=True)
        return outcome

    wanted = [(network, failed) for network in NETWORKS for failed in FAILED]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda each: study(*each), wanted))
    return {f"{n}, {f} failed": each for (n, f), each in zip(wanted, outcomes, strict=True)}


def rows(outcomes: dict[str, Outcome]) -> list[dict]:
    """One line per network and number of failed cables, times in seconds."""
    lines = []
    for network in NETWORKS:
        healthy = outcomes[f"{network}, 0 failed"].time_s
        for failed in FAILED:
            outcome = outcomes[f"{network}, {failed} failed"]
            spread = (
                dict.fromkeys(("min", "median", "p95", "p99", "max"), outcome.time_s)
                if outcome.scenarios is None
                else outcome.scenarios.spread_s()
            )
            share = {"slowdown": spread["median"] / healthy, "worst": spread["max"] / healthy}
            lines.append({"network": network, "failed": failed, **spread, **share})
    return lines


def main() -> None:
    """Print the table; write archive, text and figure into results/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--scenarios", type=int, default=256)
    parser.add_argument("--short", action="store_true", help="64 ranks, 8 scenarios")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if asked.short:
        asked.ranks, asked.scenarios = 64, 8
    command = (
        f"python experiments/failures/run.py --ranks {asked.ranks} --scenarios {asked.scenarios}"
    )
    outcomes = emulated(asked.ranks, asked.scenarios)
    table = Table(
        rows(outcomes),
        COLUMNS,
        title=f"All-reduce of 8 GB over {asked.ranks} ranks, {asked.scenarios} draws of cables that"
        " are down, traffic spread over what is left",
        notes=(command,),
    )
    text = table_text(table)
    print(text)
    asked.results.mkdir(parents=True, exist_ok=True)
    (asked.results / "failures.txt").write_text(text + "\n")
    archive.write(
        asked.results / "failures.h5",
        outcomes,
        command=command,
        append=False,
        tables={"failures": table},
    )
    bars = [{**row, "name": f"{row['network']}, {row['failed']} failed"} for row in table.rows]
    plot.bars(
        bars,
        asked.results / "failures.png",
        command,
        columns=[c for c in COLUMNS if c.key in ("slowdown", "worst")],
        title="Completion time over that of the healthy network",
    )


if __name__ == "__main__":
    main()
