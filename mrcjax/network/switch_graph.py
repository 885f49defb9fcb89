"""Any graph of switches with ranks on them: links, next hops by table, shortest paths."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.network.cuts import Cut, splits_a_node
from mrcjax.network.links import TierBuilder, Wiring
from mrcjax.network.next_hops import NextHops, next_hops
from mrcjax.network.ports import positions, switched
from mrcjax.network.route import choose, mix, pair_hash, split, strata
from mrcjax.network.switch_sizes import SwitchSizes
from mrcjax.pytree import pytree, static
from mrcjax.spec import HyperX, Jellyfish, SlimFly, SpecError

IDEAL_PATHS = 16  # at most, over which `ideal` spreads a send
MOST_SWITCHES = 4096  # the tables hold a number for every pair of switches


@pytree
class SwitchGraph:
    """Shortest routes over a graph of switches.

    At each switch a packet may take any next hop that lies on a shortest path. `ecmp` hashes at
    every hop; `spray` does so for each of its paths; `ideal` deals them evenly: of a send's
    paths each next hop gets its equal part, to within one path (exactly where `paths` is a
    multiple of the number of shortest paths, see `even_paths`). Parallel cables are one trunk
    there, and next hops like any other elsewhere.
    """

    switch_of_rank: jax.Array  # (ranks,) int32
    first_choice: jax.Array  # (switches^2 + 1,) int32, where the next hops of a pair start
    choices: jax.Array  # (next hops, padded) int32, link from its tier's first on
    far_end: jax.Array  # (links of the tier,) int32, switch that a link leads to
    seed: jax.Array  # () uint32
    num_switches: int = static()
    hops: int = static()  # most links between switches that hold ranks
    load_balancing: str = static()
    paths: int = static()
    first: int = static()  # first link between switches
    no_link: int = static()

    @property
    def together(self) -> tuple[tuple[int, ...], ...]:
        """All inner hops share the links between switches; see `Fabric`."""
        return (tuple(range(self.hops)),) if self.hops > 1 else ()

    @property
    def deals_paths(self) -> bool:
        """Whether a send takes all of its paths at once, none of them by hash."""
        return self.load_balancing == "ideal"

    def inner(
        self, src: jax.Array, dst: jax.Array, port: jax.Array, lane: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Links from switch to switch; see `Fabric.inner`."""
        del port
        here, there = self.switch_of_rank[src], self.switch_of_rank[dst]
        pair = pair_hash(self.seed, src, dst, lane)
        way = jnp.arange(self.paths, dtype=jnp.uint32).reshape(-1, *([1] * src.ndim))
        if self.load_balancing == "ideal":
            place = strata(pair, way, self.paths)
        elif self.load_balancing == "spray":
            place = pair_hash(pair, way)
        else:
            place = pair
        links = []
        for hop in range(self.hops):
            row = here * self.num_switches + there
            start = self.first_choice[row]
            count = self.first_choice[row + 1] - start
            if self.load_balancing == "ideal":
                nth, place = split(place, count)
            else:
                nth = choose(pair_hash(place, hop), count)
            link = self.choices[start + nth]
            arrived = here == there
            links.append(jnp.where(arrived, self.no_link, self.first + link))
            here = jnp.where(arrived, here, self.far_end[link])
        return tuple(links)

    def crosses(self, src: jax.Array, dst: jax.Array, port: jax.Array) -> jax.Array:
        """Whether the two ranks are on different switches; see `Fabric.crosses`."""
        del port
        return self.switch_of_rank[src] != self.switch_of_rank[dst]


