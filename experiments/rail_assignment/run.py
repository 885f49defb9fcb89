"""How near the best cut over damaged rails does a descent come, and what do simple cuts cost?"""

import argparse
import json
import resource
import time
from pathlib import Path

import jax
import matplotlib
import numpy as np

import mrcjax
from mrcjax.report.table import text_table
from mrcjax.spec import RailShares
from mrcjax.tuning import Tuned
from mrcjax.tuning.keeping import keep

matplotlib.use("agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
COMMAND = "python experiments/rail_assignment/run.py"


def damaged(ranks: int, **options) -> Tuned:
    """Tune an all-reduce of 1 GB over 8 rails of which a tenth runs at half rate."""
    overrides = [f"network.ranks={ranks}"]
    return mrcjax.tune(mrcjax.load_spec(HERE / "spec.toml", set=overrides), **options)


def failed_port() -> Tuned:
    """Tune whole sends around a port that is down, 64 ranks x 4 rails."""
    return mrcjax.tune(mrcjax.load_spec(HERE / "failed_port.toml"))


def row(name: str, found: Tuned, wall_s: float) -> dict:
    """What the table shows of a search."""
    bound = found.lower_bound_s
    ratios = {key: value / bound for key, value in found.heuristics_s.items()}
    return {
        "case": name,
        "parameters": found.parameters,
        "bound_ms": bound * 1e3,
        "bound": found.bound_kind,
        "before": found.before_s / bound,
        **ratios,
        "tuned": found.after_s / bound,
        "steps": len(found.history),
        "wall_s": wall_s,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def shares(cut: RailShares, rails: int, ranks: int) -> np.ndarray:
    """Part of each of rank 0's sends on every rail, (rails, ranks)."""
    ones = np.ones((rails, ranks))
    source, destination = (
        ones if weights is None else np.asarray(weights)
        for weights in (cut.source, cut.destination)
    )
    weight = source[:, :1] * destination
    return weight / weight.sum(axis=0)


def draw(found: Tuned, path: Path) -> None:
    """Time against step with the bound as a line; shares of rank 0's sends before and after."""
    figure, (way, *heat) = plt.subplots(1, 3, figsize=(15, 4))
    bound = found.lower_bound_s
    way.plot([step.exact_s / bound for step in found.history], label="by loads or engine")
    way.axhline(1.0, color="k", ls="--", label="lower bound")
    way.axhline(found.after_s / bound, color="C1", ls=":", label="tuned, on the engine")
    way.set(xlabel="step", ylabel="time / lower bound")
    way.legend()
    for axis, title, spec in zip(heat, ("before", "after"), (found.spec, found.best), strict=True):
        cut = spec.the_collective.rail_shares or RailShares()
        part = shares(cut, spec.network.ports, spec.network.ranks)[:, 1:65]
        image = axis.imshow(part, aspect="auto", vmin=0, vmax=0.2)
        axis.set(xlabel="receiver", ylabel="rail")
        axis.set_title(f"part of rank 0's sends on each rail, {title}")
        figure.colorbar(image)
    figure.text(0.01, 0.01, COMMAND, fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def timed(name: str, search) -> tuple[dict, Tuned]:
    """Search and give the table's row of it."""
    started = time.perf_counter()
    found = search()
    return row(name, found, time.perf_counter() - started), found


def write(rows: list[dict], command: str, folder: Path) -> None:
    """Put rows in the place of those of the same case; print and write the table."""
    target = folder / "rail_assignment.json"
    old = json.loads(target.read_text()) if target.exists() else []
    new = [{**each, "command": command} for each in rows]
    rows = list({each["case"]: each for each in old + new}.values())
    target.write_text(json.dumps(rows, indent=2) + "\n")
    shown = [{k: f"{v:.5g}" if isinstance(v, float) else v for k, v in r.items()} for r in rows]
    text = text_table(shown)
    print(text)
    (folder / "rail_assignment.txt").write_text(f"{COMMAND} [--large]\n{text}\n")


def main() -> None:
    """Print the table; write results/rail_assignment.{txt,json,h5,png}."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="16,384 ranks alone, many minutes")
    parser.add_argument("--short", action="store_true", help="16 ranks")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write into")
    asked = parser.parse_args()
    folder = asked.results
    jax.config.update("jax_enable_x64", True)
    folder.mkdir(parents=True, exist_ok=True)
    slow = "a tenth of the rails slow"
    if asked.short:
        each, search = timed(f"16 x 8, {slow}", lambda: damaged(16))
        write([each], f"{COMMAND} --short", folder)
        draw(search, folder / "rail_assignment.png")
        return
    if asked.large:
        rows = [timed(f"16,384 x 8, {slow}", lambda: damaged(16384))[0]]
        write(rows, f"{COMMAND} --large", folder)
        return
    rows, found = zip(
        timed(f"256 x 8, {slow}", lambda: damaged(256)),
        timed(f"1,024 x 8, {slow}", lambda: damaged(1024)),
        timed("64 x 4, whole sends, a port down", failed_port),
        strict=True,
    )
    write(list(rows), COMMAND, folder)
    (folder / "rail_assignment.h5").unlink(missing_ok=True)
    for each in (found[0], found[2]):
        keep(folder / "rail_assignment.h5", each, command=COMMAND)
    draw(found[0], folder / "rail_assignment.png")


if __name__ == "__main__":
    main()
