"""Reductions along axes, argmax and argmin, cumulative sums, top-k."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphls import ops
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Ints, integers
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


def _declare(kind: str, reduce: Callable[[Tensor, Axes, bool], Tensor]) -> None:
    @operator(kind)
    def by_attribute(x: Input, *, axes: Ints | None = None, keepdims: int = 1) -> Tensor:
        x = tensor_of(x)
        return reduce(x, _axes(axes, x.ndim), bool(keepdims))

    @operator(kind, since=13 if kind == "ReduceSum" else 18, known=(1,))
    def by_input(x: Input, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        x = tensor_of(x)
        numbers = () if axes is None else integers(axes)
        if not numbers and noop_with_empty_axes:
            return _of_each(kind, x)
        return reduce(x, _axes(numbers, x.ndim), bool(keepdims))


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
