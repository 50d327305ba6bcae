"""Products of vectors, matrices and batches of matrices; matrix powers and exponentials."""

from __future__ import annotations

from math import factorial
from typing import Any

from graphls.base.checks import at_least
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import broadcast_shapes
from graphls.ops.arrays.creation import arange, zeros
from graphls.ops.arrays.shapes import broadcast_to, concat, cut, expand_dims, reshape, transpose
from graphls.ops.control_flow import while_loop
from graphls.ops.linear_algebra.contractions import Labelled, contract, diagonal_of
from graphls.ops.linear_algebra.factorizations import (
    as_one,
    require_matrices,
    require_square,
    transposed,
    unit_matrices,
)
from graphls.ops.linear_algebra.linear_systems import solved
from graphls.ops.math.elementwise import abs, add, addn, ceil, greater, less, minimum, mul, where
from graphls.ops.math.reductions import amax, sum
from graphls.ops.math.transcendental import log2
from graphls.ops.network.network import matmul
from graphls.ops.operands import Axis, Sizes, apply, axis_of, floats, in_single, operand_of, tensor_of
from graphls.ops.record import operation, operator_class
from graphls.ops.state import stop_gradient


def _of_ranks(name: str, ranks: tuple[int, ...], *operands: Any) -> tuple[Tensor, ...]:
    """The operands of a function in one dtype; raises GraphValueError unless they have the given ranks."""
    tensors = dispatch.promoted(*map(operand_of, operands))
    if tuple(t.ndim for t in tensors) != ranks:
        expected, actual = " and ".join(map(str, ranks)), " and ".join(str(t.type) for t in tensors)
        raise GraphValueError(f"{name} takes operands with {expected} axes, not {actual}.")
    return tensors


@operation
def mm(x: TensorLike, mat2: TensorLike) -> Tensor:
    """The product of two matrices."""
    return matmul(*_of_ranks("mm", (2, 2), x, mat2))


@operation(also="mint")
def bmm(x: TensorLike, mat2: TensorLike) -> Tensor:
    """The products of the matrices of two batches of one size; raises GraphValueError for other shapes."""
    x, mat2 = _of_ranks("bmm", (3, 3), x, mat2)
    if x.shape[0] != mat2.shape[0]:
        message = f"bmm takes batches of one size, not {x.shape[0]} and {mat2.shape[0]} matrices."
        raise GraphValueError(message)
    return matmul(x, mat2)


@operation(also="mint")
def mv(mat: TensorLike, vec: TensorLike) -> Tensor:
    """The product of a matrix and a vector."""
    return matmul(*_of_ranks("mv", (2, 1), mat, vec))


@operation
def vdot(x: TensorLike, other: TensorLike) -> Tensor:
    """The inner product of two vectors."""
    return matmul(*_of_ranks("vdot", (1, 1), x, other))


@operation(also="numpy mint")
def outer(x: TensorLike, vec2: TensorLike) -> Tensor:
    """The outer product of two vectors."""
    x, vec2 = _of_ranks("outer", (1, 1), x, vec2)
    return reshape(x, (-1, 1)) * vec2


@operation(classes="Ger")
def ger(x: TensorLike, vec2: TensorLike) -> Tensor:
    """The same as `outer`."""
    return outer(*dispatch.cast_operands("ger", x, vec2))


@operation(also="mint")
def addmm(x: TensorLike, mat1: TensorLike, mat2: TensorLike, *, beta: TensorLike = 1, alpha: TensorLike = 1) -> Tensor:
    """beta * x + alpha * (mat1 @ mat2) of matrices; x broadcasts."""
    x, mat1, mat2 = dispatch.cast_operands("addmm", x, mat1, mat2)
    return _added(x, mm(mat1, mat2), beta, alpha)


@operation
def addbmm(
    x: TensorLike, batch1: TensorLike, batch2: TensorLike, *, beta: TensorLike = 1, alpha: TensorLike = 1
) -> Tensor:
    """beta * x + alpha * the sum of the products of the matrices of two batches; x broadcasts."""
    x, batch1, batch2 = dispatch.cast_operands("addbmm", x, batch1, batch2)
    return _added(x, sum(bmm(batch1, batch2), 0), beta, alpha)


@operation(also="mint")
def baddbmm(
    x: TensorLike, batch1: TensorLike, batch2: TensorLike, beta: TensorLike = 1, alpha: TensorLike = 1
) -> Tensor:
    """beta * x + alpha * the products of the matrices of two batches; x broadcasts."""
    x, batch1, batch2 = dispatch.cast_operands("baddbmm", x, batch1, batch2)
    return _added(x, bmm(batch1, batch2), beta, alpha)


