"""The recurrent pass: replaces scans over time by an LSTM, a GRU or a plain recurrent layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphls.ir.build import Builder, copy_nodes
from graphls.ir.graph import Graph, Node, Value, definers
from graphls.ir.registry import lookup
from graphls.ir.types import float32
from graphls.passes.manager import register_pass
from graphls.passes.patterns.matching import Match, matches
from graphls.passes.rewriter import Rewriter

PRODUCT = "matmul(h, r, transpose_b=True)"
_SUM = f"add(projection, {PRODUCT})"
_INPUT, _FORGET, _OUTPUT = (f"sigmoid(slice({_SUM}, ..., starts={gate}))" for gate in ("INPUT", "FORGET", "OUTPUT"))
_CANDIDATE = f"tanh(slice({_SUM}, ..., starts=CELL))"
CELL = f"add(mul({_FORGET}, c), mul({_INPUT}, {_CANDIDATE}))"
HIDDEN = f"mul({_OUTPUT}, tanh({CELL}))"
"""The states of an LSTM after one iteration: that of its cell, and the one that it gives."""

LSTM: Mapping[str, str] = {
    "state": HIDDEN, "input": _INPUT, "forget": _FORGET, "candidate": _CANDIDATE, "output": _OUTPUT,
    "tanh": f"tanh({CELL})",
}  # fmt: skip
"""The values of an iteration of an LSTM."""

RNN: Mapping[str, str] = {"tanh": f"tanh({_SUM})", "relu": f"relu({_SUM})"}
"""The state of a plain recurrent layer after one iteration, by its activation."""


def gru(product: str) -> Mapping[str, str]:
    """The values of an iteration of a GRU whose states are multiplied with weights in a way."""
    inner = f"slice({product}, ..., starts=NEW)"
    reset = f"sigmoid(add(slice(projection, ..., starts=RESET), slice({product}, ..., starts=RESET)))"
    new = f"tanh(add(slice(projection, ..., starts=NEW), mul({reset}, {inner})))"
    update = f"sigmoid(add(slice(projection, ..., starts=UPDATE), slice({product}, ..., starts=UPDATE)))"
    difference = f"sub(h, {new})"
    return {
        "state": f"add({new}, mul({update}, {difference}))", "inner": inner, "reset": reset, "new": new,
        "update": update, "difference": difference,
    }  # fmt: skip


@dataclass(frozen=True)
class _Kind:
    """A kind of layer: its ONNX operator, the pattern of one iteration, and the layout of its weights.

    `gates` are the positions of the gates among the rows of weights, in the order of ONNX, and `places` their names in
    the pattern.
    """

    operator: str
    text: str
    gates: tuple[int, ...] = (0,)
    names: tuple[str, ...] = ()
    states: int = 1
    options: tuple[tuple[str, Any], ...] = ()


_KINDS = (
    _Kind("LSTM", HIDDEN, (0, 3, 1, 2), ("INPUT", "OUTPUT", "FORGET", "CELL"), 2),
    *(_Kind("GRU", gru(product)["state"], (1, 0, 2), ("UPDATE", "RESET", "NEW"), 1, (("linear_before_reset", 1),))
      for product in (f"add({PRODUCT}, b)", PRODUCT)),
    _Kind("RNN", RNN["tanh"]),
    _Kind("RNN", RNN["relu"], options=(("activations", ("Relu",)),)),
)  # fmt: skip
INPUTS = (
    "add(add(matmul(x, w, transpose_b=True), b1), b2)",
    "add(matmul(x, w, transpose_b=True), b1)",
    "matmul(x, w, transpose_b=True)",
)
"""The products of the inputs of all iterations, before a loop."""


@register_pass
@dataclass(frozen=True)
class Recurrent:
    """Make one node of a scan that is a recurrent layer of ONNX, and of the product of its inputs before it.

    Before:

        %p = matmul(%x, @w) {transpose_b=true} : f32[3,2,5]  // forward
        %last, %all = scan(%h, %p) {carries=1, length=3, reverse=false} : f32[2,5], f32[3,2,5] region(...) {
          ...
          yield %tanh, %tanh
        }  // forward

    After:

        %w = reshape(@w) {shape=[1, 5, 4]} : f32[1,5,4]  // forward
        %r = reshape(@r) {shape=[1, 5, 5]} : f32[1,5,5]  // forward
        %y, %y_h = composition(%x, %w, %r) {operator="RNN", since=7, hidden_size=5} : ... region {
          ...
        }  // forward
        %last = reshape(%y_h) {shape=[2, 5]} : f32[2,5]  // forward
        %all = reshape(%y) {shape=[3, 2, 5]} : f32[3,2,5]  // forward

    Loops that stop at the ends of sequences of several lengths stay. Values do not change.
    """

    name = "recurrent"

    def run(self, graph: Graph) -> Graph:
        """The graph with its recurrent layers."""
        return _Recurrent(graph).run()


class _Recurrent(Rewriter):
    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.primitive.name != "scan" or node.after:
            return node
        for kind in _KINDS:
            step = _step(node, kind)
            projection = step and self.projection(node, kind)
            if step is not None and projection is not None:
                return self.layer(node, kind, step, projection)
        return node

    def projection(self, node: Node, kind: _Kind) -> Match | None:
        """The match of the input projection before the loop; a GRU has one of its biases in the loop."""
        maker = self.definer.get(node.inputs[kind.states])
        tried = (matches(text, maker, self.definer) for text in INPUTS) if maker is not None else iter(())
        match = next((f for f in tried if f is not None), None)
        fits = match is not None and match["x"].type.rank == 3 and match["w"].type.rank == 2
        return match if fits and match is not None and _are_vectors(match) else None

    def layer(self, node: Node, kind: _Kind, step: Match, projection: Match) -> list[Value]:
        """Emit the layer as one operator; returns the results of the loop."""
        e, length = self.e, node.outputs[-1].type.shape[0]
        batch, hidden = node.inputs[0].type.shape
        weights = [self.in_order(projection["w"], kind, hidden), self.in_order(step["r"], kind, hidden)]
        biases = self.biases(kind, step, projection, hidden)
        operands, absent = [projection["x"], *weights, *biases], () if biases else (3,)
        if not all(map(self.is_zero, node.inputs[: kind.states])):
            operands += [e.reshape(v, shape=(1, batch, hidden)) for v in node.inputs[: kind.states]]
            absent = (*absent, 4)
        shapes = [(length, 1, batch, hidden), *[(1, batch, hidden)] * kind.states]
        order = [node.outputs[-1], *node.outputs[:-1]]
        region, types = self.region_of(node, projection, [*zip(order, shapes, strict=True)])
        outputs = tuple(Value(self.names.fresh(v.name), t) for v, t in zip(order, types, strict=True))
        attrs = {"operator": kind.operator, "since": 7, "hidden_size": hidden, **dict(kind.options)}
        attrs |= {"direction": "reverse"} if node.attrs["reverse"] else {}
        attrs |= {"absent": absent} if absent and max(absent) < len(operands) else {}
        composed = replace(
            node, primitive=lookup("composition"), inputs=tuple(operands), outputs=outputs, attrs=attrs,
            regions=(region,),
        )  # fmt: skip
        e.append(composed)
        y, *last = (e.reshape(v, shape=old.type.shape) for v, old in zip(outputs, order, strict=True))
        return [*last, y]

    def region_of(self, node: Node, projection: Match, results: Sequence[tuple[Value, tuple[int, ...]]]) -> Any:
        """The region with the computation of the layer, in the shapes of the operator, and the types of its results."""
        e, copies = Builder(self.names), dict[Value, Value]()
        e.follow(node)
        for copied in copy_nodes((*reversed(projection.nodes), node), copies, self.names):
            e.append(copied)
        outputs = tuple(e.reshape(copies[value], shape=shape) for value, shape in results)
        return Graph("layer", (), (), tuple(e.nodes), (), outputs), [v.type for v in outputs]

    def biases(self, kind: _Kind, step: Match, projection: Match, hidden: int) -> list[Value]:
        """The concatenated biases, that of the states last; empty where there are none."""
        match = [projection.values.get("b1"), step.values.get("b") or projection.values.get("b2")]
        if match == [None, None]:
            return []
        zeros = np.zeros(hidden * len(kind.gates), np.float32)
        parts = [self.rows(v if v is not None else self.e.constant(zeros), kind, hidden) for v in match]
        return [self.e.reshape(self.e.concat(*parts, axis=0), shape=(1, 2 * hidden * len(kind.gates)))]

    def in_order(self, weight: Value, kind: _Kind, hidden: int) -> Value:
        """A weight with its gates in the order of ONNX, as that of one direction."""
        return self.e.reshape(self.rows(weight, kind, hidden), shape=(1, *weight.type.shape))  # type: ignore[no-any-return]

    def rows(self, weight: Value, kind: _Kind, hidden: int) -> Value:
        """A weight with the rows of its gates in the order of ONNX."""
        if kind.gates == (0,):
            return weight
        rest = weight.type.shape[1:]
        zeros, ones = (0,) * len(rest), (1,) * (1 + len(rest))
        parts = (
            self.e.slice(weight, starts=(hidden * g, *zeros), stops=(hidden * (g + 1), *rest), steps=ones)
            for g in kind.gates
        )
        return self.e.concat(*parts, axis=0)  # type: ignore[no-any-return]

    def is_zero(self, value: Value) -> bool:
        """Whether a value is a constant of zeros."""
        maker = self.definer.get(value)
        while maker is not None and maker.primitive.flops_per_element == 0 and len(maker.inputs) == 1:
            maker = self.definer.get(maker.inputs[0])
        return maker is not None and maker.primitive.is_constant and not maker.attrs["value"].any()


def _step(node: Node, kind: _Kind) -> Match | None:
    """The match of one iteration of a loop with that of a layer; None where it does not match."""
    (region,) = node.regions
    definer: Mapping[Value, Node] = definers(region.nodes)
    counts = node.attrs["carries"], len(region.inputs) - 1, len(node.outputs) - 1
    if counts != (kind.states,) * 3:
        return None
    result = definer.get(region.outputs[0])
    match = matches(kind.text, result, definer) if result is not None else None
    if result is None or match is None or region.outputs[-1] is not result.output:
        return None
    names = ("h", "c", "projection") if kind.states == 2 else ("h", "projection")
    if any(match[name] is not value for name, value in zip(names, region.inputs, strict=True)):
        return None
    hidden = result.output.type.shape[-1]
    positions = [(0, hidden * gate) for gate in kind.gates]
    if kind.names and [match[name] for name in kind.names] != positions:
        return None
    inner = {value for each in region.nodes for value in each.outputs}
    is_outside = match["r"] not in inner and _are_vectors(match) and match["r"].type.rank == 2
    is_cell = kind.states == 1 or _is_cell(region, match, definer)
    is_single = all(v.type.dtype is float32 for v in (*region.inputs, *region.outputs))
    return match if is_outside and is_cell and is_single else None


def _is_cell(region: Graph, match: Match, definer: Mapping[Value, Node]) -> bool:
    """Whether the second state of an LSTM is the cell state that its result comes from."""
    maker = definer.get(region.outputs[1])
    again = matches(CELL, maker, definer) if maker is not None else None
    return again is not None and again.nodes[0] in match.nodes


def _are_vectors(match: Match) -> bool:
    return all(match[name].type.rank == 1 for name in ("b", "b1", "b2") if name in match.values)
