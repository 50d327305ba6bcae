"""The lowering target of OpenVINO, the forms of operators that it computes wrongly, and probes of its kernels.

Its kernels lose nan (2026.4.1): Max and Min return their second operand where the first one is nan, Relu returns 0 and
Exp inf, and nan is greater than any number. The comparisons and choices here are fused with the operators around them;
IsNaN would be a pass over the tensor of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from graphls.ir.graph import Node
from graphls.ir.types import DType, bfloat16, float32, int32
from graphls.primitives.indexing import GatherElementsGradient, GatherGradient
from graphls.primitives.logic import Comparison
from graphls.primitives.windows import Geometry
from graphls.runtime.lowering.kernel_checks import Array, is_right_by, model_of
from graphls.runtime.lowering.kernel_tables import PORTABLE
from graphls.runtime.lowering.target import MOVES, Form, Target
from graphls.runtime.lowering.writer import Writer
from graphls.runtime.openvino.runtime import compiled, core, has_bfloat16

Attributes = Mapping[str, Any]

BFLOAT16 = MOVES | {"Conv", "ConvTranspose", "MatMul"}
"""Operators that are computed in bfloat16, with sums in float32, where their operands are bfloat16."""


@cache
def target() -> Target:
    """The target for this processor."""
    bfloat16 = BFLOAT16 if has_bfloat16() else frozenset[str]()
    return Target(
        native_half=False, is_gpu=False, opset=PORTABLE, bfloat16=bfloat16, forms=FORMS, guards_indices=True,
        unrolls=True, copies_what_is_read=True, sums_rows=True,
    )  # fmt: skip


def _one(e: Writer, kind: str, *inputs: str) -> str:
    """An operator without attributes and with one result."""
    return e.results(kind, inputs, {}, 1)[0]


def _unless_nan(e: Writer, x: str, y: str) -> str:
    """y, or x where that is nan."""
    return _one(e, "Where", _one(e, "Equal", x, x), y, x)


def _exponential(e: Writer, inputs: Sequence[str], _: Attributes) -> str:
    return _unless_nan(e, inputs[0], _one(e, "Exp", *inputs))


def _is_nan(e: Writer, inputs: Sequence[str], _: Attributes) -> str:
    return _one(e, "Not", _one(e, "Equal", *inputs, *inputs))


def _relu(e: Writer, inputs: Sequence[str], _: Attributes) -> str:
    zero = e.const(0.0, float32)
    return _one(e, "Where", _one(e, "Less", *inputs, zero), zero, *inputs)


def _reciprocal(e: Writer, inputs: Sequence[str], _: Attributes) -> str:
    """1 / x; of a scalar, such as a loss scale, in a kernel of its own, by other operators between.

    OpenVINO fuses it with the first product that reads it, which may be one with a large tensor that is computed late,
    and then all quotients by the loss scale run behind the backward pass (2026.4.1): all products for gradients of
    weights, whose operands have left the cache by then. That took 2 % of the step of a GPT.
    """
    result = _one(e, "Reciprocal", *inputs)
    node = e.node
    if node is None or node.primitive.name != "reciprocal" or node.output.type.size != 1:
        return result
    rows = [_one(e, "Reshape", name, e.ints((1,))) for name in (result, *inputs)]
    pair = e.results("Concat", rows, {"axis": 0}, 1)[0]
    first = e.results("Gather", [pair, e.ints((0,))], {"axis": 0}, 1)[0]
    return _reshaped(e, [first, e.ints(node.output.type.shape)], {})


def _extreme(kind: str) -> Form:
    def form(e: Writer, inputs: Sequence[str], _: Attributes) -> str:
        return reduce(lambda a, b: _unless_nan(e, a, _one(e, kind, a, b)), inputs)

    return form


def _reshaped(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A Reshape, or a Squeeze to a scalar: compiling a matrix product of one element reshaped to one would crash."""
    x, shape = inputs
    return _one(e, "Squeeze", x) if shape == e.ints(()) else e.results("Reshape", inputs, attributes, 1)[0]