@operation
def addmv(x: TensorLike, mat: TensorLike, vec: TensorLike, *, beta: TensorLike = 1, alpha: TensorLike = 1) -> Tensor:
    """beta * x + alpha * (mat @ vec) of a matrix and a vector; x broadcasts."""
    x, mat, vec = dispatch.cast_operands("addmv", x, mat, vec)
    return _added(x, mv(mat, vec), beta, alpha)


@operation
def addr(x: TensorLike, vec1: TensorLike, vec2: TensorLike, *, beta: TensorLike = 1, alpha: TensorLike = 1) -> Tensor:
    """beta * x + alpha * the outer product of two vectors; x broadcasts."""
    return _added(x, outer(vec1, vec2), beta, alpha)


def _added(x: TensorLike, product: Tensor, beta: TensorLike, alpha: TensorLike) -> Tensor:
    return add(_times(x, beta), _times(product, alpha))


def _times(x: TensorLike, factor: TensorLike) -> Any:
    return x if isinstance(factor, (int, float)) and factor == 1 else mul(x, factor)


@operation(names="tensordot", also="numpy.tensordot")
def tensor_dot(x1: TensorLike, x2: TensorLike, axes: object) -> Tensor:
    """The tensor product, summed over the axes in a pair of integers or lists, one for each tensor.

    A single integer n stands for the last n axes of x1 and the first n of x2. Raises GraphTypeError for other axes,
    GraphValueError where their sizes differ.
    """
    x1, x2 = dispatch.promoted(operand_of(x1), operand_of(x2))
    first, second = _pairs(axes, x1, x2)
    if len({*first}) != len(first) or len({*second}) != len(second):
        raise GraphValueError(f"tensor_dot takes each axis once, not {axes!r}.")
    if [x1.shape[i] for i in first] != [x2.shape[i] for i in second]:
        message = f"tensor_dot of {x1.type} and {x2.type} takes axes of the same sizes, not {axes!r}."
        raise GraphValueError(message)
    labels = [("second", i) for i in range(x2.ndim)]
    for i, j in zip(first, second, strict=True):
        labels[j] = ("first", i)
    a, b = Labelled(x1, tuple(("first", i) for i in range(x1.ndim))), Labelled(x2, tuple(labels))
    output = tuple(label for label in (*a.labels, *b.labels) if not (label in a.labels and label in b.labels))
    return contract(a, b, {*output}).ordered(output)


def _pairs(axes: object, x1: Tensor, x2: Tensor) -> tuple[list[int], list[int]]:
    if isinstance(axes, int) and not isinstance(axes, bool):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise GraphValueError(f"tensor_dot of {x1.type} and {x2.type} has no {axes} axes.")
        return list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise GraphTypeError(f"tensor_dot takes an integer or a pair for its axes, not {axes!r}.")
    listed = [list(a) if isinstance(a, (tuple, list)) else [a] for a in axes]
    first, second = ([axis_of(a, t.ndim) for a in group] for group, t in zip(listed, (x1, x2), strict=True))
    if len(first) != len(second):
        raise GraphValueError(f"tensor_dot takes as many axes of one as of the other, not {axes!r}.")
    return first, second


@operation(also="numpy mint")
def dot(x: TensorLike, other: TensorLike) -> Tensor:
    """The product summed over the last axis of x and the second to last, or only, axis of the other."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    if not x.ndim or not other.ndim:
        return x * other
    return tensor_dot(x, other, (-1, max(-2, -other.ndim)))


@operation(also="numpy")
def inner(x: TensorLike, other: TensorLike) -> Tensor:
    """The product summed over the last axis of both; with a number, the product."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    return tensor_dot(x, other, (-1, -1)) if x.ndim and other.ndim else x * other


@operation(also="numpy")
def kron(x: TensorLike, other: TensorLike) -> Tensor:
    """The Kronecker product: each element of x replaced by its product with the other tensor."""
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    rank = max(x.ndim, other.ndim)
    first, second = ((1,) * (rank - t.ndim) + t.shape for t in (x, other))
    blocks = reshape(x, tuple(n for size in first for n in (size, 1)))
    tiles = reshape(other, tuple(n for size in second for n in (1, size)))
    return reshape(blocks * tiles, tuple(n * m for n, m in zip(first, second, strict=True)))


