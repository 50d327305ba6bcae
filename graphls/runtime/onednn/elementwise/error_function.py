"""The error function as a quotient of polynomials, which oneDNN has within its gelu only."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.ir.graph import Node, Value
from graphls.runtime.onednn.elementwise.algorithms import DIV, LINEAR, MAX, MIN, MUL
from graphls.runtime.onednn.elementwise.chain import compute
from graphls.runtime.onednn.elementwise.expressions import Expression, Term
from graphls.runtime.onednn.program.program import Program
from graphls.runtime.onednn.registry import rule

LARGEST = 3.832506856900711
"""From here on the result is 1 in float32."""

_NUMERATOR = (
    0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861, 0.18520832239976145, 1.128379143519084,
)  # fmt: skip
_DENOMINATOR = (
    -1.1791602954361697e-7, 0.000023547966471313185, 0.0010179625278914885, 0.014070470171167667, 0.11098505178285362,
    0.49746925110067538, 1.0,
)  # fmt: skip
"""erf(x) / x as a quotient of polynomials in x ** 2, the coefficient of the highest power first (as in Eigen)."""


@rule("erf")
def _erf(program: Program, node: Node) -> None:
    x, kind = node.inputs[0], node.output.type
    below, size, square, divisor = (Value(name, kind) for name in ("below", "size", "square", "divisor"))
    for value, source, extreme, bound in ((below, x, MIN, LARGEST), (size, below, MAX, -LARGEST)):
        expression = Expression(Term(source))
        expression.operate(extreme, bound)
        expression.operate(extreme, source)  # which is the result where it is nan
        compute(program, expression, value)
    compute(program, Expression(Term(size), MUL, Term(size)), square)
    compute(program, _polynomial(square, _DENOMINATOR), divisor)
    expression = _polynomial(square, _NUMERATOR)
    expression.operate(DIV, divisor)
    expression.operate(MUL, size)
    compute(program, expression, node.output)


def _polynomial(x: Value, coefficients: Sequence[float]) -> Expression:
    """A polynomial by Horner's rule."""
    first, second, *others = coefficients
    expression = Expression(Term(x))
    expression.function(LINEAR, first, second)
    for coefficient in others:
        expression.operate(MUL, x)
        expression.function(LINEAR, 1.0, coefficient)
    return expression
