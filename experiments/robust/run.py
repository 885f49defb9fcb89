"""How much does one cut gain over equal shares when ports fail at random, and on fresh failures?"""

import argparse
from pathlib import Path

import jax
import matplotlib
import numpy as np

import mrcjax
from mrcjax.report.table import text_table
from mrcjax.tuning import Tuned
from mrcjax.tuning.batch import value_of
from mrcjax.tuning.keeping import keep

matplotlib.use("agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
COMMAND = "python experiments/robust/run.py"
ANYWHERE = 'faults.random=[{ what = "port", rate = 0.01, left = 0.5, seed = 1 }]'
CASES: dict[str, list[str]] = {
    "95th percentile": ["tune.engine_steps=20"],
    "mean": ["tune.objective=mean"],
    "worst": ["tune.objective=worst"],
    "95th, ranks by their own record": ["tune.alike=false"],
    "95th, all ports alike": [ANYWHERE],
    "95th, all alike, by own record": [ANYWHERE, "tune.alike=false"],
}


def searches(count: int | None = None, **more: int) -> dict[str, Tuned]:
    """Name -> search of the first cases; more: keys of the network to change."""
    size = [f"network.{key}={value}" for key, value in more.items()]
    return {
        name: mrcjax.tune(mrcjax.load_spec(HERE / "spec.toml", set=[*size, *overrides]))
        for name, overrides in list(CASES.items())[:count]
    }


def row(name: str, found: Tuned) -> dict[str, str]:
    """What the table shows: times over that of equal shares, in both sets of scenarios."""
    equal, fresh = found.heuristics_s["equal"], found.fresh_values_s
    best = min(found.heuristics_s, key=lambda key: found.heuristics_s[key])
    possible = equal - found.optima_s["programme"]
    gained = (equal - found.after_s) / possible if possible > 1e-3 * equal else None
    return {
        "tuned for": name,
        "equal, ms": f"{equal * 1e3:.3f}",
        "best simple": f"{found.heuristics_s[best] / equal:.4f} {best}",
        "tuned": f"{found.after_s / equal:.4f}",
        "programme": f"{found.optima_s['programme'] / equal:.4f}",
        "bound": f"{found.lower_bound_s / equal:.4f}",
        "gained of what the programme says": "" if gained is None else f"{gained:.1%}",
        "fresh equal, ms": f"{fresh['equal'] * 1e3:.3f}",
        "fresh tuned": f"{fresh['after'] / fresh['equal']:.4f}",
    }


def shares(found: Tuned) -> tuple[np.ndarray, np.ndarray]:
    """Part of what each rank sends that goes over each rail, before and after, (rails, ranks)."""
    cut = found.best.collective.rail_shares
    ranks, rails = found.outcome.ranks, found.spec.network.ports
    before = np.full((rails, ranks), 1 / rails)
    if cut is None:
        return before, before
    weight = np.asarray(cut.source)[:, :, None] * np.asarray(cut.destination)[:, None]
    part = weight / weight.sum(axis=0) * (1 - np.eye(ranks))
    return before, part.sum(axis=2) / (ranks - 1)


def draw(found: dict[str, Tuned], path: Path) -> None:
    """The way down with what bounds it, times of all scenarios, and shares before and after."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 7))
    (way, times), heat = axes
    main = found["95th percentile"]
    for name in ("95th percentile", "mean", "worst"):
        equal = found[name].heuristics_s["equal"]
        steps = [step.exact_s / equal for step in found[name].history if step.stage == "loads"]
        (line,) = way.plot(steps, label=name)
        way.axhline(found[name].lower_bound_s / equal, color=line.get_color(), ls="--", lw=0.8)
    way.set(xlabel="step", ylabel="time by loads / equal (dashed: bound)")
    way.legend()
    for key, colour in (("equal", "C1"), ("after", "C0")):
        for each, style, word in ((main.scenarios_s, "-", ""), (main.fresh_s, ":", ", fresh")):
            line = np.sort(each[key]) * 1e3
            times.plot(line, color=colour, ls=style, label=f"{key}{word}")
        times.axhline(value_of("p95", main.scenarios_s[key]) * 1e3, color=colour, lw=0.5)
    times.set(xlabel="scenario, sorted", ylabel="ms (line: 95th percentile)")
    times.legend()
    images = zip(heat, ("before", "after"), shares(main), strict=True)
    for axis, title, image in images:
        drawn = axis.imshow(image, aspect="auto", vmin=0, vmax=0.4)
        axis.set(xlabel="sender", ylabel="rail", yticks=range(len(image)))
        axis.set_title(f"part of what a rank sends on each rail, {title}")
        figure.colorbar(drawn)
    figure.text(0.01, 0.005, COMMAND, fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Print the table; write results/robust.{txt,h5,png}."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="three cases of 8 ranks")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write into")
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    asked.results.mkdir(parents=True, exist_ok=True)
    found = searches(3, ranks=8) if asked.short else searches()
    text = f"{COMMAND}\n{text_table([row(name, each) for name, each in found.items()])}"
    print(text)
    (asked.results / "robust.txt").write_text(text + "\n")
    (asked.results / "robust.h5").unlink(missing_ok=True)
    for each in found.values():
        keep(asked.results / "robust.h5", each, command=COMMAND)
    draw(found, asked.results / "robust.png")


if __name__ == "__main__":
    main()
