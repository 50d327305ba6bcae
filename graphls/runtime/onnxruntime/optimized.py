"""Models optimized by ONNX Runtime, as files and as cache entries with external arrays."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from graphls.ir.types import bfloat16
from graphls.runtime.cache_entry import MODEL, CacheEntry
from graphls.runtime.lowering.ports import Ports
from graphls.runtime.lowering.protos import graphs
from graphls.runtime.lowering.types import ELEMENT_TYPES

WEIGHTS = "weights"
DTYPES = {number: dtype.numpy for dtype, number in ELEMENT_TYPES.items() if dtype is not bfloat16}
"""The NumPy dtypes of tensors that a session takes as arrays, by their numbers in ONNX."""


@contextmanager
def written_to(entry: CacheEntry, ports: Ports) -> Iterator[Path | None]:
    """A file to which the block lets the runtime write its model, which becomes the entry; None where none is used."""
    if not entry.is_used:
        yield None
        return
    with TemporaryDirectory(prefix="graphls-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "optimized.onnx"
        yield file
        if file.exists():
            _write(entry, file, ports)


def write_optimized(options: Any, file: Path, has_weights: bool) -> None:
    """Let a session write its optimized model to a file, with large arrays in a second file if it has external ones."""
    options.optimized_model_filepath = str(file)
    if has_weights:
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)


def _write(entry: CacheEntry, file: Path, ports: Ports) -> None:
    """Write an optimized model to its entry, unless it has external arrays that a session cannot take."""
    model, weights = file.read_bytes(), file.with_name(WEIGHTS)
    if not weights.exists():
        entry.write(ports, {MODEL: model}, weights=[])
        return
    main, *bodies = graphs(ModelProto.FromString(model).graph)
    outside = list(filter(_is_outside, main.initializer))
    if any(t.data_type not in DTYPES for t in outside) or any(_is_outside(t) for g in bodies for t in g.initializer):
        return
    with open(weights, "rb") as opened:
        data = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    entry.write(ports, {MODEL: model, WEIGHTS: data}, weights=[_described(tensor) for tensor in outside])


def _is_outside(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL


def _described(tensor: TensorProto) -> list[Any]:
    """The name, dtype, shape and offset of an external array of a model."""
    offset = next((int(entry.value) for entry in tensor.external_data if entry.key == "offset"), 0)
    return [tensor.name, tensor.data_type, list(tensor.dims), offset]


def read_weights(table: Mapping[str, Any], parts: Mapping[str, memoryview]) -> dict[str, np.ndarray[Any, Any]]:
    """The external arrays of the model of an entry, by the names of their tensors."""
    return {name: _array(parts[WEIGHTS], *described) for name, *described in table[WEIGHTS]}


def _array(data: memoryview, data_type: int, shape: list[int], offset: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(data, DTYPES[data_type], prod(shape), offset).reshape(shape)
