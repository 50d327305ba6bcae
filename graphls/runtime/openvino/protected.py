"""Protects operators of a model from wrong transformations of OpenVINO (2026.4.1).

- x / y becomes x * (1 / y), which is rounded twice: 41 / 41 is less than 1 then, and its floor 0. So it is still where
  one of them is a constant.
- An Abs of one axis is moved before a Concat, also where others read what that joins.
- A reduction without keep_dims loses the Reshape behind it that makes a row of a column, or a column of a row.
- A reduction of what was reshaped, to have more axes of size 1, is moved before that and has these elsewhere then.
- Attention is compiled together with the elementwise operators behind it, which ends the process where one of these has
  two readers or more axes. As the transpose of a product of transposes, attention is not recognized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.runtime.openvino.runtime import load_openvino

NO_PRODUCT = "nonconvertable_divide_0"
"""What its own passes call operators by which they mark divisions."""

MOST = 64
"""Operators to look at for where a value comes from; graphls has computed what is made of constants alone."""

RESHAPES = {"Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that are one Reshape, or become one where they move axes of size 1."""


REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")

BARRIERS = {*RESHAPES, *REDUCTIONS, "Concat", "MatMul", "Result", "Softmax"}
"""Operators that are not compiled together with attention before them."""


def protect(model: Any) -> None:
    """Change or mark operators of a model so that its results stay those of the graph."""
    for operator in model.get_ops():
        kind = operator.get_type_name()
        if kind in _CHANGES:
            _CHANGES[kind](operator)


def _division(operator: Any) -> None:
    """Mark a division, but for those of or by constants.

    Those are made part of the kernel before them, which takes the constant for the divisor wherever it stands, and
    divides the first element only.
    """
    if not any(_is_constant(value.get_node()) for value in operator.input_values()):
        operator.get_rt_info()[NO_PRODUCT] = True


def _absolute(operator: Any) -> None:
    """The absolute values of one axis as those of two."""
    x = operator.input_value(0)
    shape = list(x.get_shape())
    if len(shape) == 1:
        _replace(operator, _reshaped(load_openvino().opset13.absolute(_reshaped(x, [1, *shape])), shape))


def _reduction(operator: Any) -> None:
    """A reduction with keep_dims, of an operand without axes of size 1 where that may have been reshaped to have them.

    Else these stay, as there are kernels for a whole norm.
    """
    x, axes, keeps = operator.input_value(0), operator.input_value(1).get_node(), operator.get_attributes()["keep_dims"]
    shape = list(x.get_shape())
    squeezes = 1 in shape and _is_reshaped(x.get_node())
    if axes.get_type_name() != "Constant" or (keeps and not squeezes):
        return
    left = [i for i, size in enumerate(shape) if size != 1 or not squeezes]
    reduced = [left.index(i) for i in sorted(int(a) % len(shape) for a in axes.data.flat) if i in left]
    y = _reshaped(x, [shape[i] for i in left]) if squeezes else x
    if reduced:
        make = getattr(load_openvino().opset13, f"reduce_{operator.get_type_name().removeprefix('Reduce').lower()}")
        y = make(y, np.array(reduced, np.int64), True)
        y.set_friendly_name(f"{operator.get_friendly_name()}/kept")
    _replace(operator, _reshaped(y, operator.output(0).get_shape()))


def _attention(operator: Any) -> None:
    """A product with what a Softmax gives, as the transpose of the product of transposes, if it would be fused."""
    weights, values = operator.input_values()
    rank = min(len(value.get_shape()) for value in (weights, values))
    if rank < 2 or not _is_of_softmax(weights.get_node()) or not _ends_the_process(operator):
        return
    ov, given = load_openvino().opset13, operator.get_attributes()
    product = ov.matmul(values, weights, not given["transpose_b"], not given["transpose_a"])
    *batch, rows, columns = range(len(operator.output(0).get_shape()))
    _replace(operator, ov.transpose(product, np.array([*batch, columns, rows], np.int64)))


def _is_of_softmax(operator: Any) -> bool:
    """Whether it is a Softmax, or made of one by an operator such as a product with a mask."""
    made_of = [operator, *(value.get_node() for value in operator.input_values())]
    return any(node.get_type_name() == "Softmax" for node in made_of)


def _ends_the_process(operator: Any) -> bool:
    """Whether elementwise operators behind one have several readers, or more axes than it."""
    rank = len(operator.output(0).get_shape())
    for _ in range(MOST):
        readers = {target.get_node() for target in operator.output(0).get_target_inputs()}
        if len(readers) != 1:
            return False
        (operator,) = readers
        if operator.get_type_name() in BARRIERS:
            return False
        if len(operator.output(0).get_target_inputs()) > 1 or len(operator.output(0).get_shape()) > rank:
            return True
    return True


def _reshaped(x: Any, shape: Sequence[int]) -> Any:
    return load_openvino().opset13.reshape(x, np.array(shape, np.int64), False)


def _replace(operator: Any, other: Any) -> None:
    """Let an operator take the place, and the name, of another one."""
    other.set_friendly_name(operator.get_friendly_name())
    operator.output(0).replace(other.output(0))


def _is_constant(operator: Any) -> bool:
    """Whether it takes nothing but constants."""
    waiting, seen = [operator], 0
    while waiting and seen < MOST:
        found, seen = waiting.pop(), seen + 1
        if found.get_type_name() == "Parameter":
            return False
        waiting += [value.get_node() for value in found.input_values()]
    return not waiting


def _is_reshaped(operator: Any) -> bool:
    """Whether it may become a Reshape, or is made of one by operators that a Reshape may be moved behind."""
    for _ in range(MOST):
        if operator.get_type_name() in RESHAPES:
            return True
        operands = [node for v in operator.input_values() if (node := v.get_node()).get_type_name() != "Constant"]
        if len(operands) != 1:
            return False
        (operator,) = operands
    return True


_CHANGES: dict[str, Callable[[Any], None]] = {
    "Abs": _absolute,
    "Divide": _division,
    "MatMul": _attention,
    **dict.fromkeys(REDUCTIONS, _reduction),
}
