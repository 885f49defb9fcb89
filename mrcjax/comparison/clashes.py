"""Say in sentences which of the article's figures cannot both be true.

Every number in them is computed from the results, the specs or the article's figures.
"""

import math

from mrcjax import hardware
from mrcjax.bound import lower_bounds
from mrcjax.case import build
from mrcjax.comparison.article import Article
from mrcjax.comparison.emulation import Results, passive
from mrcjax.comparison.rows import GPU_NAMES, GPUS, all_reduce_spec
from mrcjax.comparison.wording import (
    gbit,
    kw,
    listed,
    more_or_less,
    ms,
    percent,
    percent_range,
    ratio,
    signed,
    trillions,
    whole,
)
from mrcjax.emulation import precision
from mrcjax.spec import Spec
from mrcjax.training import flops_per_token
from mrcjax.units import format_rate


def clashes(found: list[Results], article: Article) -> list[str]:
    """Say in which figures the article contradicts itself or what is possible.

    found: the rows of table b.
    """
    return [
        *_of_times(found, article),
        _of_exposure(article),
        _of_tokens(found, article),
        _of_power(found, article),
        _of_flat_hardware(found, article),
        _of_cost(found, article),
    ]


def _of_times(found: list[Results], article: Article) -> list[str]:
    by_key = {r.row.key: r for r in found}
    tree, planes = by_key["fat_tree"], by_key["mrc_planes"]
    ranks = article.ranks
    sent = 2 * (ranks - 1) / ranks * article.size_bytes
    needed = sent / article.mrc.all_reduce_s
    goodput = planes.row.spec.network.goodput
    rails = needed / (50e9 * goodput)
    nvlink = hardware.link("nvlink5")
    tree_rate = math.fsum(tree.row.spec.network.port_rates)
    return [
        f"{ms(article.fat_tree.all_reduce_s)} on a fat tree and GPUs without nodes. Without, no "
        f"algorithm takes less than {ms(_bound_without_nodes(tree.row.spec))} at "
        f"{gbit(tree_rate)} per GPU, so "
        f"nodes are implied though not mentioned; with them {_both(tree)} come out here.",
        f"{ms(article.mrc.all_reduce_s)} on MRC and the MRC that is deployed. The time takes "
        f"{format_rate(needed)} out of every GPU, "
        f"{whole(needed / nvlink.rate_bytes_per_s)} of NVLink 5's line rate or {rails:.1f} rails "
        f"of 400 Gbit/s at {percent(goodput)} goodput. The deployed MRC has "
        f"{gbit(math.fsum(planes.row.spec.network.port_rates))}: at least "
        f"{ms(_bound_without_nodes(planes.row.spec))} without nodes, {_both(planes)} with them.",
    ]


def _of_exposure(article: Article) -> str:
    shares = [claims.exposed_share for claims in article.networks]
    times = [claims.all_reduce_s for claims in article.networks]
    utilisations = listed(whole(claims.utilisation) for claims in article.networks)
    return (
        f"its utilisation and its all-reduce times. {utilisations} leave {ratio(shares)} as time "
        f"not spent computing, but the all-reduce times are {ratio(times)}. Only overlap with "
        "computing explains that, and then utilisation says nothing about the all-reduce alone."
    )


def _of_tokens(found: list[Results], article: Article) -> str:
    needed = {}
    for gpu in GPUS:
        training = found[0].row.training(gpu)
        peak = article.ranks * training.hardware.peak_flops_per_s
        flops = flops_per_token(training, "full")
        needed[gpu] = [c.tokens_per_s * flops / (peak * c.utilisation) for c in article.networks]
    words = "; ".join(
        f"{percent_range(needed[gpu])} of bf16 peak on {GPU_NAMES[gpu]} (assumed here: "
        f"{percent(found[0].row.training(gpu).hardware.achievable_fraction)})"
        for gpu in GPUS
    )
    return (
        "its tokens/s with its utilisation and H100. While computing, its GPUs would reach "
        f"{words}."
    )


def _of_power(found: list[Results], article: Article) -> str:
    by_key = {r.row.key: r for r in found}
    tree, planes = (by_key[key].network_w for key in ("fat_tree", "mrc_planes"))
    said = more_or_less(article.mrc.network_w / article.fat_tree.network_w - 1)
    return (
        f"its three figures of power. {listed(kw(c.network_w) for c in article.networks)} for fat "
        f"tree, dragonfly and MRC, MRC {said} than the fat tree. As described, the fat tree takes "
        f"{kw(tree)} and MRC planes {kw(planes)} for switches and modules, "
        f"{more_or_less(planes / tree - 1)}; at equal rate see table (a). Each of the three "
        "figures can be met by leaving something out, not all three by one rule."
    )


def _of_flat_hardware(found: list[Results], article: Article) -> str:
    results = next(r for r in found if r.row.key == "flat_rails_20")
    usd = results.inventory.usd_with_nics
    planes_w = passive(results)[0].watts_without_nics
    assert usd is not None
    assert planes_w is not None
    return (
        f"{ms(article.mrc.all_reduce_s)} and {kw(article.mrc.network_w)}. With switches, the "
        f"{results.row.spec.network.ports} rails that reach the time take {kw(results.network_w)} "
        f"and, with NICs, {usd / 1e6:.3g} M$ "
        f"({usd / results.row.spec.network.ranks / 1e3:.3g} k$ per GPU). Only passive planes come "
        f"near the power, with {kw(planes_w)}."
    )


def _of_cost(found: list[Results], article: Article) -> str:
    training = found[0].row.training()
    tokens = training.run_tokens
    hours = [tokens / c.tokens_per_s / 3600 * article.ranks for c in article.networks]
    rates = [c.run_usd / h for c, h in zip(article.networks, hours, strict=True)]
    tree, mrc = article.fat_tree, article.mrc
    faster = mrc.tokens_per_s / tree.tokens_per_s
    return (
        f"its tokens/s and its cost of a run. {trillions(tokens)} tokens at its own tokens/s make "
        f"{listed(f'{h / 1e3:,.0f}' for h in hours)} thousand GPU-hours, so "
        f"{listed(f'{rate:.2f}' for rate in rates)} $ per GPU-hour: the dearest network with the "
        f"cheapest hour. At the fat tree's hourly price MRC comes to "
        f"{rates[0] * hours[-1] / 1e6:.2f} M$, not {mrc.run_usd / 1e6:.2f} M$. Its text says "
        f"tokens/s {signed(article.throughput_gain)}, its table {signed(faster - 1)}."
    )


def _bound_without_nodes(spec: Spec) -> float:
    plain = all_reduce_spec(spec, algorithm="direct") if _has_nodes(spec) else spec
    with precision(plain.engine.precision):
        return max(lower_bounds(build(plain)).values())


def _has_nodes(spec: Spec) -> bool:
    return spec.network.node_size > 1


def _both(results: Results) -> str:
    return " and ".join(f"{ms(results.all_reduces[gpu].time_s)} ({GPU_NAMES[gpu]})" for gpu in GPUS)
