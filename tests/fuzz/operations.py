"""The operations that random programs are made of, by what they take; each is a function of a generator and tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from graphls import ops

Operation = Callable[..., Any]


def positive(x: Any) -> Any:
    return ops.abs(x) + 0.5


def bounded(x: Any) -> Any:
    return ops.tanh(x) * 0.9


def axis_of(rng: Random, x: Any) -> int:
    return rng.randrange(-len(x.shape), len(x.shape))


def some_axes(rng: Random, x: Any) -> Any:
    axes = [i for i in range(len(x.shape)) if rng.random() < 0.5]
    return tuple(axes) if axes else None


def of_functions(names: str) -> dict[str, Operation]:
    """Functions of the tensors alone."""
    return _calls(names, lambda f, rng, *xs: f(*xs))


def of_axes(names: str) -> dict[str, Operation]:
    """Functions of one tensor along an axis."""
    return _calls(names, lambda f, rng, x: f(x, axis_of(rng, x)))


def reductions(names: str) -> dict[str, Operation]:
    """Functions of one tensor along some axes."""
    return _calls(names, lambda f, rng, x: f(x, some_axes(rng, x)))


def guarded(guard: Callable[[Any], Any], names: str) -> dict[str, Operation]:
    """Functions of one tensor, which the guard brings to where they are defined."""
    return _calls(names, lambda f, rng, x: f(guard(x)))


def _calls(names: str, call: Operation) -> dict[str, Operation]:
    return {name: partial(call, getattr(ops, name)) for name in names.split()}


def _permuted(rng: Random, x: Any) -> Any:
    return ops.transpose(x, tuple(rng.sample(range(len(x.shape)), len(x.shape))))


def _reshaped(rng: Random, x: Any) -> Any:
    sizes = [*x.shape] or [1]
    cut = rng.randrange(len(sizes))
    first = _product(sizes[:cut])
    shapes = [(-1,), (first, -1) if first else (-1,), (*reversed(sizes),), (1, *sizes), (*sizes, 1)]
    return ops.reshape(x, rng.choice(shapes))


def _product(sizes: list[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def _part(rng: Random, x: Any) -> Any:
    """A part of an axis, sometimes none of it, sometimes backwards or with steps."""
    axis = rng.randrange(len(x.shape))
    start, stop = rng.randint(0, x.shape[axis]), rng.randint(0, x.shape[axis])
    cut = slice(start, stop) if rng.random() < 0.4 else slice(None, None, rng.choice((1, 2, -1)))
    return x[(slice(None),) * axis + (cut,)]


def _element(rng: Random, x: Any) -> Any:
    axis = rng.randrange(len(x.shape))
    return x[(slice(None),) * axis + (rng.randrange(max(1, x.shape[axis])),)]


def _assigned(rng: Random, x: Any, y: Any) -> Any:
    z = x * 1
    z[rng.randrange(max(1, x.shape[0]))] = ops.sum(y)
    return z


def _joined(rng: Random, x: Any, y: Any) -> Any:
    axis = axis_of(rng, x)
    parts = [x, ops.flip(x, (axis,)), ops.zeros_like(x)]
    if x.shape == y.shape and x.dtype == y.dtype:
        parts.append(y)
    if rng.random() < 0.3:
        parts.append(x[(slice(None),) * (axis % len(x.shape)) + (slice(0, 0),)])
    return ops.concat(tuple(rng.sample(parts, rng.randint(1, len(parts)))), axis)


def _windowed(rng: Random, x: Any) -> Any:
    pool = rng.choice((ops.max_pool2d, ops.avg_pool2d))
    return pool(_image(x), rng.choice((1, 2)), rng.choice((1, 2)))


def _image(x: Any) -> Any:
    """Four axes of at least two places each of the tensor's elements."""
    flat = ops.reshape(x, (-1,))
    return ops.reshape(ops.tile(flat, (-(-32 // max(1, flat.shape[0])),))[:32], (1, 2, 4, 4))


def _convolved(rng: Random, x: Any, y: Any) -> Any:
    groups = rng.choice((1, 1, 2))
    kernel = ops.reshape(ops.tile(ops.reshape(y, (-1,)), (16,))[:16], (2, 2, 2, 2)) * 0.3
    kernel = ops.cast(kernel, x.dtype)[:, : 2 // groups]
    bias = ops.mean(kernel, (1, 2, 3)) if rng.random() < 0.5 else None
    result = ops.conv2d(_image(x), kernel, bias, stride=rng.choice((1, 2)), groups=groups)
    return rng.choice((ops.relu, ops.sigmoid, ops.tanh, ops.leaky_relu))(result) if rng.random() < 0.3 else result


def _convolved_line(rng: Random, x: Any) -> Any:
    image = ops.reshape(_image(x), (2, 2, 8))
    return ops.conv1d(image, bounded(image[:, :, :2]), stride=rng.choice((1, 2)))


def _with_itself(rng: Random, x: Any) -> Any:
    rows = ops.reshape(x, (x.shape[0], -1))
    return ops.matmul(rows, ops.transpose(rows, (1, 0))) * 0.2


def _product_of_matrices(rng: Random, x: Any, y: Any) -> Any:
    rows, columns = ops.reshape(x, (-1, x.shape[-1])), ops.reshape(y, (-1,))
    count = x.shape[-1]
    columns = ops.tile(columns, (-(-2 * count // max(1, columns.shape[0])),))[: 2 * count]
    return ops.matmul(rows, ops.reshape(ops.cast(columns, x.dtype), (count, 2))) * 0.3


def _some(size: int) -> int:
    """A number of elements; raises ValueError for none, as there is then no index either."""
    if not size:
        raise ValueError("no elements")
    return size


def _taken(rng: Random, x: Any, indices: Any) -> Any:
    axis = axis_of(rng, x)
    return ops.gather(x, ops.abs(indices) % _some(x.shape[axis]), axis % len(x.shape))


def _scattered(rng: Random, x: Any, indices: Any) -> Any:
    rows = ops.reshape(indices, (-1,))
    rows = ops.abs(rows) % _some(x.shape[0])
    updates = ops.cast(ops.ones((rows.shape[0], *x.shape[1:]), x.dtype), x.dtype) * 0.5
    name = rng.choice(("add", "sub", "max", "min", "mul"))
    return getattr(ops, f"tensor_scatter_{name}")(x, ops.reshape(rows, (-1, 1)), updates)


def _segments(rng: Random, x: Any, indices: Any) -> Any:
    ids = ops.tile(ops.reshape(indices, (-1,)), (x.shape[0],))[: x.shape[0]]
    name = rng.choice(("sum", "max", "min", "prod"))
    return getattr(ops, f"unsorted_segment_{name}")(x, ops.abs(ids) % 3, 3)


def _embedded(rng: Random, x: Any, indices: Any) -> Any:
    table = ops.reshape(x, (x.shape[0], -1))
    return ops.embedding(ops.abs(indices) % _some(x.shape[0]), table)


def _lost(rng: Random, x: Any, y: Any) -> Any:
    loss = rng.choice((ops.mse_loss, ops.l1_loss, ops.smooth_l1_loss, ops.huber_loss))
    return loss(x, ops.stop_gradient(y), reduction=rng.choice(("none", "mean", "sum")))


def _entropy(rng: Random, x: Any, indices: Any) -> Any:
    rows = ops.reshape(x, (-1, x.shape[-1]))
    labels = ops.tile(ops.reshape(ops.abs(indices), (-1,)), (rows.shape[0],))[: rows.shape[0]] % x.shape[-1]
    return ops.cross_entropy(rows, ops.cast(labels, "int32"), reduction=rng.choice(("none", "mean", "sum")))


def _normed(rng: Random, x: Any) -> Any:
    size = x.shape[-1]
    return ops.layer_norm(x, (size,), ops.ones((size,), x.dtype), ops.zeros((size,), x.dtype), 1e-3)


def _normed_groups(rng: Random, x: Any) -> Any:
    return ops.group_norm(_image(x), 2)


def _attention(rng: Random, x: Any) -> Any:
    rows = ops.reshape(x, (x.shape[0], -1))
    scores = ops.matmul(rows, ops.transpose(rows, (1, 0))) * 0.2
    return ops.matmul(ops.softmax(scores, -1), rows)


def _sorted(rng: Random, x: Any) -> Any:
    return ops.sort(x, axis_of(rng, x))[rng.randrange(2)]


def _extreme(rng: Random, x: Any) -> Any:
    return rng.choice((ops.max, ops.min))(x, axis_of(rng, x))


def _largest(rng: Random, x: Any) -> Any:
    return ops.topk(x, rng.randint(1, max(1, x.shape[-1])))[rng.randrange(2)]


def _pieces(rng: Random, x: Any) -> Any:
    return rng.choice(ops.unbind(x, axis_of(rng, x)))


def _halves(rng: Random, x: Any) -> Any:
    return rng.choice(ops.chunk(x, 2, axis_of(rng, x)))


def _clipped(rng: Random, x: Any) -> Any:
    return ops.clamp(x, -rng.random(), rng.random())


def _constant(rng: Random, x: Any) -> Any:
    return rng.choice((ops.zeros_like, ops.ones_like))(x) * rng.choice((1, 2, -1))


FLOATS: dict[str, Operation] = {
    **of_functions(
        "abs neg sin cos tanh sigmoid relu relu6 elu selu gelu silu mish hardswish hardsigmoid softplus logsigmoid "
        "softsign tanhshrink square sign floor ceil round trunc erf atan asinh sinc softshrink hardshrink celu "
        "leaky_relu stop_gradient frac reciprocal nan_to_num deg2rad positive identity"
    ),
    **guarded(positive, "log log2 log10 sqrt rsqrt lgamma digamma reciprocal log1p"),
    **guarded(bounded, "asin acos atanh exp expm1 exp2 sinh cosh tan erfinv"),
    **of_axes("softmax log_softmax cumsum cumprod logcumsumexp argmax argmin argsort"),
    **reductions("sum mean prod amax amin logsumexp var std norm"),
    "clamp": _clipped,
    "conv1d": _convolved_line,
    "matmul with itself": _with_itself,
    "layer_norm": _normed,
    "group_norm": _normed_groups,
    "attention": _attention,
    "sort": _sorted,
    "extreme": _extreme,
    "topk": _largest,
    "pool": _windowed,
}
"""What takes one tensor of floats."""

PAIRS: dict[str, Operation] = {
    **of_functions("add sub mul maximum minimum atan2 fmax fmin logaddexp"),
    "div": lambda rng, x, y: x / positive(y),
    "pow": lambda rng, x, y: ops.pow(positive(x), bounded(y)),
    "remainder": lambda rng, x, y: ops.remainder(x, positive(y)),
    "floor_div": lambda rng, x, y: ops.floor_div(x, positive(y)),
    "hypot": lambda rng, x, y: ops.hypot(positive(x), y),
    "lerp": lambda rng, x, y: ops.lerp(x, y, rng.random()),
    "xlogy": lambda rng, x, y: ops.xlogy(x, positive(y)),
    "outer": lambda rng, x, y: ops.outer(ops.reshape(x, (-1,))[:4], ops.reshape(y, (-1,))[:4]),
    "matmul": _product_of_matrices,
    "conv2d": _convolved,
    "loss": _lost,
    "where": lambda rng, x, y: ops.where(x > y, x * 2, y),
    "setitem": _assigned,
    "compare": lambda rng, x, y: getattr(ops, rng.choice(("less", "greater", "ge", "le")))(x, y),
}
"""What takes two tensors of floats."""

ANYTHING: dict[str, Operation] = {
    "transpose": _permuted,
    "transpose again": _permuted,
    "reshape": _reshaped,
    "slice": _part,
    "element": _element,
    "unbind": _pieces,
    "chunk": _halves,
    "flip": lambda rng, x: ops.flip(x, (axis_of(rng, x),)),
    "roll": lambda rng, x: ops.roll(x, rng.randint(-3, 3), axis_of(rng, x) % len(x.shape)),
    "tile": lambda rng, x: ops.tile(x, tuple(rng.choice((1, 1, 2)) for _ in x.shape)),
    "repeat": lambda rng, x: ops.repeat_interleave(x, 2, axis_of(rng, x)),
    "stack": lambda rng, x: ops.stack((x, x), rng.randrange(len(x.shape) + 1)),
    "expand_dims": lambda rng, x: ops.expand_dims(x, rng.randrange(-len(x.shape) - 1, len(x.shape) + 1)),
    "squeeze": lambda rng, x: ops.squeeze(x),
    "broadcast": lambda rng, x: ops.broadcast_to(x, (2, *x.shape)),
    "triu": lambda rng, x: rng.choice((ops.triu, ops.tril))(x, rng.randint(-1, 1)),
    "diagonal": lambda rng, x: ops.diagonal(x),
    "pad": lambda rng, x: ops.pad(x, (rng.randint(0, 2), rng.randint(0, 2))),
    "constant": _constant,
    "swapaxes": lambda rng, x: ops.swapaxes(x, axis_of(rng, x), axis_of(rng, x)),
    "bool": lambda rng, x: ops.cast(x, "bool"),
    "float": lambda rng, x: ops.cast(x, "float32"),
    "depend": lambda rng, x: ops.depend(x, x),
}
"""What takes one tensor of any dtype."""

TWO_OF_ANYTHING: dict[str, Operation] = {
    "concat": _joined,
    "equal": lambda rng, x, y: rng.choice((ops.equal, ops.not_equal))(x, y),
    "select": lambda rng, x, y: ops.where(ops.cast(y, "bool"), x, ops.zeros_like(x)),
}
"""What takes two tensors of any dtype."""

INTEGERS: dict[str, Operation] = {
    **of_functions("abs neg sign square bitwise_not"),
    **reductions("sum amax amin prod"),
    "remainder": lambda rng, x: ops.remainder(x, rng.choice((2, 3, -3))),
    "floor_div": lambda rng, x: ops.floor_div(x, rng.choice((2, 3, -3))),
    "cumsum": lambda rng, x: ops.cumsum(x, axis_of(rng, x)),
    "one_hot": lambda rng, x: ops.one_hot(ops.abs(x) % 4, 4),
    "argmax": lambda rng, x: ops.argmax(x, axis_of(rng, x)),
    "sort": _sorted,
    "narrow": lambda rng, x: ops.cast(x, rng.choice(("int8", "uint8", "int16", "int64", "int32"))),
    "compare": lambda rng, x: x > rng.randint(-1, 2),
}
"""What takes one tensor of integers."""

TRUTHS: dict[str, Operation] = {
    **of_functions("logical_not"),
    **reductions("all any"),
    "integer": lambda rng, x: ops.cast(x, rng.choice(("int32", "int64", "uint8"))),
    "where": lambda rng, x: ops.where(x, 1.5, -0.5),
}
"""What takes one tensor of truth values."""

INTEGER_PAIRS: dict[str, Operation] = of_functions(
    "add sub mul maximum minimum bitwise_and bitwise_or bitwise_xor equal less")
"""What takes two tensors of integers."""

TRUTH_PAIRS: dict[str, Operation] = of_functions("logical_and logical_or logical_xor equal")
"""What takes two tensors of truth values."""

QUESTIONS: dict[str, Operation] = of_functions("isnan isinf isfinite signbit")
"""What takes floats and gives truth values."""

INDEXED: dict[str, Operation] = {
    "gather": _taken,
    "scatter": _scattered,
    "segments": _segments,
    "embedding": _embedded,
    "cross_entropy": _entropy,
}
"""What takes a tensor of floats and one of integers."""
