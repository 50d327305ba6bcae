"""The file of a checkpoint: parameters, what is known of them, and what the optimizer keeps, as safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from graphls.files.files import as_path, write_bytes
from graphls.files.safetensors_format import decode, encode
from graphls.ir.errors import GraphFileError, GraphValueError

Array = np.ndarray[Any, Any]
Property = int | float | str
HEAD, OPTIMIZER = "onnx.training", "optimizer/"
FLATBUFFER_MARK = b"ODTC"
"""What stands behind the first four bytes of a checkpoint that ONNX Runtime wrote."""


@dataclass(frozen=True)
class Kind:
    """What is known of a parameter without its value."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_trained: bool

    @property
    def size(self) -> int:
        """The number of its elements."""
        return prod(self.shape)


@dataclass
class Content:
    """What a checkpoint holds; a nominal one has no values of parameters.

    `moments` are rows for all trained parameters, one after the other, by their names in the optimizer model.
    """

    kinds: list[Kind]
    values: dict[str, Array] = field(default_factory=dict)
    properties: dict[str, Property] = field(default_factory=dict)
    moments: dict[str, Array] = field(default_factory=dict)
    optimizer: dict[str, float] = field(default_factory=dict)


def write(content: Content, path: object) -> None:
    """Write a checkpoint; raises GraphFileError where that cannot be, GraphRuntimeError without safetensors."""
    head = {
        "parameters": [[kind.name, list(kind.shape), kind.dtype, kind.is_trained] for kind in content.kinds],
        "properties": content.properties,
        "optimizer": content.optimizer,
    }
    arrays = content.values | {OPTIMIZER + name: row for name, row in content.moments.items()}
    write_bytes(as_path(path), encode({**arrays, HEAD: json.dumps(head)}))


def read(path: object) -> Content:
    """What a checkpoint holds; raises GraphFileError for a file that cannot be read, GraphValueError for another."""
    place = as_path(path)
    try:
        data = place.read_bytes()
    except OSError as error:
        raise GraphFileError(f"The checkpoint {place} cannot be read: {error.strerror or error}.") from None
    if data[4:8] == FLATBUFFER_MARK:
        text = f"{place} is a checkpoint of onnxruntime.training, which graphls does not read"
        raise GraphValueError(f"{text}; take its parameters over by name: state.parameters[name].data.")
    try:
        return _content(decode(data))
    except (GraphValueError, KeyError, TypeError, ValueError) as error:
        raise GraphValueError(f"{place} is no checkpoint of graphls.onnx.training: {error}.") from None


def _content(entries: Mapping[str, Any]) -> Content:
    head = json.loads(entries[HEAD])
    kinds = [Kind(name, tuple(shape), dtype, bool(trained)) for name, shape, dtype, trained in head["parameters"]]
    values = {kind.name: entries[kind.name] for kind in kinds if kind.name in entries}
    for kind in kinds:
        if values and (values[kind.name].shape, values[kind.name].dtype.name) != (kind.shape, kind.dtype):
            raise GraphValueError(f"{kind.name!r} is {values[kind.name].dtype}{values[kind.name].shape} in it")
    moments = {
        name.removeprefix(OPTIMIZER): row for name, row in entries.items() if name.startswith(OPTIMIZER)
    }  # fmt: skip
    return Content(kinds, values, dict(head["properties"]), moments, dict(head["optimizer"]))


def save_checkpoint(
    parameters: tuple[Sequence[TensorProto], Sequence[TensorProto]],
    path_to_checkpoint: object,
    nominal_checkpoint: bool = False,
) -> None:
    """Write the checkpoint of parameters that are trained and others; a nominal one is without their values."""
    trained, frozen = parameters
    kinds = [_kind(tensor, True) for tensor in trained] + [_kind(tensor, False) for tensor in frozen]
    values = {} if nominal_checkpoint else {t.name: numpy_helper.to_array(t) for t in (*trained, *frozen)}
    write(Content(kinds, values), path_to_checkpoint)


def _kind(tensor: TensorProto, is_trained: bool) -> Kind:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    return Kind(tensor.name, tuple(tensor.dims), dtype.name, is_trained)
