"""Elementwise nodes in the order of one kernel: two operands, and behind them one operation after another.

A kernel computes from one number so far and an operand, so of two operands of a node at most one is computed in the
same kernel. The other one is read, and may be multiplied by a factor: m * 0.9 + g * 0.1 is a sum of two operands with
factors, (x * x) * 0.1 + v * 0.9 is ((x * x) * (0.1 / 0.9) + v) * 0.9, and w - m / (sqrt(v) + 1e-8) is
-(1 / (sqrt(v) + 1e-8)) * m + w.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan, prod
from typing import NamedTuple

from graphls.ir.graph import Node, Value
from graphls.runtime.onednn.elementwise.algorithms import (
    ABS,
    ADD,
    DIV,
    EXP,
    LINEAR,
    LOGISTIC,
    MAX,
    MIN,
    MUL,
    POW,
    RELU,
    ROUND,
    SQRT,
    SQUARE,
    SUB,
    TANH,
)
from graphls.runtime.onednn.elementwise.gates import Gate, gate_of

Function = tuple[int, float, float]
"""An algorithm of oneDNN and its two numbers."""

_SQRT: Function = (SQRT, 0.0, 0.0)
_TANH: Function = (TANH, 0.0, 0.0)
_RECIPROCAL: Function = (POW, 1.0, -1.0)
_HUGE: Function = (LINEAR, 2.0**100, 0.0)

FUNCTIONS: Mapping[str, tuple[Function, ...]] = {
    "abs": ((ABS, 0.0, 0.0),), "square": ((SQUARE, 0.0, 0.0),), "sqrt": (_SQRT,), "tanh": (_TANH,),
    "sigmoid": ((LOGISTIC, 0.0, 0.0),), "round": ((ROUND, 0.0, 0.0),), "reciprocal": (_RECIPROCAL,),
    "rsqrt": (_SQRT, _RECIPROCAL), "sign": (_HUGE, _HUGE, _TANH),
}  # fmt: skip
"""Functions of one operand. The power -0.5 of -inf would be 0; the hyperbolic tangent of huge numbers is 1 or -1."""

NAN_AS_NUMBER: Mapping[str, int] = {"relu": RELU, "exp": EXP}
"""Algorithms that make a number of nan, though of no number one that is below it."""

BINARY: Mapping[str, int] = {"add": ADD, "sub": SUB, "mul": MUL, "div": DIV}
SUMS = ("add", "sub")
EXTREMES: Mapping[str, int] = {"maximum": MAX, "minimum": MIN}

NAMES = frozenset((*FUNCTIONS, *NAN_AS_NUMBER, *BINARY, *EXTREMES, "neg", "relu_gradient"))

MOST = 24
"""The most operations behind a kernel; oneDNN takes 32."""

MOST_ELEMENTS = 1 << 20
"""The most elements of a result of which no operand has all."""

SAFE = 0.5, 2.0**20
"""Factors by which a sum may be divided before an operand is added, and multiplied behind that, without overflow."""

Numbers = Callable[[Value], "float | None"]
"""The number that a value of one element always is; None for other values."""


class Scale(NamedTuple):
    """A factor: a number times values of one element."""

    number: float = 1.0
    values: tuple[Value, ...] = ()

    def times(self, other: Scale) -> Scale:
        """The product."""
        return Scale(self.number * other.number, (*self.values, *other.values))


ONE = Scale()


class Term(NamedTuple):
    """An operand of a kernel times a factor; None is one of zeros, all of them -0.0, which added change nothing."""

    value: Value | None
    scale: Scale = ONE


class Step(NamedTuple):
    """A function of the result so far, with its two numbers, or what is done with it and an operand."""

    algorithm: int
    numbers: tuple[float, float] = (0.0, 0.0)
    operand: Value | float | None = None


@dataclass
class Expression:
    """What a kernel computes: `algorithm` on two operands, without a second one the first, and steps behind that.

    With `is_guarded` the second operand is nan, too, where the first one is: oneDNN's extremes give their second
    operand if one is nan.
    """

    first: Term
    algorithm: int = MUL
    second: Term | None = None
    steps: list[Step] = field(default_factory=list)
    is_guarded: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether it is an operand, perhaps with a factor."""
        return self.second is None and not self.steps

    @property
    def operands(self) -> Iterable[Value]:
        """The values that it reads."""
        terms = (self.first, self.second) if self.second is not None else (self.first,)
        yield from (term.value for term in terms if term.value is not None)
        yield from (step.operand for step in self.steps if isinstance(step.operand, Value))

    def function(self, algorithm: int, alpha: float = 0.0, beta: float = 0.0) -> None:
        """Append a function."""
        self.steps.append(Step(algorithm, (alpha, beta)))

    def operate(self, algorithm: int, operand: Value | float) -> None:
        """Append an operation with an operand."""
        self.steps.append(Step(algorithm, operand=operand))

    def multiply(self, scale: Scale) -> None:
        """Append factors."""
        if self.is_bare:
            self.first = Term(self.first.value, self.first.scale.times(scale))
            return
        for value in scale.values:
            self.operate(MUL, value)
        if scale.number != 1 and not self._is_absorbed(scale.number):
            self.operate(MUL, scale.number)

    def multiply_by(self, value: Value, scale: Scale) -> None:
        """Multiply by an operand with a factor, in the order in which products overflow last."""
        is_small = abs(scale.number) <= 1
        if is_small:
            self.multiply(scale)
        self.operate(MUL, value)
        if not is_small:
            self.multiply(scale)

    def _is_absorbed(self, factor: float) -> bool:
        """Multiply in the step before by a number; a sign may stand before other products, too. False without one."""
        for place, step in reversed(list(enumerate(self.steps))):
            if step.algorithm == POW:
                alpha, beta = step.numbers
                self.steps[place] = step._replace(numbers=(alpha * factor, beta))
                return True
            if step.algorithm == MUL and isinstance(step.operand, float):
                self.steps[place] = step._replace(operand=step.operand * factor)
                return True
            if step.algorithm != MUL or factor != -1:
                return False
        return False


