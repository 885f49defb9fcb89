"""Per-rank finish times of the points of a sweep: one compressed chunk each, copied as it is."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mrcjax.archive.dataset import describe

KEY = "finish_s"
# level 1: beyond it the low bits of times, which are noise, cost time and save next to nothing
_FILTERS = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True}


def create(group: Any, points: tuple[int, ...], ranks: int, *scales: Any) -> Any:
    """Make the dataset (points..., ranks); what is not written is NaN and takes no space."""
    dataset = group.create_dataset(
        KEY,
        shape=(*points, ranks),
        chunks=(*(1 for _ in points), ranks),
        dtype=np.float64,
        fillvalue=np.nan,
        track_times=False,
        **_FILTERS,
    )
    describe(dataset, "s", "time at which the rank has finished", *scales)
    return dataset


def put(dataset: Any, at: tuple[int, ...], finish_s: np.ndarray) -> None:
    """Write the times of one point, padded with NaN."""
    padded = np.full(dataset.shape[-1], np.nan)
    padded[: len(finish_s)] = finish_s
    dataset[at] = padded


def copy(source: Any, target: Any, places: Iterable[tuple[Sequence[int], Sequence[int]]]) -> None:
    """Copy points from dataset to dataset: (place in the source, place in the target) each.

    Chunks of equal length go over as they are stored, with their checksums: a hundred times
    faster than unpacking and packing them again.
    """
    is_raw = source.shape[-1] == target.shape[-1]
    for old, new in places:
        if is_raw:
            mask, stored = source.id.read_direct_chunk((*old, 0))
            target.id.write_direct_chunk((*new, 0), stored, mask)
        else:
            put(target, tuple(new), source[tuple(old)][: target.shape[-1]])
