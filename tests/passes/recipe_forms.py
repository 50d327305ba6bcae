"""Graphs of one form, and the numbers that the tests of recipes round."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from graphls.ir import Builder, Names, Type, Value, interpret
from graphls.ir.build import substitute
from graphls.ir.graph import Graph
from graphls.ir.types import float32, type_of
from graphls.passes.precision.forms import Form
from graphls.passes.precision.scales import absolute_maximum


class Rounded(NamedTuple):
    """What a form makes of an array: the rounded numbers, the low ones, the multipliers and their inverses."""

    numbers: Any
    low: Any
    scale: Any
    inverse: Any

    @property
    def codes(self) -> Any:
        """The bytes of the low numbers."""
        return self.low.view(np.uint8)


@dataclass
class Extra:
    """What a form reads besides the array; `drawn` are the values that stand for random numbers."""

    states: Mapping[str, Value] = field(default_factory=dict)
    drawn: list[Value] = field(default_factory=list)
    e: Builder = field(default_factory=lambda: Builder(Names(["x"])))

    def absolute_maximum(self, x: Value) -> Value:
        return absolute_maximum(self.e, x, (0,) * x.rank)

    def uniform(self, kind: Type) -> Value:
        self.drawn.append(Value(f"uniform_{len(self.drawn)}", Type(float32, kind.shape)))
        return self.drawn[-1]


def graph_of(form: Form, kind: Type) -> Graph:
    """A graph of the form on a type, with its states; its outputs are those of Rounded."""
    x = Value("x", kind)
    states = {name: Value(name, type_of(array), is_state=True) for name, array in form.states.items()}
    extra = Extra(states)
    e = extra.e
    numbers = form.rounded(e, x, extra)
    last = e.nodes[-1] if e.nodes[-1].primitive.name == "dequantize" else e.nodes[-2]
    first = next((node for node in e.nodes if node.primitive.name == "quantize"), last)
    outputs = numbers, last.inputs[0], first.inputs[1], last.inputs[1]
    return Graph("main", (x, *extra.drawn), tuple(states.values()), tuple(e.nodes), (), outputs)


def without_states(graph: Graph) -> Graph:
    """The graph with the rounded numbers as its only output and with states as inputs."""
    mapping = {state: Value(state.name, state.type) for state in graph.states}
    nodes = tuple(substitute(node, mapping) for node in graph.nodes)
    return graph.replace(inputs=(*graph.inputs, *mapping.values()), states=(), nodes=nodes, outputs=graph.outputs[:1])


def rounded(form: Form, x: Any, states: Mapping[str, Any] | None = None, random: Sequence[Any] = ()) -> Rounded:
    """What the interpreter computes."""
    return Rounded(*interpret(graph_of(form, type_of(x)), [x, *random], states or form.states)[0])


def numbers(rows: int, columns: int) -> Any:
    """Float32 numbers of many sizes, which are exact in any library."""
    i = np.arange(rows * columns, dtype=np.int64)
    x = ((i * 7919 % 1009) - 504) * np.exp2((i * 31 % 97) % 9 - 10.0) * np.exp2((i // 16) % 7 - 3.0)
    return x.astype(np.float32).reshape(rows, columns)


def checksum(array: Any) -> int:
    """The CRC-32 of the bytes of an array."""
    return zlib.crc32(np.ascontiguousarray(array).tobytes())
