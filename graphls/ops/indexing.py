"""`tensor[index]` and `tensor[index] = value`."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import bool_
from graphls.ops.elementwise import add
from graphls.ops.index_items import Items, items_of
from graphls.ops.index_plan import Plan, replaced_region
from graphls.ops.joins import Join, replaced
from graphls.ops.logic import where
from graphls.ops.operands import tensor_in, tensor_of
from graphls.ops.record import in_place, operation
from graphls.ops.shapes import broadcast_to, reshape
from graphls.tensors.tensor import Symbol, Tensor, TensorLike

Shape = tuple[int, ...]


@operation
def getitem(tensor: TensorLike, index: Any) -> Tensor:
    """The elements that an index names, by NumPy's rules.

    An index is an integer, a slice, None for a new axis, an Ellipsis, a tensor or list of integers, a mask that is
    known, or a tuple of those. Raises GraphIndexError for what is known and out of range, for too many indices and for
    shapes of tensors that do not fit, GraphTypeError for any other object and for a mask that the graph computes.
    """
    x = tensor_of(tensor)
    return Plan.of(items_of(index, x)).taken(x)


@operation
def setitem(tensor: TensorLike, index: Any, value: TensorLike) -> Tensor:
    """A tensor with other elements where an index says; `x[index] = value` makes x that.

    The value is cast to the dtype of the tensor and broadcast to the shape of `x[index]`. Where an index names an
    element twice, the last of its values stays. A mask that the graph computes is an index alone, with a value that
    broadcasts to all that is not masked. Raises what `x[index]` raises, and GraphValueError for a value that
    does not fit.
    """
    x = tensor_of(tensor)
    value = tensor_in(value, x.dtype)
    if isinstance(index, Symbol) and index.dtype is bool_:
        return _masked(x, index, value)
    return written(x, items_of(index, x), value, replaced)


def written(x: Tensor, items: Items, value: Tensor, join: Join) -> Tensor:
    """x, in which `join` brings a value of its dtype to the elements that an index names."""
    plan = Plan.of(items)
    if not items.tensors:
        return replaced_region(x, plan.ranges, _on_axes(fitting(value, plan.kept), items))
    value = broadcast_to(fitting(value, plan.shape), plan.shape)
    if not value.size:
        return x
    merged = plan.merged(plan.region(x))
    merged = join(merged, reshape(plan.picked, (-1,)), plan.slices(value), plan.at)
    return replaced_region(x, plan.ranges, plan.unmerged(merged))


def _on_axes(value: Tensor, items: Items) -> Tensor:
    """A value for what integers and ranges name, with the axes of the tensor that was indexed."""
    sizes = iter(value.shape)
    given = [(item, 1 if isinstance(item, int) else next(sizes)) for item in items.items]
    return reshape(value, tuple(size for item, size in given if item is not None))


def fitting(value: Tensor, shape: Shape) -> Tensor:
    """A value with as many axes as a shape that it broadcasts to; raises GraphValueError where it does not."""
    given = (*(1 for _ in shape), *value.shape)
    extra, own = given[: len(given) - len(shape)], given[len(given) - len(shape) :]
    if any(n != 1 for n in extra) or any(n not in (1, m) for n, m in zip(own, shape, strict=True)):
        message = f"A value of shape {value.shape} does not fit elements of shape {shape}."
        raise GraphValueError(message)
    return reshape(value, own)


def _masked(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    rest = x.shape[mask.ndim :]
    if mask.shape != x.shape[: mask.ndim] or value.ndim > len(rest):
        raise GraphTypeError(
            f"Where the graph computes a mask, x[mask] = value takes a mask that fits the first axes of {x.type}, and "
            f"one value for all that is not masked, not {mask.type} and {value.type}; use ops.where.",
        )
    return where(reshape(mask, (*mask.shape, *(1 for _ in rest))), fitting(value, rest), x)


@in_place("index_put_")
def _index_put(x: TensorLike, indices: Tensor, values: TensorLike, accumulate: bool = False) -> Tensor:
    """x with values written or, with `accumulate`, added where index tensors, one for each axis, say."""
    place = tuple(indices)
    return setitem(x, place, add(getitem(x, place), values) if accumulate else values)


@in_place("index_copy_")
def _index_copied(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x with the slices of `source` in place of those that indices name along an axis."""
    return setitem(x, (*(slice(None),) * (dim % x.ndim), index), source)
