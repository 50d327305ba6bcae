"""graphls: training steps written as cells, compiled to one static graph for ONNX Runtime."""

from typing import Any

import graphls.calling  # noqa: F401  which registers itself as what compiles the cells that are called
from graphls import amp, ir, nn, ops, passes, viz
from graphls.amp import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager
from graphls.api import compile, load_step, trace_graph
from graphls.backends.devices import Cuda
from graphls.ir.errors import GraphlsError, TraceError, VerifyError
from graphls.ir.graph import Graph
from graphls.ir.parse import parse
from graphls.ir.tracebacks import fold_tracebacks
from graphls.ir.types import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from graphls.ops.gradients import GradOperation, grad, value_and_grad
from graphls.steps.step import Compiled
from graphls.tensors.parameter import Parameter, ParameterTuple
from graphls.tensors.random import get_seed, set_seed
from graphls.tensors.tensor import Tensor, from_numpy, tensor
from graphls.version import __version__ as __version__

fold_tracebacks()


def __getattr__(name: str) -> Any:
    """Names of the training flow and of a script's settings, which are imported when they are asked for."""
    from graphls.names.lazy import attribute

    return attribute(name, __all__)


__all__ = [
    "Compiled", "Cuda", "DType", "DynamicLossScaleManager", "FixedLossScaleManager", "GradOperation", "Graph",
    "GraphlsError", "LossScaleManager", "Parameter", "ParameterTuple", "Tensor", "TraceError", "VerifyError", "amp",
    "bfloat16", "bool_", "compile", "float16", "float32", "float64", "from_numpy", "get_seed", "grad", "int8", "int16",
    "int32", "int64", "ir", "load_step", "nn", "ops", "parse", "passes", "set_seed", "tensor", "trace_graph", "uint8",
    "uint16", "uint32", "uint64", "value_and_grad", "viz",
]  # fmt: skip
