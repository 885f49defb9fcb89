"""A linear function given with its transpose: forward and reverse mode, in batches too."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

Pair = Callable[[Any, Any], Any]


def linear(forward: Pair, transpose: Pair, residual: Any, x: Any) -> Any:
    """`forward(residual, x)`, linear in x; `transpose(residual, y)` takes cotangents back.

    Both are pytrees of arrays to pytrees of arrays. Loops whose length is known at run time only
    have no reverse mode in JAX; with a transpose written by hand they do, and `jax.vmap` works
    before and after differentiation (`jax.custom_derivatives.linear_call` does not batch).
    """
    leaves, tree = jax.tree.flatten(x)
    residuals, residual_tree = jax.tree.flatten(residual)
    y_tree = jax.tree.structure(jax.eval_shape(forward, residual, x))

    def flat_forward(residuals, leaves):
        arguments = residual_tree.unflatten(residuals), tree.unflatten(leaves)
        return jax.tree.leaves(forward(*arguments))

    def flat_transpose(residuals, leaves):
        arguments = residual_tree.unflatten(residuals), y_tree.unflatten(leaves)
        return jax.tree.leaves(transpose(*arguments))

    pair = flat_forward, flat_transpose
    out = _linear_p.bind(*residuals, *leaves, pair=pair, num_residuals=len(residuals))
    return y_tree.unflatten(out)


def _apply(*arguments, pair, num_residuals):
    return pair[0](list(arguments[:num_residuals]), list(arguments[num_residuals:]))


_linear_p = Primitive("linear_with_transpose")
_linear_p.multiple_results = True
_linear_p.def_impl(jax.jit(_apply, static_argnames=("pair", "num_residuals")))
mlir.register_lowering(_linear_p, mlir.lower_fun(_apply, multiple_results=True))


@_linear_p.def_abstract_eval
def _shapes(*arguments, pair, num_residuals):
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments]
    out = jax.eval_shape(lambda *a: _apply(*a, pair=pair, num_residuals=num_residuals), *specs)
    return [ShapedArray(o.shape, o.dtype) for o in out]


def _jvp(primals, tangents, *, pair, num_residuals):
    """Of x alone: a residual that moves would ask for a second derivative."""
    if any(not isinstance(t, ad.Zero) for t in tangents[:num_residuals]):
        raise NotImplementedError("the fluid engine has first derivatives only")
    moves = [ad.instantiate_zeros(tangent) for tangent in tangents[num_residuals:]]
    kept = primals[:num_residuals]
    out = _linear_p.bind(*primals, pair=pair, num_residuals=num_residuals)
    return out, _linear_p.bind(*kept, *moves, pair=pair, num_residuals=num_residuals)


def _transpose(cotangents, *arguments, pair, num_residuals):
    residuals = arguments[:num_residuals]
    given = [ad.instantiate_zeros(ct) for ct in cotangents]
    back = _linear_p.bind(*residuals, *given, pair=pair[::-1], num_residuals=num_residuals)
    return [None] * num_residuals + back


def _batch(arguments, dims, *, pair, num_residuals):
    """The pair over a batch is a pair again; x is batched throughout, so that its transpose is."""
    (num,) = {a.shape[d] for a, d in zip(arguments, dims, strict=True) if d is not None}
    residual_dims = list(dims[:num_residuals])
    moved = [
        jnp.broadcast_to(a, (num, *a.shape)) if d is None else jnp.moveaxis(a, d, 0)
        for a, d in zip(arguments[num_residuals:], dims[num_residuals:], strict=True)
    ]
    both = tuple(jax.vmap(f, in_axes=(residual_dims, 0), axis_size=num) for f in pair)
    arguments = (*arguments[:num_residuals], *moved)
    out = _linear_p.bind(*arguments, pair=both, num_residuals=num_residuals)
    return out, [0] * len(out)


ad.primitive_jvps[_linear_p] = _jvp
ad.primitive_transposes[_linear_p] = _transpose
batching.primitive_batchers[_linear_p] = _batch
