"""A network in words: what `mrcjax show network` prints."""

import textwrap
from typing import TYPE_CHECKING

from mrcjax.report.table import text_table
from mrcjax.units import format_rate

if TYPE_CHECKING:
    from mrcjax.network.bisection import Bisection
    from mrcjax.network.properties import NetworkProperties


def network_text(network: "NetworkProperties") -> str:
    """Return what a network is, over some twenty lines."""
    bill = network.inventory
    switches = ", ".join(f"{n:,} {tier}" for tier, n in bill.switches_by_tier.items())
    rows = [
        ("ranks", f"{network.ranks:,}"),
        ("nodes", f"{network.nodes:,}" if network.nodes < network.ranks else "none"),
        ("hardware", bill.realisation),
        ("switches", f"{bill.switches:,}" + (f" ({switches})" if switches else "")),
        ("links", f"{network.links:,} (one direction each)"),
        ("a rank sends", format_rate(network.injection_bytes_per_s)),
        *_bisection(network.bisection, network),
        ("longest way", _longest(network)),
        ("power", _priced(bill.watts_with_nics, 1e3, "kW")),
        ("price", _priced(bill.usd_with_nics, 1e6, "M$")),
    ]
    tiers = [
        {"tier": name, "links emulated": f"{count:,}", "capacity of a link": _span(low, high)}
        for name, count, low, high in network.tiers
    ]
    lines = [network.kind, ""]
    for label, text in rows:
        lines += textwrap.wrap(
            text, 88, initial_indent=f"  {label:<18}", subsequent_indent=" " * 20
        )
    notes = [textwrap.fill(f"note: {note}", 110, subsequent_indent=" " * 6) for note in bill.notes]
    return "\n".join([*lines, "", text_table(tiers), *notes])


def _bisection(found: "Bisection | None", network: "NetworkProperties") -> list[tuple[str, str]]:
    if found is None:
        return [("bisection", f"not computed: no formula for a {network.kind}")]
    low, high = format_rate(found.at_least), format_rate(found.at_most)
    full = network.ranks // 2 * network.injection_bytes_per_s
    share = f", {found.at_most / full:.0%} of what half the ranks send" if full else ""
    if found.is_exact:
        text = f"{high} one way{share}"
    elif found.at_least > 0:
        text = f"between {low} and {high} one way, at most{share[1:]}"
    else:
        text = f"at most {high} one way{share}"
    return [("bisection", text), ("", f"by {found.how}")]


def _longest(network: "NetworkProperties") -> str:
    if network.most_switches is not None:
        return f"{network.most_switches} switch" + "es" * (network.most_switches != 1)
    if network.most_links is None:
        return "not known for this kind"
    mean = network.mean_links
    return f"{network.most_links} links" + ("" if mean is None else f", {mean:.4g} on average")


def _priced(value: float | None, unit: float, word: str) -> str:
    return "not priced" if value is None else f"{value / unit:,.4g} {word} with NICs"


def _span(low: float, high: float) -> str:
    return format_rate(high) if low == high else f"{format_rate(low)} to {format_rate(high)}"
