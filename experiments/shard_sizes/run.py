"""What does a slow rank gain by owning less, with and without pipelining?"""

import argparse
from pathlib import Path

import jax
import matplotlib

import mrcjax
from mrcjax.report.table import text_table
from mrcjax.spec import Spec
from mrcjax.tuning import Tuned
from mrcjax.tuning.keeping import keep

matplotlib.use("agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
COMMAND = "python experiments/shard_sizes/run.py"
CASES = {
    "slow inwards, one piece": ("rank 0 ingress rail 0", 1),
    "slow inwards, 64 pieces": ("rank 0 ingress rail 0", 64),
    "slow both ways, one piece": ("rank 0 *gress rail 0", 1),
    "slow both ways, 64 pieces": ("rank 0 *gress rail 0", 64),
}
SLOW_REDUCER = [
    "network.reduction_rate=50 GB/s",
    "faults.links=[]",
    "faults.slow=[{ rank = 0, factor = 10 }]",
]


def searches(count: int | None = None) -> dict[str, Tuned]:
    """Name -> search, of the first cases."""
    found = {}
    for name, (match, chunks) in list(CASES.items())[:count]:
        overrides = [f"faults.links.0.match={match}", f"collective.chunks={chunks}"]
        found[name] = mrcjax.tune(mrcjax.load_spec(HERE / "spec.toml", set=overrides))
    slow = mrcjax.load_spec(HERE / "spec.toml", set=SLOW_REDUCER)
    return found | {"reducing slowly, one piece": mrcjax.tune(slow)}


def shards_of(spec: Spec) -> list[float]:
    """Part of the buffer that each rank owns."""
    weights = spec.the_collective.shards or (1.0,) * spec.network.ranks
    return [weight / sum(weights) for weight in weights]


def row(name: str, found: Tuned) -> dict[str, str]:
    """What the table shows: times over that of equal shards."""
    shards, equal = shards_of(found.best), found.heuristics_s["equal"]
    barrier = found.optima_s["programme, with a barrier between the halves"]
    return {
        "case": name,
        "equal, ms": f"{equal * 1e3:.2f}",
        "tuned": f"{found.after_s / equal:.4f}",
        "with a barrier": f"{barrier / equal:.4f}",
        "bound": f"{found.lower_bound_s / equal:.4f}",
        "gap": f"{found.gap:.2%}",
        "slow shard / others": f"{shards[0] / shards[1]:.4f}",
    }


def draw(found: dict[str, Tuned], path: Path) -> None:
    """Time against step with the bound as a line; shards before and after."""
    figure, (way, *heat) = plt.subplots(1, 3, figsize=(16, 4))
    for name, each in found.items():
        equal = each.heuristics_s["equal"]
        (line,) = way.plot([step.exact_s / equal for step in each.history], label=name)
        way.axhline(each.lower_bound_s / equal, color=line.get_color(), ls="--", lw=0.8)
    way.set(xlabel="step", ylabel="time / equal shards (dashed: bound)")
    way.legend(fontsize=7)
    cuts = {
        "before": [shards_of(each.spec) for each in found.values()],
        "after": [shards_of(each.best) for each in found.values()],
    }
    for axis, (when, shards) in zip(heat, cuts.items(), strict=True):
        image = axis.imshow(shards, aspect="auto", vmin=0)
        axis.set(xlabel="rank", title=f"part of the buffer that a rank owns, {when}")
        axis.set_yticks(range(len(found)), found, fontsize=7)
        figure.colorbar(image)
    figure.text(0.01, 0.01, COMMAND, fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Print the table; write results/shard_sizes.{txt,h5,png}."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="one case")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write into")
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    asked.results.mkdir(parents=True, exist_ok=True)
    found = searches(1 if asked.short else None)
    text = f"{COMMAND}\n{text_table([row(name, each) for name, each in found.items()])}"
    print(text)
    (asked.results / "shard_sizes.txt").write_text(text + "\n")
    (asked.results / "shard_sizes.h5").unlink(missing_ok=True)
    for each in found.values():
        keep(asked.results / "shard_sizes.h5", each, command=COMMAND)
    draw(found, asked.results / "shard_sizes.png")


if __name__ == "__main__":
    main()
