"""What do stragglers, noise and hash collisions cost from 64 to 16,384 GPUs, and how steadily?"""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments import figures
from experiments.common import Asked, Claim, array, asked, finish, swept
from mrcjax.archive import Column, Sweep, Table
from mrcjax.units import parse_seconds

HERE = Path(__file__).parent
QUIET, LATE, NOISE, HASHES, BOTH = (
    "no tail",
    "stragglers",
    "noise in every round",
    "collisions",
    "stragglers and collisions",
)
SHORT = (
    "network.ranks=64,256",
    "collective.group_size=8,32",
    "network.seed=0,1,2",
    "faults.jitter.0.seed=0,1,2",
)
_MS = 1e-3
_AXES = ("case", "network.ranks", "network.seed")


class Tails:
    """Completion times by case and size over seeds, and how ranks finish within a run."""

    def __init__(self, found: Sweep):
        self.cases, ranks, self.seeds = (list(found.coords[key]) for key in _AXES)
        self.ranks = [int(n) for n in ranks]
        self.time_s = array(found, "time_s", *_AXES)
        self.p50_s, self.p99_s, self.first_s = (
            array(found, key, *_AXES) for key in ("finish_median_s", "finish_p99_s", "finish_min_s")
        )

    def over_seeds(self, case: str, at: float) -> np.ndarray:
        """Percentile of the completion time over seeds, by size, s."""
        return np.nanpercentile(self.time_s[self.cases.index(case)], at, axis=-1)

    def within(self, case: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Median, 99th percentile and last finish time of a run's ranks, by size, seeds' mean."""
        number = self.cases.index(case)
        return tuple(  # pyright: ignore
            np.nanmean(values[number], axis=-1) for values in (self.p50_s, self.p99_s, self.time_s)
        )

    def growth(self, case: str, at: float) -> float:
        """Largest size over the smallest."""
        times_s = self.over_seeds(case, at)
        return float(times_s[-1] / times_s[0])


def table(tails: Tails) -> Table:
    """Return completion times over seeds and finish times within a run."""
    lines = []
    for case in tails.cases:
        within = tails.within(case)
        for i, ranks in enumerate(tails.ranks):
            p50, p99, most = (float(tails.over_seeds(case, at)[i]) for at in (50, 99, 100))
            quiet = float(tails.over_seeds(QUIET, 50)[i])
            finish = {
                key: float(w[i]) for key, w in zip(("f50", "f99", "f100"), within, strict=True)
            }
            seeds = int(np.isfinite(tails.time_s[tails.cases.index(case), i]).sum())
            line = {"case": case, "ranks": ranks, "seeds": seeds, "p50": p50, "p99": p99}
            lines.append(line | {"max": most, "slower": p50 / quiet, **finish})
    columns = (
        Column("case", "what"),
        Column("ranks", "GPUs"),
        Column("seeds", "seeds"),
        Column("p50", "completion, p50", "ms", _MS),
        Column("p99", "p99", "ms", _MS),
        Column("max", "max", "ms", _MS),
        Column("slower", "p50 / no tail", "times", digits=3),
        Column("f50", "ranks finish, p50", "ms", _MS),
        Column("f99", "p99", "ms", _MS),
        Column("f100", "last", "ms", _MS),
    )
    notes = [
        "completion: over seeds; with few seeds p99 is nearly the largest. ranks finish: within a "
        "run, mean over seeds."
    ]
    title = "Reduce-scatter between nodes, a GPU's eighth of 1 GB: the tail against the cluster"
    return Table(lines, columns, title=title, notes=notes)


def claimed(tails: Tails, mean_s: float) -> list[Claim]:
    """Put what the article says of tails beside what came out."""
    size = f"{tails.ranks[0]:,} to {tails.ranks[-1]:,} GPUs"
    quiet, late, hashes = (tails.over_seeds(case, 50) for case in (QUIET, LATE, HASHES))
    expected = mean_s * np.cumsum(1 / np.arange(1, tails.ranks[-1] + 1))[np.array(tails.ranks) - 1]
    added = late - quiet
    noise = tails.over_seeds(NOISE, 50)
    return [
        Claim(
            f"time against the cluster, {size}, nothing late, load balanced",
            "grows faster than the cluster on a hierarchical network",
            f"{tails.growth(QUIET, 50):.4g} times, while the cluster grows "
            f"{tails.ranks[-1] / tails.ranks[0]:,.0f} times",
            "bytes a GPU sends hardly change with the cluster, and direct rounds add no latency",
        ),
        Claim(
            "the slowest GPU holds back the whole",
            "yes, the tail",
            f"stragglers of {mean_s * 1e6:.3g} us on average add {added[0] * 1e6:,.0f} us at "
            f"{tails.ranks[0]:,} GPUs and {added[-1] * 1e6:,.0f} us at {tails.ranks[-1]:,}; the "
            f"latest of so many is {expected[0] * 1e6:,.0f} and {expected[-1] * 1e6:,.0f} us late "
            "on average",
            "the latest of n exponential delays grows with log n; nothing of it is the network's, "
            "so flat rails have the same tail",
        ),
        Claim(
            "switches congest",
            "on a hierarchical network",
            f"hash collisions make it {hashes[0] / quiet[0]:.3g} times as long at "
            f"{tails.ranks[0]:,} GPUs and {hashes[-1] / quiet[-1]:.3g} times at "
            f"{tails.ranks[-1]:,}; p99 over p50 of seeds "
            f"{tails.over_seeds(HASHES, 99)[0] / hashes[0]:.3g} and "
            f"{tails.over_seeds(HASHES, 99)[-1] / hashes[-1]:.3g}",
            "hashing, not tiers: the same tree with balanced load has none of it; and the more "
            "peers a GPU sends to, the more evenly hashes fall (a ring has one: experiment "
            "scaling)",
        ),
        Claim(
            "small delays add up round by round",
            "each hop adds latency",
            f"noise in every round makes it {noise[0] / quiet[0]:.3g} and "
            f"{noise[-1] / quiet[-1]:.3g} times as long",
            "more rounds have more of it, yet without a barrier between ranks only a rank's own "
            "delays add up",
        ),
    ]


def draw(given: Asked, tails: Tails) -> None:
    """Completion over that without a tail, p50 with p99 above, against GPUs."""
    drawn = figures.figure(
        "The tail against the size of the cluster: late GPUs and colliding hashes, not tiers",
        given.command,
        height=4.2,
        caption="Reduce-scatter of a GPU's eighth of 1 GB between nodes on a three-tier fat tree, "
        "direct. Lines: p50 over seeds; band: up to the largest.",
    )
    left, right = drawn.subplots(1, 2)
    for panel in (left, right):
        ends = []
        for number, case in enumerate(tails.cases):
            if panel is left:
                low, high = (tails.over_seeds(case, at) / _MS for at in (50, 100))
            else:
                p50, p99, last = tails.within(case)
                low, high = (last - p50) * 1e6, (last - p50) * 1e6
                if case == QUIET:
                    continue
            figures.line(panel, tails.ranks, low, number)
            colour = figures.COLOURS[number]
            panel.fill_between(tails.ranks, low, high, color=colour, alpha=0.2, lw=0)
            ends.append((tails.ranks[-1], low[-1], case, colour))
        figures.log_axis(panel.xaxis, tails.ranks)
        if panel is right:
            figures.log_axis(panel.yaxis)
        else:
            panel.set_ylim(0, 1.1 * panel.get_ylim()[1])
        figures.tidy(panel, x="GPUs")
        figures.name_ends(panel, ends)
    left.set_ylabel("completion time / ms", fontsize=9.5)
    right.set_ylabel("last rank after the median rank / us", fontsize=9.5)
    figures.save(drawn, given.path(""))


def main(argv: Sequence[str] | None = None) -> None:
    """Print table and claims; write results/tail.txt, .h5, .png and .svg."""
    given = asked("tail", __doc__, argv)
    raw = tomllib.loads((HERE / "spec.toml").read_text(encoding="utf-8"))
    late = next(case for case in raw["sweep"]["cases"] if case["name"] == LATE)
    mean_s = float(parse_seconds(late["faults"]["jitter"][0]["mean"]))
    tails = Tails(swept(given, HERE / "spec.toml", set=SHORT if given.short else ()))
    finish(given, {"tail": table(tails)}, claimed(tails, mean_s))
    draw(given, tails)


if __name__ == "__main__":
    main()
