"""A primitive on one of its samples: operands, the graph of one node, and its model on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime

from graphls.ir import Builder, DType, Graph, Type, Value, verify
from graphls.ir.registry import Operation
from graphls.ir.types import bfloat16, bool_, float16, float32, float64, type_of
from graphls.primitives.primitive import Array, Sample
from graphls.runtime.lowering import Lowered

ROUNDING = {float16: 2.0**-11, float32: 2.0**-24, float64: 2.0**-52, bfloat16: 2.0**-8}


def in_dtype(sample: Sample, dtype: DType) -> tuple[Type, ...]:
    """The operand types of a sample with its float32 operands in another float dtype."""
    return tuple(t.with_dtype(dtype) if t.dtype is float32 else t for t in sample.types)


def draw(sample: Sample, types: Sequence[Type], seed: int = 0) -> list[Array]:
    """Random operands of these types, within the limits of the sample."""
    random = np.random.default_rng(seed)
    return [_random_operand(random, sample, kind) for kind in types]


def _random_operand(random: np.random.Generator, sample: Sample, kind: Type) -> Array:
    low, high = sample.integers
    with np.errstate(over="ignore"):
        if kind.dtype.is_float:
            return np.asarray(random.uniform(sample.low, sample.high, kind.shape)).astype(kind.dtype.numpy)
        if kind.dtype is bool_:
            return np.asarray(random.integers(0, 2, kind.shape)).astype(kind.dtype.numpy)
        low = max(low, 0) if kind.dtype.kind == "uint" else low
        return np.asarray(random.integers(low, high, kind.shape)).astype(kind.dtype.numpy)


def single(primitive: Operation, sample: Sample, types: Sequence[Type]) -> Graph:
    """A graph of one node."""
    inputs = tuple(Value(f"x{i}", t) for i, t in enumerate(types))
    e = Builder()
    outputs = e.emit(primitive, inputs, sample.attrs)
    return verify(Graph("single", inputs, (), tuple(e.nodes), (), outputs))


def run(lowered: Lowered, graph: Graph, arrays: list[Array]) -> list[Array]:
    """The outputs of a model on the CPU provider; those of low dtypes in these, of which float32 has all numbers."""
    session = _open_session(lowered.model.SerializeToString())
    fed = [a.astype(np.float32) if v.dtype.is_low else a for a, v in zip(arrays, graph.inputs, strict=True)]
    feeds = dict(zip(lowered.inputs, fed, strict=True))
    for node, name in lowered.host:
        (feeds[name],) = node.primitive.evaluate(tuple(arrays), node.attrs, (node.output.type,))
    names = {i.name for i in session.get_inputs()}
    results = session.run(list(lowered.outputs), {k: v for k, v in feeds.items() if k in names})
    pairs = zip(results, graph.outputs, strict=True)
    return [r.astype(v.dtype.numpy) if v.dtype.is_low else r for r, v in pairs]


def _open_session(model: bytes) -> Any:
    """A session of a model; without optimizations where the runtime fuses operators to one that it cannot run."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # a model that cannot run at all is refused again
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def assert_close(actual: Array, expected: Array, dtype: DType) -> None:
    """Assert equal types, infinities and nans, and numbers within a few roundings of `dtype`."""
    __tracebackhide__ = True
    if type_of(actual) != type_of(expected):
        raise AssertionError(f"The model gives {type_of(actual)}, and NumPy {type_of(expected)}.")
    if type_of(actual).dtype.is_low:
        np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))
        return
    if actual.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    unit = ROUNDING[dtype]
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=16 * unit, atol=16 * unit, equal_nan=True
    )
