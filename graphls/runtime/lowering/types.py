"""Maps IR types to ONNX types."""

from __future__ import annotations

from onnx import TensorProto, ValueInfoProto

from graphls.ir.types import (
    DTYPES,
    LOW,
    DType,
    Type,
    bfloat16,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    token,
    uint8,
    uint16,
    uint32,
    uint64,
)

KINDS: dict[DType, str] = {d: d.long_name for d in DTYPES if d is not token and not d.is_low} | {
    float32: "float",
    float64: "double",
}
"""The names of dtypes in ONNX's signatures of operators."""

ELEMENT_TYPES: dict[DType, int] = {dtype: TensorProto.DataType.Value(kind.upper()) for dtype, kind in KINDS.items()}

LOW_TYPES: dict[DType, int] = {
    float8_e4m3fn: 17, float8_e4m3fnuz: 18, float8_e5m2: 19, float8_e5m2fnuz: 20, float4_e2m1fn: 23,
    float8_e8m0fnu: 24,
}  # fmt: skip
"""ONNX's types of low dtypes, as numbers: its oldest supported package does not have all of their names."""

LOW_OPSETS: dict[DType, int] = dict.fromkeys(LOW, 19) | {float4_e2m1fn: 23, float8_e8m0fnu: 24}
"""The opsets from which on there are casts to low dtypes."""

COMPUTED: dict[DType, DType] = {int8: int32, int16: int32, uint8: int32, uint16: int32, uint32: int64, uint64: int64}
"""Integers that are computed in another dtype and wrapped; a uint64 beyond 2 ** 63 compares as negative."""

HELD: dict[DType, DType] = dict.fromkeys(LOW, float32)
"""The dtypes of tensors for values of low dtypes, which float32 represents exactly: few kernels take any float8.

A model with `Target.native_low` has tensors of low dtypes, too, where these are rounded and scaled.
"""

EXCHANGED: dict[DType, DType] = {bfloat16: float32} | HELD
"""The dtypes of inputs and outputs: no runtime takes arrays of bfloat16, whose values float32 represents exactly."""


def held(kind: Type) -> Type:
    """The type of the tensor of a value in a model."""
    return kind.with_dtype(HELD.get(kind.dtype, kind.dtype))


def exchanged(kind: Type) -> Type:
    """The type in which a value enters or leaves a model."""
    return kind.with_dtype(EXCHANGED.get(kind.dtype, kind.dtype))


def describe(info: ValueInfoProto, name: str, kind: Type) -> None:
    """Set the name and type of an input or output of a graph; the length of a stack stays dynamic."""
    info.name = name
    tensor = info.type.tensor_type
    tensor.elem_type = ELEMENT_TYPES[kind.dtype]
    tensor.shape.SetInParent()
    if kind.stacked:
        tensor.shape.dim.add()
    for size in kind.shape:
        tensor.shape.dim.add(dim_value=size)
