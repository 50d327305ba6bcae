"""Array functions as cells, such as norms, triangles and rolls."""

from __future__ import annotations

import math
from typing import Any

from graphls import ops
from graphls.base.checks import boolean, positive, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.ops.operands import Axis, Sizes, axis_of, float_of, shape_of, tensor_of

__all__ = [
    "ClipByNorm", "Identity", "L1Regularizer", "LBeta", "MatDet", "MatInverse", "MatMul", "Moments", "Norm",
    "OneHot", "Range", "ReduceLogSumExp", "Roll", "Tril", "Triu", "Unflatten",
]  # fmt: skip


class LBeta(Cell):
    """The logarithm of the beta function of floats x and y, elementwise, broadcasting."""

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y)


class L1Regularizer(Cell):
    """`scale`, a number above 0, times the sum of absolute values."""

    _shown = "scale"

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = positive("L1Regularizer", "scale", scale)

    def construct(self, weights: TensorLike) -> Tensor:
        return ops.mul(ops.sum(ops.abs(float_of(weights))), self.scale)


class MatDet(Cell):
    """The determinants of matrices (..., n, n) that are symmetric and positive definite, by their Cholesky factors.

    They are nan for matrices that are not positive definite.
    """

    def construct(self, x: TensorLike) -> Tensor:
        return ops.square(ops.prod(ops.diagonal(ops.cholesky(x), dim1=-2, dim2=-1), -1))


class MatInverse(Cell):
    """The inverses of matrices (..., n, n) that are symmetric and positive definite, by their Cholesky factors.

    They hold nan for matrices that are not positive definite.
    """

    def construct(self, x: TensorLike) -> Tensor:
        return ops.cholesky_inverse(ops.cholesky(x))


class MatMul(Cell):
    """The matrix product of two tensors, of which either one's last two axes may be exchanged first."""

    _shown = "transpose_x1 transpose_x2"

    def __init__(self, transpose_x1: bool = False, transpose_x2: bool = False) -> None:
        super().__init__()
        self.transpose_x1 = boolean("MatMul", "transpose_x1", transpose_x1)
        self.transpose_x2 = boolean("MatMul", "transpose_x2", transpose_x2)

    def construct(self, x1: TensorLike, x2: TensorLike) -> Tensor:
        first = ops.swapaxes(x1, -1, -2) if self.transpose_x1 else x1
        return ops.matmul(first, ops.swapaxes(x2, -1, -2) if self.transpose_x2 else x2)


