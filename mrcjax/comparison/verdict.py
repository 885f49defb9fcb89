"""Say in sentences what came out, and what stands behind each table.

Every number in them is computed from the results, the specs or the article's figures.
"""

import math
from collections.abc import Sequence

from mrcjax.comparison.article import Article
from mrcjax.comparison.assumed import (
    balancing,
    between,
    built,
    conventions,
    goodput_and_latency,
    gpus,
    shared_links,
)
from mrcjax.comparison.clashes import clashes
from mrcjax.comparison.emulation import ALGORITHMS, Results
from mrcjax.comparison.rows import GPU_NAMES, GPUS
from mrcjax.comparison.wording import byte_rate, gbit, more_or_less, ms, percent, signed
from mrcjax.units import format_bytes, format_seconds

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
        else f"near-equality was expected, yet the networks differ by {percent(largest)}"
    )
    return (
        f"(a) Equal injection bandwidth, {gbit(rate)} per GPU: {verdict}. Between the "
        f"{len(found)} networks a direct all-reduce of 1 GB differs by "
        f"{percent(times['direct'])}, a ring by {percent(times['ring'])}, tokens/s by "
        f"{percent(tokens)}."
    )


def notes_a_all_reduce(found: list[Results]) -> list[str]:
    """Say what stands behind the all-reduce times of table a."""
    network = found[0].row.spec.network
    return [
        f"{network.ranks:,} H100. {built(found)}",
        f"{goodput_and_latency(network)}. Load balancing: {balancing(found)}.",
        "All ranks are alike here, NVLink is not used; table (b) has nodes. The lower bound holds "
        "for any algorithm on that network.",
        shared_links(found),
    ]


def notes_a_step(found: list[Results]) -> list[str]:
    """Say what stands behind the training step of table a."""
    results = found[0]
    training = results.row.training()
    sent = results.steps["direct"].buckets
    sizes = ", ".join(f"{b.collective} of {format_bytes(b.size_bytes)}" for b in sent.distinct)
    return [
        f"LLaMA-70B, {training.global_batch_tokens:,} tokens a step, tensor-parallel "
        f"{training.tensor_parallel} inside the nodes of every row, flat rails too (its traffic is "
        f"part of the {percent(training.hardware.achievable_fraction)} of peak reached while "
        f"computing). Buckets: {sizes}, {sent.num_buckets} of each a step, "
        f"over {sent.group_size} ranks {{i, i + {sent.group_stride}, ...}}, {sent.num_groups} "
        'groups at once. "bucket": one such reduce-scatter, beside its lower bound; "exposed": '
        'what computing does not hide of all; "utilised": computing over step time.',
        conventions(training),
    ]


def notes_a_hardware(found: list[Results]) -> list[str]:
    """Say what stands behind power and price of table a."""
    by_key = {r.row.key: r for r in found}
    tree, planes = by_key["fat_tree"], by_key["mrc_planes"]
    more = more_or_less(planes.network_w / tree.network_w - 1)
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
        f"{byte_rate(found[0].row.specs[gpu].network.node_bytes_per_s)} ({GPU_NAMES[gpu]})"
        for gpu in GPUS
    )
    notes = [
        f"Assumed: {built(found)} The last three are readings of the article's one MRC.",
        f"Assumed: {network.node_size}-GPU NVLink nodes on all but flat rails, ranks placed node "
        f"by node; NVLink at {rates} per GPU, as collectives reach it. All-reduce in the node, "
        f"between nodes ({between(found)}), in the node, in turn; on flat rails direct over all "
        "ranks.",
        f"{goodput_and_latency(network)}. Load balancing: {balancing(found)}.",
        shared_links(found),
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
    return [gpus(found), *flat]


def notes_b_run(found: list[Results], article: Article) -> list[str]:
    """Say what stands behind the cost of a run, and where the gain comes from."""
    return [
        conventions(found[0].row.training()),
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
    gains = " and ".join(f"{signed(tokens[gpu])} ({GPU_NAMES[gpu]})" for gpu in GPUS)
    return [
        f"Where the gain comes from: a bucket is {faster:.3g} times faster on MRC planes than on "
        f"this fat tree, {rate:.3g} times by rate ({gbit(rates[0])} against {gbit(rates[1])} per "
        f"GPU) and {faster / rate:.3g} times by load balancing and algorithm; tokens/s {gains}, "
        f"where the article says {signed(article.throughput_gain)}. Table (a) shows that a fat "
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
        f"Fat tree and dragonfly: a bucket takes {ms(tree_s)} and {ms(dragonfly_s)}, which "
        f"{'agrees with' if agrees else 'is not'} the article's order of the two. Hashing decides, "
        "not hops: with ideal load balancing, in table (a), they differ by little."
    )


def notes_b_hardware(found: list[Results], article: Article) -> list[str]:
    """Say in which figures the article contradicts itself or what is possible."""
    return [
        "power: switches and modules; price: switches, modules and cables; both again with NICs.",
        *(f"Cannot both be true: {text}" for text in clashes(found, article)),
    ]
