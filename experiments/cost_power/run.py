"""What has to be counted, and at which prices, for the article's watts and dollars?"""

import itertools
import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from experiments import figures
from experiments.common import Asked, Claim, asked, finish, off
from mrcjax import hardware
from mrcjax.archive import Column, Table
from mrcjax.comparison import Article, load_article
from mrcjax.comparison.article import Claims
from mrcjax.comparison.emulation import Results
from mrcjax.comparison.rows import GPU_NAMES, GPUS, rows, step_spec
from mrcjax.emulation import run
from mrcjax.network.inventory import Inventory, inventory
from mrcjax.spec import Network, spec_from_dict
from mrcjax.step import train
from mrcjax.training import RunCost

HERE = Path(__file__).parent
NETWORKS = ("fat_tree", "dragonfly", "mrc")
ROWS = {"fat_tree": "fat_tree", "dragonfly": "dragonfly", "mrc": "mrc_planes"}
_KW, _MUSD, _PERCENT = 1e3, 1e6, 0.01


@dataclass(frozen=True)
class Candidate:
    """A network that may stand behind one of the article's figures, and its watts by rule."""

    of: str
    name: str
    network: Network
    materials: Inventory

    def watts(self) -> dict[str, float]:
        """Power by what is counted."""
        return {rule: count(self) for rule, count in RULES.items()}

    @property
    def is_passive(self) -> bool:
        """Whether it has no switches, so that nothing but its ends draws power."""
        return not self.materials.switches


def _host_ends_w(candidate: Candidate) -> tuple[float, float]:
    """Power of the modules of host cables, at the switch and at the rank."""
    optics, network = hardware.optics(), candidate.network
    rate = network.ranks * math.fsum(network.port_rates)
    return rate * optics.switch_module_j_per_byte, rate * optics.nic_module_j_per_byte


def _with_modules(candidate: Candidate) -> float:
    watts = candidate.materials.watts
    return watts["switches"] + watts["modules"]


def _copper_hosts(candidate: Candidate) -> float:
    if candidate.is_passive:
        return _with_modules(candidate)
    copper = candidate.materials.host_cables * hardware.optics().copper_watts
    return _with_modules(candidate) - math.fsum(_host_ends_w(candidate)) + copper


def _linear(candidate: Candidate) -> float:
    watts = candidate.materials.watts
    saving = 0.0 if candidate.is_passive else hardware.optics().linear_module_saving
    return watts["switches"] + watts["modules"] * (1 - saving)


RULES: dict[str, Callable[[Candidate], float]] = {
    "switches": lambda c: c.materials.watts["switches"],
    "switches, copper to hosts": _copper_hosts,
    "switches, linear modules": _linear,
    "switches, modules": _with_modules,
    "switches, modules, NICs": lambda c: _with_modules(c) + c.materials.watts["nics"],
}


def candidates(ranks: int = 1024) -> list[Candidate]:
    """Read the candidates and count what each is built of."""
    found = []
    for each in tomllib.loads((HERE / "candidates.toml").read_text(encoding="utf-8"))["candidate"]:
        raw = {"network": {"ranks": ranks, **each["network"]}}
        network = spec_from_dict(
            raw | {"collective": {"kind": "all_reduce", "size": "1 GB"}}
        ).network
        found.append(Candidate(each["of"], each["name"], network, inventory(network)))
    return found


def claims_of(article: Article) -> dict[str, Claims]:
    """Columns of the article by key."""
    return dict(zip(NETWORKS, article.networks, strict=True))


# --- power -------------------------------------------------------------------------------------


def power(found: Sequence[Candidate], article: Article) -> Table:
    """Return the watts of every candidate by every rule."""
    said = claims_of(article)
    lines = [
        {"of": said[c.of].name, "name": c.name, "article": said[c.of].network_w, **c.watts()}
        for c in found
    ]
    columns = (
        Column("name", "network"),
        Column("of", "for"),
        Column("article", "article", "kW", _KW),
        *(Column(rule, rule, "kW", _KW, digits=3) for rule in RULES),
    )
    return Table(lines, columns, title="Power by what is counted")


