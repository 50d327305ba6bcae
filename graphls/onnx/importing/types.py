"""Types of ONNX as types of the IR, with display-only types for those that the IR does not compute with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from onnx import TensorProto, TensorShapeProto, TypeProto

from graphls.ir.types import DType, Type
from graphls.runtime.lowering.protos import plain, text_of
from graphls.runtime.lowering.types import ELEMENT_TYPES

MOST_AXES = 16
"""The largest number of axes in the text of a shape."""

_DTYPES = {number: dtype for dtype, number in ELEMENT_TYPES.items()}


@dataclass(frozen=True, slots=True, repr=False)
class ShownType(Type):
    """A display-only type, written as `text`, such as `f32[batch,10]` or `sequence(i64[...])`.

    `shape` has a 0 for each axis of unknown size. The memory of such a tensor is unknown, and counts as 0 bytes.
    """

    text: str = "?"

    @property
    def nbytes(self) -> int:
        """0, whatever the shape and the dtype say."""
        return 0

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


@cache
def element_type(number: int) -> DType:
    """The dtype of a number of `TensorProto.DataType`; a display-only one for a type that graphls does not have."""
    if number in _DTYPES:
        return _DTYPES[number]
    known = number != TensorProto.UNDEFINED and number in TensorProto.DataType.values()
    name = TensorProto.DataType.Name(number).lower() if known else "?"
    return DType(name, name, "other", 0)


UNKNOWN = ShownType(element_type(TensorProto.UNDEFINED))


def type_of_proto(proto: TypeProto) -> Type:
    """The declared type of a value."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type" or kind == "sparse_tensor_type":
        tensor = getattr(proto, kind)
        shape = [_axis(d) for d in tensor.shape.dim] if tensor.HasField("shape") else None
        dense = tensor_type(tensor.elem_type, shape)
        return dense if kind == "tensor_type" else sparse(dense)
    if kind == "sequence_type" or kind == "optional_type":
        return _other(f"{kind.removesuffix('_type')}({type_of_proto(getattr(proto, kind).elem_type)})")
    if kind == "map_type":
        return _other(f"map({element_type(proto.map_type.key_type).name}, {type_of_proto(proto.map_type.value_type)})")
    return UNKNOWN if kind is None else _other(kind.removesuffix("_type"))


def tensor_type(number: int, shape: Sequence[int | str] | None) -> Type:
    """The type of a tensor; an axis is its size, a name or "?", and None stands for an unknown number of axes."""
    dtype = element_type(number)
    if shape is None:
        return ShownType(dtype, (), text=f"{dtype.name}[...]")
    sizes = tuple(n if isinstance(n, int) else 0 for n in shape[:MOST_AXES])
    if dtype in ELEMENT_TYPES and sizes == tuple(shape):
        return Type(dtype, sizes)
    more = f",... {len(shape)} axes" if len(shape) > MOST_AXES else ""
    return ShownType(dtype, sizes, text=f"{dtype.name}[{','.join(map(str, shape[:MOST_AXES]))}{more}]")


def type_of_tensor(tensor: TensorProto) -> Type:
    """The type of a constant."""
    return tensor_type(tensor.data_type, sizes_of(tensor.dims))


def sizes_of(dims: Iterable[int]) -> list[int | str]:
    """Sizes as they are declared; negative ones are unknown."""
    return [int(n) if n >= 0 else "?" for n in dims]


def sparse(dense: Type) -> Type:
    """The type of a sparse tensor of this dtype and shape."""
    return ShownType(dense.dtype, (0,) * dense.rank, text=f"sparse {dense}")


def _axis(dimension: TensorShapeProto.Dimension) -> int | str:
    if dimension.HasField("dim_value"):
        return dimension.dim_value if dimension.dim_value >= 0 else "?"
    name = text_of(dimension.dim_param)
    return plain(name) if name else "?"


def _other(text: str) -> Type:
    return ShownType(UNKNOWN.dtype, (0,), text=text)
