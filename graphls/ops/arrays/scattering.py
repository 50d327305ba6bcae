"""Gather and scatter by coordinates: tensors and parameters with updates combined into them at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import int32
from graphls.ops.arrays import arrangement, shapes
from graphls.ops.arrays.creation import full, zeros
from graphls.ops.arrays.indexing import getitem, parse_index, setitem, written
from graphls.ops.arrays.joins import OF_ELEMENTS, OF_SLICES
from graphls.ops.arrays.shapes import broadcast_to, check_range, reshape
from graphls.ops.math.elementwise import bool_of, cast, mul, where
from graphls.ops.math.reductions import cumsum
from graphls.ops.operands import Sizes, axis_of, operand_of, shape_of, state_of, tensor_in, tensor_of
from graphls.ops.record import in_place, operation, operator_class
from graphls.ops.state import assign, current_value

Scatter = Callable[[Any, Any, Any], Tensor]


def _locking(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes a parameter, with MindSpore's setting `use_locking`, which has no effect here."""

    def scatter(input_x: TensorLike, indices: TensorLike, updates: TensorLike, use_locking: bool = True) -> Any:
        return function(input_x, indices, updates)

    return scatter


@operation(classes="GatherNd")
def gather_nd(input_x: TensorLike, indices: TensorLike) -> Tensor:
    """The elements of x at the coordinates along the last axis of the indices.

    With fewer coordinates than axes the result has full slices. Negative ones count from the end. Raises
    GraphIndexError for a constant out of range.
    """
    x = tensor_of(input_x)
    return getitem(x, _coordinates("gather_nd", x, tensor_of(indices)))


def _coordinates(name: str, x: Tensor, indices: Tensor) -> tuple[Tensor, ...]:
    """The coordinates along the last axis as an index."""
    _require_integers(name, indices)
    if not indices.ndim or not 1 <= indices.shape[-1] <= x.ndim:
        raise GraphValueError(
            f"{name} takes indices whose last axis has one to {x.ndim} coordinates of {x.type}, not {indices.type}.",
        )
    return tuple(getitem(indices, (..., i)) for i in range(indices.shape[-1]))


def _require_integers(name: str, indices: Tensor) -> None:
    if indices.dtype.kind not in ("int", "uint"):
        message = f"{name} takes indices that are integers, not {indices.type}; cast them first."
        raise GraphTypeError(message)


def _rows(name: str, x: Tensor, indices: Tensor) -> tuple[Tensor, ...]:
    """Indices of slices along the first axis as an index."""
    _require_integers(name, indices)
    if not x.ndim:
        raise GraphValueError(f"{name} takes a tensor with axes, not {x.type}.")
    return (indices,)


def _joining(name: str, join: str, index_of: Callable[[str, Tensor, Tensor], tuple[Tensor, ...]]) -> Scatter:
    def joined(input_x: TensorLike, indices: TensorLike, updates: TensorLike) -> Tensor:
        x, values = dispatch.promoted(operand_of(input_x), tensor_of(updates))
        positions = tensor_of(indices)
        index = index_of(name, x, positions)
        inner = x.shape[len(index) :]
        expected = (*positions.shape[: positions.ndim - (index_of is _coordinates)], *inner)
        if values.shape != expected:
            message = f"{name} of {x.type} by {positions.type} takes updates of shape {expected}, not {values.type}."
            raise GraphValueError(message)
        items = parse_index(tuple(reshape(i, (-1,)) for i in index), x)
        return written(x, items, reshape(values, (index[0].size, *inner)), OF_SLICES[join])

    return joined


def _on_tensor(name: str, join: str, summary: str) -> Scatter:
    """A function that returns a new tensor, by coordinates."""

    def function(input_x: Any, indices: Any, updates: Any) -> Tensor:
        return joined(input_x, indices, updates)

    joined = _joining(name, join, _coordinates)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"x, {summary} at the coordinates along the last axis of the indices (see `gather_nd`).\n\n"
        "The updates have the shape of the result of `gather_nd`. Raises GraphValueError for another shape."
    )
    return function