def nearest(found: Sequence[Candidate], of: str, watts: float) -> tuple[Candidate, str, float]:
    """Candidate and rule that come nearest to a claim, and what they come to."""
    ways = [(c, rule, w) for c in found if c.of == of for rule, w in c.watts().items()]
    return min(ways, key=lambda way: abs(math.log(max(way[2], 1e-9) / watts)))


def one_rule(found: Sequence[Candidate], article: Article) -> Table:
    """Return, by rule, the choice of networks that comes nearest to all three claims at once."""
    said = claims_of(article)
    lines = []
    for rule in RULES:
        choices = itertools.product(*([c for c in found if c.of == of] for of in NETWORKS))
        worst, chosen = min(
            ((_worst(chosen, rule, said), chosen) for chosen in choices), key=lambda way: way[0]
        )
        line = {c.of: f"{c.watts()[rule] / _KW:.3g} kW, {c.name}" for c in chosen}
        lines.append({"rule": rule, "worst": worst, **line})
    columns = (
        Column("rule", "counted"),
        Column("worst", "farthest off", "times", digits=3),
        *(Column(of, said[of].name) for of in NETWORKS),
    )
    return Table(lines, columns, title="One rule for all three: the nearest choice of networks")


def _worst(chosen: Sequence[Candidate], rule: str, said: dict[str, Claims]) -> float:
    """Factor by which the farthest of three misses its claim."""
    factors = [max(c.watts()[rule], 1e-9) / said[c.of].network_w for c in chosen]
    return max(max(f, 1 / f) for f in factors)


# --- cost --------------------------------------------------------------------------------------


def trained(ranks: int | None) -> dict[str, Results]:
    """Training steps of the networks as the article describes them, as in `mrcjax compare`."""
    found = {row.key: Results(row) for row in rows("b", ranks)}
    for key in ROWS.values():
        # buckets go between nodes, where the GPUs' own links play no part: the same for both
        emulate = partial(run, brief=ranks is not None, known={})
        for gpu, spec in found[key].row.specs.items():
            found[key].steps[gpu] = train(step_spec(spec), emulate=emulate)
    return {of: found[key] for of, key in ROWS.items()}


def hour_usd(results: Results, gpu: str, claimed_usd: float) -> float:
    """GPU-hour price at which a run costs what is claimed, the rest as emulated."""
    cost = _cost(results, gpu)
    rest = cost.network_usd + cost.electricity_usd
    return (claimed_usd - rest) / (cost.hours * results.row.spec.network.ranks)


def own_hour_usd(results: Results, claims: Claims, ranks: int) -> float:
    """GPU-hour price, all in, that the article's own tokens/s and dollars come to."""
    training = results.row.spec.training
    assert training is not None
    hours = training.run_tokens / claims.tokens_per_s / 3600
    return claims.run_usd / (hours * ranks)


def costs(found: dict[str, Results], article: Article) -> Table:
    """Return what a run costs, and what would make it cost what the article says."""
    lines = []
    for of, claims in claims_of(article).items():
        own = own_hour_usd(found[of], claims, article.ranks)
        for gpu in GPUS:
            cost, training = _cost(found[of], gpu), found[of].row.specs[gpu].training
            assert training is not None
            lines.append(
                {
                    "name": f"{claims.name}, {GPU_NAMES[gpu]}",
                    "article": claims.run_usd,
                    "total": cost.total_usd,
                    "gpus": cost.gpu_usd,
                    "network": cost.network_usd,
                    "electricity": cost.electricity_usd,
                    "price": training.hardware.gpu_hour_usd,
                    "needed": hour_usd(found[of], gpu, claims.run_usd),
                    "own": own,
                    "tokens": training.run_tokens * claims.run_usd / cost.total_usd,
                }
            )
    columns = (
        Column("name", "network"),
        Column("article", "article", "M$", _MUSD),
        Column("total", "emulated", "M$", _MUSD, digits=3),
        Column("gpus", "GPUs", "M$", _MUSD, digits=3),
        Column("network", "network", "M$", _MUSD, digits=3),
        Column("electricity", "electricity", "M$", _MUSD, digits=3),
        Column("price", "GPU-hour", "$", digits=3),
        Column("needed", "needed", "$", digits=3),
        Column("own", "article's own", "$", digits=3),
        Column("tokens", "or tokens", "10^12", 1e12, digits=3),
    )
    notes = [
        '"needed": price of a GPU-hour at which the emulated run costs what the article says; '
        '"article\'s own": its dollars over the GPU-hours of its tokens/s, all in; "or tokens": a '
        "run of so many tokens costs it at the catalogue's prices.",
    ]
    return Table(lines, columns, title="What a run costs", notes=notes)


