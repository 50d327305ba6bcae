"""Operators whose results have shapes that depend on data, and those on texts: what is known is computed at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.dynamic_fallback import by_itself
from graphls.onnx.interpreter import Running
from graphls.onnx.table import operator
from graphls.onnx.values import value_of
from graphls.ops.operands import tensor_of

_ALL = tuple(range(16))


@operator("Compress", known=(1,), by_data=True)
def compress(x: Any, condition: Any, *, axis: int | None = None) -> Any:
    x = tensor_of(x) if axis is not None else ops.reshape(x, (-1,))
    return ops.gather(x, Tensor(np.flatnonzero(condition).astype(np.int64)), axis or 0)


@operator("NonZero", known=(0,), by_data=True)
def nonzero(x: Any) -> Any:
    return Tensor(np.array(np.nonzero(x), np.int64))


@operator(
    "Unique", "NonMaxSuppression", "TfIdfVectorizer", "StringNormalizer", "StringConcat", "StringSplit",
    "RegexFullMatch", "ImageDecoder", "BitCast", known=_ALL, by_data=True,
)  # fmt: skip
def as_defined(node: Running, *inputs: Any, **attributes: Any) -> Any:
    """What ONNX Runtime, or ONNX's reference, gives for arrays that are known."""
    return tuple(map(value_of, by_itself(node.node, inputs, attributes)))
