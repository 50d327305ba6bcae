"""Finds the constants that must be known while the graph is traced: shapes, axes, scales, and their sources."""

from __future__ import annotations

from collections.abc import Iterable

from graphls.onnx.program import Block, OnnxNode
from graphls.onnx.tensors import Stored

_OF_SHAPES = ("Shape", "Size", "SequenceLength", "OptionalHasElement")
"""Operators whose results are known without the elements of their inputs."""


class Analysis:
    """A backward walk from the inputs that rules must know to the constants that these come from.

    `known` are those constants; `settled` those that are not trained by default.
    """

    def __init__(self) -> None:
        self.known: set[Stored] = set()
        self.settled: set[Stored] = set()

    def block(self, block: Block, required: Iterable[str] = ()) -> set[str]:
        """Walk through a block in which some tensors must be known; returns those that it captures."""
        names = set(required)
        for node in reversed(block.nodes):
            names |= self._node(node, not names.isdisjoint(node.outputs), block)
        self.known.update(stored for name, stored in block.constants.items() if name in names)
        computed = {name for node in block.nodes for name in node.outputs}
        return names - computed - set(block.constants)

    def _node(self, node: OnnxNode, is_required: bool, block: Block) -> set[str]:
        """The inputs of a node, and the captured tensors of its blocks, that must be known."""
        names: set[str] = set()
        for inner in node.blocks:
            names |= self.block(inner, inner.outputs if is_required else ())
        if node.body is not None:
            outer = self.block(node.body, node.body.outputs if is_required else ())
            actual = dict(zip(node.body.inputs, node.inputs, strict=False))
            return {actual[name] for name in outer if name in actual} - {""}
        if node.entry is not None:
            numbered = list(enumerate(node.inputs))
            if node.entry.by_data:
                # All that its shapes come from would have to be known; only constants can be.
                return names | set(node.inputs) & set(block.constants)
            names.update(name for i, name in numbered if i in node.entry.known or i in node.entry.hoped)
            settled = (block.constants.get(name) for i, name in numbered if i in node.entry.settled)
            self.settled.update(filter(None, settled))
        if is_required and not (node.kind in _OF_SHAPES and not node.domain):
            names.update(node.inputs)
        return names - {""}
