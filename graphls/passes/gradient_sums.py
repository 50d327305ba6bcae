"""Gradients that are sums over all iterations of a scan, taken at once where that costs less than one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphls.ir.build import Builder
from graphls.ir.graph import Node, Value


class Sums:
    """How the gradients of values that a scan captures are summed over all iterations.

    `transpose(a) @ b` summed over iterations is one product of the arrays of all a and all b, and a sum of x over axes
    is one sum of the array of all x: the `operands` a, b and x are kept, and summed behind the scan. The values in
    `carried` have a gradient of another form, which is carried along and added to in each iteration.
    """

    def __init__(
        self, definer: Mapping[Value, Node], parts: Mapping[Value, list[Value]], captured: Sequence[Value]
    ) -> None:
        made = {v: [definer.get(part) for part in parts[v]] for v in captured if v in parts}
        self.carried = [v for v, nodes in made.items() if not all(map(_is_sum, nodes))]
        self.at_once = [(v, n) for v, nodes in made.items() if v not in self.carried for n in nodes if n is not None]
        self.operands = list(dict.fromkeys(v for _, node in self.at_once for v in node.inputs))

    def summed(self, e: Builder, arrays: Mapping[Value, Value]) -> Iterator[tuple[Value, Value]]:
        """Each value with a gradient, from the arrays of the operands."""
        for value, node in self.at_once:
            operands = [arrays[v] for v in node.inputs]
            if node.primitive.name == "matmul":
                yield value, _product(e, *operands)
            else:
                axes = node.attrs["axis"]
                yield value, _sum(e, operands[0], tuple(range(node.inputs[0].type.rank)) if axes is None else axes)


def _product(e: Builder, a: Value, b: Value) -> Value:
    if a.type.stacked:
        total: Value = e.product_of_rounds(a, b)
        return total
    # The rows of all iterations below one another: the sum of products of parts is the product of the whole.
    a, b = (e.reshape(v, shape=(v.type.shape[0] * v.type.shape[1], v.type.shape[2])) for v in (a, b))
    total = e.matmul(a, b, transpose_a=True)
    return total


def _sum(e: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    if x.type.stacked:
        total: Value = e.sum_of_rounds(x, axis=axes)
        return total
    total = e.sum(x, axis=(0, *(i + 1 for i in axes)), keepdims=False)
    return total


def _is_sum(node: Node | None) -> bool:
    if node is None or node.after:
        return False
    attrs = node.attrs
    if node.primitive.name == "matmul":
        # Only this form contracts the first axes, along which the arrays of all iterations can be joined.
        is_flat = all(v.type.rank == 2 for v in node.inputs)
        return is_flat and bool(attrs.get("transpose_a")) and not attrs.get("transpose_b")
    return node.primitive.name == "sum" and not attrs.get("keepdims") and min(attrs["axis"] or (0,)) >= 0
