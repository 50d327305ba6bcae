"""Which tensors must be known while the graph is traced: shapes, axes, scales of images, and what they come from."""

from __future__ import annotations

from collections.abc import Iterable

from graphls.onnx.program import Block, OnnxNode
from graphls.onnx.tensors import Stored

_OF_SHAPES = ("Shape", "Size", "SequenceLength", "OptionalHasElement")
"""Operators whose results are known whatever their inputs hold."""


class Analysis:
    """Walks from the inputs that rules must know back to the constants that these come from.

    `known` are those constants; `settled` those that rules do not train by themselves.
    """

    def __init__(self) -> None:
        self.known: set[Stored] = set()
        self.settled: set[Stored] = set()

    def block(self, block: Block, wanted: Iterable[str] = ()) -> set[str]:
        """Look through a block of which some tensors must be known; returns those that it takes from outside."""
        names = set(wanted)
        for node in reversed(block.nodes):
            names |= self._node(node, not names.isdisjoint(node.outputs), block)
        self.known.update(stored for name, stored in block.constants.items() if name in names)
        made = {name for node in block.nodes for name in node.outputs}
        return names - made - set(block.constants)

    def _node(self, node: OnnxNode, is_wanted: bool, block: Block) -> set[str]:
        """The inputs of a node that must be known, and what its blocks take from around them."""
        found: set[str] = set()
        for inner in node.blocks:
            found |= self.block(inner, inner.outputs if is_wanted else ())
        if node.body is not None:
            outer = self.block(node.body, node.body.outputs if is_wanted else ())
            actual = dict(zip(node.body.inputs, node.inputs, strict=False))
            return {actual[name] for name in outer if name in actual} - {""}
        if node.entry is not None:
            numbered = list(enumerate(node.inputs))
            if node.entry.by_data:
                # Its shapes would make all that it comes from known; of that, only constants are.
                return found | set(node.inputs) & set(block.constants)
            found.update(name for i, name in numbered if i in node.entry.known or i in node.entry.hoped)
            settled = (block.constants.get(name) for i, name in numbered if i in node.entry.settled)
            self.settled.update(filter(None, settled))
        if is_wanted and not (node.kind in _OF_SHAPES and not node.domain):
            found.update(node.inputs)
        return found - {""}
