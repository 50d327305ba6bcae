"""Outputs that passes add: a step gives them beside what it returns, and says where one was dropped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir import Graph
from graphls.ir.errors import GraphRuntimeError, GraphValueError

X = np.arange(4, dtype=np.float32)


@dataclass(frozen=True)
class Showing:
    """The squares are outputs as well."""

    name = "showing"

    def run(self, graph: Graph) -> Graph:
        shown = tuple(n.output for n in graph.nodes if n.primitive.name == "square")
        return graph.replace(outputs=(*graph.outputs, *shown))


@dataclass(frozen=True)
class Dropping:
    """The last output is gone."""

    name = "dropping"

    def run(self, graph: Graph) -> Graph:
        return graph.replace(outputs=graph.outputs[:-1])


@dataclass(frozen=True)
class InFront:
    """The squares are the first output."""

    name = "in_front"

    def run(self, graph: Graph) -> Graph:
        shown = Showing().run(graph).outputs
        return graph.replace(outputs=(shown[-1], *graph.outputs))


class Net(nn.Cell):
    def construct(self, x: Any) -> Any:
        return {"sum": ops.square(x).sum(), "count": 4, "more": (x + 1,)}


@pytest.mark.parametrize("backend", ("onnxruntime", "numpy"))
def test_added_outputs_are_beside_what_the_step_returns(backend: str) -> None:
    step = graphls.compile(Net(), X, passes=[Showing()], backend=backend)
    with pytest.raises(GraphRuntimeError, match="call the step first"):
        step.extra_outputs  # noqa: B018
    result = step(X)
    assert float(result["sum"]) == 14.0 and result["count"] == 4
    assert result["more"][0].asnumpy().tolist() == [1, 2, 3, 4]
    ((name, squares),) = step.extra_outputs.items()
    assert name in str(step.graph) and squares.tolist() == [0, 1, 4, 9]
    step(2 * X)
    assert step.extra_outputs[name].tolist() == [0, 4, 16, 36]


def test_a_step_without_them_has_none_and_a_single_result_stays_one() -> None:
    assert graphls.compile(Net(), X).extra_outputs == {}
    step = graphls.compile(lambda x: ops.square(x).sum(), X, passes=[Showing()])
    assert float(step(X)) == 14.0 and [v.tolist() for v in step.extra_outputs.values()] == [[0, 1, 4, 9]]


def test_many_steps_in_one_call_and_bundles_have_them(tmp_path: Path) -> None:
    step = graphls.compile(Net(), X, passes=[Showing()])
    many = step.repeated(2)
    assert many(np.stack([X, 2 * X]))["sum"].asnumpy().tolist() == [14, 56]
    assert [v.tolist() for v in many.extra_outputs.values()] == [[[0, 1, 4, 9], [0, 4, 16, 36]]]
    loaded = graphls.load_step(step.export(tmp_path, predict=False))
    assert float(loaded(X)["sum"]) == 14.0
    assert [v.tolist() for v in loaded.extra_outputs.values()] == [[0, 1, 4, 9]]


def test_a_pass_that_drops_outputs_or_puts_others_in_front_is_named() -> None:
    text = r"The pass 'dropping' made outputs f32\[\] of f32\[\], f32\[4\]; it keeps the outputs of a step"
    with pytest.raises(GraphValueError, match=text):
        graphls.compile(Net(), X, passes=[Dropping(), Showing()])
    with pytest.raises(GraphValueError, match=r"The pass 'in_front' made outputs f32\[4\], f32\[\] of f32\[\]"):
        graphls.compile(Net(), X, passes=[InFront(), Showing()])
