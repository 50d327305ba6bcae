"""The join pass: concatenates gradients of slices that cover a tensor, instead of padding and adding them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphls.ir.graph import Graph, Node, Value
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter


@register_pass
@dataclass(frozen=True)
class Join:
    """Replace a sum of gradients of slices that cover a tensor without overlap by their `concat`.

    Before:

        %a = slice_gradient(%x) {shape=[4], starts=[0], stops=[2], steps=[1]} : f32[4]  // backward
        %b = slice_gradient(%y) {shape=[4], starts=[2], stops=[4], steps=[1]} : f32[4]  // backward
        %g = add(%a, %b) : f32[4]  // backward

    After (`dce` removes dead nodes):

        %a = slice_gradient(%x) {shape=[4], starts=[0], stops=[2], steps=[1]} : f32[4]  // backward
        %b = slice_gradient(%y) {shape=[4], starts=[2], stops=[4], steps=[1]} : f32[4]  // backward
        %concat = concat(%x, %y) {axis=0} : f32[4]  // backward

    The gradient of a tensor that is split, as into the gates of an LSTM, is then one operator: not a Pad for each part
    and an Add for each but the first. Values stay as they are, but for the sign of a zero.
    """

    name = "join"

    def run(self, graph: Graph) -> Graph:
        """The graph with such sums joined."""
        return _Join(graph).run()


class Pieces(NamedTuple):
    """The nonzero range of a value: `size` positions along an axis, as one piece or as two parts of pieces.

    A piece has the value of its positions from `start` on.
    """

    axis: int
    size: int
    start: int = 0
    value: Value | None = None
    parts: tuple[Pieces, ...] = ()

    def each(self) -> Iterator[Pieces]:
        """The single pieces."""
        waiting = [self]
        while waiting:
            piece = waiting.pop()
            waiting += piece.parts
            if piece.value is not None:
                yield piece


class _Join(Rewriter):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.pieces: dict[Value, Pieces] = {}

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.primitive.name == "slice_gradient" and not node.after:
            piece = _piece(node)
            if piece is not None:
                self.pieces[node.output] = piece
        elif node.primitive.name == "add" and not node.after:
            return self.concatenated(node) or node
        return node

    def concatenated(self, node: Node) -> Sequence[Value]:
        """The `concat` in the place of a sum, or nothing where there is none."""
        pair = [self.pieces[v] for v in node.inputs if v in self.pieces]
        if len(pair) < 2 or pair[0].axis != pair[1].axis or node.inputs[0].type != node.inputs[1].type:
            return ()
        axis, size = pair[0].axis, pair[0].size + pair[1].size
        self.pieces[node.output] = combined = Pieces(axis, size, parts=tuple(pair))
        if size != node.output.type.shape[axis]:
            return ()
        pieces = sorted(combined.each(), key=lambda piece: piece.start)
        ends = [piece.start + piece.size for piece in pieces]
        if [0, *ends[:-1]] != [piece.start for piece in pieces]:
            return ()  # some overlap
        return self.e.emit("concat", [piece.value for piece in pieces if piece.value is not None], {"axis": axis})


def _piece(node: Node) -> Pieces | None:
    """The nonzero range of the gradient of a slice, where it is cut along one axis, without steps."""
    shape, (value,) = node.attrs["shape"], node.inputs
    cut = [axis for axis, (n, m) in enumerate(zip(shape, value.type.shape, strict=True)) if n != m]
    if len(cut) != 1 or set(node.attrs["steps"]) != {1}:
        return None
    start, _, _ = slice(node.attrs["starts"][cut[0]], None).indices(shape[cut[0]])
    return Pieces(cut[0], value.type.shape[cut[0]], start, value)
