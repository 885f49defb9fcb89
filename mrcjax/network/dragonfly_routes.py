"""Routes of a dragonfly (Kim, Dally, Scott, Abts, ISCA 2008): minimal, and by a third group."""

import jax
import jax.numpy as jnp

from mrcjax.network.detour import even_detours, minimal_part, random_detours
from mrcjax.network.route import choose, pair_hash
from mrcjax.network.sizes import DragonflySizes
from mrcjax.pytree import pytree, static

IDEAL_PATHS = 16  # at most, over which `ideal` spreads detours


@pytree
class DragonflyFabric:
    """Local link to a gateway, global cable, local link to the target's router.

    With `ideal` balancing the local links of a router act as one trunk (out and in), and the
    parallel cables of a pair of groups as another; else one cable of the pair is taken by hash.

    Routing "valiant" sends all that leaves a group by way of a third one, taken by hash; `ideal`
    deals `paths` of a send evenly to the third groups. There the local links of the third group
    are one more trunk. Routing "ugal" keeps on the minimal way what `minimal_part` says, of all
    sends that one call of `inner` routes: a round of a phase, or the whole phase where the engine
    serves links in order of arrival. What stays in its group is always minimal.
    """

    router_of_rank: jax.Array  # (ranks,) int32
    port_of_cable: jax.Array  # (groups - 1, most cables) int32, global port of cable t to offset o
    num_cables: jax.Array  # (groups - 1,) int32, parallel cables to offset o
    seed: jax.Array  # () uint32
    sizes: DragonflySizes = static()
    load_balancing: str = static()
    routing: str = static()
    paths: int = static()
    first: tuple[int, ...] = static()  # first link of: local (out), global, local in, through
    no_link: int = static()

    @property
    def together(self) -> tuple[tuple[int, ...], ...]:
        """Local hops share links, and global hops do; see `Fabric`."""
        return ((0, 2), (1,)) if self.routing == "minimal" else ((0, 2, 4), (1, 3))

    def inner(
        self, src: jax.Array, dst: jax.Array, port: jax.Array, lane: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Local, global, local, and on a detour global and local once more; see `Fabric.inner`."""
        del port
        if self.load_balancing == "ideal":
            return self._trunks(src, dst, lane)
        if self.load_balancing == "spray":
            way = jnp.arange(self.paths).reshape(-1, *([1] * src.ndim))
        else:
            way = jnp.zeros((), jnp.int32)
        return self._cables(src, dst, pair_hash(self.seed, src, dst, lane, way))

    def crosses(self, src: jax.Array, dst: jax.Array, port: jax.Array) -> jax.Array:
        """Whether the two ranks are on different routers; see `Fabric.crosses`."""
        del port
        return self.router_of_rank[src] != self.router_of_rank[dst]

    def _trunks(self, src: jax.Array, dst: jax.Array, lane: jax.Array) -> tuple[jax.Array, ...]:
        s = self.sizes
        from_router, to_router = self.router_of_rank[src], self.router_of_rank[dst]
        from_group, to_group = from_router // s.routers, to_router // s.routers
        local = from_group == to_group

        def across(group: jax.Array, other: jax.Array) -> jax.Array:
            return self.first[1] + group * (s.groups - 1) + (other - group) % s.groups - 1

        out = jnp.where(from_router != to_router, self.first[0] + from_router, self.no_link)
        into = jnp.where(local, self.no_link, self.first[2] + to_router)
        if self.routing == "minimal":
            return out, jnp.where(local, self.no_link, across(from_group, to_group)), into
        part = self._minimal_part(from_group, to_group)
        pair = pair_hash(self.seed, src, dst, lane)
        takes, nth = even_detours(pair, part, self.paths, s.groups - 2)
        third = self._third(from_group, to_group, nth)
        detour = takes & ~local
        first_leg = across(from_group, jnp.where(detour, third, to_group))
        middle = self.first[3] + third if s.routers > 1 else self.no_link
        return (
            out,
            jnp.where(local, self.no_link, first_leg),
            jnp.where(detour, middle, self.no_link),
            jnp.where(detour, across(third, to_group), self.no_link),
            into,
        )

    def _cables(self, src: jax.Array, dst: jax.Array, pair: jax.Array) -> tuple[jax.Array, ...]:
        s = self.sizes
        from_router, to_router = self.router_of_rank[src], self.router_of_rank[dst]
        from_group, to_group = from_router // s.routers, to_router // s.routers
        local = from_group == to_group
        if self.routing == "minimal":
            exit_router, across, entry = self._cable(from_group, to_group, pair)
            gateway = jnp.where(local, to_router, exit_router)
            last = jnp.where(local, self.no_link, self._local(entry, to_router))
            across = jnp.where(local, self.no_link, across)
            return self._local(from_router, gateway), across, last
        part = self._minimal_part(from_group, to_group)
        takes, nth = random_detours(pair, part, s.groups - 2)
        third = self._third(from_group, to_group, nth)
        detour = takes & ~local
        exit_router, across, entry = self._cable(
            from_group, jnp.where(detour, third, to_group), pair
        )
        second_exit, second, second_entry = self._cable(third, to_group, pair_hash(pair, 1))
        gateway = jnp.where(local, to_router, exit_router)
        last = self._local(jnp.where(detour, second_entry, entry), to_router)
        return (
            self._local(from_router, gateway),
            jnp.where(local, self.no_link, across),
            jnp.where(detour, self._local(entry, second_exit), self.no_link),
            jnp.where(detour, second, self.no_link),
            jnp.where(local, self.no_link, last),
        )

    def _minimal_part(self, from_group: jax.Array, to_group: jax.Array) -> jax.Array:
        if self.routing == "valiant":
            return jnp.zeros(from_group.shape, jnp.float32)
        return minimal_part(from_group, to_group, self.num_cables, self.sizes.groups)

    def _third(self, group: jax.Array, other: jax.Array, nth: jax.Array) -> jax.Array:
        """Number `nth` of the groups that are neither of two."""
        groups = self.sizes.groups
        offset = 1 + nth
        offset = offset + (offset >= (other - group) % groups)
        return (group + offset) % groups

    def _cable(
        self, group: jax.Array, other: jax.Array, pair: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """A cable between two groups by hash: router it leaves from, link, router it leads to."""
        s = self.sizes
        offset = (other - group) % s.groups
        row = jnp.maximum(offset - 1, 0)
        cable = choose(pair, jnp.maximum(self.num_cables[row], 1))
        exit_port = self.port_of_cable[row, cable]
        entry_port = self.port_of_cable[jnp.maximum(s.groups - offset - 1, 0), cable]
        return (
            group * s.routers + exit_port // s.global_ports,
            self.first[1] + group * s.routers * s.global_ports + exit_port,
            other * s.routers + entry_port // s.global_ports,
        )

    def _local(self, router: jax.Array, other: jax.Array) -> jax.Array:
        """The link between two routers of one group; none from a router to itself."""
        a = self.sizes.routers
        mine, theirs = router % a, other % a
        link = self.first[0] + router * (a - 1) + theirs - (theirs > mine)
        return jnp.where(router == other, self.no_link, link)
