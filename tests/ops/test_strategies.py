"""Strategies of operators become mesh axes: the dimensions of an operator take the first that are free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls import Mesh, nn, ops, trace_graph
from graphls.ir.slices import axes_of_slices, mesh_of_devices
from graphls.ops.strategies import Layout

EIGHT = mesh_of_devices(8)


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def sharded(function: Any, *inputs: Any, mesh: Mesh = EIGHT) -> list[str]:
    """The types of the values that a strategy cuts, in order."""
    graph = trace_graph(lambda *x: function(*x), *inputs, mesh=mesh).graph
    assert trace_graph(lambda *x: function(*x), *inputs).graph.outputs[0].type == graph.outputs[0].type
    return [node.output.type_text for node in graph.nodes if node.primitive.name == "shard"]


@pytest.mark.parametrize(
    ("operator", "inputs", "expected"),
    [
        (ops.MatMul().shard(((4, 2), (2, 1))), (ones(8, 6), ones(6, 5)), ["f32[8/d0+d1,6/d2]", "f32[6/d2,5]"]),
        (ops.MatMul(transpose_b=True).shard(((2, 2), (2, 2))), (ones(8, 6), ones(4, 6)),
         ["f32[8/d0,6/d1]", "f32[4/d2,6/d1]"]),
        (ops.MatMul(transpose_a=True).shard(((2, 4), (2, 1)), ((8, 1),)), (ones(6, 8), ones(6, 5)),
         ["f32[6/d0,8/d1+d2]", "f32[6/d0,5]", "f32[8/d1+d2+d0,5]"]),
        (ops.MatMul().shard(((4, 2), (2, 1)), ((1, 1),)), (ones(8, 6), ones(6, 5)),
         ["f32[8/d0+d1,6/d2]", "f32[6/d2,5]", "f32[8,5]"]),
        (ops.BatchMatMul().shard(((2, 2, 1), (2, 1, 2))), (ones(2, 4, 3), ones(2, 3, 6)),
         ["f32[2/d0,4/d1,3]", "f32[2/d0,3,6/d2]"]),
        (ops.Add().shard(((2, 4), (4,))), (ones(2, 4), ones(4)), ["f32[2/d0,4/d1+d2]", "f32[4/d1+d2]"]),
        (ops.Add().shard(((2, 4), (2, 1))), (ones(2, 4), ones(2, 1)), ["f32[2/d0,4/d1+d2]", "f32[2/d0,1]"]),
        (ops.BiasAdd().shard(((2, 4, 1, 1), (4,))), (ones(2, 4, 3, 4), ones(4)),
         ["f32[2/d0,4/d1+d2,3,4]", "f32[4/d1+d2]"]),
        (ops.ReduceSum().shard(((2, 4),)), (ones(2, 4),), ["f32[2/d0,4/d1+d2]"]),
        (ops.Concat(1).shard(((8, 1), (8, 1))), ((ones(8, 2), ones(8, 3)),),
         ["f32[8/d0+d1+d2,2]", "f32[8/d0+d1+d2,3]"]),
        (lambda x, i: ops.Gather().shard(((4, 1), (2,)))(x, i, 0), (ones(8, 3), np.zeros(4, np.int32)),
         ["f32[8/d0+d1,3]", "i32[4/d2]"]),
        (ops.SparseSoftmaxCrossEntropyWithLogits().shard(((8, 1), (8,))), (ones(8, 8), np.zeros(8, np.int32)),
         ["f32[8/d0+d1+d2,8]", "i32[8/d0+d1+d2]"]),
    ],
)  # fmt: skip
def test_dimensions_take_the_first_free_axes(operator: Any, inputs: Any, expected: list[str]) -> None:
    assert sharded(operator, *inputs) == expected


def test_axes_of_other_meshes_and_of_layouts() -> None:
    product, inputs = ops.MatMul().shard(((4, 2), (2, 1))), (ones(8, 6), ones(6, 5))
    assert sharded(product, *inputs, mesh=Mesh(model=2, data=4)) == ["f32[8/data,6/model]", "f32[6/model,5]"]
    assert sharded(product, *inputs, mesh=Mesh(data=1)) == []
    assert axes_of_slices(mesh_of_devices(12), (3, 4)) == (("d2",), ("d0", "d1"))
    layout = Layout((2, 2, 4), ("sp", "interleaved_parallel", "model"))
    add = ops.Add().shard((layout(("sp", "model"), "interleaved_parallel"), layout("None", "None")))
    assert sharded(add, ones(8, 4), ones(8, 4)) == ["f32[8/d0+d1+d2,4]", "f32[8,4]"]
    named = Mesh(data=1, model=4, sp=2)
    assert sharded(add, ones(8, 4), ones(8, 4), mesh=named) == ["f32[8/sp+model,4]", "f32[8,4]"]


def test_a_dense_layer_is_cut_by_its_operators() -> None:
    dense = nn.Dense(6, 4)
    x = ones(2, 4, 6)
    plain = dense(x).asnumpy()
    dense.matmul.shard(((4, 1), (2, 1)))
    dense.bias_add.shard(((4, 2), (2,)))
    expected = ["f32[8/d0+d1,6]", "f32[4/d2,6]", "f32[8/d0+d1,4/d2]", "f32[4/d2]"]
    assert sharded(dense, x) == expected
    np.testing.assert_allclose(nn.SequentialCell(dense)(x).asnumpy(), plain, rtol=1e-6)


@pytest.mark.parametrize(
    ("plan", "error", "text"),
    [
        ({"weigth": (2, 1)}, ValueError, "names 'weigth', and Dense has no such parameter; did you mean 'weight'"),
        ((2, 1), TypeError, "The parameter_plan is a dict of strategies by the names of the parameters"),
    ],
)
def test_plans_that_do_not_fit(plan: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        nn.Dense(6, 4).shard(((2, 1),), parameter_plan=plan)
