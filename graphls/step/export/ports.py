"""The inputs and outputs of a model as manifest records."""

from __future__ import annotations

from onnx import ModelProto, TensorShapeProto, ValueInfoProto

from graphls.runtime.lowering.types import ELEMENT_TYPES
from graphls.step.export.manifest import Port

DTYPES = {number: dtype.long_name for dtype, number in ELEMENT_TYPES.items()}


def ports_of(model: ModelProto) -> dict[str, Port]:
    """The inputs and outputs of a model by name; a size that is said nowhere is "?"."""
    return {info.name: _port(info) for info in (*model.graph.input, *model.graph.output)}


def _port(info: ValueInfoProto) -> Port:
    kind = info.type.tensor_type
    return Port(info.name, DTYPES[kind.elem_type], tuple(map(_size, kind.shape.dim)))


def _size(dim: TensorShapeProto.Dimension) -> int | str:
    return int(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
