"""Say in sentences what was assumed, what came out, and which of the article's figures clash.

Every number in them is computed from the results, the specs or the article's figures.
"""

import math
from collections.abc import Sequence

from mrcjax import hardware
from mrcjax.bound import lower_bounds
from mrcjax.case import build
from mrcjax.comparison.article import Article
from mrcjax.comparison.emulation import ALGORITHMS, Results, passive
from mrcjax.comparison.rows import GPU_NAMES, GPUS, all_reduce_spec
from mrcjax.emulation import precision
from mrcjax.outcome import Outcome
from mrcjax.spec import Dragonfly, FatTree, MrcPlanes, Network, Spec, TrainingSpec
from mrcjax.training import flops_per_token
from mrcjax.units import format_bytes, format_rate, format_seconds

NEARLY = 0.02  # spread up to which networks count as nearly equal


def spread(values: Sequence[float]) -> float:
    """Largest over smallest, less one."""
    return max(values) / min(values) - 1


# --- table a -----------------------------------------------------------------------------------


def headline(found: list[Results]) -> str:
    """Say first what matters: at equal bandwidth the networks are nearly equal."""
    times = {a: spread([r.all_reduces[a].time_s for r in found]) for a in ALGORITHMS}
    tokens = spread([r.steps["direct"].step.tokens_per_s for r in found])
    largest = max(*times.values(), tokens)
    rate = math.fsum(found[0].row.spec.network.port_rates)
    verdict = (
        "near-equality is the expected and honest outcome"
        if largest <= NEARLY
        else f"near-equality was expected, yet the networks differ by {_percent(largest)}"
    )
    return (
        f"(a) Equal injection bandwidth, {_gbit(rate)} per GPU: {verdict}. Between the "
        f"{len(found)} networks a direct all-reduce of 1 GB differs by "
        f"{_percent(times['direct'])}, a ring by {_percent(times['ring'])}, tokens/s by "
        f"{_percent(tokens)}."
    )


def notes_a_all_reduce(found: list[Results]) -> list[str]:
    """Say what stands behind the all-reduce times of table a."""
    network = found[0].row.spec.network
    return [
        f"{network.ranks:,} H100. {_built(found)}",
        f"{_ends(network)}. Load balancing: {_balancing(found)}.",
        "All ranks are alike here, NVLink is not used; table (b) has nodes. The lower bound holds "
        "for any algorithm on that network.",
        _shared_links(found),
    ]


def notes_a_step(found: list[Results]) -> list[str]:
    """Say what stands behind the training step of table a."""
    results = found[0]
    training = _training(results.row.spec)
    sent = results.steps["direct"].buckets
    sizes = ", ".join(f"{b.collective} of {format_bytes(b.size_bytes)}" for b in sent.distinct)
    return [
        f"LLaMA-70B, {training.global_batch_tokens:,} tokens a step, tensor-parallel "
        f"{training.tensor_parallel} inside the nodes of every row, flat rails too (its traffic is "
        f"part of the {_percent(training.hardware.achievable_fraction)} of peak reached while "
        f"computing). Buckets: {sizes}, {sent.num_buckets} of each a step, "
        f"over {sent.group_size} ranks {{i, i + {sent.group_stride}, ...}}, {sent.num_groups} "
        'groups at once. "bucket": one such reduce-scatter, beside its lower bound; "exposed": '
        'what computing does not hide of all; "utilised": computing over step time.',
        _conventions(training),
    ]


def notes_a_hardware(found: list[Results]) -> list[str]:
    """Say what stands behind power and price of table a."""
    by_key = {r.row.key: r for r in found}
    tree, planes = by_key["fat_tree"], by_key["mrc_planes"]
    more = _more(_watts(planes) / _watts(tree) - 1)
    return [
        "Power and price are of switches, optical modules and cables, and again with network "
        "adapters; the NVLink switches in the nodes are the same for all and left out.",
        f"At {tree.row.spec.network.ranks:,} GPUs the fat tree takes {tree.inventory.switches} "
        f"switches and the MRC planes {planes.inventory.switches}; the planes draw {more} power. "
        "Flat rails do without the second tier, as long as there is a switch with a port for "
        "every GPU.",
    ]


