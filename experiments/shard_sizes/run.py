"""What does a slow rank gain by owning less, with and without pipelining?"""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

import mrcjax
from experiments.common import asked
from experiments.searches import finish, image, ways_down
from mrcjax.spec import Spec
from mrcjax.tuning import Tuned

HERE = Path(__file__).parent
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


def draw(found: dict[str, Tuned]) -> Figure:
    """Time against step with the bound as a line; shards before and after."""
    figure = Figure(figsize=(16, 4))
    way, *heat = figure.subplots(1, 3)
    ways_down(way, found)
    way.set_ylabel("time / equal shards (dashed: bound)")
    way.legend(fontsize=7)
    cuts = {
        "before": [shards_of(each.spec) for each in found.values()],
        "after": [shards_of(each.best) for each in found.values()],
    }
    for panel, (when, shards) in zip(heat, cuts.items(), strict=True):
        image(panel, shards, f"part of the buffer that a rank owns, {when}", x="rank")
        panel.set_yticks(range(len(found)), found, fontsize=7)
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table; write results/shard_sizes.{txt,h5,png}. Short: fewer cases."""
    given = asked("shard_sizes", __doc__, argv)
    found = searches(1 if given.short else None)
    finish(given, [row(name, each) for name, each in found.items()], found, draw(found))


if __name__ == "__main__":
    main()
