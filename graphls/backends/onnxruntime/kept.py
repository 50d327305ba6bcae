"""Optimized models of steps that are kept on disk, so that the next process neither lowers nor optimizes them again."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
from onnx import ModelProto, TensorProto

from graphls.backends.cache import current, key_of
from graphls.backends.devices import Cuda
from graphls.backends.onnx.ports import Ports, table_of
from graphls.backends.onnx.shapes import graphs
from graphls.backends.onnx.types import ELEMENT_TYPES
from graphls.ir.graph import Graph
from graphls.ir.types import bfloat16

MODEL, WEIGHTS, TABLE = "model", "weights", "table"
Opened = TypeVar("Opened")
DTYPES = {number: dtype.numpy for dtype, number in ELEMENT_TYPES.items() if dtype is not bfloat16}
"""What NumPy calls the dtypes of tensors that a session takes as arrays, by their numbers in ONNX."""


@dataclass(frozen=True)
class Kept:
    """A model as the runtime has optimized it, the table of its ports, and the arrays that it does not hold."""

    table: Mapping[str, Any]
    model: bytes
    weights: dict[str, np.ndarray[Any, Any]]


class Shelf:
    """The place in the cache for the optimized model of a graph; where nothing is kept, it stays empty.

    Models that give their outputs `in_any_shape` are kept apart from others of the same graph.
    """

    def __init__(
        self, graph: Graph, device: str | Cuda, runtime: Any, is_used: bool = True, in_any_shape: bool = False
    ) -> None:
        self.graph = graph
        self.cache = current() if is_used else None
        build = runtime.__version__, getattr(runtime, "get_build_info", str)()
        place = asdict(device) if isinstance(device, Cuda) else device
        made_with = {"build": build, "device": place, "in_any_shape": in_any_shape}
        self.key = key_of(graph, engine="onnxruntime", **made_with) if self.cache else None

    def take(self, opened: Callable[[Kept], Opened]) -> Opened | None:
        """What `opened` makes of what is kept, if anything is."""
        return self.cache.open(self.key, lambda parts: opened(_kept(parts))) if self.cache and self.key else None

    @contextmanager
    def filled(self, ports: Ports) -> Iterator[Path | None]:
        """A file for the block to let the runtime write its model to, which is kept then; None where nothing is."""
        if self.cache is None or self.key is None:
            yield None
            return
        with TemporaryDirectory(prefix="graphls-", ignore_cleanup_errors=True) as folder:
            file = Path(folder) / "optimized.onnx"
            yield file
            parts = _parts(self.graph, file, ports) if file.exists() else None
            if parts is not None:
                self.cache.keep(self.key, parts)


def write_optimized(options: Any, file: Path, has_weights: bool) -> None:
    """Let a session write its optimized model to a file, with large arrays beside it where it cannot hold all."""
    options.optimized_model_filepath = str(file)
    if has_weights:
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)


def _parts(graph: Graph, file: Path, ports: Ports) -> dict[str, bytes | memoryview] | None:
    """An optimized model as the parts of an entry; None where a session could not be given its arrays."""
    model, weights = file.read_bytes(), file.with_name(WEIGHTS)
    table: dict[str, Any] = table_of(graph, ports) | {WEIGHTS: []}
    if not weights.exists():
        return {TABLE: json.dumps(table).encode(), MODEL: model}
    main, *bodies = graphs(ModelProto.FromString(model).graph)
    outside = list(filter(_is_outside, main.initializer))
    if any(t.data_type not in DTYPES for t in outside) or any(_is_outside(t) for g in bodies for t in g.initializer):
        return None
    table[WEIGHTS] = [_place(tensor) for tensor in outside]
    with open(weights, "rb") as opened:
        data = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    return {TABLE: json.dumps(table).encode(), MODEL: model, WEIGHTS: data}


def _is_outside(tensor: TensorProto) -> bool:
    return tensor.data_location == TensorProto.EXTERNAL


def _place(tensor: TensorProto) -> list[Any]:
    """Name, dtype, shape and place of an array in the file beside a model."""
    offset = next((int(entry.value) for entry in tensor.external_data if entry.key == "offset"), 0)
    return [tensor.name, tensor.data_type, list(tensor.dims), offset]


def _kept(parts: Mapping[str, memoryview]) -> Kept:
    table = json.loads(bytes(parts[TABLE]))
    weights = {name: _array(parts[WEIGHTS], *place) for name, *place in table[WEIGHTS]}
    return Kept(table, bytes(parts[MODEL]), weights)


def _array(data: memoryview, data_type: int, shape: list[int], offset: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(data, DTYPES[data_type], prod(shape), offset).reshape(shape)
