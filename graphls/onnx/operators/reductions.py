"""Reductions along axes, argmax and argmin, cumulative sums, top-k."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphls import ops
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.table import operator
from graphls.onnx.values import DependsOnData, Input, Ints, Span, integers
from graphls.ops.math.transcendental import root
from graphls.ops.operands import apply, axis_of, tensor_of

Axes = tuple[int, ...] | None


def _sum(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    return apply("sum", x, axis=axes, keepdims=keep)


def _mean(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    if x.dtype.is_float:
        return ops.mean(x, axes, keep)
    total = _sum(x, axes, keep)
    return apply("truncate_div", total, ops.cast(Tensor(x.size // max(total.size, 1)), x.dtype))


def _log_sum_exp(x: Tensor, axes: Axes, keep: bool) -> Tensor:
    return ops.logsumexp(x, axes, keep) if x.size else ops.log(_sum(ops.exp(x), axes, keep))


def _extreme(kind: str) -> Callable[[Tensor, Axes, bool], Tensor]:
    def reduced(x: Tensor, axes: Axes, keep: bool) -> Tensor:
        if x.dtype.kind == "bool":
            return apply("any" if kind == "max" else "all", x, axis=axes, keepdims=keep)
        if not x.size:
            return _of_nothing(kind, x, axes, keep)
        return apply(kind, x, axis=axes, keepdims=keep)

    return reduced


def _of_nothing(kind: str, x: Tensor, axes: Axes, keep: bool) -> Tensor:
    """The extreme of no elements: the smallest number of the dtype as the maximum, the largest as the minimum."""
    shape = np.empty(x.shape).sum(axes, keepdims=keep).shape
    limits = (-np.inf, np.inf) if x.dtype.is_float else (np.iinfo(x.dtype.numpy).min, np.iinfo(x.dtype.numpy).max)
    return Tensor(np.full(shape, limits[kind == "min"], x.dtype.numpy))


_REDUCTIONS: dict[str, Callable[[Tensor, Axes, bool], Tensor]] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceMax": _extreme("max"),
    "ReduceMin": _extreme("min"),
    "ReduceProd": lambda x, axes, keep: apply("prod", x, axis=axes, keepdims=keep),
    "ReduceL1": lambda x, axes, keep: _sum(ops.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: root(_sum(ops.square(x), axes, keep)),
    "ReduceSumSquare": lambda x, axes, keep: _sum(ops.square(x), axes, keep),
    "ReduceLogSum": lambda x, axes, keep: ops.log(_sum(x, axes, keep)),
    "ReduceLogSumExp": _log_sum_exp,
}


_NEUTRAL = {"ReduceProd": 1.0, "ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceLogSumExp": -np.inf}
"""The elements that change no result; otherwise 0."""


def _of_span(kind: str, span: Span, axes: Axes, keep: bool) -> Tensor:
    """The reduction of the elements between computed bounds."""
    x = span.x
    if not x.dtype.is_float or not (axes is None or span.axis in axes):
        raise DependsOnData(span.cause)
    mask = ops.reshape(span.is_inside, tuple(n if i == span.axis else 1 for i, n in enumerate(x.shape)))
    inside = ops.where(mask, x, ops.cast(Tensor(np.float32(_NEUTRAL.get(kind, 0))), x.dtype))
    if kind != "ReduceMean":
        return _REDUCTIONS[kind](inside, axes, keep)
    ones = ops.cast(ops.broadcast_to(mask, x.shape), x.dtype)
    return ops.div(_sum(inside, axes, keep), _sum(ones, axes, keep))


def _declare(kind: str, reduce: Callable[[Tensor, Axes, bool], Tensor]) -> None:
    def reduced(operand: Input | Span, axes: Ints | None, keepdims: int) -> Tensor:
        if isinstance(operand, Span):
            return _of_span(kind, operand, _axes(axes, operand.x.ndim), bool(keepdims))
        x = tensor_of(operand)
        return reduce(x, _axes(axes, x.ndim), bool(keepdims))

    @operator(kind, spans=True)
    def by_attribute(x: Input | Span, *, axes: Ints | None = None, keepdims: int = 1) -> Tensor:
        return reduced(x, axes, keepdims)

    @operator(kind, since=13 if kind == "ReduceSum" else 18, known=(1,), spans=True)
    def by_input(
        x: Input | Span, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        numbers = () if axes is None else integers(axes)
        if numbers or not noop_with_empty_axes:
            return reduced(x, numbers, keepdims)
        if isinstance(x, Span):
            raise DependsOnData(x.cause)
        return _of_each(kind, tensor_of(x))


def _axes(axes: Ints | None, rank: int) -> Axes:
    """Non-negative axes; None for all."""
    return tuple(sorted(axis % max(rank, 1) for axis in axes)) if axes and rank else None


def _of_each(kind: str, x: Tensor) -> Tensor:
    """A reduction over no axes: its elementwise part, without the sum."""
    functions = {"ReduceL1": ops.abs, "ReduceL2": ops.abs, "ReduceSumSquare": ops.square, "ReduceLogSum": ops.log}
    return functions[kind](x) if kind in functions else x


for _kind, _reduction in _REDUCTIONS.items():
    _declare(_kind, _reduction)


def _declare_positions(kind: str, name: str) -> None:
    @operator(kind)
    def position(x: Input, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        x = tensor_of(x)
        if not select_last_index:
            return ops.cast(apply(name, x, axis=axis, keepdims=bool(keepdims)), "int64")
        from_end = apply(name, apply("reverse", x, axes=(axis,)), axis=axis, keepdims=bool(keepdims))
        return ops.sub(x.shape[axis] - 1, ops.cast(from_end, "int64"))


_declare_positions("ArgMax", "argmax")
_declare_positions("ArgMin", "argmin")


@operator("CumSum", known=(1,))
def cumsum(x: Input, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    x = tensor_of(x)
    return apply("cumsum", x, axis=axis_of(integers(axis)[0], x.ndim), exclusive=bool(exclusive), reverse=bool(reverse))


@operator("CumProd", known=(1,))
def cumprod(x: Input, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    x = tensor_of(x)
    return ops.cast(ops.cumprod(x, integers(axis)[0], exclusive=bool(exclusive), reverse=bool(reverse)), x.dtype)


@operator("TopK")
def top_k_of(x: Input, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    values, positions = ops.topk(x, k, axis)
    return values, ops.cast(positions, "int64")


@operator("TopK", since=10, known=(1,))
def top_k(x: Input, k: Array, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    values, positions = ops.topk(x, integers(k)[0], axis, bool(largest))
    return values, ops.cast(positions, "int64")