# --- table b -----------------------------------------------------------------------------------


def title_b(article: Article) -> str:
    """Say what table b is."""
    return (
        "(b) Each network as the article describes it. It gives no rates, so the assumptions are "
        'ours and stand below; columns "article" hold its claims for '
        f"{article.ranks:,} GPUs, the others what is emulated."
    )


def notes_b_all_reduce(found: list[Results]) -> list[str]:
    """Say what was assumed in table b."""
    network = found[0].row.spec.network
    rates = " and ".join(
        f"{_rate(found[0].row.specs[gpu].network.node_bytes_per_s)} ({GPU_NAMES[gpu]})"
        for gpu in GPUS
    )
    notes = [
        f"Assumed: {_built(found)} The last three are readings of the article's one MRC.",
        f"Assumed: {network.node_size}-GPU NVLink nodes on all but flat rails, ranks placed node "
        f"by node; NVLink at {rates} per GPU, as collectives reach it. All-reduce in the node, "
        f"between nodes ({_between(found)}), in the node, in turn; on flat rails direct over all "
        "ranks.",
        f"{_ends(network)}. Load balancing: {_balancing(found)}.",
        _shared_links(found),
    ]
    for results in found:
        if results.row.spec.engine.order == "arrival":
            notes.append(
                f"{results.row.name}: links serve chunks in the order of arrival "
                '(engine.order = "arrival"). The engine\'s usual order, round after round, makes '
                "chunks wait behind later ones where hashes pile them up, which takes far longer "
                "here."
            )
        if results.row.key == "flat_rails_20":
            notes.append(
                f"{results.row.name}: the number of rails is solved back from the article's "
                "2.1 ms, the only figure of the article used as input."
            )
    return notes


def notes_b_step(found: list[Results]) -> list[str]:
    """Say what stands behind the training step of table b."""
    flat = [_without_nodes(results) for results in found if results.row.is_flat]
    return [_gpus(found), *flat]


def notes_b_run(found: list[Results], article: Article) -> list[str]:
    """Say what stands behind the cost of a run, and where the gain comes from."""
    return [
        _conventions(_training(found[0].row.spec)),
        "passive: a what-if whose rails are optical planes without switches, modules and NICs; "
        "nobody sells such planes.",
        *_gain(found, article),
    ]


def _without_nodes(results: Results) -> str:
    trained = results.steps["h100"]
    network = results.row.spec.network
    sent = trained.buckets.tensor_parallel_sent_bytes
    rate = math.fsum(network.port_rates) * network.goodput
    return (
        f"{results.row.name}: the step assumes tensor-parallel groups in {network.node_size}-GPU "
        f"nodes here too. Without nodes each rank would send {format_bytes(sent)} more a step "
        f"over its rails, {format_seconds(sent / rate)} beside "
        f"{format_seconds(trained.step.computing_s)} of computing."
    )


def _gain(found: list[Results], article: Article) -> list[str]:
    """Split the gain of MRC planes over the fat tree into rate and load balancing."""
    by_key = {r.row.key: r for r in found}
    tree, planes = by_key["fat_tree"], by_key["mrc_planes"]
    rates = [math.fsum(r.row.spec.network.port_rates) for r in (planes, tree)]
    buckets_s = [r.steps["h100"].t_rs_s for r in (tree, planes)]
    if min(buckets_s) <= 0:
        return []
    faster = buckets_s[0] / buckets_s[1]
    rate = rates[0] / rates[1]
    tokens = {
        gpu: planes.steps[gpu].step.tokens_per_s / tree.steps[gpu].step.tokens_per_s - 1
        for gpu in GPUS
    }
    gains = " and ".join(f"{_signed(tokens[gpu])} ({GPU_NAMES[gpu]})" for gpu in GPUS)
    return [
        f"Where the gain comes from: a bucket is {faster:.3g} times faster on MRC planes than on "
        f"this fat tree, {rate:.3g} times by rate ({_gbit(rates[0])} against {_gbit(rates[1])} per "
        f"GPU) and {faster / rate:.3g} times by load balancing and algorithm; tokens/s {gains}, "
        f"where the article says {_signed(article.throughput_gain)}. Table (a) shows that a fat "
        "tree with ideal load balancing gets the same as MRC planes at the same rate.",
        _order(found, article),
    ]


