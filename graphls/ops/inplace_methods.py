"""Methods of tensors that change the tensor, as `x.add_(y)`: its name says so by the `_` at its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ops import creation, elementwise, logic, network, random, scattering, selection, shapes
from graphls.ops.operands import tensor_of
from graphls.tensors.tensor import Tensor

Method = Callable[..., Any]


def in_place(name: str, compute: Method) -> Method:
    """A method that gives a tensor what `compute` makes of it, in its own dtype, and returns the tensor.

    In a graph every name of the tensor has the new value from there on. Raises GraphValueError for another shape.
    """

    @wraps(compute)
    def method(x: Tensor, *args: Any, **options: Any) -> Tensor:
        made = tensor_of(compute(x, *args, **options))
        if made.shape != x.shape:
            text = f"{name} gives {made.type}, and a tensor of the shape {x.shape} keeps its shape."
            raise GraphValueError(text)
        x._become(made if made.dtype is x.dtype else elementwise.cast(made, x.dtype))
        return x

    method.__name__ = method.__qualname__ = name
    return method


def _scaled(function: Method) -> Method:
    def scaled(x: Any, other: Any, *, alpha: Any = 1) -> Any:
        return function(x, other if alpha == 1 else elementwise.mul(other, alpha))

    return scaled


def _copied(x: Any, src: Any) -> Any:
    return shapes.broadcast_to(elementwise.cast(tensor_of(src), x.dtype), x.shape)


def _scattered(x: Any, dim: int, index: Any, src: Any, reduce: str | None = None) -> Any:
    src = src if isinstance(src, Tensor) else creation.full(tensor_of(index).shape, src, dtype=x.dtype)
    return scattering.tensor_scatter_elements(x, index, src, dim, reduce or "none")


def _index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    from graphls.ops.indexing import getitem, setitem

    place = tuple(indices)
    return setitem(x, place, elementwise.add(getitem(x, place), values) if accumulate else values)


def _index_copied(x: Any, dim: int, index: Any, source: Any) -> Any:
    from graphls.ops.indexing import setitem

    return setitem(x, (*(slice(None),) * (dim % x.ndim), index), source)


IN_PLACE: dict[str, Method] = {
    "abs_": elementwise.abs,
    "add_": _scaled(elementwise.add),
    "ceil_": elementwise.ceil,
    "clamp_": elementwise.clamp,
    "clip_": elementwise.clamp,
    "copy_": _copied,
    "div_": elementwise.div,
    "exp_": elementwise.exp,
    "expm1_": elementwise.expm1,
    "fill_": lambda x, value: creation.full_like(x, value),
    "floor_": elementwise.floor,
    "floor_divide_": elementwise.floor_div,
    "index_add_": lambda x, dim, index, source, *, alpha=1: scattering.index_add(
        x, index, source if alpha == 1 else elementwise.mul(source, alpha), dim
    ),
    "index_copy_": _index_copied,
    "index_fill_": lambda x, dim, index, value: scattering.index_fill(x, dim, index, value),
    "index_put_": _index_put,
    "log_": elementwise.log,
    "logical_not_": logic.logical_not,
    "masked_fill_": lambda x, mask, value: selection.masked_fill(x, mask, value),
    "mul_": elementwise.mul,
    "neg_": elementwise.neg,
    "normal_": lambda x, mean=0, std=1, *, generator=None: random.normal(x.shape, tensor_of(mean), tensor_of(std)),
    "pow_": elementwise.pow,
    "reciprocal_": elementwise.reciprocal,
    "relu_": network.relu,
    "remainder_": elementwise.mod,
    "rsqrt_": elementwise.rsqrt,
    "scatter_": _scattered,
    "scatter_add_": lambda x, dim, index, src: _scattered(x, dim, index, src, "add"),
    "sigmoid_": network.sigmoid,
    "sqrt_": elementwise.sqrt,
    "square_": elementwise.square,
    "sub_": _scaled(elementwise.sub),
    "tanh_": elementwise.tanh,
    "uniform_": lambda x, from_=0, to=1, *, generator=None: random.uniform(
        x.shape, tensor_of(float(from_)), tensor_of(float(to))
    ),
    "zero_": creation.zeros_like,
}
"""What each method computes."""

METHODS = {name: in_place(name, compute) for name, compute in IN_PLACE.items()}
"""The methods by their names."""
