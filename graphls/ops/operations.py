"""Operator classes by name: one line for each makes `ops.Name(settings)(tensors)`.

A class in `PLAIN` is a function; one in `CONFIGURED` is a function and those of its parameters, with their defaults,
that the constructor takes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import graphls.ops
from graphls.ir.errors import GraphAttributeError, GraphValueError
from graphls.ir.types import int32
from graphls.names.habits import PACKAGE, instead
from graphls.ops import (
    attributes,
    control_flow,
    creation,
    elementwise,
    float_status,
    logic,
    network,
    reductions,
    shapes,
    state,
)
from graphls.ops.composite import Partial
from graphls.ops.operands import axis_of, tensor_of
from graphls.ops.operator import REQUIRED, Operator, described_as, operator


def _matmul(x: Any, other: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    """The matrix product over the last two axes, of which either operand's may be exchanged first."""
    x = shapes.swapaxes(x, -1, -2) if transpose_a else x
    return network.matmul(x, shapes.swapaxes(other, -1, -2) if transpose_b else other)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    @described_as(function)
    def reduced(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
        return function(x, axis, keep_dims)

    return reduced


def _position(function: Callable[..., Any]) -> Callable[..., Any]:
    @described_as(function)
    def position(x: Any, axis: int = -1, output_type: Any = int32) -> Any:
        return elementwise.cast(function(x, axis), output_type)

    return position


def _squeeze(x: Any, axis: Any = ()) -> Any:
    """x without some axes of size 1, or without all of them."""
    return shapes.squeeze(x, None if axis == () else axis)


def _split(x: Any, axis: int = 0, output_num: int = 1) -> Any:
    """x cut along an axis into a number of equal pieces; raises GraphValueError where that does not work out."""
    x = tensor_of(x)
    size = x.shape[axis_of(axis, x.ndim)]
    if output_num not in range(1, size + 1) or size % output_num:
        raise GraphValueError(f"Split cannot cut {size} elements into {output_num} equal pieces.")
    return shapes.split(x, size // output_num, axis)


PLAIN: dict[str, Callable[..., Any]] = {
    "Abs": elementwise.abs,
    "Add": elementwise.add,
    "AddN": elementwise.addn,
    "Assign": state.assign,
    "AssignAdd": state.assign_add,
    "AssignSub": state.assign_sub,
    "Cast": elementwise.cast,
    "Ceil": elementwise.ceil,
    "Cos": elementwise.cos,
    "DType": attributes.dtype,
    "Depend": state.depend,
    "Div": elementwise.div,
    "Equal": logic.equal,
    "Erf": elementwise.erf,
    "Exp": elementwise.exp,
    "ExpandDims": shapes.expand_dims,
    "Expm1": elementwise.expm1,
    "Fill": creation.fill,
    "Flatten": shapes.flatten,
    "FloatStatus": float_status.float_status,
    "Floor": elementwise.floor,
    "FloorDiv": elementwise.floor_div,
    "FloorMod": elementwise.mod,
    "ForiLoop": control_flow.fori_loop,
    "Gather": shapes.gather,
    "GatherD": shapes.gather_elements,
    "GeLU": network.gelu,
    "Greater": logic.greater,
    "GreaterEqual": logic.greater_equal,
    "Identity": state.identity,
    "Inv": elementwise.reciprocal,
    "IsFinite": logic.isfinite,
    "IsInf": logic.isinf,
    "IsNan": logic.isnan,
    "Less": logic.less,
    "LessEqual": logic.less_equal,
    "Log": elementwise.log,
    "Log1p": elementwise.log1p,
    "LogicalAnd": logic.logical_and,
    "LogicalNot": logic.logical_not,
    "LogicalOr": logic.logical_or,
    "LogicalXor": logic.logical_xor,
    "Maximum": elementwise.maximum,
    "Minimum": elementwise.minimum,
    "Mul": elementwise.mul,
    "NPUAllocFloatStatus": float_status.alloc,
    "NPUClearFloatStatus": float_status.clear,
    "NPUClearFloatStatusV2": float_status.clear,
    "NPUGetFloatStatus": float_status.get,
    "NPUGetFloatStatusV2": float_status.get_v2,
    "Neg": elementwise.neg,
    "NotEqual": logic.not_equal,
    "Ones": creation.ones,
    "OnesLike": creation.ones_like,
    "Pow": elementwise.pow,
    "Rank": attributes.rank,
    "ReLU": network.relu,
    "RealDiv": elementwise.div,
    "Reciprocal": elementwise.reciprocal,
    "Reshape": shapes.reshape,
    "Rint": elementwise.round,
    "Round": elementwise.round,
    "Rsqrt": elementwise.rsqrt,
    "ScalarToTensor": creation.scalar_to_tensor,
    "Scan": control_flow.scan_elements,
    "Select": logic.select,
    "Shape": attributes.shape,
    "Sigmoid": network.sigmoid,
    "Sign": elementwise.sign,
    "Sin": elementwise.sin,
    "Size": attributes.size,
    "Sqrt": elementwise.sqrt,
    "Square": elementwise.square,
    "Sub": elementwise.sub,
    "Tanh": elementwise.tanh,
    "Transpose": shapes.transpose,
    "WhileLoop": control_flow.while_loop,
    "Zeros": creation.zeros,
    "ZerosLike": creation.zeros_like,
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Argmax": (_position(reductions.argmax), {"axis": -1, "output_type": int32}),
    "Argmin": (_position(reductions.argmin), {"axis": -1, "output_type": int32}),
    "BatchMatMul": (_matmul, {"transpose_a": False, "transpose_b": False}),
    "BroadcastTo": (shapes.broadcast_to, {"shape": REQUIRED}),
    "Concat": (shapes.concat, {"axis": 0}),
    "LogSoftmax": (network.log_softmax, {"axis": -1}),
    "MatMul": (_matmul, {"transpose_a": False, "transpose_b": False}),
    "OneHot": (creation.one_hot, {"axis": -1}),
    "ReduceAll": (_reduction(reductions.all), {"keep_dims": False}),
    "ReduceAny": (_reduction(reductions.any), {"keep_dims": False}),
    "ReduceMax": (_reduction(reductions.amax), {"keep_dims": False}),
    "ReduceMean": (_reduction(reductions.mean), {"keep_dims": False}),
    "ReduceMin": (_reduction(reductions.amin), {"keep_dims": False}),
    "ReduceProd": (_reduction(reductions.prod), {"keep_dims": False}),
    "ReduceSum": (_reduction(reductions.sum), {"keep_dims": False}),
    "Softmax": (network.softmax, {"axis": -1}),
    "Split": (_split, {"axis": 0, "output_num": 1}),
    "Squeeze": (_squeeze, {"axis": ()}),
    "Stack": (shapes.stack, {"axis": 0}),
}

TABLES = (
    "adam", "adaptive", "arrays", "boxes", "colors", "convolution", "counts", "descent", "elements", "images", "layers",
    "mathematics", "matrices", "network", "numbers", "pooling", "positions", "random",
)  # fmt: skip
"""The modules `operations_*` that have tables like those above."""

for _tables in (import_module(f"graphls.ops.operations_{name}") for name in TABLES):
    PLAIN |= _tables.PLAIN
    CONFIGURED |= _tables.CONFIGURED

OPERATORS: dict[str, Any] = {
    **{name: operator(name, function, {}, __name__) for name, function in PLAIN.items()},
    **{name: operator(name, function, settings, __name__) for name, (function, settings) in CONFIGURED.items()},
    "Partial": Partial,
}
"""Every operator class by its name."""

__all__ = ["OPERATORS", "REQUIRED", "Operator", "operator", *OPERATORS]


def __getattr__(name: str) -> Any:
    """An operator class by its name; raises GraphAttributeError, which names what is near, for another."""
    if name in OPERATORS:
        return OPERATORS[name]
    known = [*OPERATORS, *vars(graphls.ops).get("__all__", ())]
    raise GraphAttributeError(f"graphls.ops has no {name!r}{instead(name, PACKAGE, known)}.")


def __dir__() -> list[str]:
    return sorted({*globals(), *OPERATORS})