@operation(classes="Cross", settings="dim", also="mint")
def cross(x: TensorLike, other: TensorLike, dim: int | None = None) -> Tensor:
    """The cross product along an axis of size 3, the first one of that size unless given, broadcasting.

    Raises GraphValueError for an axis of another size.
    """
    x, other = dispatch.promoted(operand_of(x), operand_of(other))
    shape = broadcast_shapes(x.shape, other.shape)
    axis = (shape.index(3) if 3 in shape else -1) if dim is None else dim
    if not shape or shape[axis_of(axis, len(shape))] != 3:
        message = f"cross takes an axis of size 3, which {x.type} and {other.type} lack."
        raise GraphValueError(message)
    x, other, at = broadcast_to(x, shape), broadcast_to(other, shape), axis_of(axis, len(shape))
    turns = (_rolled(x, at, 1), _rolled(other, at, 2), _rolled(x, at, 2), _rolled(other, at, 1))
    return in_single(lambda a, b, c, d: mul(a, b) - mul(c, d), *turns)


def _rolled(x: Tensor, axis: int, positions: int) -> Tensor:
    return concat((cut(x, axis, positions, x.shape[axis]), cut(x, axis, 0, positions)), axis)


@operation(classes="Trace", also="numpy mint")
def trace(x: TensorLike) -> Tensor:
    """The sum of the diagonal of a matrix."""
    (x,) = _of_ranks("trace", (2,), tensor_of(x))
    return sum(diagonal_of(x, 0, 1))


