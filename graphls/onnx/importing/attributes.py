"""Attributes of ONNX operators as those of a node, for display: long values are truncated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import TypeAlias

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, TypeProto, numpy_helper

from graphls.base.text.plain import clipped
from graphls.frontend.tensors.tensor import Array
from graphls.ir.types import DTYPES, Type
from graphls.onnx.importing.types import sizes_of, sparse, tensor_type, type_of_proto, type_of_tensor
from graphls.runtime.lowering.protos import plain, text_of

MOST_ELEMENTS = 16
LONGEST_TEXT = 1000

Single: TypeAlias = "int | float | str | bytes | TensorProto | SparseTensorProto | GraphProto | TypeProto"
"""The value of an attribute that is not a list."""
Shown: TypeAlias = "int | float | str | Array"


def attributes(node: NodeProto) -> dict[str, Shown | tuple[Shown, ...]]:
    """The attributes by name, without the graphs, which are regions of the node."""
    return {
        plain(text_of(attribute.name)): _value(attribute)
        for attribute in node.attribute
        if not attribute.HasField("g") and not attribute.graphs
    }


def _value(attribute: AttributeProto) -> Shown | tuple[Shown, ...]:
    if attribute.ref_attr_name:
        return f"the attribute {text_of(attribute.ref_attr_name)} of the function"
    value = content(attribute)
    return _shown(value) if isinstance(value, SINGLE_TYPES) else _several(value)


SINGLE_TYPES = (int, float, str, bytes, TensorProto, SparseTensorProto, GraphProto, TypeProto)
SINGLE = ("f", "i", "s", "t", "g", "sparse_tensor", "tp")
LISTS = ("floats", "ints", "strings", "tensors", "graphs", "sparse_tensors", "type_protos")
"""The fields of attributes, each of one value or of several."""
_DEFAULTS: dict[int, Single] = {AttributeProto.FLOAT: 0.0, AttributeProto.INT: 0, AttributeProto.STRING: ""}


def content(attribute: AttributeProto) -> Single | Sequence[Single]:
    """The value of an attribute.

    Models of the first version of the format do not name the field that holds it, and leave out 0 and empty lists.
    """
    single = (getattr(attribute, field) for field in SINGLE if attribute.HasField(field))
    several = (values for field in LISTS if (values := getattr(attribute, field)))
    value: Single | Sequence[Single] = next(chain(single, several), _DEFAULTS.get(attribute.type, ()))
    return value


def _several(values: Sequence[Single]) -> tuple[Shown, ...]:
    shown = tuple(map(_shown, values[:MOST_ELEMENTS]))
    return shown if len(values) == len(shown) else (*shown, f"... {len(values)} in all")


def _shown(value: Single) -> Shown:
    if isinstance(value, float):
        return float(str(np.float32(value)))
    if isinstance(value, int):
        return value
    if isinstance(value, (bytes, str)):
        return clipped(text_of(value[: 4 * LONGEST_TEXT]), LONGEST_TEXT)
    if isinstance(value, TensorProto):
        return tensor_value(value)
    if isinstance(value, SparseTensorProto):
        return str(sparse_type(value))
    if isinstance(value, GraphProto):
        return plain(text_of(value.name))
    return str(type_of_proto(value))


def tensor_value(tensor: TensorProto) -> Array | str:
    """The array of a small tensor, else a text: its type, and its first elements where the model holds them."""
    kind = type_of_tensor(tensor)
    array = _elements(tensor, kind)
    if array is None:
        return str(kind)
    if array.size <= MOST_ELEMENTS and kind.dtype in DTYPES:
        array.flags.writeable = False
        return array
    first = ", ".join(text_of(e) if isinstance(e, bytes) else str(e) for e in array.reshape(-1)[:8])
    return clipped(f"{kind} = {first}{', ...' if array.size > 8 else ''}", LONGEST_TEXT)


def _elements(tensor: TensorProto, kind: Type) -> Array | None:
    """The elements, if they are in the model and fit the type."""
    if tensor.data_location == TensorProto.EXTERNAL or len(tensor.dims) > kind.rank or min(tensor.dims, default=0) < 0:
        return None
    try:
        array = np.array(numpy_helper.to_array(tensor))
    except Exception:  # data that does not fit: the many errors of a conversion that trusts its input
        return None
    return array if array.size == prod(kind.shape) else None


def sparse_type(value: SparseTensorProto) -> Type:
    """The type of a sparse constant."""
    return sparse(tensor_type(value.values.data_type, sizes_of(value.dims)))
