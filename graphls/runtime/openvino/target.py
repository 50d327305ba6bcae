"""The lowering target of OpenVINO, and operators that it computes wrongly unless written differently.

Its kernels lose nan (2026.4.1): Max and Min give their second operand where the first one is nan, Relu gives 0 and Exp
inf, and nan is greater than any number. What is compared and chosen here is fused with what stands around it; IsNaN
would be a pass over the tensor of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from graphls.ir.graph import Node
from graphls.ir.types import bfloat16, float32, int32
from graphls.primitives.indexing import GatherElementsGradient, GatherGradient
from graphls.primitives.logic import Comparison
from graphls.primitives.windows import Geometry
from graphls.runtime.lowering.kernel_tables import PORTABLE
from graphls.runtime.lowering.roundings import MOVES
from graphls.runtime.lowering.target import Form, Target
from graphls.runtime.lowering.writer import Writer
from graphls.runtime.openvino.runtime import has_bfloat16

Attributes = Mapping[str, Any]

BFLOAT16 = MOVES | {"Conv", "ConvTranspose", "MatMul"}
"""Operators that are computed in bfloat16, with sums in float32, where their operands are of it."""


@cache
def target() -> Target:
    """The target for the processor at hand."""
    bfloat16 = BFLOAT16 if has_bfloat16() else frozenset[str]()
    return Target(
        native_half=False, is_gpu=False, opset=PORTABLE, bfloat16=bfloat16, forms=FORMS, guards_indices=True,
        unrolls=True, copies_what_is_read=True, sums_rows=True,
    )  # fmt: skip


def _one(e: Writer, kind: str, *inputs: str) -> str:
    """The operator as it is."""
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
    """1 / x; of a number, such as a loss scale, by a kernel of its own, since other operators stand between.

    OpenVINO makes one kernel of it and the first product that it meets, which may be one with a large tensor that is
    made late, and then all that is divided by the loss scale runs behind the whole backward pass (2026.4.1): all
    products for gradients of weights, whose operands are in no cache by then. That took 2 % of the step of a GPT.
    """
    made = _one(e, "Reciprocal", *inputs)
    node = e.node
    if node is None or node.primitive.name != "reciprocal" or node.output.type.size != 1:
        return made
    pair = e.results("Concat", [_one(e, "Reshape", name, e.ints((1,))) for name in (made, *inputs)], {"axis": 0}, 1)[0]
    first = e.results("Gather", [pair, e.ints((0,))], {"axis": 0}, 1)[0]
    return _reshaped(e, [first, e.ints(node.output.type.shape)], {})


def _extreme(kind: str) -> Form:
    def form(e: Writer, inputs: Sequence[str], _: Attributes) -> str:
        return reduce(lambda a, b: _unless_nan(e, a, _one(e, kind, a, b)), inputs)

    return form


def _reshaped(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A matrix product of one element that is reshaped to a scalar ends the process when it is compiled."""
    x, shape = inputs
    return _one(e, "Squeeze", x) if shape == e.ints(()) else e.results("Reshape", inputs, attributes, 1)[0]


