"""Attributes of ONNX operators as those of a node; what is long is cut, because they are for reading."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, SparseTensorProto, TensorProto, numpy_helper

from graphls.base.text.plain import clipped
from graphls.ir.types import DTYPES, Type
from graphls.onnx.importing.types import sizes_of, sparse, tensor_type, type_of_proto, type_of_tensor
from graphls.runtime.lowering.protos import plain, text_of

MOST_ELEMENTS = 16
LONGEST_TEXT = 1000


def attributes(node: NodeProto) -> dict[str, Any]:
    """The attributes by name, without the graphs, which are regions of the node."""
    found = {}
    for attribute in node.attribute:
        if not attribute.HasField("g") and not attribute.graphs:
            found[plain(text_of(attribute.name))] = _value(attribute)
    return found


def _value(attribute: AttributeProto) -> Any:
    if attribute.ref_attr_name:
        return f"the attribute {text_of(attribute.ref_attr_name)} of the function"
    field, value = content(attribute)
    return _several(value) if field in LISTS else _shown(value)


SINGLE = ("f", "i", "s", "t", "g", "sparse_tensor", "tp")
LISTS = ("floats", "ints", "strings", "tensors", "graphs", "sparse_tensors", "type_protos")
"""The fields of attributes, each of one value or of several."""
_DEFAULTS = {AttributeProto.FLOAT: ("f", 0.0), AttributeProto.INT: ("i", 0), AttributeProto.STRING: ("s", "")}


def content(attribute: AttributeProto) -> tuple[str, Any]:
    """The field of an attribute that has its value, and the value.

    Models of the first version of the format do not say which field it is, and none has a 0 or an empty list.
    """
    single = ((field, getattr(attribute, field)) for field in SINGLE if attribute.HasField(field))
    several = ((field, getattr(attribute, field)) for field in LISTS if getattr(attribute, field))
    return next(chain(single, several), _DEFAULTS.get(attribute.type, ("ints", ())))


def _several(values: Sequence[Any]) -> tuple[Any, ...]:
    shown = tuple(map(_shown, values[:MOST_ELEMENTS]))
    return shown if len(values) == len(shown) else (*shown, f"... {len(values)} in all")


def _shown(value: Any) -> Any:
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
    return str(type_of_proto(value))


def tensor_value(tensor: TensorProto) -> Any:
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


def _elements(tensor: TensorProto, kind: Type) -> np.ndarray[Any, Any] | None:
    """The elements where they are in the model and fit the type."""
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
