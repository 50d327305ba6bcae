"""Workarounds for wrong transformations of OpenVINO (2026.4.1), which change or mark operators of a model.

- x / y becomes x * (1 / y), which is rounded twice: 41 / 41 is less than 1 then, and its floor 0. That remains where
  one of them is a constant.
- An Abs of one axis is moved before a Concat, even where other operators read the operands of that.
- A reduction without keep_dims loses the Reshape behind it that turns a column into a row, or a row into a column.
- A reduction of a tensor that a Reshape gave more axes of size 1 is moved before the Reshape, and has these axes
  elsewhere then.
- Attention is fused with the elementwise operators behind it, which crashes the process where one of these has two
  readers or more axes. Written as the transpose of a product of transposes, attention is not recognized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.runtime.openvino.runtime import load_openvino

NO_PRODUCT = "nonconvertable_divide_0"
"""The mark of OpenVINO's own passes on divisions that must stay."""

MOST = 64
"""The most operators to visit for the origin of a value; graphls has folded the values of constants alone."""

RESHAPES = {"Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that are a Reshape, or become one where they move axes of size 1."""

REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")

BARRIERS = {*RESHAPES, *REDUCTIONS, "Concat", "MatMul", "Result", "Softmax"}
"""Operators that are not fused with attention before them."""


def apply_workarounds(model: Any) -> None:
    """Rewrite or mark operators of a model so that its results stay those of the graph."""
    for operator in model.get_ops():
        kind = operator.get_type_name()
        if kind in _CHANGES:
            _CHANGES[kind](operator)


def _division(operator: Any) -> None:
    """Mark a division, except of or by a constant.

    Marked, that would be fused into the kernel before it, which takes the constant for the divisor on either side, and
    divides the first element only.
    """
    if not any(_is_constant(value.get_node()) for value in operator.input_values()):
        operator.get_rt_info()[NO_PRODUCT] = True


def _absolute(operator: Any) -> None:
    """Compute the absolute values of one axis as those of two."""
    x = operator.input_value(0)
    shape = list(x.get_shape())
    if len(shape) == 1:
        _replace(operator, _reshaped(load_openvino().opset13.absolute(_reshaped(x, [1, *shape])), shape))


def _reduction(operator: Any) -> None:
    """Reduce with keep_dims, and without axes of size 1 where the operand may have been reshaped to have them.

    Elsewhere these stay, as there are kernels for complete normalizations.
    """
    x, axes, keeps = operator.input_value(0), operator.input_value(1).get_node(), operator.get_attributes()["keep_dims"]
    shape = list(x.get_shape())
    squeezes = 1 in shape and _is_reshaped(x.get_node())
    if axes.get_type_name() != "Constant" or (keeps and not squeezes):
        return
    remaining = [i for i, size in enumerate(shape) if size != 1 or not squeezes]
    reduced = [remaining.index(i) for i in sorted(int(a) % len(shape) for a in axes.data.flat) if i in remaining]
    y = _reshaped(x, [shape[i] for i in remaining]) if squeezes else x
    if reduced:
        make = getattr(load_openvino().opset13, f"reduce_{operator.get_type_name().removeprefix('Reduce').lower()}")
        y = make(y, np.array(reduced, np.int64), True)
        y.set_friendly_name(f"{operator.get_friendly_name()}/kept")
    _replace(operator, _reshaped(y, operator.output(0).get_shape()))


def _attention(operator: Any) -> None:
    """Rewrite a product with a Softmax that would be fused as the transpose of the product of transposes."""
    weights, values = operator.input_values()
    rank = min(len(value.get_shape()) for value in (weights, values))
    if rank < 2 or not _is_of_softmax(weights.get_node()) or not _crashes(operator):
        return
    ov, attributes = load_openvino().opset13, operator.get_attributes()
    product = ov.matmul(values, weights, not attributes["transpose_b"], not attributes["transpose_a"])
    *batch, rows, columns = range(len(operator.output(0).get_shape()))
    _replace(operator, ov.transpose(product, np.array([*batch, columns, rows], np.int64)))


def _is_of_softmax(operator: Any) -> bool:
    """Whether an operator is a Softmax or reads one, such as a product with a mask."""
    nodes = [operator, *(value.get_node() for value in operator.input_values())]
    return any(node.get_type_name() == "Softmax" for node in nodes)


def _crashes(operator: Any) -> bool:
    """Whether elementwise operators behind one have several readers or more axes, so that fusing them crashes."""
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
    """Put another operator in the place of one, under the same name."""
    other.set_friendly_name(operator.get_friendly_name())
    operator.output(0).replace(other.output(0))


def _is_constant(operator: Any) -> bool:
    """Whether an operator depends on constants alone."""
    waiting, seen = [operator], 0
    while waiting and seen < MOST:
        current, seen = waiting.pop(), seen + 1
        if current.get_type_name() == "Parameter":
            return False
        waiting += [value.get_node() for value in current.input_values()]
    return not waiting


def _is_reshaped(operator: Any) -> bool:
    """Whether an operator may become a Reshape, or follows one that may be moved behind the operators between."""
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