def _order(found: list[Results], article: Article) -> str:
    """Compare the article's order of fat tree and dragonfly with what came out."""
    by_key = {r.row.key: r for r in found}
    tree_s, dragonfly_s = (by_key[key].steps["h100"].t_rs_s for key in ("fat_tree", "dragonfly"))
    tree, dragonfly = article.fat_tree.tokens_per_s, article.dragonfly.tokens_per_s
    agrees = (dragonfly_s < tree_s) == (dragonfly > tree)
    return (
        f"Fat tree and dragonfly: a bucket takes {_ms(tree_s)} and {_ms(dragonfly_s)}, which "
        f"{'agrees with' if agrees else 'is not'} the article's order of the two. Hashing decides, "
        "not hops: with ideal load balancing, in table (a), they differ by little."
    )


def notes_b_hardware(found: list[Results], article: Article) -> list[str]:
    """Say in which figures the article contradicts itself or what is possible."""
    clashes = [
        *_clash_of_times(found, article),
        _clash_of_exposure(article),
        _clash_of_tokens(found, article),
        _clash_of_power(found, article),
        _clash_of_flat_hardware(found, article),
        _clash_of_cost(found, article),
    ]
    return [
        "power: switches and modules; price: switches, modules and cables; both again with NICs.",
        *(f"Cannot both be true: {text}" for text in clashes),
    ]


def _clash_of_times(found: list[Results], article: Article) -> list[str]:
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
        f"{_ms(article.fat_tree.all_reduce_s)} on a fat tree and GPUs without nodes. Without, no "
        f"algorithm takes less than {_ms(_bound_without_nodes(tree.row.spec))} at "
        f"{_gbit(tree_rate)} per GPU, so "
        f"nodes are implied though not mentioned; with them {_both(tree)} come out here.",
        f"{_ms(article.mrc.all_reduce_s)} on MRC and the MRC that is deployed. The time takes "
        f"{format_rate(needed)} out of every GPU, "
        f"{_whole(needed / nvlink.rate_bytes_per_s)} of NVLink 5's line rate or {rails:.1f} rails "
        f"of 400 Gbit/s at {_percent(goodput)} goodput. The deployed MRC has "
        f"{_gbit(math.fsum(planes.row.spec.network.port_rates))}: at least "
        f"{_ms(_bound_without_nodes(planes.row.spec))} without nodes, {_both(planes)} with them.",
    ]


def _clash_of_exposure(article: Article) -> str:
    shares = [claims.exposed_share for claims in article.networks]
    times = [claims.all_reduce_s for claims in article.networks]
    utilisations = _list(_whole(claims.utilisation) for claims in article.networks)
    return (
        f"its utilisation and its all-reduce times. {utilisations} leave {_ratio(shares)} as time "
        f"not spent computing, but the all-reduce times are {_ratio(times)}. Only overlap with "
        "computing explains that, and then utilisation says nothing about the all-reduce alone."
    )


def _clash_of_tokens(found: list[Results], article: Article) -> str:
    needed = {}
    for gpu in GPUS:
        training = _training(found[0].row.specs[gpu])
        peak = article.ranks * training.hardware.peak_flops_per_s
        flops = flops_per_token(training, "full")
        needed[gpu] = [c.tokens_per_s * flops / (peak * c.utilisation) for c in article.networks]
    words = "; ".join(
        f"{_percent_range(needed[gpu])} of bf16 peak on {GPU_NAMES[gpu]} (assumed here: "
        f"{_percent(_training(found[0].row.specs[gpu]).hardware.achievable_fraction)})"
        for gpu in GPUS
    )
    return (
        "its tokens/s with its utilisation and H100. While computing, its GPUs would reach "
        f"{words}."
    )


