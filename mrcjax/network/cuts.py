"""Partitions of the ranks, and which links leave and enter each part."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Cut:
    """A partition of the ranks with the links across it.

    part: (ranks,) int. out, into: (links,) int, the part that a link leaves or enters on its way
    between two parts, -1 for all other links. What leaves one part enters others, so each of the
    two alone bounds the whole traffic.
    """

    name: str
    part: np.ndarray
    out: np.ndarray
    into: np.ndarray

    @cached_property
    def parts(self) -> int:
        """Number of parts."""
        return int(self.part.max()) + 1

    def rates(self, capacity_bytes_per_s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What can leave and what can enter each part, (parts,) bytes/s each."""
        return (
            _summed(self.out, capacity_bytes_per_s, self.parts),
            _summed(self.into, capacity_bytes_per_s, self.parts),
        )


def splits_a_node(part: np.ndarray, node_size: int) -> bool:
    """Whether ranks of one node are in different parts; part: (ranks,) int."""
    first = np.arange(len(part)) // node_size * node_size
    return bool((part != part[first]).any())


def _summed(part: np.ndarray, capacity: np.ndarray, parts: int) -> np.ndarray:
    used = (part >= 0) & (part < parts)  # the last parts may be built and without ranks
    return np.bincount(part[used], capacity[used], parts)


def at_ends(
    name: str, part: np.ndarray, sender: np.ndarray, receiver: np.ndarray, without: np.ndarray
) -> Cut:
    """The cut through the links at the ranks themselves.

    part: (ranks,) int. sender, receiver: (links,) int, the rank at either end of a link, -1 where
    a switch is. without: (links,) bool, links that never leave a part. A link with a rank at both
    ends crosses only where their parts differ.
    """
    out, into = np.full(sender.shape, -1), np.full(receiver.shape, -1)
    out[sender >= 0] = part[sender[sender >= 0]]
    into[receiver >= 0] = part[receiver[receiver >= 0]]
    inner = without | ((sender >= 0) & (receiver >= 0) & (out == into))
    out[inner] = into[inner] = -1
    return Cut(name, part, out, into)


def at_links(
    name: str,
    part: np.ndarray,
    num_links: int,
    out: dict[int, np.ndarray],
    into: dict[int, np.ndarray],
) -> Cut:
    """The cut through blocks of links: first link of a block -> part of each of its links."""
    cut = Cut(name, part, np.full(num_links, -1), np.full(num_links, -1))
    for array, blocks in ((cut.out, out), (cut.into, into)):
        for first, parts in blocks.items():
            array[first : first + len(parts)] = parts
    return cut