class OneHot(Cell):
    """`on_value` at the index along a new axis that each integer gives, and `off_value` elsewhere, in a dtype."""

    _shown = "axis depth"

    def __init__(
        self, axis: int = -1, depth: int = 1, on_value: TensorLike = 1.0, off_value: TensorLike = 0.0,
        dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.axis, self.depth = axis, positive_int("OneHot", "depth", depth)
        self.on_value, self.off_value, self.dtype = on_value, off_value, dtype

    def construct(self, indices: TensorLike) -> Tensor:
        on, off = (ops.cast(value, self.dtype) for value in (self.on_value, self.off_value))
        return ops.one_hot(indices, self.depth, on, off, self.axis)


class Range(Cell):
    """The numbers from `start` up to, but without, `limit`; with one argument from 0 up to that."""

    def __init__(self, start: float, limit: float | None = None, delta: float = 1) -> None:
        super().__init__()
        self.numbers = ops.arange(start, limit, delta)

    def construct(self) -> Tensor:
        return self.numbers


class Roll(Cell):
    """x shifted along axes; elements beyond the end reappear at the start."""

    _shown = "shift axis"

    def __init__(self, shift: Sizes, axis: Sizes) -> None:
        super().__init__()
        self.shift, self.axis = shift, axis

    def construct(self, input_x: TensorLike) -> Tensor:
        return ops.roll(input_x, self.shift, self.axis)


class Tril(Cell):
    """Matrices (..., m, n) with zeros above the diagonal `k`."""

    def construct(self, x: TensorLike, k: int = 0) -> Tensor:
        return ops.tril(x, k)


class Triu(Cell):
    """Matrices (..., m, n) with zeros below the diagonal `k`."""

    def construct(self, x: TensorLike, k: int = 0) -> Tensor:
        return ops.triu(x, k)


def _check_axis(name: str, axis: Axis) -> Any:
    axes = axis if isinstance(axis, (tuple, list)) else () if axis is None else (axis,)
    if any(isinstance(a, bool) or not isinstance(a, int) for a in axes):
        raise GraphTypeError(f"For {name!r}, the 'axis' must be integers, but got {axis!r}.")
    return axis


class Moments(Cell):
    """The mean and the variance of x along axes, all of them without any, as a tuple; 16-bit floats by float32."""

    _shown = "axis keep_dims"

    def __init__(self, axis: Axis = None, keep_dims: bool | None = None) -> None:
        super().__init__()
        self.axis = _check_axis("Moments", axis)
        self.keep_dims = keep_dims is not None and boolean("Moments", "keep_dims", keep_dims)

    def construct(self, x: TensorLike) -> tuple[Tensor, Tensor]:
        x = float_of(x)
        wide = ops.cast(x, float32) if x.dtype.is_half else x
        moments = ops.mean(wide, self.axis, self.keep_dims), ops.var(wide, self.axis, keepdims=self.keep_dims)
        return ops.cast(moments[0], x.dtype), ops.cast(moments[1], x.dtype)


class Norm(Cell):
    """The Euclidean norm of x along axes, all of them without any."""

    _shown = "axis keep_dims"

    def __init__(self, axis: Axis = (), keep_dims: bool = False) -> None:
        super().__init__()
        self.axis, self.keep_dims = _check_axis("Norm", axis), boolean("Norm", "keep_dims", keep_dims)

    def construct(self, x: TensorLike) -> Tensor:
        return ops.sqrt(ops.sum(ops.square(float_of(x)), self.axis, self.keep_dims))


class ReduceLogSumExp(Cell):
    """log(sum of exp(x)) along axes, all of them for (), computed from the distances to the largest element."""

    _shown = "axis keep_dims"

    def __init__(self, axis: Axis, keep_dims: bool = False) -> None:
        super().__init__()
        self.axis = _check_axis("ReduceLogSumExp", axis)
        self.keep_dims = boolean("ReduceLogSumExp", "keep_dims", keep_dims)

    def construct(self, x: TensorLike) -> Tensor:
        return ops.logsumexp(x, self.axis, self.keep_dims)


class ClipByNorm(Cell):
    """x * clip_norm / n where its Euclidean norm n, along axes or of all elements, is above `clip_norm`; else x.

    The norm is computed in float32 for 16-bit floats, and the result has the dtype of x.
    """

    _shown = "axis"

    def __init__(self, axis: Axis = None) -> None:
        super().__init__()
        self.axis = _check_axis("ClipByNorm", axis)

    def construct(self, x: TensorLike, clip_norm: TensorLike) -> Tensor:
        x = float_of(x)
        wide = ops.cast(x, float32) if x.dtype.is_half else x
        limit = ops.cast(clip_norm, wide.dtype)
        squares = ops.sum(ops.square(wide), self.axis, keepdims=True)
        inside = ops.less_equal(squares, ops.square(limit))
        norm = ops.sqrt(ops.where(inside, 1.0, squares))
        return ops.cast(ops.where(inside, wide, ops.div(ops.mul(wide, limit), norm)), x.dtype)


class Unflatten(Cell):
    """One axis as several, of sizes that multiply to its own; one of them may be -1."""

    _shown = "axis unflattened_size"

    def __init__(self, axis: int, unflattened_size: Sizes) -> None:
        super().__init__()
        self.axis, self.unflattened_size = axis, shape_of(unflattened_size)

    def construct(self, x: TensorLike) -> Tensor:
        x = tensor_of(x)
        at = axis_of(self.axis, x.ndim)
        known = math.prod(n for n in self.unflattened_size if n != -1)
        sizes = tuple(x.shape[at] // max(known, 1) if n == -1 else n for n in self.unflattened_size)
        if math.prod(sizes) != x.shape[at] or min(sizes, default=0) < 0:
            raise GraphValueError(
                f"Unflatten cannot give an axis of size {x.shape[at]} the sizes {self.unflattened_size}.",
            )
        return ops.reshape(x, (*x.shape[:at], *sizes, *x.shape[at + 1 :]))


class Identity(Cell):
    """The input, of any shape and dtype, unchanged."""

    def construct(self, x: TensorLike) -> Any:
        return x
