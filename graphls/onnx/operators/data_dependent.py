"""Operators with data-dependent result shapes, and operators on strings: constant inputs are folded at once."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.dynamic_fallback import evaluated
from graphls.onnx.interpreter import Running
from graphls.onnx.program import Argument
from graphls.onnx.table import operator
from graphls.onnx.values import Input, OptionalInput, value_of
from graphls.ops.operands import tensor_of

_ALL = tuple(range(16))


@operator("Compress", known=(1,), data_dependent=True)
def compress(x: Input, condition: Array, *, axis: int | None = None) -> Tensor:
    x = tensor_of(x) if axis is not None else ops.reshape(x, (-1,))
    return ops.gather(x, Tensor(np.flatnonzero(condition).astype(np.int64)), axis or 0)


@operator("NonZero", known=(0,), data_dependent=True)
def nonzero(x: Array) -> Tensor:
    return Tensor(np.array(np.nonzero(x), np.int64))


@operator(
    "Unique", "NonMaxSuppression", "TfIdfVectorizer", "StringNormalizer", "StringConcat", "StringSplit",
    "RegexFullMatch", "ImageDecoder", "BitCast", known=_ALL, data_dependent=True,
)  # fmt: skip
def as_defined(node: Running, *inputs: Array | None, **attributes: Argument) -> tuple[OptionalInput, ...]:
    """The results of ONNX Runtime, or of ONNX's reference implementation, for known arrays."""
    results = evaluated(node.node, inputs, attributes)
    return tuple(None if result is None else value_of(result) for result in results)
