"""Which operations XLA's simplifier would join across nodes, so that what overflows between them would be unseen."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.ir.graph import Node, Value

_QUOTIENTS = frozenset(("product", "quotient", "reciprocal"))
_POWERS = frozenset(("exp", "power"))

JOINED = {
    "acos": frozenset(("sum",)),  # which adds 1 to its operand
    "acosh": _POWERS | {"sum"},
    "add": frozenset(("sum",)),  # (x + a) + b is x + (a + b)
    "asin": frozenset(("sum",)),
    "asinh": _POWERS,
    "dequantize": _QUOTIENTS,
    "div": _QUOTIENTS | _POWERS,  # x / a / b is x / (a * b), and x / exp(y) is x * exp(-y)
    "floor_div": _QUOTIENTS,
    "log": _POWERS | {"reciprocal", "rsqrt", "sqrt"},  # log(exp(x)) is x
    "mul": frozenset(("product", "quotient")),
    "pow": _POWERS | _QUOTIENTS | {"sqrt", "square"},  # exp(x) ** y is exp(x * y)
    "quantize": _QUOTIENTS,
    "reciprocal": _QUOTIENTS | _POWERS,
    "rsqrt": frozenset(("power", "reciprocal", "square")),
    "scaled_matmul": _QUOTIENTS,
    "sqrt": frozenset(("power", "reciprocal", "square")),  # sqrt(x * x) is abs(x)
    "square": frozenset(("exp",)),
    "sub": frozenset(("sum",)),
    "truncate_div": _QUOTIENTS,
}
"""The forms of operands that the simplifier joins with an operation on them; of sums and products with constants."""

_FORMS = {
    "div": "quotient", "exp": "exp", "pow": "power", "reciprocal": "reciprocal", "rsqrt": "rsqrt", "sqrt": "sqrt",
    "square": "square",
}  # fmt: skip
_WITH_CONSTANTS = {"add": "sum", "sub": "sum", "dequantize": "product", "mul": "product", "quantize": "product"}
_KEEP = frozenset(("abs", "slice"))
"""Operations that the simplifier leaves out, or computes before another one; so it does with those that move."""


class Forms:
    """The forms of the values of a program, by the operations that compute them."""

    def __init__(self, forms: Forms | None = None) -> None:
        self._forms: dict[Value, str] = {} if forms is None else dict(forms._forms)

    def joined(self, node: Node, are_constant: Sequence[bool]) -> list[bool]:
        """For each operand of a node whether the simplifier would join what computes it with the node."""
        name, forms = node.primitive.name, [self._forms.get(value) for value in node.inputs]
        if name in _WITH_CONSTANTS and not any(are_constant):
            return [name == "mul" and set(forms) == {"exp"}] * len(forms)  # exp(x) * exp(y) is exp(x + y)
        return [form in JOINED.get(name, ()) for form in forms]

    def add(self, node: Node, are_constant: Sequence[bool]) -> None:
        """Add the results of a node, some of whose operands are constant."""
        if (form := self._form(node, are_constant)) is not None:
            self._forms.update(dict.fromkeys(node.outputs, form))

    def _form(self, node: Node, are_constant: Sequence[bool]) -> str | None:
        name, inputs = node.primitive.name, node.inputs
        if all(are_constant) or not node.outputs[0].type.dtype.is_float:
            return None
        if node.primitive.moves or name in _KEEP:
            return self._forms.get(inputs[0])
        if name in _WITH_CONSTANTS and any(are_constant):
            return _WITH_CONSTANTS[name]
        return "square" if name == "mul" and inputs[0] is inputs[1] else _FORMS.get(name)
