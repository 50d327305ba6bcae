"""The fake_quantize pass: quantization-aware training with operands rounded to the grid of 8-bit integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.ir.build import Names
from graphls.ir.graph import Graph, Node, Value, Write
from graphls.ir.types import DType, Type, float32
from graphls.passes.adapters.weights import Weight, WeightFinder, matches
from graphls.passes.manager import register_pass

RANGES = ("observed", "learned")


@register_pass
@dataclass(frozen=True)
class FakeQuantize:
    """Round the operands of products with weights of matching names to the values that integers of few bits represent.

    Before:

        state @fc.weight: f32[16,4]
        %y = matmul(%x, @fc.weight) {transpose_b=true} : f32[8,16]  // forward fc

    After, with `training=false`:

        state @fc.weight: f32[16,4]
        state @fc.input_range: f32[2]
        %low = slice(@fc.input_range) {starts=[0], steps=[1], stops=[1]} : f32[1]  // forward fc
        %high = slice(@fc.input_range) {starts=[1], steps=[1], stops=[2]} : f32[1]  // forward fc
        %x_1 = fake_quantize(%x, %low, %high) : f32[8,4]  // forward fc
        %abs = abs(@fc.weight) : f32[16,4]  // forward fc
        %max = max(%abs) {axis=[1], keepdims=true} : f32[16,1]  // forward fc
        %most = stop_gradient(%max) : f32[16,1]  // forward fc
        %neg = neg(%most) : f32[16,1]  // forward fc
        %weight = fake_quantize(@fc.weight, %neg, %most) {steps=254} : f32[16,4]  // forward fc
        %y = matmul(%x_1, %weight) {transpose_b=true} : f32[8,16]  // forward fc

    Ranges of weights are symmetric, for each output channel or for all (`per_channel=false`). The range of the first
    operand is a state: with `ranges=observed`, it follows the minimum and the maximum by `momentum` in each training
    step (`training=false` stops that); with `learned`, it has a gradient. It always contains 0. Gradients pass straight
    through inside of a range. `match` is a shell-style pattern, or several, for the name of the weight or of the cell
    that uses it, by default of all. Products in branches and loops are not changed. Runs before `gradient`.
    """

    match: Any = None
    bits: int = 8
    ranges: str = "observed"
    per_channel: bool = True
    momentum: float = 0.1
    training: bool = True
    name = "fake_quantize"

    def __post_init__(self) -> None:
        if self.ranges not in RANGES or not 2 <= self.bits <= 16 or not 0 < self.momentum <= 1:
            text = f"fake_quantize takes ranges among {RANGES}, 2 to 16 bits and a momentum above 0 and up to 1"
            raise GraphValueError(f"{text}, not {self.ranges!r}, {self.bits} and {self.momentum}.")

    def run(self, graph: Graph) -> Graph:
        """The graph with rounded operands."""
        return quantized(graph, self)[0]


def quantized(graph: Graph, options: FakeQuantize) -> tuple[Graph, list[tuple[str, str]]]:
    """The graph after the pass, and by name the weight of each product with the range of its first operand."""
    rewriting = _FakeQuantize(graph, options)
    result = rewriting.run()
    if not rewriting.sites:
        return graph, []
    states, writes = (*graph.states, *rewriting.added), (*result.writes, *rewriting.writes)
    return result.replace(states=states, writes=writes), rewriting.sites


class _FakeQuantize(WeightFinder):
    def __init__(self, graph: Graph, options: FakeQuantize) -> None:
        super().__init__(graph)
        self.options = options
        self.states = {state.name: state for state in graph.states}
        self.ranges = Names()
        self.rounded: dict[Value, tuple[Value, str]] = {}
        self.weights: dict[Value, Value] = {}
        self.added: list[Value] = []
        self.writes: list[Write] = []
        self.sites: list[tuple[str, str]] = []
        self.depth = 0

    def block(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        self.depth += 1
        try:
            return super().block(nodes)
        finally:
            self.depth -= 1

    def visit(self, node: Node) -> Node | Sequence[Value]:
        weight = self.product(node) if self.depth == 1 else None
        if weight is None or not matches(self.options.match, weight.state.name, node.scope):
            return node
        x, name = self.first(node.inputs[0], weight.state)
        self.sites.append((weight.state.name, name))
        return replace(node, inputs=(x, self.second(node.inputs[1], weight)))

    def first(self, x: Value, weight: Value) -> tuple[Value, str]:
        """The first operand, rounded once for all products that read it, and the name of the state with its range."""
        if x not in self.rounded:
            name = self.ranges.fresh(f"{weight.name.removesuffix('.weight')}.input_range")
            dtype = float32 if x.type.dtype.is_half else x.type.dtype
            wide = self.cast(x, dtype)
            low, high = self.ends(self.state(name, dtype), wide)
            steps = 2**self.options.bits - 1
            attrs = {} if steps == 255 else {"steps": steps}
            (rounded,) = self.e.emit("fake_quantize", (wide, low, high), attrs, name=x.name)
            self.rounded[x] = self.cast(rounded, x.type.dtype), name
        return self.rounded[x]

    def state(self, name: str, dtype: DType) -> Value:
        if name not in self.states:
            self.states[name] = Value(self.names.fresh(name), Type(dtype, (2,)), is_state=True)
            self.added.append(self.states[name])
        return self.states[name]

    def ends(self, state: Value, x: Value) -> tuple[Value, Value]:
        """The two ends of a range, updated by this step."""
        options = self.options
        if options.ranges == "learned":
            low, high = self.halves(state)
            return self.e.minimum(low, 0.0, ties="first"), self.e.maximum(high, 0.0, ties="first")
        if not options.training:
            return self.halves(state)
        now = self.observed(state, x)
        self.writes.append(Write(state, now))
        return self.halves(now)

    def observed(self, state: Value, x: Value) -> Value:
        """The range after a step, which the first step sets; an infinity or nan does not change it."""
        e = self.e
        ends = e.minimum(e.min(x), 0.0), e.maximum(e.max(x), 0.0)
        here = e.concat(*(e.reshape(end, shape=(1,)) for end in ends), axis=0)
        moved = e.add(state, e.mul(e.sub(here, state), self.options.momentum))
        moved = e.where(e.equal(*self.halves(state)), here, moved)
        now: Value = e.stop_gradient(e.where(e.is_finite(here), moved, state))
        return now

    def halves(self, ends: Value) -> tuple[Value, Value]:
        starts = (("low", 0), ("high", 1))
        low, high = (
            self.e.emit("slice", (ends,), {"starts": (i,), "stops": (i + 1,), "steps": (1,)}, name=name)[0]
            for name, i in starts
        )
        return low, high

    def second(self, value: Value, weight: Weight) -> Value:
        """The rounded weight behind the casts and transpositions with which the product reads it."""
        if value is weight.state:
            if value not in self.weights:
                self.weights[value] = self.symmetric(weight)
            return self.weights[value]
        node = self.definer[value]
        return self.e.emit(node.primitive, (self.second(node.inputs[0], weight),), node.attrs, name=value.name)[0]

    def symmetric(self, weight: Weight) -> Value:
        """A weight rounded to a grid around 0, one for each output channel or one for all."""
        e, state = self.e, weight.state
        wide = self.cast(state, float32 if state.type.dtype.is_half else state.type.dtype)
        channel = 0 if weight.axis is None else 1 - weight.axis
        axes = tuple(i for i in range(state.type.rank) if not self.options.per_channel or i != channel)
        (most,) = e.emit("stop_gradient", (e.max(e.abs(wide), axis=axes, keepdims=True),), name="most")
        operands, steps = (wide, e.neg(most), most), 2**self.options.bits - 2
        (rounded,) = e.emit("fake_quantize", operands, {"steps": steps}, name=state.name.rpartition(".")[2])
        return self.cast(rounded, state.type.dtype)