def _on_parameter(name: str, join: str, summary: str) -> Scatter:
    """A function that writes a parameter, by indices of slices or, for names with scatter_nd, by coordinates."""

    def function(input_x: Any, indices: Any, updates: Any) -> Tensor:
        return assign(input_x, joined(current_value(input_x), indices, updates))

    by_coordinates = name.startswith("scatter_nd")
    joined = _joining(name, join, _coordinates if by_coordinates else _rows)
    function.__name__ = function.__qualname__ = name
    at = "the coordinates along the last axis of the indices" if by_coordinates else "indices along the first axis"
    function.__doc__ = (
        f"Write a parameter, {summary} at {at}; returns its new value.\n\n"
        "Raises GraphTypeError for anything but a parameter, GraphValueError for updates of another shape."
    )
    return function


_SUMMARIES = {
    "none": "with its elements replaced by the updates (of several for one position the last wins)",
    "add": "with the updates added",
    "sub": "with the updates subtracted",
    "mul": "multiplied by the updates",
    "div": "divided by the updates (integers are rounded towards zero)",
    "max": "with the larger of the updates and its elements",
    "min": "with the smaller of the updates and its elements",
}


def _family(make: Callable[[str, str, str], Scatter], prefix: str, **declared: Any) -> list[Scatter]:
    """The functions of all joins, declared with operator classes of the same names."""
    functions = [make(f"{prefix}_{'update' if n == 'none' else n}", n, summary) for n, summary in _SUMMARIES.items()]
    return [operation(classes=f.__name__.title().replace("_", ""), **declared)(f) for f in functions]


(
    tensor_scatter_update,
    tensor_scatter_add,
    tensor_scatter_sub,
    tensor_scatter_mul,
    tensor_scatter_div,
    tensor_scatter_max,
    tensor_scatter_min,
) = _family(_on_tensor, "tensor_scatter")
(scatter_update, scatter_add, scatter_sub, scatter_mul, scatter_div, scatter_max, scatter_min) = _family(
    _on_parameter, "scatter", settings="use_locking", via=_locking
)
(
    scatter_nd_update,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_mul,
    scatter_nd_div,
    scatter_nd_max,
    scatter_nd_min,
) = _family(_on_parameter, "scatter_nd", settings="use_locking", via=_locking)
operator_class("ScatterNonAliasingAdd")(scatter_nd_add)


@operation(classes="ScatterNd")
def scatter_nd(indices: TensorLike, updates: TensorLike, shape: Sizes) -> Tensor:
    """Zeros of a shape with the updates added at the coordinates along the last axis of the indices."""
    values = tensor_of(updates)
    return tensor_scatter_add(zeros(shape_of(shape), values.dtype), indices, values)