def build_graph(
    spec: SlimFly | HyperX | Jellyfish,
    sizes: SwitchSizes,
    cables: Callable[[], np.ndarray],
    *,
    parts: Callable[[], dict[str, np.ndarray]] = dict,
    in_order: np.ndarray | None = None,
) -> Wiring:
    """Wire ranks to a graph of switches.

    cables: gives (switches, switches) int, parallel cables between two. parts: further natural
    partitions, name -> part of every switch. in_order: see `next_hops`.
    """
    if sizes.num_switches > MOST_SWITCHES:
        raise SpecError(
            f"makes {sizes.num_switches:,} switches; routes are tables over pairs of switches, and "
            f"{MOST_SWITCHES:,} switches are the most",
            where="network",
            remedy="use fewer switches with more hosts_per_switch, or a kind routed by arithmetic "
            "(dragonfly, fat_tree, or flat_rails with a list as reach)",
        )
    joined = cables()
    switch_of_rank = positions(spec, 1)[0] // sizes.hosts
    ideal = spec.load_balancing == "ideal"
    hops = next_hops(joined, switch_of_rank, trunks=ideal, in_order=in_order)

    def lay_out(builder: TierBuilder) -> tuple[SwitchGraph, int]:
        first = _add_links(builder, spec, hops) if len(hops.sender) else 0
        paths = {"ideal": hops.even_paths(IDEAL_PATHS), "spray": spec.paths}
        fabric = SwitchGraph(
            switch_of_rank=jnp.asarray(switch_of_rank, jnp.int32),
            first_choice=jnp.asarray(hops.first_choice, jnp.int32),
            choices=jnp.asarray(_padded(hops.choices), jnp.int32),
            far_end=jnp.asarray(hops.receiver, jnp.int32),
            seed=mix(spec.seed),
            num_switches=sizes.num_switches,
            hops=hops.longest,
            load_balancing=spec.load_balancing,
            paths=paths.get(spec.load_balancing, 1),
            first=first,
            no_link=-1,  # known once all tiers are there; set by the caller
        )
        return fabric, sizes.host_cables + sizes.switch_cables

    def cuts(wiring: Wiring) -> Sequence[Cut]:
        by_name = {"switches": np.arange(sizes.num_switches), **parts()}
        found = (_cut(wiring, hops, name, part) for name, part in by_name.items())
        return [cut for cut in found if cut is not None]

    return switched(spec, "nic", lay_out, cuts)


def _add_links(builder: TierBuilder, spec: SlimFly | HyperX | Jellyfish, hops: NextHops) -> int:
    sharing = {"ideal": "trunk", "ecmp": "cable", "spray": "spray"}[spec.load_balancing]
    several = hops.nth.any()

    def name(i: int) -> str:
        words = f"switch {hops.sender[i]} to switch {hops.receiver[i]}"
        if sharing == "trunk":
            return f"{words} trunk"
        return f"{words} cable {hops.nth[i]}" if several else words

    rate = spec.port_rates[0] * spec.goodput
    capacity, latency_s = hops.cables * rate, float(spec.latency)
    return builder.add("switch", len(hops.sender), sharing, capacity, latency_s, name)


def _padded(choices: np.ndarray) -> np.ndarray:
    """Up to a power of two, so that graphs of equal size share compiled code."""
    size = 1 << max(len(choices) - 1, 0).bit_length()
    return np.concatenate([choices, np.zeros(size - len(choices), choices.dtype)])


def _cut(wiring: Wiring, hops: NextHops, name: str, part_of_switch: np.ndarray) -> Cut | None:
    """The partition by parts of switches; None where it parts a node or nothing."""
    network, fabric = wiring.network, wiring.network.fabric
    assert isinstance(fabric, SwitchGraph)
    part = part_of_switch[np.asarray(fabric.switch_of_rank)]
    parts_nodes = splits_a_node(part, network.node_size)
    if not len(hops.sender) or parts_nodes or (part == part[0]).all():
        return None
    # switches without ranks lie outside all parts
    ends = part_of_switch[hops.sender], part_of_switch[hops.receiver]
    across = ends[0] != ends[1]
    links = slice(fabric.first, fabric.first + len(across))
    cut = Cut(name, part, np.full(network.num_links, -1), np.full(network.num_links, -1))
    for array, end in zip((cut.out, cut.into), ends, strict=True):
        array[links] = np.where(across & (end <= part.max()), end, -1)
    return cut
