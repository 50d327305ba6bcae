"""The model that blocks add operators to, as a context variable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from os import PathLike

import onnx
from onnx import ModelProto, helper

from graphls.base.errors import GraphRuntimeError
from graphls.runtime.lowering.kernel_tables import ir_version
from graphls.runtime.lowering.protos import copied

OPSET = 17
_open: ContextVar[ModelAccessor | None] = ContextVar("graphls_onnxblock_model", default=None)
_numbers = count(1)


class ModelAccessor:
    """A model that blocks change, and the path that it is from, if any."""

    def __init__(self, model: ModelProto, path: str | PathLike[str] | None = None) -> None:
        self.model = model
        self.path = path

    @property
    def has_path(self) -> bool:
        """True for a model from a file."""
        return self.path is not None


def current() -> ModelAccessor:
    """The open model, with its path; raises GraphRuntimeError if there is none."""
    accessor = _open.get()
    if accessor is None:
        raise GraphRuntimeError("A block needs a model; call it in `with onnxblock.base(model):`.")
    return accessor


@contextmanager
def base(model: ModelProto, model_path: str | PathLike[str] | None = None) -> Iterator[ModelAccessor]:
    """A copy of a model that blocks extend inside of the `with` block, as `.model` of the yielded accessor.

    Raises GraphRuntimeError where another model is open.

    Examples:
        >>> import numpy as np
        >>> import onnx
        >>> from graphls import nn, train
        >>> from graphls.onnx.training import onnxblock
        >>> train.export(nn.Dense(4, 3), np.ones((1, 4), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> model = onnx.load("net.onnx")
        >>> with onnxblock.base(model) as accessor:
        ...     name = onnxblock.blocks.Pow(2.0)(model.graph.output[0].name)
        ...     print(accessor.model.graph.node[-1].op_type)
        Pow
    """
    with _opened(ModelAccessor(copied(model), model_path)) as accessor:
        yield accessor


@contextmanager
def empty_base(opset_version: int | None = None) -> Iterator[ModelAccessor]:
    """An empty model that blocks extend inside of the `with` block.

    Raises GraphRuntimeError where another model is open.

    Examples:
        >>> from onnx import TensorProto, helper
        >>> from graphls.onnx.training import onnxblock
        >>> with onnxblock.empty_base() as accessor:
        ...     accessor.model.graph.input.extend([helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])])
        ...     result = onnxblock.blocks.Add()("x", "x")
        >>> [node.op_type for node in accessor.model.graph.node], result == accessor.model.graph.node[0].output[0]
        (['Add'], True)
    """
    opset = opset_version or OPSET
    graph = helper.make_graph([], "graph", [], [])
    version = ir_version(opset)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=version)
    with _opened(ModelAccessor(model)) as accessor:
        yield accessor


@contextmanager
def _opened(accessor: ModelAccessor) -> Iterator[ModelAccessor]:
    if _open.get() is not None:
        raise GraphRuntimeError("A model for blocks is open already; close it before another is opened.")
    token = _open.set(accessor)
    try:
        yield accessor
    finally:
        _open.reset(token)


def fresh_name(token: str) -> str:
    """A name that no other tensor or operator of a block has."""
    return f"onnx::{token}::{next(_numbers)}"


def inferred(model: ModelProto) -> ModelProto:
    """A copy of a model with the types and shapes of its tensors."""
    return onnx.shape_inference.infer_shapes(model)
