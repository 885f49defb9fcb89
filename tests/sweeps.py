"""Made-up points of sweeps for tests."""

from typing import Any

import numpy as np

from mrcjax.archive import Axis, Point
from mrcjax.archive.layout import SCALARS

AXES = (
    Axis("network.ranks", {"network.ranks": [64, 1024], "network.rails": [4, 8]}),
    Axis("network.kind", {"network.kind": ["fat_tree", "flat_rails"]}),
    Axis("faults.random.0.seed", {"faults.random.0.seed": [0, 1, 2]}),
)


def point(*at: int, ranks: int | None = 8, **changes: Any) -> Point:
    """Make a point whose numbers follow from its place; finish times of `ranks`, None without."""
    number = float(sum(place * 100**i for i, place in enumerate(at)))
    values: dict[str, Any] = {
        scalar.key: {str: f"{scalar.key} é", int: 7, float: 1.0}[scalar.dtype] for scalar in SCALARS
    }
    values |= {"time_s": 0.5 + number, "lower_bound_s": 0.25 + number, "wall_s": 0.1}
    values |= {
        "ranks": 64 if at[0] == 0 else 1024,
        "network": ["fat_tree", "flat_rails"][at[1] % 2],
    }
    finish_s = changes.get("finish_s")
    if finish_s is None and ranks is not None:
        finish_s = np.random.default_rng(int(number)).random(ranks)
    if finish_s is not None:
        values |= {"finish_min_s": finish_s.min(), "finish_max_s": finish_s.max()}
    fields = {"at": at, "id": f"id{at}", "values": values, "finish_s": finish_s}
    return Point(**(fields | changes))
