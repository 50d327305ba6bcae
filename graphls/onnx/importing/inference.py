"""Shape inference of untrusted models, in a process with limits of time and memory."""

from __future__ import annotations

import os
import subprocess
import sys

from onnx import GraphProto, ModelProto

from graphls.runtime.lowering.protos import graphs, without_data

MOST_SECONDS, MOST_MEMORY = 20, 2**32
"""Limits of shape inference, in seconds and bytes."""

_INFER = f"""
import sys
sys.path[:] = sys.argv[1:]
try:
    import resource
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, ({MOST_MEMORY} if hard < 0 else min(hard, {MOST_MEMORY}), hard))
except ImportError:  # Windows, where a time limit must do
    pass
from onnx import shape_inference
model = sys.stdin.buffer.read()
typed = shape_inference.infer_shapes(model).SerializeToString()
sys.stdout.buffer.write(typed if len(typed) < 20 * len(model) + 1_000_000 else model)
"""


def with_inferred_types(model: ModelProto, with_functions: bool) -> ModelProto:
    """A copy of a model with types in `value_info`; types that inference cannot derive stay unknown.

    A file of 200 bytes can make shape inference fill all memory, so it runs in a process of its own, with limits; a
    model that declares all types is not inferred. Without functions, results of their calls have no type.
    """
    light = without_data(model)
    if not with_functions:
        light.ClearField("functions")
    if all(map(_declares_types, graphs(light.graph))):
        return light
    command, environment = [sys.executable, "-c", _INFER, *sys.path], {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    try:
        data = light.SerializeToString()
        done = subprocess.run(
            command, input=data, capture_output=True, check=True, timeout=MOST_SECONDS, env=environment
        )
        light.ParseFromString(done.stdout)
    except Exception:  # of many kinds: the graph is then shown without types
        return without_data(model)
    return light


def _declares_types(graph: GraphProto) -> bool:
    declared = {info.name for info in (*graph.value_info, *graph.output) if info.HasField("type")}
    return all(name in declared for node in graph.node for name in node.output if name)
