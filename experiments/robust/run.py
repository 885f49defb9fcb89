"""How much does one cut gain over equal shares when ports fail at random, and on fresh failures?"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import mrcjax
from experiments.common import asked
from experiments.searches import finish, image, ways_down
from mrcjax.tuning import Tuned
from mrcjax.tuning.batch import value_of

HERE = Path(__file__).parent
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


def draw(found: dict[str, Tuned]) -> Figure:
    """The way down with what bounds it, times of all scenarios, and shares before and after."""
    figure = Figure(figsize=(11, 7))
    (way, times), heat = figure.subplots(2, 2)
    main = found["95th percentile"]
    wanted = {name: found[name] for name in ("95th percentile", "mean", "worst")}
    ways_down(way, wanted, stage="loads")
    way.set_ylabel("time by loads / equal (dashed: bound)")
    way.legend()
    for key, colour in (("equal", "C1"), ("after", "C0")):
        for each, style, word in ((main.scenarios_s, "-", ""), (main.fresh_s, ":", ", fresh")):
            line = np.sort(each[key]) * 1e3
            times.plot(line, color=colour, ls=style, label=f"{key}{word}")
        times.axhline(value_of("p95", main.scenarios_s[key]) * 1e3, color=colour, lw=0.5)
    times.set(xlabel="scenario, sorted", ylabel="ms (line: 95th percentile)")
    times.legend()
    for panel, when, parts in zip(heat, ("before", "after"), shares(main), strict=True):
        title = f"part of what a rank sends on each rail, {when}"
        image(panel, parts, title, x="sender", y="rail", most=0.4)
        panel.set_yticks(range(len(parts)))
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table; write results/robust.{txt,h5,png}. Short: three cases of 8 ranks."""
    given = asked("robust", __doc__, argv)
    found = searches(3, ranks=8) if given.short else searches()
    finish(given, [row(name, each) for name, each in found.items()], found, draw(found))


if __name__ == "__main__":
    main()