@operation(classes="MatrixPower", also="numpy", settings="n", checks={"n": at_least(0)})
def matrix_power(x: TensorLike, n: int) -> Tensor:
    """The n-th power of square matrices, by repeated squaring; the unit matrix for 0.

    Raises GraphValueError for a negative `n`, which would need an inverse, and for matrices that are not square.
    """
    tensor = tensor_of(x)
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2]:
        raise GraphValueError(f"matrix_power takes square matrices, not {tensor.type}.")
    if n == 0:
        unit = apply("one_hot", arange(tensor.shape[-1]), depth=tensor.shape[-1], dtype=tensor.dtype)
        return broadcast_to(unit, tensor.shape)
    if n == 1:
        return tensor
    half = matrix_power(tensor, n // 2)
    return matmul(matmul(half, half), tensor) if n % 2 else matmul(half, half)


@operation
def t(input: TensorLike) -> Tensor:
    """A matrix transposed; a vector or a number as it is. Raises GraphValueError for more axes."""
    x = tensor_of(input)
    if x.ndim > 2:
        raise GraphValueError(f"t takes two axes at most, not {x.type}; use swapaxes or transpose.")
    return transpose(x, None)


@operation
def adjoint(x: TensorLike) -> Tensor:
    """The matrices of the last two axes transposed; raises GraphValueError for fewer axes."""
    return transposed(require_matrices("adjoint", tensor_of(x)))


@operation
def vecdot(x: TensorLike, y: TensorLike, *, axis: int = -1) -> Tensor:
    """The sums of the products of elements along an axis, broadcasting."""
    x, y = dispatch.promoted(operand_of(x), operand_of(y))
    shape = broadcast_shapes(x.shape, y.shape)
    wide, at = (broadcast_to(x, shape), broadcast_to(y, shape)), axis_of(axis, len(shape))
    return in_single(lambda a, b: sum(mul(a, b), at), *wide)


@operation
def batch_dot(x1: TensorLike, x2: TensorLike, axes: Axis | None = None) -> Tensor:
    """Batched products: for each position of the first axis, the product summed along one axis of each.

    `axes` is that of both or a pair; the default is the last one of x1 and the second to last of x2, or its only one
    after the first. The other axes of x1 come before those of x2; for two matrices the result has shape (batch, 1).
    Raises GraphValueError for the first axis, for other sizes, and for vectors.
    """
    x1, x2 = dispatch.promoted(operand_of(x1), operand_of(x2))
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[0] != x2.shape[0]:
        message = f"batch_dot takes tensors of two axes or more and of one batch size, not {x1.type} and {x2.type}."
        raise GraphValueError(message)
    first, second = _summed(x1, x2, (x1.ndim - 1, max(1, x2.ndim - 2)) if axes is None else axes)
    a, b = _labelled(x1, first, "x1"), _labelled(x2, second, "x2")
    output = tuple(label for label in (*a.labels, *b.labels[1:]) if label != "sum")
    result = contract(a, b, output).ordered(output)
    return expand_dims(result, 1) if result.ndim == 1 else result


def _labelled(x: Tensor, summed: int, name: str) -> Labelled:
    return Labelled(x, ("batch", *("sum" if i == summed else f"{name} {i}" for i in range(1, x.ndim))))


def _summed(x1: Tensor, x2: Tensor, axes: Sizes) -> tuple[int, int]:
    pair = axes if isinstance(axes, (tuple, list)) else (axes, axes)
    if len(pair) != 2:
        raise GraphValueError(f"batch_dot takes an axis or a pair of them, not {axes!r}.")
    first, second = axis_of(pair[0], x1.ndim), axis_of(pair[1], x2.ndim)
    if not first or not second or x1.shape[first] != x2.shape[second]:
        message = f"batch_dot of {x1.type} and {x2.type} takes axes of one size after the first, not {axes!r}."
        raise GraphValueError(message)
    return first, second


_DEGREE = 13
_COEFFICIENTS = [
    factorial(2 * _DEGREE - k) * factorial(_DEGREE) // (factorial(_DEGREE - k) * factorial(k) * factorial(_DEGREE))
    for k in range(_DEGREE + 1)
]
_REACH = 5.371920351148152
"""The largest norm for which the approximant is exact to double precision: theta 13 of Higham's table 2.3."""

_MOST_SQUARINGS = 64


@operation(classes="MatrixExp")
def matrix_exp(input: TensorLike) -> Tensor:
    """The matrix exponential, for square matrices whose columns sum to less than 1e20.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> Tensor:
        require_square("matrix_exp", x)
        return _exponential(x) if x.size else x

    return as_one(computed, input)


def _exponential(x: Tensor) -> Tensor:
    count = _squarings(x)
    start = _approximant(x * 2.0 ** (count * -1.0))

    def squared(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        power, done = state
        return where(done < count, matmul(power, power), power), done + 1.0

    most = amax(count)
    result: Tensor = while_loop(lambda state: less(state[1], most), squared, (start, most * 0.0), _MOST_SQUARINGS)[0]
    return result


def _squarings(x: Tensor) -> Tensor:
    """The number of halvings that bring the norm of each matrix within reach, with axes of size 1."""
    norm = stop_gradient(amax(sum(abs(x), -2, keepdims=True), -1, keepdims=True))
    halvings = ceil(log2(where(greater(norm, _REACH), norm, _REACH) / _REACH))
    return minimum(halvings, float(_MOST_SQUARINGS))


def _approximant(x: Tensor) -> Tensor:
    """The Pade approximant: the quotient of a polynomial in x and the same polynomial in -x."""
    square = matmul(x, x)
    fourth = matmul(square, square)
    powers = [unit_matrices(x), square, fourth, matmul(fourth, square)]
    odd = matmul(x, _polynomial(powers, _COEFFICIENTS[1::2]))
    even = _polynomial(powers, _COEFFICIENTS[0::2])
    return solved(even - odd, even + odd)


def _polynomial(powers: list[Tensor], coefficients: list[int]) -> Tensor:
    """A polynomial in a square with seven coefficients, of which the upper three share a factor."""
    low = _combined(powers, coefficients[:4])
    return low + matmul(powers[3], _combined(powers[1:], coefficients[4:]))


def _combined(powers: list[Tensor], coefficients: list[int]) -> Tensor:
    result = powers[0] * float(coefficients[0])
    for power, coefficient in zip(powers[1:], coefficients[1:], strict=False):
        result = result + power * float(coefficient)
    return result


@operator_class("TridiagonalMatMul")
def tridiagonal_product(superdiag: TensorLike, maindiag: TensorLike, subdiag: TensorLike, rhs: TensorLike) -> Tensor:
    """The products of tridiagonal matrices, given by diagonals of shape (..., 1, m), with matrices (..., m, n).

    The last element above the main diagonal and the first one below it are ignored. Raises GraphValueError for other
    shapes.
    """
    *diagonals, right = floats(superdiag, maindiag, subdiag, rhs)
    expected = (*right.shape[:-2], 1, *right.shape[-2:-1])
    if right.ndim < 2 or any(diagonal.shape != expected for diagonal in diagonals):
        actual = ", ".join(str(diagonal.type) for diagonal in diagonals)
        message = f"TridiagonalMatMul with {right.type} takes diagonals of shape {expected}, not {actual}."
        raise GraphValueError(message)
    return in_single(_product, *diagonals, right)


def _product(above: Tensor, main: Tensor, below: Tensor, rhs: Tensor) -> Tensor:
    count, axis = rhs.shape[-2], rhs.ndim - 2
    if not count:
        return rhs
    edge = zeros((*rhs.shape[:-2], 1, rhs.shape[-1]), rhs.dtype)
    later, earlier = concat((cut(rhs, axis, 1, count), edge), axis), concat((edge, cut(rhs, axis, 0, count - 1)), axis)
    products = [transposed(d) * rows for d, rows in ((above, later), (main, rhs), (below, earlier))]
    return addn(products)
