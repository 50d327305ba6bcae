"""The scope of a node is the path of its cell, through lists and other cells that do not run themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphls
from graphls import nn, ops
from graphls.ir import walk
from tests.trace.test_trace import Block, Net

X = np.arange(6, dtype=np.float32).reshape(2, 3) / 7


class Held(nn.Cell):
    """Cells in a list, a list in a list, a dict, a sequence, a cell that does not run, and a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList([Block(), Block()])
        self.nested = nn.CellList([nn.CellList([nn.Dense(3, 3)])])
        self.named = nn.CellDict({"a": nn.Dense(3, 3)})
        self.sequence = nn.SequentialCell(nn.Dense(3, 3), nn.ReLU())
        self.group = Net()
        self.plain = [nn.Dense(3, 3)]

    def construct(self, x: Any) -> Any:
        for layer in self.layers[:1]:
            x = layer(x)
        x = self.sequence(self.named["a"](self.nested[0][0](self.layers[1](x))))
        if ops.sum(x) > 0:
            return self.plain[0](self.group.second.fc(x))
        return self.layers[0](x)


def scopes(graph: graphls.Graph, primitive: str = "matmul", phase: str = "forward") -> list[str]:
    """The scopes of all nodes of a primitive in a phase, each once, in the order of the graph."""
    nodes = (node for node in walk(graph) if node.primitive.name == primitive and node.phase == phase)
    return list(dict.fromkeys(node.scope for node in nodes))


def test_a_scope_is_the_path_of_the_parameters() -> None:
    net = Held()
    assert scopes(graphls.compile(net, X, backend="numpy").graph) == [
        "layers.0.fc", "layers.1.fc", "nested.0.0", "named.a", "sequence.0", "group.second.fc", "",
    ]  # fmt: skip
    assert {"layers.0.fc.weight", "nested.0.0.weight", "group.second.fc.weight"} <= net.parameters_dict().keys()


def test_the_backward_has_it_too() -> None:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 4), 2)
    x = np.ones((2, 1, 4), np.float32)
    step = graphls.compile(graphls.grad(lambda x: ops.sum(net(x) ** 2)), x, backend="numpy")
    wanted = {f"layers.{i}.{name}" for i in range(2) for name in ("self_attn.out_proj", "dense1", "dense2")}
    for phase in ("forward", "backward"):
        assert wanted <= set(scopes(step.graph, phase=phase))
        assert not any(scope.startswith(("0.", "1.")) for scope in scopes(step.graph, phase=phase))


def test_a_cell_that_calls_itself_stays_at_its_path() -> None:
    class Twice(nn.Cell):
        def construct(self, x: Any, depth: int = 1) -> Any:
            return self(ops.tanh(x), depth - 1) if depth else ops.tanh(x)

    class Outer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Twice()

        def construct(self, x: Any) -> Any:
            return self.inner(x)

    step = graphls.compile(Outer(), X, backend="numpy")
    assert scopes(step.graph, "tanh") == ["inner"]


def test_a_cell_that_two_hold_has_the_path_of_the_one_that_calls_it() -> None:
    class Holder(nn.Cell):
        def __init__(self, cells: list[nn.Cell]) -> None:
            super().__init__()
            self.cells_of_it = nn.CellList(cells)

        def construct(self, x: Any) -> Any:
            return self.cells_of_it[len(self.cells_of_it) - 1](x)

    class Both(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            shared = nn.Dense(3, 3)
            self.first, self.second = Holder([nn.ReLU(), shared]), Holder([shared])

        def construct(self, x: Any) -> Any:
            return self.first(x) + self.second(x)

    step = graphls.compile(Both(), X, backend="numpy", passes="dce")
    assert scopes(step.graph) == ["first.cells_of_it.1", "second.cells_of_it.0"]


class Endless(nn.Cell):
    def construct(self, x: Any) -> Any:
        return self(x)


def test_the_scope_behind_a_recursion_that_was_caught() -> None:
    class Catching(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.endless, self.dense = Endless(), nn.Dense(3, 3)

        def construct(self, x: Any) -> Any:
            try:
                return self.endless(x)
            except RecursionError:
                return self.dense(x)

    assert scopes(graphls.trace_graph(Catching(), X).graph) == ["dense"]
