"""The lora pass: adds a trainable low-rank product beside each product with a weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.registry import lookup
from graphls.ir.types import Type, float32
from graphls.passes.adapters.weights import Weight, WeightFinder, matches
from graphls.passes.manager import register_pass


def adapter_names(weight: str) -> tuple[str, str]:
    """The names of A and B of a weight, as PEFT has them."""
    stem = weight.removesuffix(".weight")
    return f"{stem}.lora_A.weight", f"{stem}.lora_B.weight"


@register_pass
@dataclass(frozen=True)
class Lora:
    """Add `alpha / rank * x A B` to each product of the forward with a weight of a name that matches.

    Before:

        state @fc.weight: f32[16,4]
        %y = matmul(%x, @fc.weight) {transpose_b=true} : f32[8,16]  // forward fc

    After, with `rank=2`:

        state @fc.weight: f32[16,4]
        state @fc.lora_A.weight: f32[2,4]
        state @fc.lora_B.weight: f32[16,2]
        %y_1 = matmul(%x, @fc.weight) {transpose_b=true} : f32[8,16]  // forward fc
        %matmul = matmul(%x, @fc.lora_A.weight) {transpose_b=true} : f32[8,2]  // forward fc
        %matmul_1 = matmul(%matmul, @fc.lora_B.weight) {transpose_b=true} : f32[8,16]  // forward fc
        %y = add(%y_1, %matmul_1) : f32[8,16]  // forward fc

    (Hu and others, 2021, LoRA: Low-Rank Adaptation of Large Language Models.) `match` is a shell-style pattern,
    or several, for the name of the weight or of the cell that uses it, by default of all; `alpha` is the rank by
    default. A weight whose two states are in the graph uses these, matched or not. For kernels of convolutions in one
    group, A has the size of the kernel and B the size 1; other products are not changed. A and B are float32 beside
    16-bit weights, and their product is added in float32, unless the weight itself is cast for the product. Runs before
    `gradient`.
    """

    rank: int = 8
    match: Any = None
    alpha: float | None = None
    name = "lora"

    def run(self, graph: Graph) -> Graph:
        """The graph with the products of low rank."""
        rewriting = _Lora(graph, self)
        result = rewriting.run()
        return result.replace(states=(*graph.states, *rewriting.added)) if rewriting.added else result

    @property
    def scale(self) -> float:
        """The factor of the low-rank product."""
        return 1.0 if self.alpha is None else self.alpha / self.rank


def adapter_shapes(weight: tuple[int, ...], axis: int | None, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of A and B for a weight: of a matrix, `axis` is summed over; without one these are kernels."""
    if axis is None:
        return (rank, *weight[1:]), (weight[0], rank, *(1 for _ in weight[2:]))
    return (rank, weight[axis]), (weight[1 - axis], rank)


class _Lora(WeightFinder):
    def __init__(self, graph: Graph, options: Lora) -> None:
        super().__init__(graph)
        self.options = options
        self.states = {state.name: state for state in graph.states}
        self.added: list[Value] = []

    def visit(self, node: Node) -> Node | Sequence[Value]:
        weight = self.product(node)
        pair = None if weight is None or weight.groups != 1 else self.pair(node, weight)
        return node if weight is None or pair is None else self.adapted(node, weight, *pair)

    def pair(self, node: Node, weight: Weight) -> tuple[Value, Value] | None:
        """The states of the adapter of a weight: those that the graph has, or new ones where the weight matches."""
        state = weight.state
        names, shapes = adapter_names(state.name), adapter_shapes(state.type.shape, weight.axis, self.options.rank)
        if names[0] in self.states and names[1] in self.states:
            first, second = (self.states[name] for name in names)
            if (first.type.shape, second.type.shape) != shapes:
                text = f"{first!r} and {second!r} are not an adapter of rank {self.options.rank} of {state!r}"
                raise GraphValueError(f"{text}, which takes the shapes {shapes[0]} and {shapes[1]}.")
            return first, second
        if not matches(self.options.match, state.name, node.scope):
            return None
        dtype = float32 if state.type.dtype.is_half else state.type.dtype
        states = [Value(self.names.fresh(name), Type(dtype, s), True) for name, s in zip(names, shapes, strict=True)]
        self.states.update(zip(names, states, strict=True))
        self.added += states
        return states[0], states[1]

    def adapted(self, node: Node, weight: Weight, first: Value, second: Value) -> Node:
        """The sum of the product and the low-rank product, in place of the node."""
        e, dtype = self.e, node.output.type.dtype
        base = Value(self.names.fresh(node.output.name), node.output.type)
        e.append(replace(node, outputs=(base,)))
        wide = dtype if weight.is_cast else first.type.dtype
        x, a, b = (self.cast(value, wide) for value in (node.inputs[0], first, second))
        if node.primitive.is_convolution:
            low = e.convolution(x, a, **node.attrs)
        else:
            low = e.matmul(x, a, **{**node.attrs, "transpose_b": True})
        low = low if self.options.scale == 1 else e.mul(low, self.options.scale)
        high = e.convolution(low, b) if node.primitive.is_convolution else e.matmul(low, b, transpose_b=True)
        if wide is dtype:
            return replace(node, primitive=lookup("add"), inputs=(base, high), attrs={}, after=())
        total = e.add(self.cast(base, wide), high)
        return replace(node, primitive=lookup("cast"), inputs=(total,), attrs={"dtype": dtype}, after=())
