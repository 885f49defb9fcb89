"""Many cases of equal arrays as one compiled program.

It takes the numbers of as many points as a batch has room for, and the count of those that are
asked for. On a CPU it takes points in groups so small that what moves stays in the cache, which
for thousands of lanes means one by one; on an accelerator all at once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mrcjax.engine import Config, Times, emulate
from mrcjax.programs import compiled, structure

WIDTH_LANES = 4096  # lanes of all ranks that a CPU takes at once: more fall out of its cache
WIDEST = 32  # points side by side


def width_of(inputs: tuple, room: int) -> int:
    """Points that go side by side; inputs: arguments of `emulate`; room: of the batch."""
    if jax.default_backend() != "cpu":
        return room
    _, network, schedule = inputs
    if schedule.extents:  # side by side, loops of several lengths all last as long as the longest
        return 1
    lanes = max((phase.lanes for phase in schedule.phases), default=1) * network.ranks
    return int(np.clip(WIDTH_LANES // max(lanes, 1), 1, min(room, WIDEST)))


def ready_to_launch(
    inputs: Sequence[tuple], config: Config, room: int, width: int, *, all_vary: bool = False
) -> Callable[[], Times]:
    """Compile what emulates these inputs, if it is not yet; launched it gives (points, ...) each.

    inputs: arguments of `emulate` of one structure. What differs between them is stacked, `room`
    places of it; all else is there once. all_vary: stack all, so that inputs which happen to have
    more in common share the program of the others.
    """
    leaves = [jax.tree.leaves(each) for each in inputs]
    own = len(jax.tree.leaves(inputs[0][0]))  # of Params, which come first
    varies = tuple(
        all_vary
        or place < own
        or any(not _same(each[place], leaves[0][place]) for each in leaves[1:])
        for place in range(len(leaves[0]))
    )
    idle = room - len(inputs)  # places that nobody asks for repeat the first point
    stacked = [
        np.stack([np.asarray(each[place]) for each in leaves + leaves[:1] * idle])
        for place, is_varied in enumerate(varies)
        if is_varied
    ]
    shared = [leaf for leaf, is_varied in zip(leaves[0], varies, strict=True) if not is_varied]
    tree = jax.tree.structure(inputs[0])
    arrays = (jnp.asarray(len(inputs)), stacked, shared)
    run = partial(_emulate_all, tree=tree, varies=varies, config=config, width=width)
    key = ("batch", structure(arrays), tree, varies, config, width)
    program = compiled(key, lambda: jax.jit(run).lower(*arrays))
    return partial(program, *arrays)


def _same(one: Any, other: Any) -> bool:
    return one is other or np.array_equal(np.asarray(one), np.asarray(other))


def _emulate_all(
    count: jax.Array,
    stacked: list,
    shared: list,
    *,
    tree: Any,
    varies: tuple[bool, ...],
    config: Config,
    width: int,
) -> Times:
    """Emulate the first `count` of the stacked points, `width` at a time."""

    def one(own: list) -> Times:
        mine, others = iter(own), iter(shared)
        leaves = [next(mine) if is_varied else next(others) for is_varied in varies]
        return emulate(*jax.tree.unflatten(tree, leaves), config=config)

    room = stacked[0].shape[0]
    shapes = jax.eval_shape(one, [x[0] for x in stacked])
    times = jax.tree.map(lambda x: jnp.zeros((room, *x.shape), x.dtype), shapes)

    def some(k: jax.Array, times: Times) -> Times:
        # the last group begins early enough to be whole; what it repeats comes out the same
        first = jnp.minimum(k * width, room - width)
        taken = [jax.lax.dynamic_slice_in_dim(x, first, width) for x in stacked]
        if width == 1:
            found = jax.tree.map(lambda x: x[None], one([x[0] for x in taken]))
        else:
            found = jax.vmap(one)(taken)
        return jax.tree.map(
            lambda all_, new: jax.lax.dynamic_update_slice_in_dim(all_, new, first, 0), times, found
        )

    return jax.lax.fori_loop(0, -(-count // width), some, times)
