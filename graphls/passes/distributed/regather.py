"""The regather pass: the backward gathers divided parameters again, so that no device keeps them whole in between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from graphls.ir.build import Builder, Names, substitute
from graphls.ir.graph import Graph, Node, Value, uses, with_blocks
from graphls.passes.manager import register_pass


@register_pass
@dataclass(frozen=True)
class Regather:
    """Let the backward gather parameters of its own that the forward gathers where it reads them, as of ZeRO 3.

    Before:

        graph @step mesh(data=2) (%x: f32[4/data,6]) {
          state @w: f32[6/data]
          %whole = shard(@w) {axes=[[]], gradient_axes=[["data"]]} : f32[6]  // forward
          %y = mul(%x, %whole) : f32[4,6]  // forward
          %g = cos(%y) : f32[4,6]  // backward
          %gx = mul(%g, %whole) : f32[4,6]  // backward
          return %gx
        }

    After:

        graph @step mesh(data=2) (%x: f32[4/data,6]) {
          state @w: f32[6/data]
          %whole = shard(@w) {axes=[[]], gradient_axes=[["data"]]} : f32[6]  // forward
          %y = mul(%x, %whole) : f32[4,6]  // forward
          %g = cos(%y) : f32[4,6]  // backward
          %depend = depend(@w) {recompute=true} after(%g) : f32[6]  // backward
          %whole_1 = shard(%depend) {axes=[[]], gradient_axes=[["data"]]} : f32[6]  // backward
          %gx = mul(%g, %whole_1) : f32[4,6]  // backward
          return %gx
        }

    What only moves or casts the elements of a gathered parameter is computed again, too. A device then has the
    parameters whole of the layers alone that it computes at a time, as in fully sharded data parallel training (Zhao et
    al., PyTorch FSDP, 2023), and gathers each parameter twice in a step.
    """

    name = "regather"

    def run(self, graph: Graph) -> Graph:
        """The graph whose backward gathers for itself."""
        if graph.mesh is None:
            return graph
        names = Names.of(graph)
        nodes = _regathered(graph.nodes, names)
        return graph if nodes == graph.nodes else graph.replace(nodes=nodes)


def _regathered(nodes: Iterable[Node], names: Names) -> tuple[Node, ...]:
    """The nodes of a block, and of the regions in it."""
    block = _Block(names)
    for node in nodes:
        block.add(with_blocks(node, lambda inner: _regathered(inner, names)))
    return tuple(block.e.nodes)


@dataclass
class _Block:
    """The nodes of a block so far, the gathered parameters of its forward, and those of its backward in their place."""

    names: Names
    gathered: dict[Value, Node] = field(default_factory=dict)
    """The nodes of gathers in the forward, and of moves and casts of what they gather."""
    again: dict[Value, Value] = field(default_factory=dict)
    last: Value | None = None
    """The latest value of the backward."""

    def __post_init__(self) -> None:
        self.e = Builder(self.names)

    def add(self, node: Node) -> None:
        if node.phase == "forward" and self.is_gathered(node):
            self.gathered[node.output] = node
        elif node.phase == "backward":
            if self.last is not None:
                node = self.reading(node, self.last)
            if not node.primitive.is_constant:
                self.last = next((v for v in node.outputs if not v.type.stacked), self.last)
        self.e.nodes.append(node)

    def is_gathered(self, node: Node) -> bool:
        if node.attrs.get("gradient_axes") is not None:
            return True
        is_move = node.primitive.moves or node.primitive.name == "cast"
        return is_move and len(node.inputs) == len(node.outputs) == 1 and node.inputs[0] in self.gathered

    def reading(self, node: Node, last: Value) -> Node:
        """A node of the backward, with what it reads of gathered parameters gathered again behind the value `last`."""
        self.e.follow(node)
        for value in dict.fromkeys(uses(node)):
            if value in self.gathered:
                self.repeat(value, last)
        return substitute(node, self.again)

    def repeat(self, value: Value, last: Value) -> Value:
        if value not in self.again:
            node = self.gathered[value]
            (operand,) = node.inputs
            if operand in self.gathered:
                operand = self.repeat(operand, last)
            else:
                (operand,) = self.e.emit("depend", (operand,), {"recompute": True}, after=(last,))
            (self.again[value],) = self.e.emit(node.primitive, (operand,), node.attrs, name=value.name)
        return self.again[value]
