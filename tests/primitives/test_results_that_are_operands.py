"""A result that is an operand when the model runs is known to be one: primitives where they change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from graphls.inspect.testing.samples import draw, in_dtype, single
from graphls.ir import Graph, Type, Value
from graphls.ir.aliases import Aliases
from graphls.ir.errors import GraphlsError, GraphValueError
from graphls.ir.types import float16
from graphls.primitives.primitive import Sample
from graphls.runtime.lowering import lower
from graphls.runtime.onnxruntime.kernel_checks import is_right
from tests.primitives.test_every_primitive import PRIMITIVES

VIEWS = {"Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}
"""Operators whose result lies in the memory of their operand."""


def attributes(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The attributes of a sample, and those with one of them at a number that tends to change nothing."""
    yield dict(given)
    for name, value in given.items():
        if isinstance(value, bool):
            yield {**given, name: not value}
        elif isinstance(value, int | float):
            yield from ({**given, name: type(value)(number)} for number in (0, 1))
        elif isinstance(value, tuple):
            yield from ({**given, name: each} for each in ((), (0,) * len(value), (1,) * len(value)))


def operands(given: tuple[Type, ...]) -> Iterator[tuple[Type, ...]]:
    """The operands of a sample, and these with one element, along one axis or all."""
    yield given
    yield tuple(t.with_shape((1,) * t.rank) for t in given)
    yield tuple(t.with_shape((1, *t.shape[1:])) for t in given)
    yield tuple(t.with_shape(()) for t in given)
    for at in range(len(given)):
        yield tuple(t.with_shape((1,) * t.rank) if i == at else t for i, t in enumerate(given))


def graphs(primitive: Any, sample: Sample) -> Iterator[Graph]:
    """Graphs of one node, for what fits of all this."""
    for types in dict.fromkeys(chain(operands(sample.types), [in_dtype(sample, float16)])):
        for attrs in attributes(sample.attrs):
            try:
                graph = single(primitive, Sample((), attrs), types)
            except (GraphlsError, ArithmeticError, IndexError, TypeError, ValueError):
                continue
            wanted = {(v.type.size, v.type.dtype) for v in graph.inputs}
            if any((v.type.size, v.type.dtype) in wanted and v.type.size for v in graph.outputs):
                yield graph


def optimized(graph: Graph, path: Path) -> tuple[onnx.ModelProto, dict[str, Value], tuple[str, ...]]:
    """The model as the runtime runs it, with the graph's inputs and outputs by name."""
    lowered = lower(graph, kernel_is_right=is_right)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level, options.optimized_model_filepath = 4, str(path)
    onnxruntime.InferenceSession(lowered.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(path), dict(zip(lowered.inputs, graph.inputs, strict=True)), lowered.outputs


def are_operands(graph: Graph, path: Path) -> Iterator[tuple[Value, Value]]:
    """The results that are operands when the model runs, behind operators that make nothing."""
    model, inputs, outputs = optimized(graph, path)
    made = {name: node for node in model.graph.node for name in node.output}
    for name, value in zip(outputs, graph.outputs, strict=True):
        while name in made and made[name].op_type in VIEWS:
            name = made[name].input[0]
        if name in inputs:
            yield value, inputs[name]


def share_memory(graph: Graph) -> Iterator[tuple[Value, Value]]:
    """The results that lie in the memory of operands in NumPy."""
    (node,) = graph.nodes
    arrays = draw(Sample((), node.attrs, integers=(0, 1)), tuple(v.type for v in graph.inputs))
    with np.errstate(all="ignore"), suppress(GraphValueError):  # of labels where there are no classes
        results = node.primitive.evaluate(tuple(arrays), node.attrs, tuple(v.type for v in graph.outputs))
        for result, value in zip(results, graph.outputs, strict=True):
            yield from ((value, v) for a, v in zip(arrays, graph.inputs, strict=True) if np.shares_memory(result, a))


@pytest.mark.parametrize("primitive", [p for p in PRIMITIVES if p.samples], ids=lambda p: p.name)
def test_a_result_that_is_an_operand_is_known_to_be(primitive: Any, tmp_path: Path) -> None:
    for sample in primitive.samples:
        for graph in graphs(primitive, sample):
            aliases = Aliases(graph.nodes)
            found = [*are_operands(graph, tmp_path / "model.onnx"), *share_memory(graph)]
            strange = [(v, x) for v, x in found if v.type.dtype is x.type.dtype and x not in {v} | aliases.of(v)]
            assert not strange, (graph.nodes[0].attrs, [str(v.type) for v in graph.inputs])
