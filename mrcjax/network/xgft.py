"""Extended generalised fat trees: routes of the D-mod-k rule as arrays, in SimGrid's notation.

Öhring et al., On generalized fat trees, IPPS 1995; Zahavi, D-Mod-K routing providing non-blocking
traffic for shift permutations on real life fat trees, 2010.
"""

from dataclasses import dataclass

import numpy as np

from mrcjax.units import SpecError


@dataclass(frozen=True)
class FatTreeShape:
    """An XGFT of L levels: children and parents of a switch of level 1..L, cables are single.

    A switch of level l is a label of L digits: digits 1..l count the parents taken on the way up
    to it, digits l+1..L the subtrees that it lies in. Hosts are level 0.
    """

    children: tuple[int, ...]
    parents: tuple[int, ...]

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return int(np.prod(self.children))

    def switches(self, level: int) -> int:
        """Nodes of a level; of level 0, the hosts."""
        up, down = self.parents[:level], self.children[level:]
        return int(np.prod(up, dtype=np.int64) * np.prod(down, dtype=np.int64))

    def cables(self, level: int) -> int:
        """Cables between `level` - 1 and `level`."""
        return self.switches(level - 1) * self.parents[level - 1]

    @property
    def num_links(self) -> int:
        """Two links per cable."""
        return 2 * sum(self.cables(level) for level in range(1, len(self.children) + 1))


def fat_tree_shape(text: str) -> FatTreeShape:
    """Read "L;m1,..,mL;w1,..,wL;p1,..,pL"; raises SpecError unless every p is 1."""
    remedy = 'write for example "2;4,4;1,4;1,1"'
    try:
        levels, *lists = [[int(n) for n in part.split(",")] for part in text.split(";")]
        children, parents, cables = lists
    except ValueError:
        raise SpecError("is not L;m1,..,mL;w1,..,wL;p1,..,pL", value=text, remedy=remedy) from None
    if len(levels) != 1 or {len(children), len(parents), len(cables)} != {levels[0]}:
        raise SpecError("must have L numbers in every list", value=text, remedy=remedy)
    if min(children + parents) < 1:
        raise SpecError("must have numbers above zero", value=text, remedy=remedy)
    if set(cables) != {1}:
        raise SpecError("has parallel cables", value=text, remedy="give every p as 1")
    return FatTreeShape(tuple(children), tuple(parents))


def d_mod_k_routes(shape: FatTreeShape, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Links from every src to its dst, (flows, 2 L) int32, padded with -1; none to oneself.

    From level l a flow takes parent floor(dst / (w1 ... wl)) mod w(l+1) until dst lies below it,
    then the only way down. Up links come first, level by level; link i of the way down of a level
    is the other direction of link i of the way up. The cable from a node of level l - 1 to its
    parent p is number node * wl + p of its level.
    """
    src, dst = np.asarray(src, np.int64), np.asarray(dst, np.int64)
    levels = len(shape.children)
    # label digits from dst's point of view: what has been chosen, and what is left of the address
    meets = np.zeros(src.shape, np.int64)
    below = 1
    for level in range(levels):
        meets = np.where(src // below != dst // below, level + 1, meets)
        below *= shape.children[level]
    up = np.full((levels, *src.shape), -1, np.int64)
    down = np.full((levels, *src.shape), -1, np.int64)
    chosen, width, below, first = np.zeros_like(src), 1, 1, 0
    for level in range(levels):
        w, cables = shape.parents[level], shape.cables(level + 1)
        port = dst // width % w
        climbs = meets > level
        up[level] = np.where(climbs, first + (src // below * width + chosen) * w + port, -1)
        down[level] = np.where(
            climbs, first + cables + (dst // below * width + chosen) * w + port, -1
        )
        chosen = chosen + width * port
        width, below, first = width * w, below * shape.children[level], first + 2 * cables
    return np.concatenate([up, down[::-1]]).T.astype(np.int32)
