"""`mindspore.ops.operations._inner_ops`: operators that MindSpore's own layers use, `Name(settings)(tensors)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphls import ops
from graphls.compat.kinds import issubclass_
from graphls.compat.operators.functional import typeof
from graphls.frontend.names.lazy import offering
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.operands import Axis, Operand
from graphls.ops.primitive import Operator, operator


def _nearest(input_x: Tensor, size: Sequence[int], align_corners: bool = False) -> Any:
    """Images (N, C, H, W) resized to two sizes, each element from the nearest one."""
    return ops.ResizeNearestNeighbor(tuple(size), align_corners)(input_x)


def _centralized(input_x: TensorLike, axis: Axis = ()) -> Any:
    """A tensor without its mean along some axes, or all."""
    return input_x - ops.mean(input_x, axis, keep_dims=True)


def _clipped(x: Operand, clip_norm: Operand, axis: Axis = None) -> Any:
    """A tensor divided by what its norm along some axes, or all, is above a number."""
    norm = ops.sqrt(ops.sum(x * x, axis, keepdims=True))
    return x * clip_norm / ops.maximum(norm, clip_norm)


INNER: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Centralization": (_centralized, {}),
    "ClipByNorm": (_clipped, {"axis": None}),
    "ConvertToDynamic": (ops.identity, {"is_dynamic_rank": False}),
    "DynamicBroadcastTo": (ops.broadcast_to, {}),
    "DynamicResizeNearestNeighbor": (_nearest, {"align_corners": False}),
    "ErrorOnDynamicShapeInput": (ops.identity, {}),
    "Format": (lambda text, *values: text.format(*values), {}),
    "GpuConvertToDynamicShape": (ops.identity, {}),
    "IsInstance": (isinstance, {}),
    "IsParameter": (lambda x: isinstance(x, Parameter), {}),
    "IsSubClass": (issubclass_, {}),
    "SequenceMask": (ops.sequence_mask, {}),
    "TopTypeof": (typeof, {}),
}

_made: dict[str, type[Operator]] = {name: operator(name, *found, __name__) for name, found in INNER.items()}

__getattr__, __dir__ = offering(_made)
