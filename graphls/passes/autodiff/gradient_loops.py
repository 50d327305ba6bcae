"""Gradients of `scan` and `while_loop`: a reversed scan over the values saved by the forward loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from graphls.ir.build import Builder, copy_nodes, substitute
from graphls.ir.graph import Graph, Node, Value, captures, definers, needs, uses
from graphls.ir.reachability import dependencies, reached
from graphls.passes.autodiff.gradient_parts import Parts, active_values
from graphls.passes.rewriter import carries


class LoopBackward:
    """The backward of one loop: a scan that carries the gradients of the values that the forward carries.

    Its region has the nodes of the gradient of the forward region. The values of the forward region that these need
    become arrays that the forward yields, or stacks where the number of iterations is not known. `gradients` are those
    of the outputs of the loop, and `active` the values outside that need one.

    Where a loop runs `s = s * w`, its backward carries the gradient g of s, from the last iteration to the first, as
    `g = g * w`, and adds `g * s` to the gradient of w in each. So it takes the array of what s was, which the forward
    yields from now on, and w itself, which is the same in each.
    """

    def __init__(self, outer: Parts, node: Node, gradients: Sequence[Value | None], active: set[Value]) -> None:
        self.outer, self.node, self.e = outer, node, outer.e
        self.take_region(node.regions[-1])
        self.carries, self.length = carries(node), node.attrs.get("length")
        self.gradients = gradients
        self.sources = self.active_sources(active)
        self.inner = Builder(outer.e.names)
        self.inner.follow(self.e, "backward")
        self.parameters: list[Value] = []
        self.arrays: list[Value] = []

    def take_region(self, region: Graph) -> None:
        """Set the forward region, and index its definitions."""
        self.region = region
        self.inside = definers(region.nodes)
        self.foreign = {*self.inside, *region.inputs}

    def active_sources(self, active: set[Value]) -> dict[Value, Value]:
        """The parameters and captures of the region that get a gradient, each with the outer value that it belongs to.

        A carried value gets one, too, where it depends on one of the others only from a later iteration on.
        """
        region, inputs = self.region, self.node.inputs
        sources = {own: outer for own, outer in zip(region.inputs, inputs, strict=True) if outer in active}
        sources.update((v, v) for v in captures(region) if v in active)
        while True:
            reached = active_values(region.nodes, sources, self.outer.integers)
            carried = zip(region.inputs[: self.carries], region.outputs, inputs, strict=False)
            more = {own: outer for own, out, outer in carried if out in reached and own not in sources}
            if not more:
                return sources
            sources.update(more)

    def run(self) -> None:
        """Emit the backward and add the gradients of the inputs and captures of the loop."""
        carried = {v: self.fresh(v) for v in self.region.inputs[: self.carries] if v in self.sources}
        elements = [v for v in self.region.inputs[self.carries :] if v in self.sources]
        backward = self.differentiated(carried)
        captured = [v for v in self.sources if v not in self.foreign]
        # Where the gradient of w is transpose(a) @ b in each iteration, a and b are saved, for one product after it.
        sums = Sums(definers(self.inner.nodes), backward.parts, captured)
        accumulated = {v: self.fresh(v) for v in sums.carried}
        totals = {v: backward.total(v) or backward.zeros(v) for v in (*carried, *accumulated, *elements)}
        added = [backward.plus(own, totals[v]) for v, own in accumulated.items()]
        stacked = dict.fromkeys((*(totals[v] for v in elements), *(v for v in sums.operands if v not in self.foreign)))
        outputs = [*(totals[v] for v in carried), *added, *stacked]
        saved_operands = [v for v in sums.operands if v in self.foreign]
        region, arrays = self.closed([*carried.values(), *accumulated.values()], outputs, saved_operands)
        # The gradient of the last carried value starts the backward; sums over all iterations start with zeros.
        starts = [*map(self.start, carried), *map(self.outer.zeros, accumulated)]
        attrs = {"carries": len(starts), "length": self.length, "reverse": not self.node.attrs.get("reverse", False)}
        results = self.e.emit("scan", (*starts, *self.arrays), attrs, regions=(region,))
        arrays |= dict(zip(stacked, results[len(starts) :], strict=True))
        for own, gradient in zip((*carried, *accumulated), results, strict=False):
            self.outer.add(self.sources[own], gradient)
        for own in elements:
            self.outer.add(self.sources[own], arrays[totals[own]])
        for value, gradient in sums.summed(self.e, arrays):
            self.outer.add(value, gradient)

    def differentiated(self, carried: Mapping[Value, Value]) -> Parts:
        """The backward of the region; `carried` are its parameters for the gradients of the carried outputs."""
        self.inner.nodes = list(self.region.nodes)
        outputs, gradients = self.region.outputs[self.carries :], self.gradients[self.carries :]
        seeds = [(out, carried.get(v)) for v, out in zip(self.region.inputs, self.region.outputs, strict=False)]
        slopes = [None if g is None else self.element(v, g) for v, g in zip(outputs, gradients, strict=True)]
        backward = self.outer.inside(self.inner, tuple(self.sources))
        backward.accumulate(self.region.nodes, [*seeds[: self.carries], *zip(outputs, slopes, strict=True)])
        self.take_region(self.region.replace(nodes=self.outer.tape.applied(self.region.nodes)))
        return backward

    def fresh(self, like: Value) -> Value:
        return Value(self.e.names.fresh(like.name), like.type)

    def element(self, like: Value, array: Value) -> Value:
        """A new parameter of the backward region, which iterates over an array."""
        self.parameters.append(self.fresh(like))
        self.arrays.append(array)
        return self.parameters[-1]

    def start(self, own: Value) -> Value:
        """The gradient of a value that the last iteration of the forward carries out."""
        at = self.region.inputs.index(own)
        return self.gradients[at] or self.outer.zeros(self.node.inputs[at])

    def closed(
        self, parameters: Sequence[Value], outputs: Sequence[Value], extra: Sequence[Value]
    ) -> tuple[Graph, dict[Value, Value]]:
        """The self-contained backward region, and the arrays that the forward saves, those of `extra` included."""
        nodes = dependencies(self.inner.nodes[len(self.region.nodes) :], outputs, needs)
        used = dict.fromkeys((*(v for n in nodes for v in needs(n)), *outputs))
        recomputed = self.repeated(v for v in used if v in self.foreign)
        recomputed_values = {v for n in recomputed for v in n.outputs}
        required = dict.fromkeys((*used, *(v for n in recomputed for v in needs(n))))
        inputs = [v for v in required if v in self.foreign and v not in recomputed_values]
        arrays = self.saved(dict.fromkeys((*inputs, *extra)))
        mapping = {v: self.element(v, arrays[v]) for v in inputs}
        if not self.arrays and self.length is None:
            self.element(*next(iter(arrays.items())))
        nodes = [*copy_nodes(recomputed, mapping, self.e.names, "backward"), *(substitute(n, mapping) for n in nodes)]
        outputs = [mapping.get(v, v) for v in outputs]
        region_inputs = (*parameters, *self.parameters)
        return Graph("region", region_inputs, (), self.outer.tape.applied(nodes), (), tuple(outputs)), arrays

    def repeated(self, values: Iterable[Value]) -> list[Node]:
        """The nodes of the forward region that are recomputed for these values, in their order, without control edges.

        A loop inside that makes stacks, whose lengths differ between iterations, is one of them: it runs again.
        """

        def makers(values: Iterable[Value]) -> Iterator[Node]:
            return (self.inside[v] for v in values if v in self.inside and _is_repeated(self.inside[v]))

        repeated_nodes = set(reached(makers(values), lambda node: makers(uses(node))))
        return [replace(n, after=()) for n in self.region.nodes if n in repeated_nodes]

    def saved(self, values: Iterable[Value]) -> dict[Value, Value]:
        """The array of each value of the forward region, which is extended to yield those that are missing.

        There is at least one, so that a backward along stacks knows the number of iterations.
        """
        arrays = dict(zip(self.region.inputs[self.carries :], self.node.inputs[self.carries :], strict=True))
        arrays.update(zip(self.region.outputs[self.carries :], self.node.outputs[self.carries :], strict=True))
        new = {v: self.stack(v) for v in values if v not in arrays}
        if not (arrays or new):
            smallest = min(self.region.inputs, key=lambda v: v.type.nbytes)
            new[smallest] = self.stack(smallest)
        region = self.region.replace(outputs=(*self.region.outputs, *new))
        regions, outputs = (*self.node.regions[:-1], region), (*self.node.outputs, *new.values())
        self.outer.tape.extended[self.node] = replace(self.node, regions=regions, outputs=outputs)
        return arrays | new

    def stack(self, value: Value) -> Value:
        kind = value.type.stack if self.length is None else value.type.with_shape((self.length, *value.type.shape))
        return Value(self.e.names.fresh(value.name), kind)


def _is_repeated(node: Node) -> bool:
    """Whether results are cheaper to recompute than to save, or cannot be saved."""
    is_cheap = node.primitive.is_constant or node.primitive.moves
    return any(v.type.stacked for v in node.outputs) or (is_cheap and not node.after)


class Sums:
    """The sums over all iterations of the gradients of values that a scan captures.

    `transpose(a) @ b` summed over iterations is one product of the arrays of all a and all b, and a sum of x over axes
    is one sum of the array of all x: the `operands` a, b and x are saved, and summed after the scan. The gradients of
    the values in `carried` have another form; each is carried along and added to in every iteration.
    """

    def __init__(
        self, definer: Mapping[Value, Node], parts: Mapping[Value, list[Value]], captured: Sequence[Value]
    ) -> None:
        makers = {v: [definer.get(part) for part in parts[v]] for v in captured if v in parts}
        self.carried = [v for v, nodes in makers.items() if not all(map(_is_sum, nodes))]
        self.at_once = [(v, n) for v, nodes in makers.items() if v not in self.carried for n in nodes if n is not None]
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
