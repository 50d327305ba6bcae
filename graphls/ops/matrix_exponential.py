"""The exponential of matrices, by scaling, a Padé approximant and squaring.

N. Higham, "The Scaling and Squaring Method for the Matrix Exponential Revisited" (2005), algorithm 2.3 with m = 13.
"""

from __future__ import annotations

from math import factorial

from graphls.ops.control_flow import while_loop
from graphls.ops.elementwise import abs, add, ceil, div, minimum, mul, pow, sub
from graphls.ops.exponentials import log2
from graphls.ops.linear_systems import solved
from graphls.ops.logic import greater, less, where
from graphls.ops.matrices import as_one, require_square, unit_matrices
from graphls.ops.network import matmul
from graphls.ops.record import operation
from graphls.ops.reductions import amax, sum
from graphls.ops.state import stop_gradient
from graphls.tensors.tensor import Tensor, TensorLike

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
    """The sum of x ** k / k! over all k, of square matrices x whose columns add up to less than 1e20.

    Raises GraphValueError for matrices that are not square.
    """

    def computed(x: Tensor) -> Tensor:
        require_square("matrix_exp", x)
        return _exponential(x) if x.size else x

    result: Tensor = as_one(computed, input)
    return result


def _exponential(x: Tensor) -> Tensor:
    count = _squarings(x)
    start = _approximant(mul(x, pow(2.0, mul(count, -1.0))))

    def squared(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        made, done = state
        return where(less(done, count), matmul(made, made), made), add(done, 1.0)

    most = amax(count)
    made, _ = while_loop(lambda state: less(state[1], most), squared, (start, mul(most, 0.0)), _MOST_SQUARINGS)
    result: Tensor = made
    return result


def _squarings(x: Tensor) -> Tensor:
    """How often each matrix is halved to come within reach, with axes of size 1 for its own."""
    norm = stop_gradient(amax(sum(abs(x), -2, keepdims=True), -1, keepdims=True))
    halvings = ceil(log2(div(where(greater(norm, _REACH), norm, _REACH), _REACH)))
    return minimum(halvings, float(_MOST_SQUARINGS))


def _approximant(x: Tensor) -> Tensor:
    """The quotient of a polynomial of x and the same of -x."""
    square = matmul(x, x)
    fourth = matmul(square, square)
    powers = [unit_matrices(x), square, fourth, matmul(fourth, square)]
    odd = matmul(x, _polynomial(powers, _COEFFICIENTS[1::2]))
    even = _polynomial(powers, _COEFFICIENTS[0::2])
    return solved(sub(even, odd), add(even, odd))


def _polynomial(powers: list[Tensor], coefficients: list[int]) -> Tensor:
    """The polynomial of a square with these seven coefficients, of which the upper three share a factor."""
    low = _combined(powers, coefficients[:4])
    return add(low, matmul(powers[3], _combined(powers[1:], coefficients[4:])))


def _combined(powers: list[Tensor], coefficients: list[int]) -> Tensor:
    result = mul(powers[0], float(coefficients[0]))
    for power, coefficient in zip(powers[1:], coefficients[1:], strict=False):
        result = add(result, mul(power, float(coefficient)))
    return result
