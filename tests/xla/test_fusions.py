"""What XLA fuses, in the plan of a step, and where its time goes, in a profile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops
from graphls.ir.errors import GraphRuntimeError
from graphls.ir.parse import parse
from graphls.runtime.xla.fusions import fused_kernels
from graphls.runtime.xla.profiled import Span, shares
from graphls.runtime.xla.tracing import traced

jax = pytest.importorskip("jax")

X = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32)


def network(x: Any) -> Any:
    hidden = ops.tanh(x @ x + 1)
    return ops.exp(hidden * 2).sum()


def test_the_plan_has_the_kernels_with_their_nodes_and_lines() -> None:
    step = graphls.compile(network, X, engine="xla")
    plan = step.plan
    rows = {name: row for row in plan.kernels for name in row.nodes}
    outputs = {node.primitive.name: node.output.name for node in step.graph.nodes}
    assert {outputs[name] for name in ("matmul", "tanh", "mul", "exp", "sum")} <= set(rows)
    assert rows[outputs["mul"]] in (rows[outputs["exp"]], rows[outputs["tanh"]])  # a product with a number is fused
    lines = {line for row in plan.kernels for line in row.lines}
    assert lines and all("test_fusions.py:" in line for line in lines)
    text = str(plan)
    assert f"{len(plan.kernels)} kernels: " in text and "%" + outputs["mul"] in text
    assert graphls.compile(network, X, engine="onnxruntime").plan.kernels == ()


def test_kernels_in_branches_and_loops_belong_to_nodes_in_them() -> None:
    def chosen(x: Any) -> Any:
        return ops.cond(x.sum() > 0, lambda v: ops.tanh(v * 3), lambda v: ops.exp(v - 1), x)

    step = graphls.compile(chosen, X, engine="xla")
    (cond,) = (node for node in step.graph.nodes if node.regions)
    inside = {node.output.name for region in cond.regions for node in region.nodes if not node.primitive.is_constant}
    assert inside and inside <= {name for row in step.plan.kernels for name in row.nodes}


def test_a_profile_gives_the_time_of_each_kernel_to_its_node() -> None:
    step = graphls.compile(network, X, engine="xla")
    profile = step.profile(X, steps=3)
    assert len(profile.runs) == 3
    for run in profile.runs:
        names = {kernel.node.primitive.name for kernel in run.kernels if kernel.node is not None}
        assert "matmul" in names  # the node of most FLOPs, whatever is fused with it
        assert 0 < sum(kernel.own_seconds for kernel in run.kernels) <= run.seconds
    assert "XLA of JAX" in str(profile) and "matmul" in str(profile)


def test_several_segments_share_a_trace() -> None:
    def called(x: Any) -> Any:
        return ops.exp(ops.pure_callback(lambda v: v * 2, Tensor(X), ops.tanh(x)))

    profile = graphls.compile(called, X, engine="xla").profile(X, steps=2)
    for run in profile.runs:
        found = {kernel.node.primitive.name: kernel.segment for kernel in run.kernels if kernel.node is not None}
        assert {"tanh", "exp"} <= set(found) and found["tanh"] < found["exp"]


def test_a_profile_beside_another_trace_of_jax_says_what_to_do(tmp_path: Any) -> None:
    step = graphls.compile(network, X, engine="xla")
    jax.profiler.start_trace(tmp_path)
    try:
        with pytest.raises(GraphRuntimeError, match=r"call jax.profiler.stop_trace\(\) before step.profile"):
            step.profile(X, steps=1)
    finally:
        jax.profiler.stop_trace()
    assert step.profile(X, steps=1).runs


def test_spans_that_run_together_share_their_time() -> None:
    spans = [Span(0.0, 4.0, "a"), Span(1.0, 3.0, "b"), Span(6.0, 7.0, "c")]
    assert shares(spans) == pytest.approx([3.0, 1.0, 1.0])


def test_values_with_slashes_in_their_names_are_found() -> None:
    graph = parse('graph @g(%x: f32[4]) {\n  %"a/b" = tanh(%x) : f32[4]  // forward\n  return %"a/b"\n}\n')
    with jax.enable_x64(True):
        program = jax.jit(lambda x: traced(jax, graph, [x])[0]).lower(X[0, :4]).compile()
    assert [kernel.nodes for kernel in fused_kernels(program, graph) if kernel.nodes] == [graph.nodes]