def _cost(results: Results, gpu: str) -> RunCost:
    cost = results.steps[gpu].cost
    assert cost is not None
    return cost


# --- words -------------------------------------------------------------------------------------


def claimed(found: Sequence[Candidate], steps: dict[str, Results], article: Article) -> list[Claim]:
    """Put every figure of the article beside what comes near it, and why."""
    claims = []
    for of, said in claims_of(article).items():
        candidate, rule, watts = nearest(found, of, said.network_w)
        claims.append(
            Claim(
                f"network power of {said.name}",
                f"{said.network_w / _KW:.3g} kW",
                f"{watts / _KW:.3g} kW ({off(watts, said.network_w)}): {candidate.name}, {rule}",
                "the nearest of all candidates and rules; it needs just this hardware, counted "
                "just so",
            )
        )
    claims += [_ratio_of_power(found, article), _one_rule(found, article)]
    claims += [_run(said, steps[of], article.ranks) for of, said in claims_of(article).items()]
    return claims


def _ratio_of_power(found: Sequence[Candidate], article: Article) -> Claim:
    watts = {c.name: _with_modules(c) for c in found}
    tree = watts["two tiers of 128 x 400G"]
    equal, double = (watts[name] / tree - 1 for name in ("4 planes x 100G", "8 planes x 100G"))
    return Claim(
        "power of MRC over the fat tree",
        f"{100 * article.power_gain:+.3g} %",
        f"{100 * equal:+.3g} % at equal rate, {100 * double:+.3g} % at twice the rate",
        "planes take the switch chips and modules of a fat tree of the same chip and rate; watts "
        "follow rate x levels of links, not flatness",
    )


def _one_rule(found: Sequence[Candidate], article: Article) -> Claim:
    best = min(one_rule(found, article).rows, key=lambda row: row["worst"])
    chosen = [c for of in NETWORKS for c in found if best[of].endswith(f", {c.name}")]
    rates = [f"{math.fsum(c.network.port_rates) * 8e-9:,.4g}" for c in chosen]
    return Claim(
        "all three powers by one rule",
        ", ".join(f"{c.network_w / _KW:.3g}" for c in article.networks) + " kW",
        "; ".join(str(best[of]) for of in NETWORKS) + f" (counting {best['rule']})",
        f"the best single rule with the best choice of networks is {100 * (best['worst'] - 1):.2g} "
        f"% off at the farthest, with {', '.join(rates)} Gbit/s per GPU",
    )


def _run(said: Claims, results: Results, ranks: int) -> Claim:
    totals = " and ".join(
        f"{_cost(results, gpu).total_usd / _MUSD:.2f} M$ ({GPU_NAMES[gpu]})" for gpu in GPUS
    )
    needed = " or ".join(
        f"{hour_usd(results, gpu, said.run_usd):.2f} $ ({GPU_NAMES[gpu]})" for gpu in GPUS
    )
    own = own_hour_usd(results, said, ranks)
    return Claim(
        f"a run on {said.name}",
        f"{said.run_usd / _MUSD:.2f} M$",
        totals,
        f"it takes a GPU-hour of {needed} without network and electricity; at the article's own "
        f"tokens/s {own:.2f} $ all in",
    )


