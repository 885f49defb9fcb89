"""What a graph is built of: it is counted, since links alone do not say what hardware they are."""

from mrcjax.network.inventory.bill import Inventory
from mrcjax.spec import Graph, rank_of


def bill(spec: Graph) -> Inventory:
    """Count the cables and switches of a graph; a directed link counts as a cable."""
    ends = [link.ends for link in spec.rows()]
    switches = {name for pair in ends for name in pair if rank_of(name) < 0}
    at_ranks = sum(any(rank_of(name) >= 0 for name in pair) for pair in ends)
    return Inventory(
        kind=spec.kind,
        ranks=spec.ranks,
        realisation="the links of the list",
        host_cables=at_ranks,
        nic_link_ends=sum(rank_of(name) >= 0 for pair in ends for name in pair),
        switches_by_tier={"switch": len(switches)} if switches else {},
        switch_cables_optical=len(ends) - at_ranks,
        switch_link_ends=sum(rank_of(name) < 0 for pair in ends for name in pair),
        notes=(
            "the cables of a graph are counted, all as optical, and not priced: a list of links "
            "does not say what they are",
        ),
    )
