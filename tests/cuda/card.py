"""Whether a GPU is at hand, and what tests on one share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import graphls
from graphls.ir.graph import walk
from graphls.runtime.devices import PROVIDERS
from graphls.runtime.onnxruntime.cuda_libraries import fault_of_installation
from graphls.runtime.onnxruntime.runtime import load_runtime
from tests.networks.steps import batch, build

Array = np.ndarray[Any, Any]
DOUBLE = "GRAPHLS_CUDA_DOUBLE"
"""The variable of the environment with which the double of the runtime takes the place of a GPU, to try the tests."""


def fault_of_card() -> str:
    """Why nothing can run on a GPU; empty where it can."""
    if os.environ.get(DOUBLE):
        return ""
    runtime = load_runtime()
    if PROVIDERS["cuda"] not in runtime.get_available_providers():
        return "this package of ONNX Runtime has no CUDA"
    return fault_of_installation(runtime)


def trained(name: str, form: str, device: Any, steps: int) -> tuple[list[list[Array]], dict[str, Array]]:
    """What some steps of a network give, and the states behind them."""
    cell, inputs = build(name, form)
    step = graphls.compile(cell, *inputs, device=device)
    results = [[np.asarray(y.asnumpy()) for y in step(*batch(name, seed))] for seed in range(steps)]
    return results, {key: p.asnumpy() for key, p in step.parameters.items()}


def has_loop(name: str) -> bool:
    """Whether the step of a network has one, so that no CUDA graph holds it."""
    cell, inputs = build(name, "float32")
    graph = graphls.trace_graph(cell, *inputs).graph
    return any(node.primitive.name in ("scan", "while") for node in walk(graph))


def differing(first: Any, second: Any) -> list[str]:
    """The names of the states that are not equal bit for bit."""
    return [name for name in first if not np.array_equal(first[name], second[name], equal_nan=True)]
