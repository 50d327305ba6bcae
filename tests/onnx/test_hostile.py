"""Models that were made to take all time or memory are errors, soon."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphls
import graphls.onnx
from tests.onnx.models import INT, model, node, tensor

X = np.ones((2, 2), np.float32)
HUGE = 1 << 40


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([node("Range", "zero huge one", "r")], {"zero": 0, "one": 1, "huge": HUGE}),
        ([node("ConstantOfShape", "shape", "r")], {"shape": [HUGE, HUGE]}),
        ([node("Expand", "one shape", "r")], {"one": [1], "shape": [HUGE, HUGE]}),
        ([node("Tile", "one huge", "r")], {"one": [1], "huge": [HUGE]}),
        ([node("OneHot", "one huge two", "r")], {"one": [1], "huge": [HUGE], "two": [0, 1]}),
    ],
    ids=["Range", "ConstantOfShape", "Expand", "Tile", "OneHot"],
)
def test_enormous_constants(nodes: list[Any], constants: dict[str, Any]) -> None:
    proto = model(
        [*nodes, node("ReduceSum", "r", "s", keepdims=0), node("Cast", "s", "f", to=1), node("Add", "x f", "y")],
        [tensor("x", [2, 2])], ["y"], {name: np.asarray(value, np.int64) for name, value in constants.items()},
    )  # fmt: skip
    with pytest.raises(graphls.GraphlsError):
        graphls.compile(graphls.onnx.load(proto), X)


def nested(depth: int) -> onnx.NodeProto:
    """Loops of eight rounds, each in another one."""
    names = [f"i{depth}", f"c{depth}", f"v{depth}"]
    inner = nested(depth - 1) if depth else node("Add", "v0 one", "after0")
    if depth:
        inner.input[:] = ["eight", "", f"v{depth}"]
        inner.output[:] = [f"after{depth}"]
    nodes = [inner, node("Identity", f"c{depth}", f"go{depth}")]
    inputs = [tensor(names[0], [], INT), tensor(names[1], [], TensorProto.BOOL), tensor(names[2], None)]
    outputs = [tensor(f"go{depth}", [], TensorProto.BOOL), tensor(f"after{depth}", None)]
    return helper.make_node("Loop", ["eight", "", "x"], ["y"], body=helper.make_graph(nodes, "body", inputs, outputs))


def test_loops_inside_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphls.onnx.interpreter, "MOST_NODES", 1000)
    constants = {"eight": np.int64(8), "one": np.float32(1)}
    net = graphls.onnx.load(model([nested(9)], [tensor("x", [2, 2])], ["y"], constants))
    with pytest.raises(ValueError, match="loops that are written out make more than 1000 operators"):
        graphls.compile(net, X)


def test_functions_that_call_each_other() -> None:
    functions = [
        helper.make_function(
            "mine", f"F{i}", ["a"], ["b"],
            [helper.make_node(f"F{(i + 1) % 3}", ["a"], ["b"], domain="mine")], [helper.make_opsetid("mine", 1)],
        )
        for i in range(3)
    ]  # fmt: skip
    proto = model([helper.make_node("F0", ["x"], ["y"], domain="mine")], [tensor("x", [2])], ["y"])
    proto.functions.extend(functions)
    with pytest.raises(ValueError, match="call each other without end"):
        graphls.onnx.load(proto)