@operation(classes="TensorScatterElements", settings="axis reduction")
def tensor_scatter_elements(
    input_x: TensorLike, indices: TensorLike, updates: TensorLike, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """x with the elements of the updates combined into it at the indices along an axis.

    Indices and updates have one shape, whose other sizes are those of x or less. `reduction` is "none" (of several for
    one position the last wins), "add", "sub", "mul", "div", "max" or "min". Raises GraphValueError for another one and
    for shapes that do not fit, GraphIndexError for a constant index out of range.
    """
    if reduction not in [*OF_ELEMENTS]:
        known = ", ".join(map(repr, OF_ELEMENTS))
        raise GraphValueError(f"A reduction is one of {known}, not {reduction!r}.")
    x, values = dispatch.promoted(operand_of(input_x), tensor_of(updates))
    positions, at = tensor_of(indices), axis_of(axis, x.ndim)
    corner = _corner(x, positions, values, at)
    check_range(x, positions, at)
    part = getitem(x, corner)
    joined = OF_ELEMENTS[reduction](part, positions, values, at) if values.size else part
    return joined if part.shape == x.shape else setitem(x, corner, joined)


def _corner(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> tuple[slice, ...]:
    """The part of x that the updates can write, as an index."""
    sizes = [n if i == axis else m for i, (n, m) in enumerate(zip(x.shape, indices.shape, strict=False))]
    fits = indices.ndim == x.ndim and all(m <= n for m, n in zip(sizes, x.shape, strict=True))
    if not fits or updates.shape != indices.shape:
        raise GraphValueError(
            f"Elements of {updates.type} cannot be written at indices {indices.type} along axis {axis} of "
            f"{x.type}: their shapes do not fit.",
        )
    return tuple(slice(size) for size in sizes)


@operation(also="mint")
def scatter(input: TensorLike, axis: int, index: TensorLike, src: TensorLike) -> Tensor:
    """x with the elements at indices along an axis replaced by those of `src`, or by one number.

    See `tensor_scatter_elements`.
    """
    x, positions = tensor_of(input), tensor_of(index)
    values = tensor_in(src, x.dtype)
    return tensor_scatter_elements(x, positions, values if values.ndim else broadcast_to(values, positions.shape), axis)


@operation(classes="IndexAdd", settings="axis use_lock check_index_bound")
def index_add(x: Any, indices: Any, y: Any, axis: int, use_lock: bool = True, check_index_bound: bool = True) -> Tensor:
    """x with slices of y added at a vector of indices along an axis; a parameter is written in place.

    `use_lock` and `check_index_bound` are accepted as in MindSpore; sums are always correct, and bounds checked. Raises
    GraphValueError for shapes that do not fit, GraphIndexError for a constant index out of range.
    """
    target, values = state_of(x) if isinstance(x, Parameter) else tensor_of(x), tensor_of(y)
    positions = tensor_of(indices)
    at = axis_of(axis, target.ndim)
    expected = (*target.shape[:at], positions.size, *target.shape[at + 1 :])
    if positions.ndim != 1 or values.shape != expected:
        raise GraphValueError(
            f"index_add of {target.type} by a vector of indices, {positions.type}, along axis {axis} takes {expected}, "
            f"not {values.type}.",
        )
    if values.dtype is not target.dtype:
        message = f"index_add takes tensors of one dtype, not {target.type} and {values.type}; cast one of them."
        raise GraphTypeError(message)
    items = parse_index((*(slice(None) for _ in range(at)), positions), target)
    result = written(target, items, values, OF_SLICES["add"])
    return assign(x, result) if isinstance(x, Parameter) else result


@operation(classes="IndexFill")
def index_fill(x: TensorLike, axis: int, index: TensorLike, value: TensorLike) -> Tensor:
    """x with the slices at indices along an axis filled with one number; raises GraphIndexError out of range."""
    x = tensor_of(x)
    positions = tensor_of(index)
    return setitem(x, (*(slice(None) for _ in range(axis_of(axis, x.ndim))), positions), value)


@in_place("scatter_")
def _scattered(
    x: Any, dim: int, index: Any, src: Any = None, reduce: str | None = None, *, value: Any = None
) -> Tensor:
    """x with the elements of `src`, or one `value`, written, or added for "add", at indices along an axis."""
    src = value if src is None else src
    src = src if isinstance(src, Tensor) else full(tensor_of(index).shape, src, dtype=x.dtype)
    return tensor_scatter_elements(x, index, src, dim, reduce or "none")


@in_place("scatter_add_")
def _scatter_added(x: TensorLike, dim: int, index: TensorLike, src: TensorLike) -> Tensor:
    """x with the elements of `src` added at indices along an axis."""
    return _scattered(x, dim, index, src, "add")


@in_place("index_add_")
def _index_added(x: TensorLike, dim: int, index: TensorLike, source: TensorLike, *, alpha: TensorLike = 1) -> Tensor:
    """x with alpha times the slices of `source` added at indices along an axis."""
    return index_add(x, index, source if alpha == 1 else mul(source, alpha), dim)


@in_place("index_fill_")
def _index_filled(x: TensorLike, dim: int, index: TensorLike, value: TensorLike) -> Tensor:
    """x with the slices at indices along an axis filled with one number."""
    return index_fill(x, dim, index, value)


@operator_class("MaskedScatter")
def _masked_scatter(x: TensorLike, mask: TensorLike, updates: TensorLike) -> Tensor:
    """x with the elements of `updates`, in order and repeated if too few, where a mask that broadcasts is true.

    Raises GraphTypeError for updates of another dtype.
    """
    target, source = tensor_of(x), shapes.reshape(tensor_of(updates), (-1,))
    if source.dtype is not target.dtype:
        message = f"MaskedScatter takes updates of the dtype of {target.type}, not {source.type}; cast them."
        raise GraphTypeError(message)
    chosen = shapes.broadcast_to(bool_of(mask), target.shape)
    numbers = cumsum(cast(shapes.reshape(chosen, (-1,)), int32), 0) - 1
    selected = shapes.gather(source, numbers % max(source.size, 1))
    return where(chosen, shapes.reshape(selected, target.shape), target)


@operator_class("IndexPut", "accumulate")
def _index_put(x1: TensorLike, x2: TensorLike, indices: Tensor, accumulate: int = 0) -> Tensor:
    """x1 with x2, one number or one for each position, written or, with `accumulate`, added at index tensors."""
    x, values = tensor_of(x1), tensor_of(x2)
    positions = shapes.stack([*arrangement.broadcast_tensors(*indices)], -1)
    values = shapes.broadcast_to(values, (*positions.shape[:-1], *x.shape[positions.shape[-1] :]))
    return (tensor_scatter_add if accumulate else tensor_scatter_update)(x, positions, values)


@operator_class("ScatterAddWithAxis", "axis", like=tensor_scatter_elements)
def _scatter_add_along(input_x: TensorLike, indices: TensorLike, updates: TensorLike, axis: int = 0) -> Tensor:
    return tensor_scatter_elements(input_x, indices, updates, axis, "add")


@operation(classes="InplaceAdd", settings="indices")
def inplace_add(x: TensorLike, v: TensorLike, indices: TensorLike) -> Tensor:
    """x with the slices of v added at one or several indices along the first axis.

    Raises GraphValueError for a v of other sizes, GraphIndexError for a constant index out of range.
    """
    return tensor_scatter_add(x, _rows_operator(indices), v)


@operation(classes="InplaceSub", settings="indices")
def inplace_sub(x: TensorLike, v: TensorLike, indices: TensorLike) -> Tensor:
    """x with the slices of v subtracted; otherwise as `inplace_add`."""
    return tensor_scatter_sub(x, _rows_operator(indices), v)


@operation(classes="InplaceUpdate", settings="indices")
def inplace_update(x: TensorLike, v: TensorLike, indices: TensorLike) -> Tensor:
    """x with slices replaced by those of v, of several for one index by the last; otherwise as `inplace_add`."""
    return tensor_scatter_update(x, _rows_operator(indices), v)


@operation(classes="InplaceIndexAdd", settings="axis")
def inplace_index_add(var: TensorLike, indices: TensorLike, updates: TensorLike, axis: int) -> Tensor:
    """`var` with slices of the updates added at indices along an axis, as `index_add`.

    A parameter is written in place.
    """
    return index_add(var, indices, updates, axis)


def _rows_operator(indices: TensorLike) -> Tensor:
    return reshape(tensor_of(indices), (-1, 1))


@operator_class("InplaceUpdateV2", like=inplace_update)
def _update_by_indices(x: TensorLike, indices: TensorLike, v: TensorLike) -> Tensor:
    return inplace_update(x, v, indices)


class RowTensor:
    """Some rows of a tensor of size `dense_shape`: their indices along the first axis, and their values.

    Raises GraphTypeError and GraphValueError where the parts do not fit.
    """

    def __init__(
        self, indices: Any = None, values: Tensor | None = None, shape: Any = None, row_tensor: Any = None
    ) -> None:
        if isinstance(row_tensor, RowTensor):
            indices, values, shape = row_tensor.indices, row_tensor.values, row_tensor.dense_shape
        if not isinstance(shape, (tuple, list)):
            raise GraphTypeError(f"The shape of a RowTensor is a tuple, not {shape!r}.")
        self.indices: Tensor = tensor_of(indices)
        self.values: Tensor = tensor_of(values)
        self.dense_shape: tuple[int, ...] = tuple(shape)
        if self.indices.ndim != 1 or self.values.shape != (self.indices.size, *self.dense_shape[1:]):
            text = f"Rows {self.values.type} at {self.indices.type} do not fit a tensor of shape {self.dense_shape}."
            raise GraphValueError(text)

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.values.dtype

    def to_dense(self) -> Tensor:
        """The full tensor, zero in other rows; rows with the same index are added."""
        dense: Tensor = index_add(zeros(self.dense_shape, self.dtype), self.indices, self.values, 0)
        return dense
