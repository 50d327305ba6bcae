"""Second runs of a forward in the backward, as of recomputed cells: which values are those of the first run again."""

from __future__ import annotations

from graphls.ir.compare import attributes_key
from graphls.ir.graph import Node, Value


class SecondRuns:
    """The values of second runs, `first` with those of the first run that they equal.

    A second run reads values of the forward through `depend` alone, which marks them; its nodes are those of the first
    run on what these give.
    """

    def __init__(self) -> None:
        self.first: dict[Value, Value] = {}
        self._seen: dict[object, tuple[Value, ...]] = {}

    def note(self, node: Node, is_inside: bool) -> None:
        """Take note of a node in the order of the graph; `is_inside` of a branch or a loop."""
        values = tuple(self.first.get(value, value) for value in node.inputs)
        if node.attrs.get("recompute"):
            self.first[node.output] = values[0]
        elif not (node.regions or node.primitive.calls_python):
            key = node.primitive, attributes_key(node.attrs), values
            if not is_inside:
                self._seen.setdefault(key, node.outputs)
            elif key in self._seen:
                self.first.update(zip(node.outputs, self._seen[key], strict=True))