# --- figure ------------------------------------------------------------------------------------

PARTS = {"switches": figures.COLOURS[0], "modules": figures.COLOURS[5], "NICs": "#c9cdd3"}
SHARES = {"gpus": figures.COLOURS[2], "network": figures.COLOURS[0], "electricity": "#c9cdd3"}


def draw(given: Asked, found: Sequence[Candidate], run_costs: Table, article: Article) -> None:
    """Stacked bars of watts and of dollars, the article's figures as lines across their bars."""
    drawn = figures.figure(
        "The article's power and cost against bills of materials at "
        f"{found[0].network.ranks:,} GPUs",
        given.command,
        height=5.0,
        caption="Vertical marks: the article's figures. White: kW of bars cut off. Cost of a run "
        "with the training step emulated on each network.",
    )
    left, right = drawn.subplots(1, 2, width_ratios=(1.25, 1))
    said = claims_of(article)
    bars = [
        (f"{said[c.of].name}: {c.name}", c.of, (w["switches"], w["modules"], w["nics"]))
        for c in found
        for w in [c.materials.watts]
    ]
    limit = 2.2 * max(c.network_w for c in article.networks)
    _stacks(left, bars, PARTS, _KW, {of: c.network_w for of, c in said.items()}, limit / _KW)
    figures.tidy(left, x="network power / kW")
    lines = [
        (str(row["name"]), of, tuple(row[key] for key in SHARES))
        for of in NETWORKS
        for row in run_costs.rows
        if str(row["name"]).startswith(said[of].name)
    ]
    _stacks(right, lines, SHARES, _MUSD, {of: c.run_usd for of, c in said.items()})
    figures.tidy(right, x="cost of a run / M$")
    for panel in (left, right):
        panel.grid(axis="y", visible=False)
        panel.tick_params(axis="y", length=0)
    figures.save(drawn, given.path(""))


def _stacks(panel, bars, parts, scale, said, limit=None) -> None:
    before = ""
    for place, (_, of, values) in enumerate(bars):
        begin = 0.0
        for (name, colour), value in zip(parts.items(), values, strict=True):
            label = name.replace("gpus", "GPU-hours") if place == 0 else None
            panel.barh(
                place, value / scale, left=begin, color=colour, height=0.66, label=label, zorder=2
            )
            begin += value / scale
        if limit and begin > limit:
            panel.text(
                limit, place, f"{begin:,.0f} ", ha="right", va="center", fontsize=8.5, color="white"
            )
        claim = said[of] / scale
        panel.vlines(claim, place - 0.5, place + 0.5, color=figures.CLAIM, linewidth=2.2, zorder=3)
        if of != before and place:
            panel.axhline(place - 0.5, color=figures.MUTED, linewidth=0.8)
        before = of
    names = [name for name, _, _ in bars]
    panel.set_yticks(range(len(bars)), [figures.plain(name) for name in names])
    panel.set_ylim(len(bars) - 0.4, -0.6)
    if limit:
        panel.set_xlim(0, limit)
    panel.legend(
        fontsize=8.5,
        frameon=False,
        ncols=3,
        loc="lower right",
        bbox_to_anchor=(1.02, 1.0),
        columnspacing=0.9,
        handlelength=1.2,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print tables and claims; write results/cost_power.txt, .h5, .png and .svg."""
    given, started = asked("cost_power", __doc__, argv), datetime.now(UTC)
    article, found = load_article(), candidates()
    steps = trained(64 if given.short else None)
    tables = {
        "power": power(found, article),
        "one_rule": one_rule(found, article),
        "cost": costs(steps, article),
    }
    runs = {name: run for results in steps.values() for name, run in results.runs().items()}
    finish(given, tables, claimed(found, steps, article), runs=runs, started=started)
    draw(given, found, tables["cost"], article)


if __name__ == "__main__":
    main()
