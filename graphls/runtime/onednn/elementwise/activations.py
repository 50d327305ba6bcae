"""Activations whose nodes autodiff or a composition has spread out, as one kernel of oneDNN in each direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.passes.patterns.matching import Match, matches
from graphls.runtime.onednn.binding import Descriptor, Primitive, Role, floats
from graphls.runtime.onednn.elementwise.algorithms import (
    GELU_ERF,
    GELU_TANH,
    LESS,
    LINEAR,
    LOGISTIC,
    MIN,
    MUL,
    RELU,
    SQUARE,
    SWISH,
)
from graphls.runtime.onednn.elementwise.chain import compute
from graphls.runtime.onednn.elementwise.expressions import Expression, Scale, Term
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.program import COMPUTED, Group, Program

TRAINING = 64

_SQUARE = "minimum(mul(x, x), 144.0, ...)"
_SHARE = f"sigmoid(mul(x, add(mul({_SQUARE}, FACTOR), STEEPNESS)))"
_INNER = f"add(mul({_SQUARE}, OTHER), STEEPNESS)"
_GELU = f"mul(x, {_SHARE})"
_GELU_GRADIENT = f"mul(g, add({_SHARE}, mul(mul(x, mul({_SHARE}, sub(1.0, {_SHARE}))), {_INNER})))"

_NORMAL = "add(erf(mul(x, 0.7071067811865476)), 1.0)"
_EXACT_GELU = f"mul(mul(x, 0.5), {_NORMAL})"
_DENSITY = "mul(exp(neg(square(mul(x, 0.7071067811865476)))), 1.1283791670955126)"
_EXACT_GELU_GRADIENT = (
    f"add(mul(mul(mul(g, mul(x, 0.5)), {_DENSITY}), 0.7071067811865476), mul(mul(g, {_NORMAL}), 0.5))"
)

_SWISH_GRADIENT = "add(mul(g, sigmoid(x)), mul(mul(g, x), mul(sigmoid(x), sub(1.0, sigmoid(x)))))"

_LEAKY = "where(greater(x, 0.0), x, mul(x, SLOPE))"
_LEAKY_GRADIENT = "add(where(greater(x, 0.0), g, 0.0), mul(where(greater(x, 0.0), 0.0, g), SLOPE))"

STEEPNESS = float(np.sqrt(8 / np.pi))
"""What the hyperbolic tangent of oneDNN's approximate gelu has, as the factor of a logistic function."""


def activations(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of the activations of a graph, and of their gradients."""
    for node in nodes:
        for pattern, emit in _PATTERNS.get(node.primitive.name, ()):
            match = matches(pattern, node, definer)
            emitted = emit(match, node) if match is not None and _is_fit(match, node) else None
            if match is not None and emitted is not None:
                yield Group((node,), tuple(match.values.values()), node.outputs, emitted)
                break


Emit = Callable[[Program], None]


def _is_fit(match: Match, node: Node) -> bool:
    values = (*match.values.values(), node.output)
    return all(v.type == node.output.type and v.type.dtype in COMPUTED and v.type.size for v in values)


def _gelu(match: Match, node: Node) -> Emit:
    """The square of nan becomes a number, which the product with nan mends."""
    expression = Expression(Term(match["x"]))
    expression.function(SQUARE)
    expression.operate(MIN, 144.0)
    expression.function(LINEAR, match["FACTOR"], match["STEEPNESS"])
    expression.operate(MUL, match["x"])
    expression.function(LOGISTIC)
    expression.operate(MUL, match["x"])
    return partial(compute, expression=expression, value=node.output)


def _gelu_gradient(match: Match, node: Node) -> Emit | None:
    numbers = (match["FACTOR"], match["STEEPNESS"], match["OTHER"])
    is_usual = np.allclose(numbers, (0.044715 * STEEPNESS, STEEPNESS, 3 * 0.044715 * STEEPNESS), rtol=1e-5)
    return partial(_gradient, algorithm=GELU_TANH, match=match, node=node) if is_usual else None


def _exact_gelu(match: Match, node: Node) -> Emit:
    """Of an infinity it is nan."""
    expression = Expression(Term(match["x"]))
    expression.function(GELU_ERF)
    return partial(compute, expression=expression, value=node.output)


def _exact_gelu_gradient(match: Match, node: Node) -> Emit:
    return partial(_gradient, algorithm=GELU_ERF, match=match, node=node)


def _swish_gradient(match: Match, node: Node) -> Emit:
    return partial(_gradient, algorithm=SWISH, match=match, node=node)


def _gradient(program: Program, algorithm: int, match: Match, node: Node) -> None:
    """Append the kernel of a gradient."""
    dtype = program.kernel_dtype(node.output, match["x"], match["g"])
    layout = program.stored(match["x"]).layout.with_dtype(dtype)
    if layout.is_slow:
        layout = Descriptor.common(layout.shape, dtype)
    source, engine, numbers = program.read(match["x"], layout), library().engine, floats(1.0, 0.0)
    forward = Primitive("activation", "eltwise_forward", engine, TRAINING, algorithm, layout, layout, *numbers, None)
    kernel = Primitive("activation, gradient", "eltwise_backward", engine, algorithm, layout, layout, layout, *numbers,
                       forward, None)  # fmt: skip
    program.run(kernel, {
        Role.SOURCE: source, Role.RESULT_GRADIENT: program.read(match["g"], layout),
        Role.SOURCE_GRADIENT: program.written(node.output, layout),
    })  # fmt: skip


def _leaky(match: Match, node: Node) -> Emit | None:
    expression, slope = Expression(Term(match["x"])), match["SLOPE"]
    expression.function(RELU, slope)
    return partial(compute, expression=expression, value=node.output) if slope and isfinite(slope) else None


def _leaky_gradient(match: Match, node: Node) -> Emit | None:
    """A factor that is 1 or the slope, times the gradient."""
    expression, slope = Expression(Term(match["x"], Scale(-1.0))), match["SLOPE"]
    expression.operate(LESS, 0.0)
    expression.function(LINEAR, 1 - slope, slope)
    expression.operate(MUL, match["g"])
    return partial(compute, expression=expression, value=node.output) if isfinite(slope) else None


_PATTERNS: Mapping[str, Sequence[tuple[str, Callable[[Match, Node], Emit | None]]]] = {
    "mul": ((_GELU, _gelu), (_GELU_GRADIENT, _gelu_gradient), (_EXACT_GELU, _exact_gelu)),
    "add": (
        (_EXACT_GELU_GRADIENT, _exact_gelu_gradient),
        (_SWISH_GRADIENT, _swish_gradient),
        (_LEAKY_GRADIENT, _leaky_gradient),
    ),
    "where": ((_LEAKY, _leaky),),
}
"""Patterns by their last primitive, and what gives the kernel of each, or None where it has none."""