def _clash_of_power(found: list[Results], article: Article) -> str:
    by_key = {r.row.key: r for r in found}
    tree, planes = (_watts(by_key[key]) for key in ("fat_tree", "mrc_planes"))
    said = _more(article.mrc.network_w / article.fat_tree.network_w - 1)
    return (
        f"its three figures of power. {_list(_kw(c.network_w) for c in article.networks)} for fat "
        f"tree, dragonfly and MRC, MRC {said} than the fat tree. As described, the fat tree takes "
        f"{_kw(tree)} and MRC planes {_kw(planes)} for switches and modules, "
        f"{_more(planes / tree - 1)}; at equal rate see table (a). Each of the three figures can "
        "be met by leaving something out, not all three by one rule."
    )


def _clash_of_flat_hardware(found: list[Results], article: Article) -> str:
    results = next(r for r in found if r.row.key == "flat_rails_20")
    usd = results.inventory.usd_with_nics
    planes_w = passive(results)[0].watts_without_nics
    assert usd is not None
    assert planes_w is not None
    return (
        f"{_ms(article.mrc.all_reduce_s)} and {_kw(article.mrc.network_w)}. With switches, the "
        f"{results.row.spec.network.ports} rails that reach the time take {_kw(_watts(results))} "
        f"and, with NICs, {usd / 1e6:.3g} M$ "
        f"({usd / results.row.spec.network.ranks / 1e3:.3g} k$ per GPU). Only passive planes come "
        f"near the power, with {_kw(planes_w)}."
    )


def _clash_of_cost(found: list[Results], article: Article) -> str:
    training = _training(found[0].row.spec)
    tokens = training.run_tokens
    hours = [tokens / c.tokens_per_s / 3600 * article.ranks for c in article.networks]
    rates = [c.run_usd / h for c, h in zip(article.networks, hours, strict=True)]
    tree, mrc = article.fat_tree, article.mrc
    faster = mrc.tokens_per_s / tree.tokens_per_s
    return (
        f"its tokens/s and its cost of a run. {_tokens(training)} at its own tokens/s make "
        f"{_list(f'{h / 1e3:,.0f}' for h in hours)} thousand GPU-hours, so "
        f"{_list(f'{rate:.2f}' for rate in rates)} $ per GPU-hour: the dearest network with the "
        f"cheapest hour. At the fat tree's hourly price MRC comes to "
        f"{rates[0] * hours[-1] / 1e6:.2f} M$, not {mrc.run_usd / 1e6:.2f} M$. Its text says "
        f"tokens/s {_signed(article.throughput_gain)}, its table {_signed(faster - 1)}."
    )


# --- words -------------------------------------------------------------------------------------


def _training(spec: Spec) -> TrainingSpec:
    assert spec.training is not None
    return spec.training


def _bound_without_nodes(spec: Spec) -> float:
    plain = all_reduce_spec(spec, algorithm="direct") if _has_nodes(spec) else spec
    with precision(plain.engine.precision):
        return max(lower_bounds(build(plain)).values())


def _has_nodes(spec: Spec) -> bool:
    return spec.network.node_size > 1


def _watts(results: Results) -> float:
    watts = results.inventory.watts_without_nics
    assert watts is not None
    return watts


def _both(results: Results) -> str:
    return " and ".join(
        f"{_ms(results.all_reduces[gpu].time_s)} ({GPU_NAMES[gpu]})" for gpu in GPUS
    )


def _built(found: list[Results]) -> str:
    """Name every row with its links and what it is built of."""
    words = []
    for results in found:
        network = results.row.spec.network
        links = f"{network.ports} x {_gbit(network.port_rates[0])}"
        words.append(f"{results.row.name} = {links}, {results.inventory.realisation}")
    return "; ".join(words) + "."