def expression_of(nodes: Sequence[Node], numbers: Numbers) -> Expression | None:
    """The expression of nodes, of which the last gives the result; None where one kernel cannot compute it."""
    expression = _Expressions(nodes, numbers).of(nodes[-1].output)
    return expression if expression is not None and len(expression.steps) <= MOST else None


def is_read(value: Value, shape: Sequence[int]) -> bool:
    """Whether an operation behind a kernel reads an operand as it should.

    oneDNN 3.2 takes channels for rows where each has one element: a sum with 1 x 4 x 1 in a result of 3 x 4 x 1.
    """
    sizes = (*(1,) * (len(shape) - value.type.rank), *value.type.shape)
    is_by_channel = len(shape) > 2 and sizes[1] > 1 and value.type.size == sizes[1] and shape[0] > 1
    return not (is_by_channel and prod(shape[2:]) == 1)


class _Expressions:
    """The expressions of the values that nodes compute."""

    def __init__(self, nodes: Sequence[Node], numbers: Numbers) -> None:
        self.definer = {node.output: node for node in nodes}
        self.shape, self.numbers = nodes[-1].output.type.shape, numbers

    def of(self, value: Value) -> Expression | None:
        """The expression of a value; None where one kernel cannot compute it."""
        node = self.definer.get(value)
        if node is None:
            return self._read(value)
        name = node.primitive.name
        if name == "neg":
            return self._times(node.inputs[0], Scale(-1.0))
        if name in FUNCTIONS:
            return self._function(node)
        if name in NAN_AS_NUMBER:
            return self._mended(node.inputs[0], MAX, Step(NAN_AS_NUMBER[name]))
        if name in ("relu_gradient", "where"):
            return self._gated(node)
        return self._extreme(node) if name in EXTREMES else self._binary(node)

    def _read(self, value: Value) -> Expression | None:
        """An operand; one that is broadcast is added to zeros."""
        if value.type.shape == self.shape:
            return Expression(Term(value))
        if prod(self.shape) > MOST_ELEMENTS:
            return None
        return Expression(Term(None), ADD, Term(value))

    def _times(self, value: Value, scale: Scale) -> Expression | None:
        expression = self.of(value)
        if expression is not None:
            expression.multiply(scale)
        return expression

    def _function(self, node: Node) -> Expression | None:
        expression = self.of(node.inputs[0])
        if expression is not None:
            for function in FUNCTIONS[node.primitive.name]:
                expression.function(*function)
        return expression

    def _mended(self, value: Value, extreme: int, step: Step) -> Expression | None:
        """The larger or smaller one of f(x) and x, which is nan where x is, for an f that is not beyond x."""
        expression = self.of(value)
        if expression is None or not expression.is_bare or expression.first.scale != ONE:
            return None
        assert expression.first.value is not None, "Operands that are broadcast are not bare."
        return Expression(expression.first, steps=[step, Step(extreme, operand=expression.first.value)])

    def _extreme(self, node: Node) -> Expression | None:
        x, y = node.inputs
        algorithm = EXTREMES[node.primitive.name]
        for one, other in ((x, y), (y, x)):
            number = self.numbers(other)
            if number is not None and not isnan(number) and one.type.shape == self.shape:
                return self._mended(one, algorithm, Step(algorithm, operand=number))
        if x.type.shape != self.shape:
            x, y = y, x
        first, second = self._term(x), self._term(y)
        if first is None or second is None or not self._is_whole(first):
            return None
        has_factors = (first.scale, second.scale) != (ONE, ONE)
        return None if has_factors else Expression(first, algorithm, second, is_guarded=True)

    def _gated(self, node: Node) -> Expression | None:
        """The product of a gradient and gates, each 1 or 0; 1 / 0 - 1 closes the next one for all numbers."""
        gates = self._gates(node)
        factor = self._term(gates[-1].gradient) if gates else None
        if factor is None or factor.value is None or not is_read(factor.value, self.shape):
            return None
        expression: Expression | None = None
        for gate in gates:
            if gate.value.type.shape != self.shape:
                return None
            if expression is None:
                expression = self._times(gate.value, Scale(gate.factor)) if gate.factor != 1 else self.of(gate.value)
            elif gate.is_closed or gate.value in self.definer:
                return None
            else:
                expression.function(POW, 1.0, -1.0)
                expression.function(LINEAR, 1.0, -1.0)
                expression.operate(ADD if gate.factor > 0 else SUB, gate.value)
            if expression is None:
                return None
            expression.operate(gate.algorithm, gate.number)
            if gate.is_closed:
                expression.function(LINEAR, -1.0, 1.0)
        if expression is not None:
            expression.multiply_by(factor.value, factor.scale)
        return expression

    def _gates(self, node: Node | None) -> list[Gate]:
        """The gate that a node is, and those that its gradient passed before."""
        gate = None if node is None else gate_of(node, self.definer, self.numbers)
        return [] if gate is None else [gate, *self._gates(self.definer.get(gate.gradient))]

    def _binary(self, node: Node) -> Expression | None:
        name, (x, y) = node.primitive.name, node.inputs
        for value, factor in ((x, y), (y, x)):
            scale = self._scale(name, factor)
            if scale is not None and (name == "mul" or factor is y) and value.type.shape == self.shape:
                return self._times(value, scale)
        if name in SUMS:
            return self._sum(node)
        first, second = self._term(x), self._term(y)
        if second is not None and (first is None or self._is_whole(first) or not self._is_whole(second)):
            return self._applied(x, BINARY[name], second)
        if first is not None and name == "mul":
            return self._applied(y, MUL, first)
        return None if first is None else self._quotient(first, y)

    def _scale(self, name: str, value: Value) -> Scale | None:
        """An operand of a product or quotient as a factor."""
        if value in self.definer or name not in ("mul", "div"):
            return None
        number = self.numbers(value)
        if number is not None and (name == "mul" or (number and isfinite(1 / number) and _is_power_of_two(number))):
            return Scale(number if name == "mul" else 1 / number)
        is_factor = value.type.size == 1 and prod(self.shape) > 1 and name == "mul"
        return Scale(values=(value,)) if is_factor else None

    def _term(self, value: Value) -> Term | None:
        """A value as an operand with a factor; None where it is computed."""
        if value not in self.definer:
            return Term(value)
        expression = self.of(value)
        return expression.first if expression is not None and expression.is_bare else None

    def _is_whole(self, term: Term) -> bool:
        return term.value is None or term.value.type.shape == self.shape

    def _applied(self, value: Value, algorithm: int, term: Term) -> Expression | None:
        """A product or quotient of a value and an operand."""
        expression = self.of(value)
        if expression is None or term.value is None:
            return None
        if expression.is_bare:
            return Expression(expression.first, algorithm, term)
        if not is_read(term.value, self.shape) or (algorithm == DIV and term.scale != ONE):
            return None
        if algorithm == DIV:
            expression.operate(DIV, term.value)
        else:
            expression.multiply_by(term.value, term.scale)
        return expression

    def _quotient(self, term: Term, value: Value) -> Expression | None:
        """The quotient of an operand, which may be broadcast, and a value: the reciprocal times the operand."""
        expression = self.of(value)
        if expression is None or term.value is None or not is_read(term.value, self.shape):
            return None
        expression.function(POW, 1.0, -1.0)
        expression.multiply_by(term.value, term.scale)
        return expression

    def _sum(self, node: Node) -> Expression | None:
        """A sum of one value and operands with factors; those with factors that are not numbers come first."""
        terms: list[Term] = []
        computed: list[tuple[float, Value]] = []
        self._collect(node.output, 1.0, terms, computed)
        if len(computed) > 1:
            return None
        if computed:
            ((factor, value),) = computed
            expression = self._times(value, Scale(factor)) if factor != 1 else self.of(value)
        else:
            terms.sort(key=self._place)
            first = next((term for term in terms if self._is_whole(term) and not self._is_number(term)), None)
            if first is None:
                first = next((term for term in terms if not self._is_number(term) and term.scale == ONE), None)
                expression = None if first is None or first.value is None else self._read(first.value)
            else:
                expression = Expression(first)
            terms = [term for term in terms if term is not first]
        for term in terms:
            if expression is None or not self._add(expression, term):
                return None
        return expression

    def _collect(
        self, value: Value, factor: float, terms: list[Term], computed: list[tuple[float, Value]]
    ) -> None:  # fmt: skip
        """The operands of a sum, and the values that are computed, each with the factor 1 or -1.

        Those of a sum that is added come first, so that rounded + (x - x) is rounded.
        """
        node = self.definer.get(value)
        name = node.primitive.name if node is not None else ""
        if node is not None and name in SUMS:
            first, second = node.inputs
            if name == "add" and not self._is_sum(first) and self._is_sum(second):
                first, second = second, first
            self._collect(first, factor, terms, computed)
            self._collect(second, factor if name == "add" else -factor, terms, computed)
            return
        term = self._term(value)
        if term is not None:
            terms.append(Term(term.value, term.scale.times(Scale(factor))))
        else:
            computed.append((factor, value))

    def _is_sum(self, value: Value) -> bool:
        name = self.definer[value].primitive.name if value in self.definer else ""
        return name in SUMS

    def _place(self, term: Term) -> int:
        """Where an operand of a sum comes: the sooner, the harder its factor is to apply behind a kernel."""
        return 3 if self._is_number(term) else 0 if term.scale.values else 1 if abs(term.scale.number) != 1 else 2

    def _is_number(self, term: Term) -> bool:
        return term.value is not None and not term.scale.values and self.numbers(term.value) is not None

    def _add(self, expression: Expression, term: Term) -> bool:
        """Add an operand; returns whether that is possible."""
        value, scale = term.value, term.scale
        if value is None:
            return False
        number = self.numbers(value)
        if number is not None and not scale.values and isfinite(number):
            factor = 1.0
            if expression.is_bare and not expression.first.scale.values:
                factor, expression.first = expression.first.scale.number, Term(expression.first.value)
            expression.function(LINEAR, factor, number * scale.number)
            return True
        if expression.is_bare:
            expression.algorithm, expression.second = ADD, term
            if scale.number == -1 and not scale.values:
                expression.algorithm, expression.second = SUB, Term(value)
            return True
        if scale.values or not is_read(value, self.shape):
            return False
        if abs(scale.number) == 1:
            expression.operate(ADD if scale.number > 0 else SUB, value)
            return True
        if not SAFE[0] <= abs(scale.number) <= SAFE[1]:
            return False
        expression.multiply(Scale(1 / scale.number))
        expression.operate(ADD, value)
        expression.multiply(Scale(scale.number))
        return True


def _is_power_of_two(number: float) -> bool:
    """Whether a division by it is as exact as a multiplication."""
    return abs(number).hex().split("p")[0] == "0x1.0000000000000"