def _concatenation(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """Concatenation along an axis of size 1, written as one along all axes from there on.

    OpenVINO makes a Broadcast of operands that are one and the same, and moves an operator before it which not all of
    its readers want (2026.4.1).
    """
    node, axis = e.node, attributes["axis"]
    if node is None or node.primitive.name != "concat" or any(v.type.shape[axis] != 1 for v in node.inputs):
        return e.results("Concat", inputs, attributes, 1)[0]
    axis %= node.output.type.rank
    rows = [_one(e, "Reshape", name, e.ints((*(0,) * axis, -1))) for name in inputs]
    joined = e.results("Concat", rows, {"axis": axis}, 1)[0]
    return _one(e, "Reshape", joined, e.ints(node.output.type.shape))


_BLOCK = 32
"""Numbers of bfloat16 that units for products take at once; rows of such a length are joined fast."""


def _product(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """Gemm as MatMul, where transpositions become part of it.

    OpenVINO multiplies by the factors of a Gemm, and adds its third operand where there is none; in bfloat16 these
    stay, as a pass over the result that is as long as a small product (2026.4.1).
    """
    turned = (attributes.get("transA", 0), attributes.get("transB", 0))
    sides = [
        e.results("Transpose", (name,), {"perm": (1, 0)}, 1)[0] if is_turned else name
        for name, is_turned in zip(inputs, turned, strict=True)
    ]
    return _one(e, "MatMul", *sides)


def _affine(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A product of bfloat16 plus a row, rounded behind the sum.

    OpenVINO rounds a product before anything is added to it, so the row is summed by the product: the matrix has it as
    one more row, which meets ones.
    """
    if len(inputs) < 3:
        return _product(e, inputs, attributes)
    assert e.node is not None
    x, matrix, row = inputs
    axis = int(attributes["transB"])
    inner, outer = e.node.inputs[1].type.shape[axis], e.node.inputs[2].type.size
    more = _BLOCK - inner % _BLOCK
    ones = np.eye(1, more).repeat(e.node.output.type.size // outer, axis=0)
    x = e.results("Concat", (x, e.const(ones, bfloat16)), {"axis": 1}, 1)[0]
    rest = e.const(np.zeros((outer, more - 1) if axis else (more - 1, outer)), bfloat16)
    rows = _one(e, "Reshape", row, e.ints((outer, 1) if axis else (1, outer)))
    matrix = e.results("Concat", (matrix, rows, rest) if more > 1 else (matrix, rows), {"axis": axis}, 1)[0]
    return _product(e, (x, matrix), attributes)


def _convolution(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """A convolution of bfloat16 plus a number for each channel, rounded behind the sum as in `_affine`.

    The kernels have these numbers as those of one more channel, in one place, which sees ones in all windows. Where no
    place lies within the images in all windows, two operators say that it is not done in bfloat16.
    """
    if len(inputs) < 3:
        return e.results("Conv", inputs, attributes, 1)[0]
    assert e.node is not None
    x, kernels, numbers = inputs
    kind, shape = (v.type.shape for v in e.node.inputs[:2])
    place = Geometry.over(shape[2:], **e.node.attrs).place_inside(kind, shape[2:])
    if attributes["group"] > 1 or place is None:
        return _one(e, "Add", e.results("Conv", (x, kernels), attributes, 1)[0], numbers)
    is_there = np.zeros((1, 1, *shape[2:]), np.bool_)
    is_there[0, 0][place] = True
    numbers = _one(e, "Reshape", numbers, e.ints((-1, *(1,) * (len(shape) - 1))))
    more = _one(e, "Where", e.const(is_there), numbers, e.const(0.0, bfloat16))
    ones = e.const(np.ones((kind[0], 1, *kind[2:])), bfloat16)
    joined = [e.results("Concat", pair, {"axis": 1}, 1)[0] for pair in ((x, ones), (kernels, more))]
    return e.results("Conv", joined, attributes, 1)[0]


LARGE = 1 << 20
"""Bytes from which on zeros are made in each step, so that they are no part of the model."""


def _scatter(e: Writer, inputs: Sequence[str], attributes: Attributes) -> str:
    """Scatter into zeros: large zeros are made by the model.

    A constant would be copied in each step and take as much memory once more, and OpenVINO makes one of whatever is
    known when it compiles. So zero is the difference of an index and itself.
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
    """Whether a node adds float32, or bfloat16 in float32, to zeros."""
    of_floats = node.output.type.dtype in (float32, bfloat16)
    return isinstance(node.primitive, (GatherGradient, GatherElementsGradient)) and of_floats


def _is_of_integers(e: Writer) -> bool:
    """Whether the node of this operator compares int32."""
    node = e.node
    return node is not None and isinstance(node.primitive, Comparison) and node.inputs[0].type.dtype is int32


def _difference_is_zero(e: Writer, x: str, y: str) -> str:
    """Whether int32 are equal, which are compared by way of float32: there a difference is 0 only if it is."""
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
