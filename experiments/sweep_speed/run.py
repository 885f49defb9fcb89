"""What a point costs in a sweep and alone, in turns on the same machine.

Writes results/sweep_speed.txt: milliseconds of a point, whole (from spec to archive, bounds and
binding resource included) and in the engine alone, and the programs compiled for the sweep; and
what a sweep over numbers of ranks takes where they share programs, and where each has its own.
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import jax

import mrcjax
from mrcjax import programs
from mrcjax.spec import load_sweep
from mrcjax.sweeping import emulate_batch

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
TURNS = 7


def timed(work) -> tuple[float, object]:
    """Seconds that some work takes, and what it gives."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def measure(ranks: int, points: int, alone: int, folder: Path, jobs: tuple[int, ...]) -> dict:
    """Milliseconds of a point, each the median of several turns."""

    def asked(first: int, count: int):
        seeds = ",".join(str(first + k) for k in range(count))
        sets = [f"network.ranks={ranks}", f"faults.random.0.seed={seeds}"]
        return load_sweep(HERE / "spec.toml", sets)

    some = asked(10**6, alone + 1)
    specs = [point.spec for _, point in some.points() if point is not None]
    mrcjax.run(specs[0])
    before = programs.count()
    rows: dict[str, list[float]] = {}

    def note(name: str, seconds: float, of: int) -> None:
        rows.setdefault(name, []).append(1e3 * seconds / of)

    for turn in range(TURNS):
        runs = []
        for spec in specs[1:]:
            seconds, outcome = timed(partial(mrcjax.run, spec))
            note("alone, whole", seconds, 1)
            runs.append(outcome.wall_s["run"])
        note("alone, engine, best", min(runs), 1)
        for number in (1, *jobs):
            file = folder / f"{ranks}-{turn}-{number}.h5"
            more = {} if number == 1 else {"jobs": number}
            sweep = asked(turn * points, points)
            seconds, _ = timed(partial(mrcjax.sweep, sweep, file, **more))
            note(f"in a sweep of {points:,}{f', {number} jobs' if more else ''}", seconds, points)
    found = {name: median(values) for name, values in rows.items()}
    return found | {"programs compiled for the sweeps": programs.count() - before}


def measure_sizes(step: int, algorithm: str, folder: Path) -> dict:
    """Seconds that sizes from 64 to 1,024 ranks take, nothing being compiled before."""
    sets = [f"network.ranks={','.join(map(str, range(64, 1025, step)))}"]
    sets += ["faults.random.0.seed=0", f"collective.algorithm={algorithm}"]
    spec = load_sweep(HERE / "spec.toml", sets)
    programs.forget()
    before = programs.count()
    together, found = timed(partial(mrcjax.sweep, spec, folder / f"{algorithm}.h5"))
    shared = programs.count() - before
    programs.forget()
    apart, alone = timed(lambda: [
        emulate_batch([point.spec], 1, ("time_s",))[0] for _, point in spec.points() if point
    ])  # fmt: skip
    times_s = [each.values["time_s"] for each in alone]
    assert found["time_s"].ravel().tolist() == times_s, "sizes that share programs differ"
    return {
        "sizes": len(alone),
        "s in a sweep": together,
        "programs compiled for it": shared,
        "s each by a program of its own": apart,
        "programs compiled for them": programs.count() - before - shared,
    }


def _number(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def main() -> None:
    """Measure 1,024 and 16,384 ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1000, help="of the sweep of 1,024 ranks")
    parser.add_argument("--short", action="store_true", help="few points of 1,024 ranks alone")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    sizes = ((1024, args.points, 50, (2,)), (16384, 8, 4, ()))
    step = 320 if args.short else 16
    if args.short:
        sizes = ((1024, 16, 4, ()),)
    lines = [f"device {jax.devices()[0].device_kind}, jax {jax.__version__}; ms of a point"]
    with tempfile.TemporaryDirectory() as folder:
        for ranks, points, alone, jobs in sizes:
            found = measure(ranks, points, alone, Path(folder), jobs)
            lines.append(f"\n{ranks:,} ranks x 8 rails, direct, float64")
            lines += [f"  {name:<34}{_number(value):>10}" for name, value in found.items()]
            print("\n".join(lines[-len(found) - 1 :]), flush=True)
        for algorithm in ("direct", "ring"):
            found = measure_sizes(step, algorithm, Path(folder))
            lines.append(f"\n64 to 1,024 ranks x 8 rails, {algorithm}, float64")
            lines += [f"  {name:<34}{_number(value):>10}" for name, value in found.items()]
            print("\n".join(lines[-len(found) - 1 :]), flush=True)
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "sweep_speed.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
