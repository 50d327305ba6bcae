"""Layers that reduce over axes: moments, norms, logarithms of sums."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.errors import GraphTypeError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean
from graphls.ops.operands import float_of
from graphls.tensors.tensor import Tensor

__all__ = ["ClipByNorm", "Moments", "Norm", "ReduceLogSumExp"]


def _check_axis(name: str, axis: Any) -> Any:
    axes = axis if isinstance(axis, (tuple, list)) else () if axis is None else (axis,)
    if any(isinstance(a, bool) or not isinstance(a, int) for a in axes):
        raise GraphTypeError(f"For {name!r}, the 'axis' must be integers, but got {axis!r}.")
    return axis


class Moments(Cell):
    """The mean and the variance of x along axes, all of them without any, as a tuple; 16-bit floats by float32."""

    def __init__(self, axis: Any = None, keep_dims: bool | None = None) -> None:
        super().__init__()
        self.axis = _check_axis("Moments", axis)
        self.keep_dims = keep_dims is not None and boolean("Moments", "keep_dims", keep_dims)

    def construct(self, x: Any) -> tuple[Tensor, Tensor]:
        x = float_of(x)
        wide = ops.cast(x, float32) if x.dtype.is_half else x
        moments = ops.mean(wide, self.axis, self.keep_dims), ops.var(wide, self.axis, keepdims=self.keep_dims)
        return ops.cast(moments[0], x.dtype), ops.cast(moments[1], x.dtype)

    def extend_repr(self) -> str:
        return f"axis={self.axis}, keep_dims={self.keep_dims}"


class Norm(Cell):
    """The Euclidean norm of x along axes, all of them without any."""

    def __init__(self, axis: Any = (), keep_dims: bool = False) -> None:
        super().__init__()
        self.axis, self.keep_dims = _check_axis("Norm", axis), boolean("Norm", "keep_dims", keep_dims)

    def construct(self, x: Any) -> Tensor:
        return ops.sqrt(ops.sum(ops.square(float_of(x)), self.axis, self.keep_dims))

    def extend_repr(self) -> str:
        return f"axis={self.axis}, keep_dims={self.keep_dims}"


class ReduceLogSumExp(Cell):
    """log(sum of exp(x)) along axes, all of them for (), computed from the distances to the largest element."""

    def __init__(self, axis: Any, keep_dims: bool = False) -> None:
        super().__init__()
        self.axis = _check_axis("ReduceLogSumExp", axis)
        self.keep_dims = boolean("ReduceLogSumExp", "keep_dims", keep_dims)

    def construct(self, x: Any) -> Tensor:
        return ops.logsumexp(x, self.axis, self.keep_dims)

    def extend_repr(self) -> str:
        return f"axis={self.axis}, keep_dims={self.keep_dims}"


class ClipByNorm(Cell):
    """x * clip_norm / n where its Euclidean norm n, along axes or of all elements, is above `clip_norm`; else x.

    The norm is computed in float32 for 16-bit floats, and the result has the dtype of x.
    """

    def __init__(self, axis: Any = None) -> None:
        super().__init__()
        self.axis = _check_axis("ClipByNorm", axis)

    def construct(self, x: Any, clip_norm: Any) -> Tensor:
        x = float_of(x)
        wide = ops.cast(x, float32) if x.dtype.is_half else x
        limit = ops.cast(clip_norm, wide.dtype)
        squares = ops.sum(ops.square(wide), self.axis, keepdims=True)
        inside = ops.less_equal(squares, ops.square(limit))
        norm = ops.sqrt(ops.where(inside, 1.0, squares))
        return ops.cast(ops.where(inside, wide, ops.div(ops.mul(wide, limit), norm)), x.dtype)

    def extend_repr(self) -> str:
        return f"axis={self.axis}"
