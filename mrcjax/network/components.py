"""What can fail: links, ports, switches, planes, nodes, ranks, by name, and the cables of each.

A trunk stands for many cables, so a component has a number of cables of a link, not just links.
"""

import fnmatch

import numpy as np

from mrcjax.network.clos import ClosFabric
from mrcjax.network.component import Cables, Components
from mrcjax.network.dragonfly import DragonflyFabric
from mrcjax.network.links import Wiring
from mrcjax.network.switches import clos_switches, dragonfly_routers


def components(wiring: Wiring) -> dict[str, Components]:
    """Kind -> its components, for every kind this network has.

    "link" is one direction of a cable, "cable" and "port" are both; links inside scale-up nodes
    belong to ranks and nodes only. "switch" are all switches together.
    """
    network = wiring.network
    found: dict[str, Components] = {}
    if not all(tier.name.startswith("node") for tier in network.tiers):
        nics = Components(network.ranks, lambda i: f"nic {i}", lambda i: _nic(wiring, i))
        found |= {"link": _links(wiring), "nic": nics}
    found["rank"] = Components(network.ranks, lambda i: f"rank {i}", lambda i: _ranks(wiring, i, 1))
    if network.node_size > 1:
        size = network.node_size
        nodes = -(-network.ranks // size)
        found["node"] = Components(
            nodes, lambda i: f"node {i}", lambda i: _ranks(wiring, i * size, size)
        )
    if network.by_table or network.ports == 0:
        return found
    found["port"] = _ports(wiring)
    cables = _cables(wiring, found["port"])
    found |= {} if cables is None else {"cable": cables}
    fabric = network.fabric
    switches: dict[str, Components] = {}
    if isinstance(fabric, ClosFabric):
        switches = clos_switches(wiring, fabric)
        found |= {"plane": _planes(wiring, fabric.sizes.planes, "plane")}
    elif isinstance(fabric, DragonflyFabric):
        switches = {"router": dragonfly_routers(wiring, fabric)}
    elif network.relay is None and len(network.tiers) <= 4:
        found["plane"] = _planes(wiring, network.ports, _port_word(wiring))
        switches = {"crossbar": found["plane"]}
    return found | switches | ({"switch": _together(list(switches.values()))} if switches else {})


def find(wiring: Wiring, pattern: str) -> Cables:
    """Cables that a pattern means; empty where it means nothing.

    "component / glob" are the component's links whose names the glob matches; the name of a
    component are all its links; anything else is a glob on the names of links, or a cable of a
    trunk: "leaf 3 up cable 17" for the trunk "leaf 3 up trunk".
    """
    component, slash, inner = pattern.partition(" / ")
    if slash:
        links, cables = _named_component(wiring, component.strip())
        names = [wiring.link_name(int(i)) for i in links]
        kept = np.asarray([fnmatch.fnmatchcase(name, inner.strip()) for name in names], bool)
        return links[kept], cables[kept]
    links, cables = _named_component(wiring, pattern)
    if len(links):
        return links, cables
    names = [wiring.link_name(i) for i in range(wiring.network.num_links)]
    hit = np.asarray([i for i, n in enumerate(names) if fnmatch.fnmatchcase(n, pattern)], int)
    if len(hit):
        return hit, wiring.cables[hit]
    return _trunk_cables(wiring, names, pattern)


def _named_component(wiring: Wiring, pattern: str) -> Cables:
    """Cables of the components called so: pairs of a word and an index (glob).

    A name without its plane means that component of every plane.
    """
    words = pattern.split()
    if words and len(words) % 2 == 0:
        for kind, those in components(wiring).items():
            if kind in ("link", "cable", "switch") or not those.count:
                continue
            theirs = those.name(0).split()[::2]
            elsewhere = theirs[1:] if theirs[0] == "plane" else None
            if words[::2] in (theirs, elsewhere):
                full = pattern if words[::2] == theirs else f"* {pattern}"
                found = [those.cables(int(i)) for i in those.matching(full)]
                if found:
                    return _joined(wiring, found)
    return np.zeros(0, int), np.zeros(0, int)


def _trunk_cables(wiring: Wiring, names: list[str], pattern: str) -> Cables:
    trunk, word, index = pattern.rpartition(" cable ")
    links = [i for i, n in enumerate(names) if word and fnmatch.fnmatchcase(n, f"{trunk} trunk")]
    counts = [len(fnmatch.filter(map(str, range(wiring.cables[i])), index)) for i in links]
    found = np.asarray(links, int), np.asarray(counts, int)
    return found[0][found[1] > 0], found[1][found[1] > 0]


def _joined(wiring: Wiring, parts: list[Cables]) -> Cables:
    """All cables of several components, none counted twice over."""
    links, index = np.unique(np.concatenate([p[0] for p in parts]), return_inverse=True)
    cables = np.bincount(index, np.concatenate([p[1] for p in parts])).astype(int)
    return links, np.minimum(cables, wiring.cables[links])


def _whole(wiring: Wiring, links: np.ndarray) -> Cables:
    return links, wiring.cables[links]


def _together(kinds: list[Components]) -> Components:
    """Components of several kinds in one list."""
    ends = np.cumsum([each.count for each in kinds])

    def at(i: int) -> tuple[Components, int]:
        kind = int(np.searchsorted(ends, i, side="right"))
        return kinds[kind], i - int(ends[kind] - kinds[kind].count)

    def name(i: int) -> str:
        those, inner = at(i)
        return those.name(inner)

    def cables(i: int) -> Cables:
        those, inner = at(i)
        return those.cables(inner)

    return Components(int(ends[-1]), name, cables)


def _links(wiring: Wiring) -> Components:
    """Every cable, one direction, outside nodes."""
    tiers = [t for t in wiring.network.tiers if not t.name.startswith("node")]
    kept = np.concatenate([np.arange(t.first, t.first + t.count) for t in tiers])
    link = np.repeat(kept, wiring.cables[kept])
    cable = np.arange(len(link)) - np.repeat(
        np.cumsum(wiring.cables[kept]) - wiring.cables[kept], wiring.cables[kept]
    )

    def name(i: int) -> str:
        whole = wiring.link_name(int(link[i]))
        single = wiring.cables[link[i]] == 1
        return whole if single else f"{whole.removesuffix(' trunk')} cable {cable[i]}"

    return Components(
        len(link),
        name,
        lambda i: (link[i : i + 1], np.ones(1, int)),
        lambda several: (link[several], np.ones(len(several), int)),
    )


def _port_word(wiring: Wiring) -> str:
    return wiring.link_name(wiring.network.tier("egress").first).split()[3]


def _ports(wiring: Wiring) -> Components:
    """Port i // ranks of rank i mod ranks: its link out and its link in."""
    network = wiring.network
    out, ranks, word = network.tier("egress").first, network.ranks, _port_word(wiring)
    count = network.tier("egress").count
    if network.relay is not None:
        back = _reverse(wiring.sender[:count], wiring.receiver[:count], ranks)
    else:
        back = network.tier("ingress").first + np.arange(count)
    return Components(
        count,
        lambda i: f"rank {i % ranks} {word} {i // ranks}",
        lambda i: _whole(wiring, np.asarray([out + i, back[i]])),
        lambda several: _whole(wiring, np.stack([out + several, back[several]], axis=1).ravel()),
    )


def _reverse(sender: np.ndarray, receiver: np.ndarray, ranks: int) -> np.ndarray:
    """Index of the link that goes the other way between the same two ranks."""
    order = np.argsort(sender * ranks + receiver)
    return order[np.searchsorted((sender * ranks + receiver)[order], receiver * ranks + sender)]


def _nic(wiring: Wiring, rank: int) -> Cables:
    links, _ = _ranks(wiring, rank, 1)
    inside = [t for t in wiring.network.tiers if t.name.startswith("node")]
    outside = np.ones(len(links), bool)
    for tier in inside:
        outside &= (links < tier.first) | (links >= tier.first + tier.count)
    return _whole(wiring, links[outside])


def _ranks(wiring: Wiring, first: int, count: int) -> Cables:
    """All links with one of these ranks at an end."""
    hit = (wiring.sender >= first) & (wiring.sender < first + count)
    hit |= (wiring.receiver >= first) & (wiring.receiver < first + count)
    return _whole(wiring, np.flatnonzero(hit))


def _cables(wiring: Wiring, ports: Components) -> Components | None:
    """Every cable with both its directions; None where a tier's links are not known as pairs."""
    network = wiring.network
    inner = [t for t in network.tiers if t.sharing != "port" and t.name != "egress"]
    ups = [t for t in inner if t.name.endswith(" up")]
    if 2 * len(ups) != len(inner):
        return None
    if network.relay is not None:
        tier = network.tier("egress")
        ends = wiring.sender[: tier.count] < wiring.receiver[: tier.count]
        half = np.flatnonzero(ends)
        return Components(
            len(half),
            lambda i: ports.name(int(half[i])),
            lambda i: ports.cables(int(half[i])),
        )

    def pair(up) -> Components:
        down = network.tier(up.name.removesuffix(" up") + " down")
        counts = wiring.cables[up.first : up.first + up.count]
        link, cable = np.repeat(np.arange(up.count), counts), np.zeros(int(counts.sum()), int)
        cable = np.arange(len(link)) - np.repeat(np.cumsum(counts) - counts, counts)

        def name(i: int) -> str:
            words = wiring.link_name(up.first + int(link[i])).split(" up ")[0]
            tail = wiring.link_name(up.first + int(link[i])).rsplit(" ", 1)[1]
            return f"{words} cable {cable[i] if tail == 'trunk' else tail}"

        def cables(i: int) -> Cables:
            return np.asarray([up.first, down.first]) + link[i], np.ones(2, int)

        return Components(len(link), name, cables)

    return _together([ports, *(pair(up) for up in ups)])


def _planes(wiring: Wiring, planes: int, word: str) -> Components:
    """Parallel fabrics: every network tier is laid out plane by plane."""
    tiers = [t for t in wiring.network.tiers if not t.name.startswith("node")]

    def cables(i: int) -> Cables:
        parts = [
            np.arange(t.first + i * t.count // planes, t.first + (i + 1) * t.count // planes)
            for t in tiers
        ]
        return _whole(wiring, np.concatenate(parts))

    return Components(planes, lambda i: f"{word} {i}", cables)
