"""Pipeline stages and parts of the batch as labels of nodes: traced, copied by passes, printed, parsed and compared."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir import Graph, parse, same, walk
from graphls.ir.text import digest


class Net(nn.Cell):
    """Two layers in two stages, with an activation outside of both."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(4, 8), nn.Dense(8, 2)
        self.first.pipeline_stage, self.second.pipeline_stage = 0, 1

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        return self.second(ops.tanh(self.first(x)))


def compiled() -> Graph:
    net = Net()
    parts = nn.GradAccumulationCell(nn.WithLossCell(net, nn.MSELoss()), 2)
    cell = nn.TrainOneStepCell(parts, nn.Momentum(net.trainable_params(), 0.1, 0.9))
    return graphls.compile(cell, np.ones((4, 4), np.float32), np.ones((4, 2), np.float32)).graph


def test_backward_nodes_have_the_labels_of_their_forward() -> None:
    products = [node for node in walk(compiled()) if node.primitive.is_product]
    labels = {(node.phase, node.stage, node.micro) for node in products}
    assert labels == set(product(("forward", "backward"), (0, 1), (0, 1)))


def test_the_text_has_the_labels() -> None:
    graph = compiled()
    assert "// forward network.network._backbone.first stage 0 micro 1 | " in str(graph)
    assert same(parse(str(graph)), graph)


@pytest.mark.parametrize("labels", [{"stage": 3}, {"micro": 3}, {"stage": None, "micro": None}])
def test_labels_count_in_comparisons_and_digests(labels: Any) -> None:
    graph = compiled()
    at = next(i for i, node in enumerate(graph.nodes) if node.stage == 0)
    nodes = (*graph.nodes[:at], replace(graph.nodes[at], **labels), *graph.nodes[at + 1 :])
    changed = graph.replace(nodes=nodes)
    assert not same(graph, changed)
    assert digest(graph) != digest(changed)
    assert same(parse(str(changed)), changed)


def test_a_scope_that_is_called_stage_is_no_stage() -> None:
    text = "graph @main(%x: f32[2]) {\n  %y = exp(%x) : f32[2]  // forward stage\n  return %y\n}\n"
    (node,) = parse(text).nodes
    assert (node.scope, node.stage) == ("stage", None)
    (node,) = parse(text.replace("forward stage", "forward stage 2")).nodes
    assert (node.scope, node.stage) == ("", 2)
    (node,) = parse(text.replace("forward stage", "forward stage stage 2 micro 1")).nodes
    assert (node.scope, node.stage, node.micro) == ("stage", 2, 1)


def test_nested_parts_have_numbers_of_their_own() -> None:
    class Double(nn.Cell):
        def construct(self, x: graphls.Tensor) -> graphls.Tensor:
            return ops.sum(ops.exp(x))

    nested = nn.GradAccumulationCell(nn.GradAccumulationCell(Double(), 2), 2)
    graph = graphls.compile(nested, np.ones((4, 2), np.float32)).graph
    assert [node.micro for node in graph.nodes if node.primitive.name == "exp"] == [0, 1, 2, 3]


def test_a_stage_is_a_number_from_0() -> None:
    cell = nn.Dense(2, 2)
    assert cell.pipeline_stage is None
    with pytest.raises(ValueError, match="pipeline_stage"):
        cell.pipeline_stage = -1
    with pytest.raises(TypeError, match="pipeline_stage"):
        cell.pipeline_stage = "first"  # type: ignore[assignment]
