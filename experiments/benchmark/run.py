"""Measure the engine: sends per second, compile and steady apart, peak memory, gradient cost.

Every case runs in a process of its own, so that its peak memory is its own. Prints a table and
writes results/benchmark.json and results/benchmark.txt.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"

FLAT = 'kind = "flat_rails"\nranks = {ranks}\nrails = 8\nrail_rate = "50 GB/s"\n'
TREE = (
    'kind = "fat_tree"\nranks = {ranks}\ntiers = 3\nradix = 64\nlink_rate = "400 Gbit/s"\n'
    'load_balancing = "ecmp"\n'
)
DIRECT = 'kind = "all_reduce"\nalgorithm = "direct"\nsize = "1 GB"\n'
RING = 'kind = "all_reduce"\nalgorithm = "ring"\nsize = "1 GiB"\n'


def cases() -> dict[str, dict]:
    """Name -> network, ranks, collective, engine keys, whether cut by weights, and the gradient."""
    found = {}
    for ranks in (1024, 4096, 16384):
        for precision in ("float64", "float32"):
            engine = f'precision = "{precision}"\nfast_forward = false\n'
            for word, collective in (("direct", DIRECT), ("ring", RING)):
                found[f"{word} {ranks} x 8 {precision}"] = {
                    "network": FLAT,
                    "ranks": ranks,
                    "collective": collective,
                    "engine": engine,
                }
        found[f"ring {ranks} x 8 float64 fast-forward"] = {
            "network": FLAT,
            "ranks": ranks,
            "collective": RING,
            "engine": "",
        }
    found["fat tree 16384 ECMP direct float64"] = {
        "network": TREE,
        "ranks": 16384,
        "collective": DIRECT,
        "engine": "",
    }
    for ranks in (4096, 16384):
        found[f"gradient direct {ranks} x 8 float64"] = {
            "network": FLAT,
            "ranks": ranks,
            "collective": DIRECT,
            "engine": "",
            "gradient": True,
        }
    for ranks in (1024, 16384):
        found[f"gradient cut {ranks} x 8 float64"] = {
            "network": FLAT,
            "ranks": ranks,
            "collective": f"{DIRECT}stripe = true\n",
            "engine": "",
            "gradient": True,
            "cut": True,
        }
    return found


def measure(name: str) -> dict:
    """Build, compile and run one case; seconds, sends and bytes of memory."""
    import jax
    import numpy as np

    import mrcjax
    from mrcjax.engine import Shares

    case = cases()[name]
    text = f"[network]\n{case['network'].format(ranks=case['ranks'])}"
    text += f"[collective]\n{case['collective']}[engine]\n{case['engine']}"
    spec = mrcjax.load_spec(text)
    jax.config.update("jax_enable_x64", spec.engine.precision == "float64")
    built = mrcjax.build(spec)
    params = built.params
    if case.get("gradient"):
        # Equal links are all ties; unequal ones have one gradient.
        factor = np.random.default_rng(0).uniform(0.5, 1.0, params.capacity_bytes_per_s.shape)
        params = mrcjax.Params(
            **{**vars(params), "capacity_bytes_per_s": params.capacity_bytes_per_s * factor}
        )

    if case.get("cut"):
        weights = np.random.default_rng(1).uniform(0.5, 1.0, (2, 8, case["ranks"]))
        whole = jax.numpy.full((1, 1), float(spec.collective.size) / case["ranks"])
        shares = Shares(*jax.numpy.asarray(weights))
        params = mrcjax.Params(**{**vars(params), "chunk_bytes": (whole,), "shares": shares})

    def time_s(params):
        return mrcjax.emulate(params, built.network, built.schedule, config=built.config).time_s

    forward = timed(jax.jit(time_s), params)
    sends = sum(p.rounds * p.lanes for p in built.schedule.phases) * case["ranks"]
    row = {
        "case": name,
        "sends": sends,
        "compile_s": forward["compile_s"],
        "run_s": forward["run_s"],
        "sends_per_s": sends / forward["run_s"],
        "completion_ms": 1e3 * forward["value"],
    }
    if case.get("gradient"):
        gradient = timed(jax.jit(jax.value_and_grad(time_s)), params)
        row["gradient_compile_s"] = gradient["compile_s"]
        row["gradient_s"] = gradient["run_s"]
        # seconds of the processor: what else runs on the machine is not in them
        row["gradient_in_forwards"] = gradient["cpu_s"] / forward["cpu_s"]
    # Linux counts ru_maxrss in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    row["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    row["device"] = jax.devices()[0].device_kind
    row["jax"] = jax.__version__
    return row


def timed(function, params, budget_s: float = 20.0) -> dict:
    """Compile, then run until the budget is spent (once at least, five times at most)."""
    import jax

    start = time.perf_counter()
    compiled = function.lower(params).compile()
    compile_s = time.perf_counter() - start
    best, cpu, spent = float("inf"), float("inf"), 0.0
    for _ in range(5):
        start, busy = time.perf_counter(), time.process_time()
        value = jax.block_until_ready(compiled(params))
        took = time.perf_counter() - start
        best, cpu, spent = min(best, took), min(cpu, time.process_time() - busy), spent + took
        if spent > budget_s:
            break
    value = value[0] if isinstance(value, tuple) else value
    return {"compile_s": compile_s, "run_s": best, "cpu_s": cpu, "value": float(value)}


def table(rows: list[dict]) -> str:
    """The rows as text, units in the heads."""
    head = (
        f"{'case':<42}{'sends, M':>10}{'compile, s':>12}{'run, s':>10}{'M sends/s':>11}"
        f"{'peak, MB':>10}{'gradient, forwards':>20}{'completion, ms':>16}"
    )
    lines = [head, "-" * len(head)]
    for r in rows:
        gradient = f"{r['gradient_in_forwards']:.2f}" if "gradient_in_forwards" in r else "-"
        lines.append(
            f"{r['case']:<42}{r['sends'] / 1e6:>10.1f}{r['compile_s']:>12.2f}{r['run_s']:>10.3f}"
            f"{r['sends_per_s'] / 1e6:>11.0f}{r['peak_memory_bytes'] / 1e6:>10.0f}{gradient:>20}"
            f"{r['completion_ms']:>16.4f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run all cases, or those whose name contains --only."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="run the cases whose name contains this, keep the others' rows"
    )
    parser.add_argument("--short", action="store_true", help="the smallest cases")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write into")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(args.case)))
        return
    rows = []
    for name in cases():
        if args.only not in name or (args.short and "direct 1024" not in name):
            continue
        command = [sys.executable, __file__, "--case", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr}")
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(table(rows[-1:]) if len(rows) == 1 else table(rows[-1:]).splitlines()[-1], flush=True)
    write(rows, args.results, whole=not (args.only or args.short))


def write(rows: list[dict], folder: Path, *, whole: bool) -> None:
    """Write benchmark.json and .txt; of some cases in the place of their old rows."""
    target = folder / "benchmark.json"
    if not whole and target.exists():
        measured = {row["case"]: row for row in [*json.loads(target.read_text()), *rows]}
        rows = [measured[name] for name in cases() if name in measured]
    where = f"{platform.machine()}, device {rows[0]['device']}, jax {rows[0]['jax']}"
    folder.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(rows, indent=1) + "\n")
    text = f"python experiments/benchmark/run.py\n{where}\n\n{table(rows)}\n"
    (folder / "benchmark.txt").write_text(text)


if __name__ == "__main__":
    main()
