"""The proof that low operands stand right: quantized once, with scales of their own, and read by products alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product as product_of

from graphls.ir.graph import Graph, Node, Value, blocks, definers, uses, walk
from graphls.ir.text import reference
from graphls.ir.verify import fault
from graphls.passes.precision.recipes import PRODUCTS, ROLES, Recipe


def verify_low_precision(graph: Graph, recipes: Mapping[str, Recipe]) -> Graph:
    """Return `graph` if the low values in these scopes stand right, each by its recipe.

    1. A low value is read by `dequantize` alone, and moved at most; it leaves no block.
    2. What `dequantize` gives is read by products alone: nothing low leaks into what stays high.
    3. Where one operand of a product is low, so is the other, unless its recipe leaves some operands as they are.
    4. A value is quantized once to a dtype and blocks.
    5. The scale of a value comes from the maxima of that value, or from a state. A state that the step writes takes a
       value that comes from the maximum of the value which is rounded by the state; so a scale of this step is not read
       before it is written, and the one of the step before is not written before it is read. In a region a forward that
       runs again reads the state of its first run.

    Raises VerifyError, with the graph and the fault marked, for the first property that is broken.
    """
    if recipes:
        _Proof(graph, recipes).check()
    return graph


class _Proof:
    """The nodes that read each value, in all regions, and the nodes that define them."""

    def __init__(self, graph: Graph, recipes: Mapping[str, Recipe]) -> None:
        self.graph, self.recipes = graph, recipes
        self.nodes = [node for node in walk(graph) if node.scope in recipes]
        self.definer = definers(walk(graph))
        self.top = set(graph.nodes)
        self.readers: dict[Value, list[tuple[int, Node]]] = {}
        for node in walk(graph):
            for position, value in enumerate(node.inputs):
                self.readers.setdefault(value, []).append((position, node))
        self.writes = {write.state: write for write in graph.writes}
        self.ends = {value for block in blocks(graph) for value in block.outputs}
        self.ends.update(write.value for write in graph.writes)

    def check(self) -> None:
        self.check_once()
        for node in self.nodes:
            if node.primitive.name == "quantize":
                self.check_stored(node, node.output)
                self.check_scale(node)
            elif node.primitive.name == "dequantize":
                self.check_read(node, node.output)
            elif node.primitive.summed_axes is not None:
                self.check_operands(node)

    def check_once(self) -> None:
        seen: dict[object, Node] = {}
        for node in self.nodes:
            if node.primitive.name == "quantize":
                key = node.inputs[0], *sorted((name, str(value)) for name, value in node.attrs.items())
                if key in seen and node.inputs == seen[key].inputs:
                    text = f"{reference(node.inputs[0])} is quantized twice, to {reference(seen[key].output)} and here"
                    raise fault(self.graph, node, text)
                seen[key] = node

    def check_stored(self, node: Node, value: Value) -> None:
        """Require that `dequantize` alone reads a low value."""
        self.check_inside(node, value, f"the low value {reference(value)}")
        for _, reader in self.readers.get(value, ()):
            if _moves(reader):
                self.check_stored(node, reader.output)
            elif reader.primitive.name != "dequantize":
                raise fault(self.graph, reader, f"this reads the low value {reference(value)}; only dequantize does")

    def check_read(self, node: Node, value: Value) -> None:
        """Require that products alone read a rounded value, which may be moved, cast or scaled on the way."""
        self.check_inside(node, value, f"{reference(value)}, which is rounded,")
        for position, reader in self.readers.get(value, ()):
            if _moves(reader) or position in reader.primitive.factors:
                self.check_read(node, reader.output)
            elif reader.primitive.summed_axes is None or position > 1:
                text = f"this reads {reference(value)}, which is rounded for products alone"
                raise fault(self.graph, reader, text)

    def check_inside(self, node: Node, value: Value, what: str) -> None:
        if value in self.ends:
            raise fault(self.graph, node, f"{what} leaves its block; it is for products alone")

    def check_operands(self, node: Node) -> None:
        """Require of a product that both operands are low, or neither, unless the recipe may leave one."""
        low = [self.is_low(value) for value in node.inputs[:2]]
        if low[0] == low[1] or node.primitive.summed_axes is None:
            return
        at = low.index(False)
        high, axes = node.inputs[at], node.primitive.summed_axes(*(v.type for v in node.inputs), **node.attrs)[at]
        recipe, uses_of = self.recipes[node.scope], product_of(ROLES, PRODUCTS)
        if all(recipe.form(role, product, high.type, axes) is not None for role, product in uses_of):
            raise fault(self.graph, node, f"one operand of this product is low, and {reference(high)} is not")

    def is_low(self, value: Value) -> bool:
        """Whether `dequantize` gives a value, behind moves and scalings."""
        node = self.definer.get(value)
        while node is not None and node.primitive.name != "dequantize":
            factors = (0,) if _moves(node) else node.primitive.factors
            node = next((self.definer[v] for i in factors if (v := node.inputs[i]) in self.definer), None)
        return node is not None

    def check_scale(self, node: Node) -> None:
        """Require that the scale of a value is its own."""
        states, measured = self.sources(node.inputs[1])
        if any(self.base(value) is self.base(node.inputs[0]) for value in measured):
            return
        for state in states:
            write = self.writes.get(state)
            if write is not None:
                _, measured = self.sources(write.value)
                is_own = any(self.base(value) is self.base(node.inputs[0]) for value in measured)
                if not is_own and not self.runs_again(node, state):
                    scaled = reference(node.inputs[0])
                    text = f"{reference(state)} scales {scaled}, whose maximum it is not written from"
                    raise fault(self.graph, node, text)
        if not states:
            text = f"the scale of {reference(node.inputs[0])} comes neither from its maximum nor from a state"
            raise fault(self.graph, node, text)

    def runs_again(self, node: Node, state: Value) -> bool:
        """Whether a node in a region reads the state of what its cell has rounded by it outside of all regions.

        So does a forward that runs again, from values which it computes once more.
        """
        others = (n for n in self.nodes if n.primitive.name == "quantize" and n.scope == node.scope and n in self.top)
        return node not in self.top and any(state in self.sources(other.inputs[1])[0] for other in others)

    def sources(self, value: Value) -> tuple[set[Value], set[Value]]:
        """The states that a value comes from, and the values whose maxima it comes from.

        The flag that selects between an old and a new state is no source, though all gradients are checked for it.
        """
        states, measured, seen, left = set[Value](), set[Value](), set[Value](), [value]
        while left:
            value = left.pop()
            if value in seen:
                continue
            seen.add(value)
            maker = self.definer.get(value)
            if value.is_state:
                states.add(value)
            elif maker is not None and maker.primitive.name == "absolute_maximum":
                measured.add(maker.inputs[0])
            elif maker is not None and maker.primitive.is_collective:
                left += _reduced(maker, value)
            elif maker is not None and not maker.primitive.is_check:
                left += uses(maker)
        return states, measured

    def base(self, value: Value) -> Value:
        """The value behind moves and casts."""
        while (node := self.definer.get(value)) is not None and node.primitive.is_transparent and len(node.inputs) == 1:
            value = node.inputs[0]
        return value


def _moves(node: Node) -> bool:
    """Whether a node has the numbers of its one operand, moved or in another dtype."""
    return node.primitive.is_transparent and len(node.inputs) == 1


def _reduced(node: Node, value: Value) -> tuple[Value, ...]:
    """The operands of a collective that one of its results, after the token, comes from: its own alone, of several."""
    results = node.outputs[1:]
    return (node.inputs[results.index(value)],) if len(results) == len(node.inputs) else node.inputs
