"""Run experiments: `python -m experiments [NAME ...] [--short]`.

Without names all but those that only measure how fast the emulator is. Each runs in a process of
its own; one that fails is reported at the end, the others go on, and the exit status is 1.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# How fast the emulator is, which a busy machine spoils; run when named.
BENCHMARKS = ("benchmark", "fluid_permutation", "sweep_speed")


def names() -> list[str]:
    """Every experiment: the folders that have a run.py."""
    return sorted(path.parent.name for path in HERE.glob("*/run.py"))


def run(name: str, more: list[str]) -> int:
    """Run one experiment in a process of its own and return its exit status."""
    root = str(HERE.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", f"experiments.{name}.run", *more],
        cwd=root,
        # reading its cache, XLA warns of a processor that it compiled for itself
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=False,
    ).returncode


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for, say how long each took, and return the exit status."""
    known = names()
    usual = [name for name in known if name not in BENCHMARKS]
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"usual: {', '.join(usual)}; when named: {', '.join(BENCHMARKS)}",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; absent: the usual ones")
    parser.add_argument("--short", action="store_true", help="small sizes, into results/short")
    parser.add_argument("--results", type=Path, help="folder to write into")
    asked = parser.parse_args(argv)
    wrong = [name for name in asked.names if name not in known]
    if wrong:
        parser.error(f"no experiment is called {', '.join(wrong)}; there are {', '.join(known)}")
    more = ["--short"] if asked.short else []
    folder = asked.results or (HERE.parent / "results" / "short" if asked.short else None)
    if folder:
        more += ["--results", str(folder.absolute())]
    return _all(asked.names or usual, more)


def _all(wanted: list[str], more: list[str]) -> int:
    lines, failed, began = [], [], time.perf_counter()
    for number, name in enumerate(wanted, 1):
        print(f"[{number}/{len(wanted)}] {name}", file=sys.stderr, flush=True)
        started = time.perf_counter()
        status = run(name, more)
        if status:
            failed.append(name)
        word = f"failed with status {status}" if status else "done"
        lines.append(f"{name:<20} {time.perf_counter() - started:7.1f} s  {word}")
        print(lines[-1], file=sys.stderr, flush=True)
    print("\n".join(["", *lines]), file=sys.stderr)
    print(f"{'all':<20} {time.perf_counter() - began:7.1f} s", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
