"""Products that only an update behind a flag reads are computed there, so that no array of a gradient waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from graphls.ir.build import Names, substitute
from graphls.ir.graph import Graph, Node, Value, needs
from graphls.ir.types import float32
from graphls.passes.rewriter import users
from graphls.runtime.multiples import factors

LEAST = 1 << 14
"""Elements from which on a product is bounded by its operands."""


def is_bounded_by_operands(node: Node | None) -> bool:
    """Whether a node is a product, or a sum by index, in float32 that is larger than its operands together.

    Those are read in its place, in less time.
    """
    if node is None or not node.primitive.is_bounded or len(node.outputs) > 1:
        return False
    kind, operands = node.output.type, [v.type for v in node.inputs]
    is_single = all(t.dtype is float32 for t in (kind, *operands) if t.dtype.is_float) and kind.dtype is float32
    return is_single and kind.size >= LEAST and sum(t.size for t in operands) < kind.size


def with_late_products(graph: Graph) -> Graph:
    """The graph whose conditions compute products that only they and overflow checks read, bounded by operands there.

    Of

        %p = matmul(%x, %g)
        %flag = overflow_get(%p)
        %new = cond(%flag) region {
          yield @w
        } region {
          %v = sub(@w, %p)  // update
          yield %v
        }

    the product is computed once more in the second region, and not outside, where a check reads %x and %g.
    """
    readers = users(graph.nodes)
    leaving = {*graph.outputs, *(write.value for write in graph.writes)}
    late: dict[Node, list[Node]] = {}
    for node in filter(is_bounded_by_operands, graph.nodes):
        conditions = None if node.output in leaving else list(_conditions(node.output, readers, leaving))
        if conditions and len(conditions) == 1 and conditions[0] is not None:
            late.setdefault(conditions[0], []).append(node)
    if not late:
        return graph
    names = Names.of(graph)
    return graph.replace(nodes=tuple(_with(node, late.get(node, ()), names) for node in graph.nodes))


def _conditions(product: Value, readers: Mapping[Value, Sequence[Node]], leaving: set[Value]) -> Iterator[Node | None]:
    """The conditions that read a product, and None for each other reader but checks of it and of its multiples."""
    for node in readers.get(product, ()):
        if node.primitive.is_branch and product not in node.inputs:
            yield node
        elif (parts := factors(node)) is not None and parts[0] is product and node.output not in leaving:
            yield from (None for each in readers.get(node.output, ()) if not each.primitive.is_check)
        elif not node.primitive.is_check:
            yield None


def _with(condition: Node, products: Sequence[Node], names: Names) -> Node:
    """The condition with copies of products in the regions that read them."""
    if not products:
        return condition
    return replace(condition, regions=tuple(_region(region, products, names) for region in condition.regions))


def _region(region: Graph, products: Sequence[Node], names: Names) -> Graph:
    """The region with copies of the products that it reads, each before its first reader."""
    places = {v: at for at, node in reversed([*enumerate(region.nodes)]) for v in needs(node)}
    end = len(region.nodes)
    read = [p for p in products if p.output in places or p.output in region.outputs]
    copies = {p.output: Value(names.fresh(p.output.name), p.output.type) for p in read}
    before: dict[int, list[Node]] = {}
    for product in read:
        # NumPy's runs early, as all calls of Python come before states are written.
        phase = "update" if product.primitive.takes_indices else product.phase
        copy = replace(product, outputs=(copies[product.output],), after=(), phase=phase)
        before.setdefault(places.get(product.output, end), []).append(copy)
    nodes = [
        each for at in range(end + 1)
        for each in (*before.get(at, ()), *(substitute(node, copies) for node in region.nodes[at : at + 1]))
    ]  # fmt: skip
    return region.replace(nodes=tuple(nodes), outputs=tuple(copies.get(v, v) for v in region.outputs))
