"""Say in sentences what the tables assume: links, latencies, load balancing, GPUs, costs."""

from mrcjax.comparison.emulation import Results
from mrcjax.comparison.rows import GPU_NAMES, GPUS
from mrcjax.comparison.wording import gbit, listed, percent, trillions
from mrcjax.outcome import Outcome
from mrcjax.spec import Dragonfly, FatTree, MrcPlanes, Network, TrainingSpec
from mrcjax.training import flops_per_token
from mrcjax.units import format_seconds


def built(found: list[Results]) -> str:
    """Name every row with its links and what it is built of."""
    words = []
    for results in found:
        network = results.row.spec.network
        links = f"{network.ports} x {gbit(network.port_rates[0])}"
        words.append(f"{results.row.name} = {links}, {results.inventory.realisation}")
    return "; ".join(words) + "."


def between(found: list[Results]) -> str:
    """Say how each row reduces between nodes."""
    words = [
        f"{r.row.spec.the_collective.between} on {r.row.name}"
        for r in found
        if r.row.spec.the_collective.algorithm == "hierarchical"
    ]
    return ", ".join(words)


def goodput_and_latency(network: Network) -> str:
    """Say what a link carries of payload, and how long it takes."""
    latency, ends = network.port_latencies[0], float(network.endpoint_latency)
    one, three = ends + 2 * latency, ends + 4 * latency
    return (
        f"Payload gets {percent(network.goodput)} of a network link; latency is "
        f"{format_seconds(latency)} per link and {format_seconds(ends)} in the end points, so "
        f"{format_seconds(one)} through one switch and {format_seconds(three)} through three"
    )


def balancing(found: list[Results]) -> str:
    """Say how each row balances the load."""
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


def shared_links(found: list[Results]) -> str:
    """Say where links are shared without order, and what that costs."""
    shared = [r.row.name for r in found if any(_is_shared(o) for o in r.runs().values())]
    if not shared:
        return "Every link serves its chunks one by one."
    return (
        f"On {listed(shared)} many chunks of a round share a link without order; each may "
        "be off by that link's work of a round, which the warnings of the archived runs state."
    )


def _is_shared(outcome: Outcome) -> bool:
    return any("share" in tier.rule for tier in outcome.tiers)


def gpus(found: list[Results]) -> str:
    """Say what is assumed of each GPU."""
    words = []
    for gpu in GPUS:
        each = found[0].row.training(gpu).hardware
        assert each.gpu_hour_usd is not None
        words.append(
            f"{GPU_NAMES[gpu]}: {each.peak_flops_per_s / 1e12:,.4g} TFLOP/s in bf16, "
            f"{percent(each.achievable_fraction)} of it reached while computing, "
            f"{each.gpu_hour_usd:.2f} $ per hour without network and electricity"
        )
    return f"Assumed: {'; '.join(words)}. The rest is as in table (a)."


def conventions(training: TrainingSpec) -> str:
    """Say how MFU and the cost of a run are counted."""
    full, counted = (flops_per_token(training, way) for way in ("full", "parameters"))
    return (
        f"MFU counts attention in full ({full / 1e9:.4g} GFLOP a token; by 6 x parameters it is "
        f"{counted / full:.3g} times that). A run has {trillions(training.run_tokens)} tokens and "
        "costs GPU-hours, network and electricity; the network is written off over "
        f"{training.network_life_hours:,.0f} h, electricity is "
        f"{training.electricity_usd_per_kwh:.2f} $/kWh at PUE {training.pue:g}."
    )
