"""What becomes of a training step from 64 to 16,384 GPUs, and where do 60 % and 94 % come from?"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from experiments import figures
from experiments.common import Asked, Claim, array, asked, finish, swept
from mrcjax.archive import Column, Table
from mrcjax.comparison import load_article
from mrcjax.comparison.article import Scaling
from mrcjax.spec import SpecError, TrainingSpec
from mrcjax.training import TrainingStep
from mrcjax.training import step as training_step

HERE = Path(__file__).parent
FAMILIES = ("switched", "dragonfly", "slim_fly", "hyperx", "jellyfish", "torus")
SHORT_FAMILIES = ("switched", "torus")
SHORT = ("network.ranks=64,256", "collective.group_size=8,32")
SHORT_TORUS = ("network.dims=[8, 4, 2],[8, 8, 4]", "collective.group_size=8,32")
TOKENS_PER_GPU = 4096  # weak scaling: 4.2 million on 1,024 GPUs, as in `mrcjax compare`
WEAK, STRONG_LARGE, STRONG_SMALL = (
    "weak, 4,096 tokens per GPU",
    "strong, 16.8 million tokens",
    "strong, 4.2 million tokens",
)
BATCHES = {STRONG_LARGE: 16_777_216, STRONG_SMALL: 4_194_304}
_MS, _PERCENT = 1e-3, 0.01


@dataclass(frozen=True)
class Curve:
    """A network by its number of GPUs: bucket times and training steps, by way of scaling."""

    name: str
    ranks: tuple[int, ...]
    bucket_s: tuple[float, ...]

    def steps(self, mode: str) -> list[TrainingStep | None]:
        """Return the step at every size; None where the batch has no sequence for a replica."""
        found = []
        for ranks, bucket_s in zip(self.ranks, self.bucket_s, strict=True):
            tokens = BATCHES.get(mode, TOKENS_PER_GPU * ranks)
            training = msgspec.structs.replace(TrainingSpec(), global_batch_tokens=tokens)
            try:
                training.check_ranks(ranks)
            except SpecError:
                found.append(None)
                continue
            # an all-gather of equal shards is the same sends as a reduce-scatter
            found.append(training_step(training, ranks, bucket_s, bucket_s))
        return found

    def utilisation(self, mode: str) -> np.ndarray:
        """Computing over step time, by size."""
        return np.array([np.nan if s is None else s.utilisation for s in self.steps(mode)])

    def mfu(self, mode: str) -> np.ndarray:
        """FLOPs over peak, by size."""
        return np.array([np.nan if s is None else s.mfu for s in self.steps(mode)])

    def efficiency(self, mode: str) -> np.ndarray:
        """Tokens per second and GPU over those of the smallest size."""
        each = [
            np.nan if s is None else s.tokens_per_s / ranks
            for ranks, s in zip(self.ranks, self.steps(mode), strict=True)
        ]
        return np.array(each) / each[0]


def curves(given: Asked) -> list[Curve]:
    """Sweep every family and return its networks."""
    found = []
    for family in SHORT_FAMILIES if given.short else FAMILIES:
        sets = () if not given.short else SHORT_TORUS if family == "torus" else SHORT
        made = swept(given, HERE / f"{family}.toml", set=sets, part=family)
        size = "network.dims" if family == "torus" else "network.ranks"
        ranks = tuple(int(n) for n in 8 * made.coords["collective.group_size"])
        for case, times in zip(
            made.coords["case"], array(made, "time_s", "case", size), strict=True
        ):
            found.append(Curve(_named(str(case)), ranks, tuple(map(float, times))))
    return found


def _named(case: str) -> str:
    """Name of a case for lists of them: "fat tree, ECMP, ring" is a "fat tree (ECMP, ring)"."""
    family, comma, rest = case.partition(", ")
    return f"{family} ({rest})" if comma else family


# --- tables ------------------------------------------------------------------------------------


def _table(found: Sequence[Curve], title: str, values, column, notes=()) -> Table:
    lines = [
        {"name": c.name, **{str(n): float(v) for n, v in zip(c.ranks, values(c), strict=True)}}
        for c in found
    ]
    columns = (Column("name", "network"), *(column(str(n)) for n in found[0].ranks))
    return Table(lines, columns, title=title, notes=notes)


def tables(found: Sequence[Curve]) -> dict[str, Table]:
    """Return bucket times, utilisation and efficiency by network and number of GPUs."""

    def percent(key: str) -> Column:
        return Column(key, f"{int(key):,}", "%", _PERCENT, digits=3)

    made = {
        "bucket": _table(
            found,
            "Reduce-scatter of one layer's gradients in all groups at once, by GPUs",
            lambda c: c.bucket_s,
            lambda key: Column(key, f"{int(key):,}", "ms", _MS),
            ["An all-gather takes as long, so that an all-reduce of a layer takes twice this."],
        ),
        "utilisation": _table(
            found,
            f"Utilisation, {WEAK}",
            lambda c: c.utilisation(WEAK),
            percent,
            ["Computing over step time; MFU is this times the share of peak while computing."],
        ),
    }
    for key, mode in (("weak", WEAK), ("strong", STRONG_LARGE), ("strong_small", STRONG_SMALL)):
        made[key] = _table(
            found,
            f"Linear scaling efficiency, {mode}",
            lambda c, mode=mode: c.efficiency(mode),
            percent,
            [
                f"Tokens per second and GPU over those at {found[0].ranks[0]} GPUs. More than "
                "100 %: a network that does worse at that size, where hashes, shards or few "
                "switches fall badly."
            ],
        )
    return made


# --- words -------------------------------------------------------------------------------------


def nearest(found: Sequence[Curve], claim: float, within: float) -> list[tuple[float, str]]:
    """Every utilisation and efficiency at the largest size that is near a claim, nearest first."""
    near = []
    for curve in found:
        for mode in (WEAK, STRONG_LARGE, STRONG_SMALL):
            for kind in ("utilisation", "efficiency", "mfu"):
                value = float(getattr(curve, kind)(mode)[-1])
                if abs(value - claim) <= within:
                    word = "MFU" if kind == "mfu" else kind
                    near.append((value, f"{curve.name}: {word} {100 * value:.3g} % ({mode})"))
    return sorted(near, key=lambda each: abs(each[0] - claim))


def claimed(found: Sequence[Curve], said: Scaling) -> list[Claim]:
    """Put both claims beside what comes near them and what does not."""
    named = {c.name: c for c in found}
    size, least = f"{found[0].ranks[-1]:,} GPUs", 100 * said.hierarchical_utilisation
    tree, flat = named["fat tree"], named["flat rails"]
    low = nearest(found, said.hierarchical_utilisation, 0.06)
    high = nearest(found, said.flat_efficiency, 0.02)
    good = [c for c in found if c.efficiency(WEAK)[-1] >= said.flat_efficiency]
    return [
        Claim(
            f"a hierarchical cluster of {size}, share of peak",
            f"{least:.3g} %",
            f"fat tree, {WEAK}: utilisation {100 * tree.utilisation(WEAK)[-1]:.3g} %, MFU "
            f"{100 * tree.mfu(WEAK)[-1]:.3g} %; flat rails "
            f"{100 * flat.utilisation(WEAK)[-1]:.3g} and {100 * flat.mfu(WEAK)[-1]:.3g} %",
            "not by hierarchy: at equal rate both spend the same on communication. As an MFU, "
            "more than half is what a well-tuned cluster reaches anywhere",
        ),
        Claim(
            f"where about {least:.3g} % does come out at {size}",
            f"{least:.3g} %, of any hierarchical cluster",
            "; ".join(text for _, text in low) or "nowhere",
            "a ring's latency grows with every replica, on flat rails too; one batch cut over ever "
            "more GPUs leaves little computing to hide behind; hashes collide",
        ),
        Claim(
            f"MRC at {size}, linear scaling efficiency",
            f"{100 * said.flat_efficiency:.3g} %",
            f"flat rails {100 * flat.efficiency(WEAK)[-1]:.3g} % weak, "
            f"{100 * flat.efficiency(STRONG_LARGE)[-1]:.3g} % strong; fat tree "
            f"{100 * tree.efficiency(WEAK)[-1]:.3g} and "
            f"{100 * tree.efficiency(STRONG_LARGE)[-1]:.3g} %",
            "weak scaling with rounds that do not grow with the cluster and links that do not "
            "collide is nearly linear on every network; flatness is not needed for it",
        ),
        Claim(
            f"which networks reach it in weak scaling, and what comes nearest to it at {size}",
            f"{100 * said.flat_efficiency:.3g} %",
            f"{', '.join(c.name for c in good)}. "
            f"Nearest: {'; '.join(text for _, text in high) or 'none'}",
            "what is left is jitter of computing (experiment tail), failures and batch size",
        ),
    ]


# --- figure ------------------------------------------------------------------------------------

SHOWN = {
    "flat rails": 0,
    "flat rails (ring)": 1,
    "fat tree (ECMP, ring)": 3,
    "fat tree (7:1 above pods)": 4,
    "flat rails (800 Gbit/s)": 2,
}


def _shown(found: Sequence[Curve], kind: str, mode: str) -> str:
    """Label of flat rails, with the hierarchical networks that end within half a point of them."""
    ends = {c.name: float(getattr(c, kind)(mode)[-1]) for c in found}
    same = [n for n in ("fat tree", "MRC planes") if abs(ends[n] - ends["flat rails"]) < 0.005]
    return textwrap.fill(", ".join(["flat rails", *same]) + " (direct)", 24)


def draw(given: Asked, found: Sequence[Curve], said: Scaling) -> None:
    """Utilisation in weak and efficiency in strong scaling against GPUs."""
    drawn = figures.figure(
        "From 64 to 16,384 GPUs: algorithm, load balancing and batch decide, not flatness",
        given.command,
        height=4.3,
        caption="LLaMA-70B on H100, buckets emulated in all data-parallel groups at once, direct "
        "and 400 Gbit/s per GPU unless said. Grey: "
        + ", ".join(c.name for c in found if c.name not in SHOWN)
        + ".",
    )
    panels = drawn.subplots(1, 2, sharey=True)
    for panel, (mode, kind) in zip(
        panels, ((WEAK, "utilisation"), (STRONG_LARGE, "efficiency")), strict=True
    ):
        ends = []
        for curve in sorted(found, key=lambda c: c.name in SHOWN):
            values = 100 * getattr(curve, kind)(mode)
            if curve.name not in SHOWN:
                panel.plot(curve.ranks, values, color="#b9bec5", lw=1.2, zorder=1.5)
                continue
            number = SHOWN[curve.name]
            figures.line(panel, curve.ranks, values, number)
            name = _shown(found, kind, mode) if curve.name == "flat rails" else curve.name
            ends.append((curve.ranks[-1], values[-1], name, figures.COLOURS[number]))
        figures.log_axis(panel.xaxis, found[0].ranks)
        panel.set_ylim(0, 105)
        words = {"utilisation": "computing / step time", "efficiency": "linear scaling efficiency"}
        figures.tidy(panel, x="GPUs", title=f"{mode}:\n{words[kind]}")
        figures.name_ends(panel, ends, gap=0.08)
        for share, mark, text in (
            (said.hierarchical_utilisation, "D", "article, hierarchical"),
            (said.flat_efficiency, "*", "article, MRC"),
        ):
            panel.plot(
                said.ranks,
                100 * share,
                mark,
                mfc="w",
                mec=figures.CLAIM,
                ms=7 if mark == "D" else 12,
                mew=1.4,
                zorder=3,
                linestyle="none",
                label=f"{text}: {100 * share:.3g} %",
            )
        panel.legend(fontsize=8.5, frameon=False, loc="lower left", labelcolor=figures.CLAIM)
    panels[0].set_ylabel("%", fontsize=9.5)
    figures.save(drawn, given.path(""))


def main(argv: Sequence[str] | None = None) -> None:
    """Print tables and claims; write results/scaling.txt, .png, .svg and an archive per family."""
    given, said = asked("scaling", __doc__, argv), load_article().scaling
    found = curves(given)
    finish(given, tables(found), claimed(found, said))
    draw(given, found, said)


if __name__ == "__main__":
    main()
