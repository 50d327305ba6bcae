"""Which kernels of the runtime give other bits in another run: notes for who chooses them, nothing that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphls
from graphls.runtime.lowering import lower
from tests.networks.steps import batch, build

SEARCHES: tuple[dict[str, str], ...] = (
    {"cudnn_conv_algo_search": "DEFAULT"},
    {"cudnn_conv_algo_search": "DEFAULT", "cudnn_conv_use_max_workspace": "0"},
    {"cudnn_conv_algo_search": "HEURISTIC"},
    {"cudnn_conv_algo_search": "HEURISTIC", "cudnn_conv_use_max_workspace": "0"},
    {"cudnn_conv_algo_search": "EXHAUSTIVE"},
    {"cudnn_conv_algo_search": "EXHAUSTIVE", "cudnn_conv_use_max_workspace": "0"},
)
Note = Callable[[str], None]


def with_every_float(name: str) -> tuple[onnx.ModelProto, dict[str, Any], list[str]]:
    """The model of a step that gives all of its float32 values, what it reads, and the names of the values."""
    cell, inputs = build(name, "float32")
    step = graphls.compile(cell, *inputs, device="cpu")
    lowered = lower(step.graph, device="cuda")
    graph = lowered.model.graph
    types = {info.name: info for info in onnx.shape_inference.infer_shapes(lowered.model).graph.value_info}
    kept = {info.name for info in graph.output}
    names = [n for node in graph.node for n in node.output if n in types and n not in kept]
    names = [n for n in names if types[n].type.tensor_type.elem_type == onnx.TensorProto.FLOAT]
    graph.output.extend(types[n] for n in names)
    feeds = dict(zip(lowered.inputs, batch(name), strict=True))
    return lowered.model, feeds | {t: step.parameters[n].asnumpy() for n, t in lowered.states.items()}, names


@pytest.mark.parametrize("given", SEARCHES, ids=lambda given: "-".join(given.values()))
@pytest.mark.parametrize("name", ["resnet18", "unet"])
def test_operators_that_give_other_bits_on_the_same_operands(name: str, given: dict[str, str], note: Note) -> None:
    model, feeds, names = with_every_float(name)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.use_deterministic_compute = 4, True
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    provider = "CUDAExecutionProvider", {"use_tf32": "0", **given}
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
    runs = [dict(zip(names, map(np.asarray, session.run(names, feeds)), strict=True)) for _ in range(4)]
    apart = {n for other in runs[1:] for n in names if other[n].tobytes() != runs[0][n].tobytes()}
    first = [node for node in model.graph.node if apart & set(node.output) and not apart & set(node.input)]
    for node in first[:12]:
        shapes = [runs[0][n].shape for n in node.input if n in runs[0]]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        note(f"{name} {given}: {node.name} {shapes} {attributes}")
    note(f"{name} {given}: {len(first)} of {len(model.graph.node)} operators give other bits")
