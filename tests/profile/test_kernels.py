"""Times of spans that nest, and the node of each operator of an optimized model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphls.ir import parse
from graphls.runtime.kernels import Kernel, Run, from_zero, own_times
from graphls.runtime.lowering import lower
from graphls.runtime.onnxruntime.profiled import attribution, recorded_runs

TEXT = """graph @g(%x: f32[2,2], %w: f32[2,2]) {
  %y = matmul(%x, %w) : f32[2,2]
  %z = relu(%y) : f32[2,2]
  %u = exp(%z) : f32[2,2]
  return %u
}
"""


@pytest.mark.parametrize(
    ("spans", "own"),
    [
        ([], []),
        ([(0, 5), (5, 3), (8, 0), (8, 2)], [5, 3, 0, 2]),
        ([(0, 10), (1, 4), (2, 2), (6, 3), (10, 1)], [3, 2, 2, 3, 1]),
        ([(0, 10), (0, 10), (3, 7)], [0, 3, 7]),
        ([(0, 4), (4, 0), (4, 6), (5, 1)], [4, 0, 5, 1]),
        ([(10, 5), (11, 5), (12, 1), (16, 2)], [0, 4, 1, 2]),  # rounded: the second seems to end after the first
    ],
)
def test_own_times(spans: Any, own: Any) -> None:
    assert own_times(spans) == own


TREES = st.recursive(st.integers(0, 3), lambda inner: st.lists(inner, max_size=4), max_leaves=20)


@given(st.lists(TREES, max_size=5))
def test_own_times_sum_up_to_the_outermost(trees: Any) -> None:
    spans: list[tuple[int, int]] = []

    def lay(tree: Any, start: int) -> int:
        """The end of a tree that begins at `start`: a number is a span, a list a span around others and 1 more."""
        place = len(spans)
        spans.append((start, 0))
        end = start + tree if isinstance(tree, int) else start
        for inner in [] if isinstance(tree, int) else tree:
            end = lay(inner, end)
        end += 0 if isinstance(tree, int) else 1
        spans[place] = start, end - start
        return end

    end = 0
    for tree in trees:
        end = lay(tree, end)
    own = own_times(spans)
    assert sum(own) == end and min(own, default=0) >= 0


def test_times_begin_at_zero() -> None:
    kernel = Kernel(None, "Add", 5.0, 1.0, 1.0)
    first, second = from_zero([Run(4.0, 3.0, (kernel,)), Run(8.0, 1.0, ())])
    assert (first.start, first.kernels[0].start, second.start) == (0, 1, 4)
    assert from_zero([]) == ()


def event(name: str, start: int, duration: int, **args: Any) -> str:
    return json.dumps({"cat": "Node", "dur": duration, "ts": start, "ph": "X", "name": name, "args": args})


def test_a_profile_as_the_runtime_writes_it(tmp_path: Path) -> None:
    """Inner events come first; of a run that is not whole, and of fences, nothing is taken."""
    add = event("add_kernel_time", 10, 4, op_name="Add")
    events = [
        event("model_loading_array", 0, 3),
        event("add_fence_before", 10, 0, op_name="Add"),
        add,
        event("SequentialExecutor::Execute", 10, 4),
        event("branch_kernel_time", 10, 4, op_name="If"),
        event("odd_kernel_time", 15, 2, op_name="Mul"),
        event("SequentialExecutor::Execute", 9, 9),
        event("model_run", 8, 12),
        add,
    ]
    path = tmp_path / "profile.json"
    path.write_text("[\n" + ",\n".join(events) + "\n]\n")
    inner, outer = parse(TEXT).nodes[:2]
    (run,) = recorded_runs(path, {"add": inner, "branch": outer})
    assert (run.start, run.seconds) == (8e-6, 12e-6)
    assert run.kernels == (
        Kernel(outer, "If", 10e-6, 4e-6, 0.0),
        Kernel(inner, "Add", 10e-6, 4e-6, 4e-6),
        Kernel(None, "Mul", 15e-6, 2e-6, 2e-6),
    )


def test_operators_of_an_optimized_model() -> None:
    """Fused ones have longer names or make known tensors; new ones belong to who reads them, else to who is read."""
    graph = parse(TEXT)
    lowered = lower(graph)
    matmul, relu, exp = (op.name for op in lowered.model.graph.node)
    y, z, u = (op.output[0] for op in lowered.model.graph.node)
    nodes = [
        onnx.helper.make_node("ReorderInput", ["x"], ["x_blocked"], name="reorder"),
        onnx.helper.make_node("FusedMatMul", ["x_blocked", "w"], ["y_blocked"], name=f"{matmul}/Fusion//Another/"),
        onnx.helper.make_node("ReorderOutput", ["y_blocked"], [y], name="back"),
        onnx.helper.make_node("FusedRelu", [y], [z], name="fused_7"),
        onnx.helper.make_node("Exp", [z], [u], name=exp),
        onnx.helper.make_node("MemcpyToHost", [u], ["copied"], name="memcpy"),
        onnx.helper.make_node("Alien", [], ["unknown"], name="alien"),
    ]
    optimized = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], []))
    found = {name: node.primitive.name for name, node in attribution(lowered, optimized).items()}
    assert found == {
        "reorder": "matmul",
        f"{matmul}/Fusion//Another/": "matmul",
        "back": "matmul",
        "fused_7": "relu",
        exp: "exp",
        "memcpy": "exp",
    }
    assert relu not in found
