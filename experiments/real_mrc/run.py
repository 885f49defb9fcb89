"""How large, dear and hungry is the deployed MRC, how fast, and what does a lost port cost?"""

import fnmatch
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import mrcjax
from experiments import figures
from experiments.common import Asked, Claim, asked, finish
from mrcjax.archive import Column, Table
from mrcjax.emulation import precision
from mrcjax.network.inventory import Inventory, inventory
from mrcjax.outcome import Outcome
from mrcjax.spec import Spec, SpecError, spec_from_dict

HERE = Path(__file__).parent
_MS, _PERCENT = 1e-3, 0.01
# planes -> ports of a switch of 51.2 Tbit/s
RADIX = {8: 512, 4: 256, 1: 64}
# GPUs -> collective.dimensions: in the node, under a T0, across T0
SIZES = {2048: [8, 32, 8], 16384: [8, 32, 64], 131072: [8, 32, 512]}
SHORT_SIZES = {512: [8, 32, 2], 2048: [8, 32, 8]}


# --- sizes, power and price --------------------------------------------------------------------


@dataclass(frozen=True)
class Built:
    """A network at the most GPUs that it holds."""

    name: str
    materials: Inventory

    @property
    def link_ends(self) -> float:
        """Optical ends per GPU, in ends of one 800 Gbit/s cable."""
        cables = self.materials.cables / self.materials.ranks
        return 2 * cables / self.planes

    @property
    def planes(self) -> int:
        """Ports of a GPU."""
        return self.materials.host_cables // self.materials.ranks


def builds() -> list[Built]:
    """Networks of 800 Gbit/s per GPU out of switches of 51.2 Tbit/s, each as large as it gets."""
    found = []
    for planes, radix in RADIX.items():
        raw = {
            "kind": "mrc_planes",
            "planes": planes,
            "plane_rate": f"{800 // planes} Gbit/s",
            "radix": radix,
        }
        name = f"{planes} plane{'s' if planes > 1 else ''}, two tiers of {radix} ports"
        found.append(Built(name, _largest(raw)))
    raw = {"kind": "fat_tree", "tiers": 3, "radix": 64, "link_rate": "800 Gbit/s"}
    found.append(Built("fat tree, three tiers of 64 ports", _largest(raw)))
    return found