def _concatenation(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A concatenation along an axis of size 1, written as one along all axes from there on.

    OpenVINO replaces equal operands by a Broadcast, and moves an operator before it that not all of its readers have
    (2026.4.1).
    """
    node, axis = e.node, attributes["axis"]
    if node is None or node.primitive.name != "concat" or any(v.type.shape[axis] != 1 for v in node.inputs):
        return e.results("Concat", inputs, attributes, 1)[0]
    axis %= node.output.type.rank
    rows = [_one(e, "Reshape", name, e.ints((*(0,) * axis, -1))) for name in inputs]
    joined = e.results("Concat", rows, {"axis": axis}, 1)[0]
    return _one(e, "Reshape", joined, e.ints(node.output.type.shape))


_BLOCK = 32
"""The bfloat16 numbers that units for products read at once; rows of such lengths are concatenated fast."""


def _product(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A Gemm as a MatMul, which transpositions become part of.

    OpenVINO multiplies by the factors of a Gemm, and adds a third operand even where there is none; in bfloat16 that
    stays a pass over the result, which takes as long as a small product (2026.4.1).
    """
    turned = (attributes.get("transA", 0), attributes.get("transB", 0))
    sides = [
        e.results("Transpose", (name,), {"perm": (1, 0)}, 1)[0] if is_turned else name
        for name, is_turned in zip(inputs, turned, strict=True)
    ]
    return _one(e, "MatMul", *sides)


def _affine(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A product of bfloat16 plus a bias, rounded after the sum.

    OpenVINO rounds a product before the bias is added, so the bias is part of the product: it is one more row of the
    matrix, multiplied by ones.
    """
    if len(inputs) < 3:
        return _product(e, inputs, attributes)
    assert e.node is not None
    x, matrix, bias = inputs
    axis = int(attributes["transB"])
    inner, outer = e.node.inputs[1].type.shape[axis], e.node.inputs[2].type.size
    added = _BLOCK - inner % _BLOCK
    ones = np.eye(1, added).repeat(e.node.output.type.size // outer, axis=0)
    x = e.results("Concat", (x, e.const(ones, bfloat16)), {"axis": 1}, 1)[0]
    zeros = e.const(np.zeros((outer, added - 1) if axis else (added - 1, outer)), bfloat16)
    row = _one(e, "Reshape", bias, e.ints((outer, 1) if axis else (1, outer)))
    matrix = e.results("Concat", (matrix, row, zeros) if added > 1 else (matrix, row), {"axis": axis}, 1)[0]
    return _product(e, (x, matrix), attributes)


def _convolution(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A convolution of bfloat16 plus a bias for each channel, rounded after the sum as in `_affine`.

    The biases are the kernels of one more channel, at one position that sees ones in all windows. Where no position
    lies within the images in all windows, it is two operators, and so not computed in bfloat16.
    """
    if len(inputs) < 3:
        return e.results("Conv", inputs, attributes, 1)[0]
    assert e.node is not None
    x, kernels, bias = inputs
    images, shape = (v.type.shape for v in e.node.inputs[:2])
    position = Geometry.over(shape[2:], **e.node.attrs).position_inside(images, shape[2:])
    if attributes["group"] > 1 or position is None:
        return _one(e, "Add", e.results("Conv", (x, kernels), attributes, 1)[0], bias)
    mask = np.zeros((1, 1, *shape[2:]), np.bool_)
    mask[0, 0][position] = True
    bias = _one(e, "Reshape", bias, e.ints((-1, *(1,) * (len(shape) - 1))))
    bias_kernels = _one(e, "Where", e.const(mask), bias, e.const(0.0, bfloat16))
    ones = e.const(np.ones((images[0], 1, *images[2:])), bfloat16)
    joined = [e.results("Concat", pair, {"axis": 1}, 1)[0] for pair in ((x, ones), (kernels, bias_kernels))]
    return e.results("Conv", joined, attributes, 1)[0]


LARGE = 1 << 20
"""Bytes from which on zeros are computed in each step, so that they are no part of the model."""


def _scatter(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A scatter into zeros; the model computes large ones.

    A constant would be copied in each step and take as much memory once more, and OpenVINO folds all that it can into
    constants. So zero is the difference of an index and itself.
    """
    node = e.node
    if node is None or not _is_of_slices(node) or node.output.type.nbytes < LARGE:
        return e.results("ScatterElements", inputs, attributes, 1)[0]
    _, indices, added = inputs
    index = _one(e, "Gather", _one(e, "Reshape", indices, e.ints((-1,))), e.ints((0,)))
    zero = e.cast(_one(e, "Sub", index, index), float32)
    zeros = _one(e, "Expand", zero, e.ints(node.output.type.shape))
    return e.results("ScatterElements", (zeros, indices, added), attributes, 1)[0]


def _is_of_slices(node: Node) -> bool:
    """Whether a node scatters float32, or bfloat16 in float32, into zeros."""
    of_floats = node.output.type.dtype in (float32, bfloat16)
    return isinstance(node.primitive, (GatherGradient, GatherElementsGradient)) and of_floats


def _is_of_integers(e: Writer) -> bool:
    """Whether the current node compares int32."""
    node = e.node
    return node is not None and isinstance(node.primitive, Comparison) and node.inputs[0].type.dtype is int32


def _difference_is_zero(e: Writer, x: str, y: str) -> str:
    """Whether int32 are equal, by their difference: OpenVINO compares in float32, which rounds none but 0 to 0."""
    return _one(e, "Equal", _one(e, "Sub", x, y), e.const(0, int32))


def _equal(e: Writer, inputs: Sequence[str], _: Attributes) -> str:
    return _difference_is_zero(e, *inputs) if _is_of_integers(e) else _one(e, "Equal", *inputs)


def _at_most(e: Writer, inputs: Sequence[str], _: Attributes) -> str:
    x, y = inputs
    return _difference_is_zero(e, _one(e, "Max", x, y), y) if _is_of_integers(e) else _one(e, "LessOrEqual", x, y)


def _less(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    x, y = inputs
    return _one(e, "Not", _at_most(e, (y, x), attributes)) if _is_of_integers(e) else _one(e, "Less", x, y)


def _exchanged(form: Form) -> Form:
    return lambda e, inputs, attributes: form(e, inputs[::-1], attributes)


FORMS: dict[str, Form] = {
    "Concat": _concatenation,
    "Conv": _convolution,
    "Equal": _equal,
    "Exp": _exponential,
    "Gemm": _affine,
    "Greater": _exchanged(_less),
    "GreaterOrEqual": _exchanged(_at_most),
    "IsNaN": _is_nan,
    "Less": _less,
    "LessOrEqual": _at_most,
    "Max": _extreme("Max"),
    "Min": _extreme("Min"),
    "Reciprocal": _reciprocal,
    "Relu": _relu,
    "Reshape": _reshaped,
    "ScatterElements": _scatter,
}


@cache
def is_right(operator: str, dtype: DType) -> bool:
    """Whether the kernel of an operator agrees with NumPy at the numbers where kernels tend to be wrong."""
    return is_right_by(_run, operator, dtype)


def _run(operator: str, *inputs: Array, outputs: int = 1, **attributes: Any) -> Array:
    read = core().read_model(model_of(operator, inputs, outputs, PORTABLE, **attributes).SerializeToString())
    return np.asarray(compiled(read)(list(inputs))[0])
