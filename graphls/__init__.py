"""graphls: training steps written as cells, compiled to one static graph for ONNX Runtime."""

from typing import Any

import graphls.step.calling  # noqa: F401  which registers itself as what compiles the cells that are called
from graphls import ir, nn, ops, passes
from graphls.base import aliases
from graphls.base.errors import GraphlsError, TraceError, VerifyError
from graphls.base.tracebacks import fold_tracebacks
from graphls.base.version import __version__ as __version__
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.random import get_seed, set_seed
from graphls.frontend.tensors.tensor import Tensor, from_numpy, tensor
from graphls.inspect import viz
from graphls.ir.graph import Graph
from graphls.ir.parse import parse
from graphls.ir.sharding import Mesh
from graphls.ir.types import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
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
from graphls.nn import amp
from graphls.nn.amp import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager
from graphls.ops.gradients import GradOperation, grad, value_and_grad
from graphls.runtime.devices import Cuda
from graphls.step.api import compile, load_step, trace_graph
from graphls.step.step import Compiled

aliases.install()
fold_tracebacks()


def __getattr__(name: str) -> Any:
    """Names of the training flow and of a script's settings, which are imported when they are asked for."""
    from graphls.frontend.names.lazy import attribute

    return attribute(name, __all__)


__all__ = [
    "Compiled", "Cuda", "DType", "DynamicLossScaleManager", "FixedLossScaleManager", "GradOperation", "Graph",
    "GraphlsError", "LossScaleManager", "Mesh", "Parameter", "ParameterTuple", "Tensor", "TraceError", "VerifyError",
    "amp", "bfloat16", "bool_", "compile", "float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float16", "float32", "float64", "from_numpy", "get_seed", "grad", "int8",
    "int16", "int32", "int64", "ir", "load_step", "nn", "ops", "parse", "passes", "set_seed", "tensor", "trace_graph",
    "uint8", "uint16", "uint32", "uint64", "value_and_grad", "viz",
]  # fmt: skip
