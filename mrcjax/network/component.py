"""A kind of component that can fail, and the cables that each takes with it."""

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Cables = tuple[np.ndarray, np.ndarray]  # links and how many cables of each, (k,) int both


@dataclass(frozen=True)
class Components:
    """All components of one kind: their names, and the cables that each takes with it."""

    count: int
    name: Callable[[int], str]
    cables: Callable[[int], Cables]
    many: Callable[[np.ndarray], Cables] | None = None  # the same of several, where that is quicker

    def cables_of(self, indices: np.ndarray) -> Cables:
        """The cables of several components, one after the other."""
        if self.many is not None:
            return self.many(indices)
        found = [self.cables(int(i)) for i in indices] or [(np.zeros(0, int), np.zeros(0, int))]
        links, cables = zip(*found, strict=True)
        return np.concatenate(links), np.concatenate(cables)

    @cached_property
    def names(self) -> list[str]:
        """Every name in order."""
        return [self.name(i) for i in range(self.count)]

    def matching(self, pattern: str) -> np.ndarray:
        """Indices of the components whose name a glob matches."""
        if pattern == "*":
            return np.arange(self.count)
        return np.asarray(
            [i for i, name in enumerate(self.names) if fnmatch.fnmatchcase(name, pattern)], int
        )
