"""Max, segment max and moves between ranks, with derivatives that follow the winner.

Completion time is a max-plus expression, so its gradient is a choice of winners. jnp.maximum
splits a tie in halves and costs two comparisons; here the first argument wins a tie and the only
thing kept for the reverse pass is one bit per max.
"""

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


@jax.custom_jvp
def later(a: jax.Array, b: jax.Array) -> jax.Array:
    """The larger of a and b; at a tie the derivative is that of a."""
    return jnp.maximum(a, b)


@later.defjvp
def _later_jvp(primals, tangents):
    a, b = primals
    ta, tb = tangents
    return jnp.maximum(a, b), jnp.where(a >= b, ta, tb)


@jax.custom_jvp
def multiple(count: jax.Array | int, value: jax.Array) -> jax.Array:
    """Give count * value, both at least 0; the derivative is that in `value`.

    Compilers add a product to something without rounding it first (fused multiply-add) in one
    program and not in another, and runs that are one would differ in the last bit. They do not
    look through `abs`.
    """
    return jnp.abs(count * value)


@multiple.defjvp
def _multiple_jvp(primals, tangents):
    count, value = primals
    return jnp.abs(count * value), count * tangents[1]


@jax.custom_jvp
def latest(x: jax.Array) -> jax.Array:
    """Maximum over the first axis; at a tie the derivative is that of the first winner."""
    return jnp.max(x, axis=0)


@latest.defjvp
def _latest_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    winner = jnp.argmax(x, axis=0)[None]
    return jnp.max(x, axis=0), jnp.take_along_axis(t, winner, axis=0)[0]


def segment_max(x: jax.Array, segment: jax.Array, num: int) -> jax.Array:
    """Maximum of x over equal `segment`, (num,); -inf for empty segments."""
    return _segment_max(x, segment, num)


def segment_min(x: jax.Array, segment: jax.Array, num: int) -> jax.Array:
    """Minimum of x over equal `segment`, (num,); +inf for empty segments."""
    return -_segment_max(-x, segment, num)


@jax.custom_jvp
def _segment_max_of(x: jax.Array, segment: jax.Array, blank: jax.Array) -> jax.Array:
    return blank.at[segment].max(x, mode="drop")


@_segment_max_of.defjvp
def _segment_max_jvp(primals, tangents):
    x, segment, blank = primals
    t = tangents[0]
    best = blank.at[segment].max(x, mode="drop")
    index = jnp.arange(x.size).reshape(x.shape)
    num = blank.shape[0]
    wins = x == best[jnp.minimum(segment, num - 1)]
    first = jnp.full((num,), x.size).at[segment].min(jnp.where(wins, index, x.size), mode="drop")
    taken = jnp.where(first < x.size, t.reshape(-1)[jnp.minimum(first, x.size - 1)], 0.0)
    return best, taken


def _segment_max(x: jax.Array, segment: jax.Array, num: int) -> jax.Array:
    segment = jnp.broadcast_to(segment, jnp.broadcast_shapes(x.shape, segment.shape))
    x = jnp.broadcast_to(x, segment.shape)
    return _segment_max_of(x, segment, jnp.full((num,), -jnp.inf, x.dtype))


def move(
    x: jax.Array,
    shift: jax.Array,
    layout: tuple[int, int, int],
    size: jax.Array | None = None,
) -> jax.Array:
    """Carry values from senders to receivers: out[c, position + shift[c]] = x[c, position].

    x: (lanes, ranks); shift: (lanes,) int; layout: (blocks, size, stride) of the ranks. A copy of
    the array laid behind itself turns each lane's rotation into one contiguous slice; as a
    primitive its transpose is the rotation back, where JAX would make a scatter of the slice.
    size: () int, where only the first positions of each group are there; the others keep theirs.
    """
    if size is not None:
        return _rotate_among(x, shift, layout, size)
    return _move_p.bind(x, shift, layout=layout)


def _rotate_among(
    x: jax.Array, shift: jax.Array, layout: tuple[int, int, int], size: jax.Array
) -> jax.Array:
    """Rotate the first `size` positions: what comes round the end is a second slice."""
    blocks, width, stride = layout
    back = shift % size
    grid = x.reshape(x.shape[0], blocks, width, stride)
    twice = jnp.concatenate([grid, grid], axis=2)

    def turn(row: jax.Array, start: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice(row, (0, start, 0), (blocks, width, stride))

    straight = jax.vmap(turn)(twice, width - back)
    around = jax.vmap(turn)(twice, size - back)
    position = jnp.arange(width)[:, None]
    moved = jnp.where(position < back[:, None, None, None], around, straight)
    return jnp.where(position < size, moved, grid).reshape(x.shape)


def _rotate(x: jax.Array, shift: jax.Array, layout: tuple[int, int, int]) -> jax.Array:
    blocks, size, stride = layout
    lanes = x.shape[0]
    start = (-shift) % size
    if blocks == 1 and stride == 1:
        twice = jnp.concatenate([x, x], axis=1)
        return jax.vmap(lambda row, s: jax.lax.dynamic_slice(row, (s,), (size,)))(twice, start)
    grid = x.reshape(lanes, blocks, size, stride)
    twice = jnp.concatenate([grid, grid], axis=2)

    def turn(row: jax.Array, s: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice(row, (0, s, 0), (blocks, size, stride))

    return jax.vmap(turn)(twice, start).reshape(x.shape)


_move_p = Primitive("move_to_receivers")
_move_p.def_impl(jax.jit(_rotate, static_argnames="layout"))
_move_p.def_abstract_eval(lambda x, shift, layout: x)
mlir.register_lowering(_move_p, mlir.lower_fun(_rotate, multiple_results=False))


def _move_transpose(ct, x, shift, *, layout):
    del x
    return move(ct, -shift, layout), None


def _move_batch(args, dims, *, layout):
    """Rotate the lanes of all members of the batch side by side."""
    (num,) = {arg.shape[d] for arg, d in zip(args, dims, strict=True) if d is not None}
    x, shift = (
        jnp.broadcast_to(arg, (num, *arg.shape)) if d is None else jnp.moveaxis(arg, d, 0)
        for arg, d in zip(args, dims, strict=True)
    )
    out = move(x.reshape(-1, x.shape[-1]), shift.reshape(-1), layout)
    return out.reshape(x.shape), 0


ad.defjvp(_move_p, lambda t, x, shift, *, layout: move(t, shift, layout), None)
ad.primitive_transposes[_move_p] = _move_transpose
batching.primitive_batchers[_move_p] = _move_batch