def _between(found: list[Results]) -> str:
    words = [
        f"{r.row.spec.the_collective.between} on {r.row.name}"
        for r in found
        if r.row.spec.the_collective.algorithm == "hierarchical"
    ]
    return ", ".join(words)


def _gpus(found: list[Results]) -> str:
    words = []
    for gpu in GPUS:
        each = _training(found[0].row.specs[gpu]).hardware
        assert each.gpu_hour_usd is not None
        words.append(
            f"{GPU_NAMES[gpu]}: {each.peak_flops_per_s / 1e12:,.4g} TFLOP/s in bf16, "
            f"{_percent(each.achievable_fraction)} of it reached while computing, "
            f"{each.gpu_hour_usd:.2f} $ per hour without network and electricity"
        )
    return f"Assumed: {'; '.join(words)}. The rest is as in table (a)."


def _ends(network: Network) -> str:
    latency, ends = network.port_latencies[0], float(network.endpoint_latency)
    one, three = ends + 2 * latency, ends + 4 * latency
    return (
        f"Payload gets {_percent(network.goodput)} of a network link; latency is "
        f"{format_seconds(latency)} per link and {format_seconds(ends)} in the end points, so "
        f"{format_seconds(one)} through one switch and {format_seconds(three)} through three"
    )


def _balancing(found: list[Results]) -> str:
    words = []
    for results in found:
        network = results.row.spec.network
        if not isinstance(network, FatTree | Dragonfly | MrcPlanes):
            continue
        how = network.load_balancing
        if how == "spray":
            how = f"spray over {network.paths} paths"
        if network.channels:
            how += f", {network.channels} channels"
        if how not in ("ideal", "d_mod_k"):
            how += f", seed {network.seed}"
        words.append(f"{results.row.name} {how}")
    return "; ".join(words)


def _shared_links(found: list[Results]) -> str:
    shared = [r.row.name for r in found if any(_is_shared(o) for o in r.runs().values())]
    if not shared:
        return "Every link serves its chunks one by one."
    return (
        f"On {_list(shared)} many chunks of a round share a link without order; each may "
        "be off by that link's work of a round, which the warnings of the archived runs state."
    )


def _is_shared(outcome: Outcome) -> bool:
    return any("share" in tier.rule for tier in outcome.tiers)


def _conventions(training: TrainingSpec) -> str:
    full, counted = (flops_per_token(training, way) for way in ("full", "parameters"))
    return (
        f"MFU counts attention in full ({full / 1e9:.4g} GFLOP a token; by 6 x parameters it is "
        f"{counted / full:.3g} times that). A run has {_tokens(training)} and costs "
        "GPU-hours, network and electricity; the network is written off over "
        f"{training.network_life_hours:,.0f} h, electricity is "
        f"{training.electricity_usd_per_kwh:.2f} $/kWh at PUE {training.pue:g}."
    )


def _tokens(training: TrainingSpec) -> str:
    return f"{training.run_tokens / 1e12:.3g} trillion tokens"


def _gbit(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8 / 1e9:,.4g} Gbit/s"


def _rate(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else format_rate(bytes_per_s)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


def _kw(watts: float) -> str:
    return f"{watts / 1e3:,.3g} kW" if watts < 1e6 else f"{watts / 1e3:,.0f} kW"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g} %"


def _whole(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def _signed(fraction: float) -> str:
    return f"{100 * fraction:+.3g} %"


def _more(fraction: float) -> str:
    if abs(fraction) < 5e-4:
        return "the same"
    return f"{100 * abs(fraction):.3g} % {'more' if fraction > 0 else 'less'}"


def _percent_range(fractions: Sequence[float]) -> str:
    return f"{100 * min(fractions):.0f} to {100 * max(fractions):.0f} %"


def _ratio(values: Sequence[float]) -> str:
    least = min(values)
    return " : ".join(f"{value / least:.3g}" for value in values)


def _list(words) -> str:
    *first, last = list(words)
    return f"{', '.join(first)} and {last}" if first else last
