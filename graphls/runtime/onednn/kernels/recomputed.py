"""Products that an overflow check computes from their operands only where these do not tell whether they are finite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from graphls.ir.graph import Graph, Node, Value
from graphls.ir.types import Type, uint8
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.bound import Binding
from graphls.runtime.onednn.program.calls import Array, View
from graphls.runtime.onednn.program.program import Group, Program
from graphls.runtime.onednn.registry import RULES


@dataclass(eq=False)
class Recomputed:
    """A product, by its operands: floats in the layouts that they have, and integers in row-major order."""

    node: Node
    floats: Mapping[Value, View]
    integers: Mapping[Value, Buffer]
    program: Program | None = None

    @property
    def reads(self) -> list[Buffer]:
        """The buffers of the operands."""
        return [*(view.buffer for view in self.floats.values()), *self.integers.values()]

    def array(self, binding: Binding) -> Array:
        """The product of the operands in a binding, by calls that are prepared when they are needed first."""
        if self.program is None:
            self.program = self._program()
        program, kind = self.program, self.node.output.type
        result: Array = np.empty(kind.shape, kind.dtype.numpy)
        outside = {**program.constants, program.outputs[0]: result}
        for value, buffer in zip((*self.floats, *self.integers), program.inputs, strict=True):
            source = self.floats[value].buffer if value in self.floats else self.integers[value]
            outside[buffer] = binding.array(source, Type(uint8, (buffer.size,)))
        bound = program.bind(np.empty(program.size, np.uint8), outside)
        for call in bound.calls:
            library().call("compute a product", call)
        return result

    def _program(self) -> Program:
        node, layouts = self.node, {value: view.layout for value, view in self.floats.items()}
        graph = Graph("product", (*self.floats, *self.integers), (), (node,), (), node.outputs)

        def emit(program: Program) -> None:
            rule = RULES.get(node.primitive.name)
            if rule is None:
                program.interpret(node)
            else:
                rule(program, (node,))

        return Program(graph, (Group((node,), node.inputs, node.outputs, emit),), layouts)