def _largest(network: dict) -> Inventory:
    """Inventory at the most ranks that are not refused, found by doubling and halving."""

    def bill(ranks: int) -> Inventory | None:
        raw = {"network": {**network, "ranks": ranks}}
        try:
            spec = spec_from_dict(raw | {"collective": {"kind": "all_reduce", "size": "1 GB"}})
            return inventory(spec.network)
        except SpecError:
            return None

    low, high = 2, 4
    while bill(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bill(middle) else (low, middle)
    found = bill(low)
    assert found is not None
    return found


def sizes(found: Sequence[Built]) -> Table:
    """Return size, switches, optics, power and price, in all and per GPU."""
    lines = []
    for built in found:
        m = built.materials
        assert m.watts_with_nics is not None
        assert m.usd_with_nics is not None
        lines.append(
            {
                "name": built.name,
                "gpus": m.ranks,
                "switches": m.switches,
                "per": 1e3 * m.switches / m.ranks,
                "ends": built.link_ends,
                "power": m.watts_without_nics,
                "nics": m.watts_with_nics,
                "each": m.watts_with_nics / m.ranks,
                "usd": m.usd_with_nics,
                "usd_each": m.usd_with_nics / m.ranks,
            }
        )
    columns = (
        Column("name", "800 Gbit/s per GPU"),
        Column("gpus", "GPUs at most"),
        Column("switches", "switches"),
        Column("per", "per 1,000 GPUs", digits=3),
        Column("ends", "800G ends per GPU", digits=3),
        Column("power", "power", "MW", 1e6, digits=3),
        Column("nics", "with NICs", "MW", 1e6, digits=3),
        Column("each", "per GPU", "W", digits=3),
        Column("usd", "with NICs", "M$", 1e6),
        Column("usd_each", "per GPU", "k$", 1e3, digits=3),
    )
    return Table(lines, columns, title="As large as it gets, out of switches of 51.2 Tbit/s")


# --- emulated ----------------------------------------------------------------------------------


def spec(ranks: int, planes: int, dimensions: Sequence[int], fault: str = "") -> Spec:
    """The deployed network in another size or number of planes, with links that are down."""
    more = []
    if fault:
        more = ["faults.reroute=spread", f'faults.links=[{{match = "{fault}", down = true}}]']
    sets = [
        f"network.ranks={ranks}",
        f"network.planes={planes}",
        f"network.plane_rate={800 // planes} Gbit/s",
        f"network.radix={RADIX[planes]}",
        f"collective.dimensions={list(dimensions)}",
    ]
    return mrcjax.load_spec(HERE / "spec.toml", set=[*sets, *more])


def grown(given: Asked) -> dict[str, Outcome]:
    """The all-reduce on ever larger networks of eight planes."""
    wanted = SHORT_SIZES if given.short else SIZES
    return {
        f"{ranks} GPUs": mrcjax.run(spec(ranks, 8, dims), brief=ranks < 1e5)
        for ranks, dims in wanted.items()
    }


@dataclass(frozen=True)
class Loss:
    """What one cable less takes."""

    what: str
    key: str  # of paper.toml
    planes: int
    capacity: float  # share of the GPU's or leaf's rate that is gone
    slowdown: float | None  # time over that of a whole network; None where it is cut off
    how: str


def losses(ranks: int, dimensions: Sequence[int]) -> list[Loss]:
    """One cable down at a GPU, or above a leaf: capacity gone and time lost."""
    found = []
    for planes in RADIX:
        whole = mrcjax.run(spec(ranks, planes, dimensions), brief=True)
        faults = {"port": ("rank 5 plane 0", "rank 5 egress plane *")}
        if planes in (1, 8):
            leaf = "leaf 0" if planes == 1 else "plane 0 leaf 0"
            faults["uplink"] = (f"{leaf} up cable 0", f"{leaf} up *")
        for kind, (fault, links) in faults.items():
            broken = spec(ranks, planes, dimensions, fault)
            slowdown, how = _slowdown(broken, whole)
            what = f"{planes} plane{'s' if planes > 1 else ''}: "
            what += "a GPU's port" if kind == "port" else "a cable above a leaf"
            lost = _lost(broken, links)
            found.append(Loss(what, f"{kind}_{planes}", planes, lost, slowdown, how))
    return found


def _slowdown(broken: Spec, whole: Outcome) -> tuple[float | None, str]:
    try:
        return mrcjax.run(broken, brief=True).time_s / whole.time_s, "spread over what is left"
    except SpecError as error:
        if "cannot reach" not in str(error):
            raise
        return None, "cut off"


def _lost(broken: Spec, links: str) -> float:
    """Share of the capacity of links of this name, or of the trunk, that the fault takes."""
    with precision("float64"):
        case = mrcjax.build(broken)
    names = [case.wiring.link_name(i) for i in range(case.network.num_links)]
    hit = [i for i, name in enumerate(names) if fnmatch.fnmatchcase(name, links)]
    left = np.asarray(case.params.capacity_bytes_per_s, float)[hit].sum()
    return 1 - left / (np.asarray(case.wiring.capacity_bytes_per_s, float)[hit].sum())


def times(runs: dict[str, Outcome]) -> Table:
    """Return the all-reduce by size."""
    lines = [
        {
            "name": name,
            "time": run.time_s,
            "bound": run.lower_bound_s,
            "busbw": run.busbw_bytes_per_s,
            "wall": run.wall_s["run"],
        }
        for name, run in runs.items()
    ]
    columns = (
        Column("name", "8 planes"),
        Column("time", "1 GB all-reduce", "ms", _MS),
        Column("bound", "lower bound", "ms", _MS),
        Column("busbw", "busbw", "GB/s", 1e9),
        Column("wall", "emulated in", "s", digits=2),
    )
    notes = [
        "In the node, under a T0, across T0, and back, one after the other; the bound holds for "
        "any algorithm."
    ]
    return Table(lines, columns, title="The all-reduce as the network grows", notes=notes)


def lost_table(found: Sequence[Loss], ranks: int, paper: dict) -> Table:
    """Return what a cable less takes."""
    lines = [vars(loss) | {"paper": paper["lost"].get(loss.key)} for loss in found]
    columns = (
        Column("what", "one cable less"),
        Column("paper", "paper, capacity", "%", _PERCENT, digits=3),
        Column("capacity", "emulated, capacity", "%", _PERCENT, digits=3),
        Column("slowdown", "all-reduce", "times"),
        Column("how", "traffic"),
    )
    return Table(lines, columns, title=f"What one failed cable costs, {ranks:,} GPUs")


# --- words and figure --------------------------------------------------------------------------


def claimed(
    found: Sequence[Built], runs: dict[str, Outcome], lost: Sequence[Loss], paper: dict
) -> list[Claim]:
    """Put what is published beside what came out."""
    planes, tree = found[0].materials, found[-1].materials
    switches = (planes.switches / planes.ranks) / (tree.switches / tree.ranks)
    optics = found[0].link_ends / found[-1].link_ends
    (_, small), (name, large) = list(runs.items())[0], list(runs.items())[-1]
    claims = [
        Claim(
            "GPUs on two tiers",
            f"{paper['gpus']:,}",
            f"{planes.ranks:,}; as one plane of 800G ports {found[2].materials.ranks:,}",
            "a switch of n times as many ports reaches n squared times as many: that is what "
            "splitting the adapter into planes buys",
        ),
        Claim(
            "switches per GPU over three tiers",
            f"{100 * paper['switches_share']:.3g} %",
            f"{100 * switches:.3g} %",
            "two tiers take three switches for every five of three tiers, of the same chips",
        ),
        Claim(
            "optics per GPU over three tiers",
            f"{100 * paper['optics_share']:.3g} %",
            f"{100 * optics:.3g} %",
            "two levels of links in the place of three",
        ),
    ]
    for loss in lost:
        time = "cut off" if loss.slowdown is None else f"all-reduce {loss.slowdown:.4g} times"
        claims.append(
            Claim(
                f"one cable less, {loss.what}",
                f"{100 * paper['lost'][loss.key]:.3g} % of the rate",
                f"{100 * loss.capacity:.3g} % of the rate; {time}",
                _why(loss),
            )
        )
    claims.append(
        Claim(
            f"1 GB all-reduce at {name}",
            "not published",
            f"{large.time_s / _MS:.4g} ms, {large.time_s / small.time_s:.4g} times that of "
            f"{next(iter(runs))}",
            "rounds that go direct in three levels; nothing of it grows with the cluster",
        )
    )
    return claims


def _why(loss: Loss) -> str:
    if loss.key.startswith("uplink"):
        return "a trunk's share of one cable; other leaves' traffic hardly meets it"
    if loss.planes == 1:
        return "its only port: other GPUs of the node lend theirs, else it is cut off"
    return (
        "everybody waits for the GPU with a port less, in the phases between nodes; those in the "
        "node take as long as before"
    )


def draw(given: Asked, found: Sequence[Built], lost: Sequence[Loss], paper: dict) -> None:
    """Sizes against cost per GPU, and capacity and time lost with a cable."""
    drawn = figures.figure(
        "Splitting an 800G adapter into planes: two tiers reach further, and a lost cable takes "
        "less",
        given.command,
        height=3.6,
        caption="Left: switches of 51.2 Tbit/s, prices with NICs. Right: hollow marks are the "
        "published losses of capacity.",
    )
    left, right = drawn.subplots(1, 2, width_ratios=(1, 1.15))
    for number, built in enumerate(found):
        m = built.materials
        assert m.usd_with_nics is not None
        usd = m.usd_with_nics / m.ranks / 1e3
        figures.line(left, [m.ranks], [usd], number, markersize=8, linestyle="none")
        is_below = built.planes == 4
        left.annotate(
            built.name.replace(", ", ",\n", 1),
            (m.ranks, usd),
            (0, -9 if is_below else 8),
            textcoords="offset points",
            fontsize=8.5,
            ha="center",
            va="top" if is_below else "bottom",
            color=figures.COLOURS[number],
        )
    figures.log_axis(left.xaxis, [1024, 8192, 65536, 524288])
    left.set_xlim(400, 1e6)
    left.set_ylim(0, 1.25 * left.get_ylim()[1])
    figures.tidy(left, x="GPUs at most", y="network price / k$ per GPU")
    for place, loss in enumerate(lost):
        bars = [(100 * loss.capacity, figures.COLOURS[0], -0.18)]
        if loss.slowdown is not None:
            bars.append((100 * (1 - 1 / loss.slowdown), figures.COLOURS[5], 0.18))
        for (value, colour, shift), label in zip(
            bars, ("capacity lost", "speed of the all-reduce lost"), strict=False
        ):
            right.barh(
                place + shift, value, 0.34, color=colour, label=label if place == 0 else None
            )
            right.text(value + 3, place + shift, f"{value:.3g} %", va="center", fontsize=8.5)
        right.plot(
            100 * paper["lost"][loss.key], place - 0.18, "D", mfc="none", mec=figures.CLAIM, ms=7
        )
    right.set_yticks(range(len(lost)), [loss.what for loss in lost])
    right.set_ylim(len(lost) - 0.5, -0.5)
    right.set_xlim(0, 118)
    right.legend(fontsize=8.5, frameon=False, loc="upper right")
    figures.tidy(right, x="lost with one cable / %")
    right.grid(axis="y", visible=False)
    figures.save(drawn, given.path(""))


def main(argv: Sequence[str] | None = None) -> None:
    """Print tables and claims; write results/real_mrc.txt, .h5, .png and .svg."""
    given, started = asked("real_mrc", __doc__, argv), datetime.now(UTC)
    paper = tomllib.loads((HERE / "paper.toml").read_text(encoding="utf-8"))
    # the most that a single plane holds on two tiers
    ranks, dimensions = (512, [8, 32, 2]) if given.short else (2048, [8, 32, 8])
    found, runs, lost = builds(), grown(given), losses(ranks, dimensions)
    tables = {
        "sizes": sizes(found),
        "all_reduce": times(runs),
        "lost": lost_table(lost, ranks, paper),
    }
    claims = claimed(found, runs, lost, paper)
    finish(given, tables, claims, runs=runs, started=started, said="paper")
    draw(given, found, lost, paper)


if __name__ == "__main__":
    main()
