"""Weight folding: evaluates nodes of weights only, and folds per-channel factors and sums into weights.

The states of an inference graph are never written: they are the weights. Their values are functions (`Weight`), which
are called only for the weights of the final graph, one by one: so no two large arrays are in memory at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

import numpy as np

from graphls.ir.build import Names
from graphls.ir.compare import attributes_key
from graphls.ir.graph import Graph, Node, Value, uses, walk
from graphls.ir.interpret import run_node
from graphls.ir.types import Type
from graphls.passes.rewriter import Rewriter
from graphls.passes.simplify.dce import Dce

Array = np.ndarray[Any, Any]
Weight = Callable[[], Array]
"""A function that returns the value of a state."""

FOLDED, TRANSPOSED = ".folded", ".transposed"
"""The suffixes of weights with other numbers than the parameter, or with its last two axes exchanged."""

_SMALL = 1024
"""Elements up to which a result may be larger than its operands."""


def constants(graph: Graph) -> set[Hashable]:
    """A key that identifies the constants of a graph."""
    return {attributes_key(node.attrs) for node in graph.nodes if node.primitive.is_constant}


def fold_weights(
    graph: Graph, weights: Mapping[str, Weight], steady: Container[Hashable] | None = None
) -> tuple[Graph, dict[str, Weight]]:
    """The graph with the states that it needs, and their values; `weights` are the values of its states by name.

    For one of several graphs of different sizes, `steady` are the constants that all of them share: no others become
    part of weights.

    States with the numbers of another one, perhaps in another shape, have its name; those that are computed from it
    have its name and `.folded`, or `.transposed`. Numbers change by rounding only.
    """
    folding = _FoldWeights(graph, weights, steady)
    result = Dce().run(folding.run())
    used = {value for node in walk(result) for value in uses(node)} | {*result.outputs}
    states = tuple(value for value in folding.weights if value.is_state and value in used)
    _rename(states, folding.wishes)
    return result.replace(states=states), {value.name: folding.weights[value] for value in states}


def _rename(states: Sequence[Value], wishes: Mapping[Value, str]) -> None:
    """Rename new states to the names of the states that they replace, where these are free."""
    names = Names(value.name for value in states if value not in wishes)
    for value in states:
        if value in wishes:
            value.name = names.fresh(wishes[value])


@dataclass(frozen=True)
class _Affine:
    """`scale * base + shift`, with numbers along `axis` of the base, or one number; None for 1 and 0."""

    base: Value
    axis: int | None = None
    scale: Weight | None = None
    shift: Weight | None = None
    length: int = 0
    """The number of nodes that it replaces."""

    name: str = ""
    """The weight that the last of these nodes adds or multiplies."""


class _FoldWeights(Rewriter):
    def __init__(self, graph: Graph, weights: Mapping[str, Weight], steady: Container[Hashable] | None) -> None:
        super().__init__(graph)
        self.steady = steady
        self.weights: dict[Value, Weight] = {state: weights[state.name] for state in graph.states}
        self.wishes: dict[Value, str] = {}
        self.affine: dict[Value, _Affine] = {}
        self.used = Counter(v for node in walk(graph) for v in uses(node)) + Counter(graph.outputs)
        self.depth = 0

    def region(self, region: Graph) -> Graph:
        """Rewrite a region without folding in it."""
        self.depth += 1
        try:
            return super().region(region)
        finally:
            self.depth -= 1

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if node.primitive.is_constant:
            if self.steady is None or attributes_key(node.attrs) in self.steady:
                self.weights[node.output] = lambda: node.attrs["value"]
        elif self.is_known(node):
            return self.known(node)
        elif not (self.depth or node.after or node.regions):
            return self.folded(node) or self.product(node)
        return node

    def is_known(self, node: Node) -> bool:
        """Whether a node has only weights as operands and a result that is not much larger."""
        primitive = node.primitive
        if node.regions or node.after or primitive.on_host or primitive.calls_python or primitive.takes_tokens:
            return False
        if len(node.outputs) != 1 or not any(v.is_state for v in node.inputs):
            return False
        size = max(_SMALL if self.steady is None else 0, sum(v.type.size for v in node.inputs))
        return all(v in self.weights for v in node.inputs) and node.output.type.size <= size

    def known(self, node: Node) -> tuple[Value]:
        """The result of a node as a weight, named after the weight that it is computed from."""
        inputs = {value: self.weights[value] for value in node.inputs}

        def value() -> Array:
            with np.errstate(all="ignore"):
                return run_node(node, {v: weight() for v, weight in inputs.items()})[0]

        kind = node.output.type
        wish = next(self.wishes.get(v, v.name) for v in node.inputs if v.is_state)
        small = cache(value) if kind.size <= _SMALL else value
        is_plain = node.primitive.name == "reshape"
        return (self.weight(kind.shape, kind, small, wish if is_plain else _folded(wish)),)

    def weight(self, shape: Sequence[int], like: Type, value: Weight, wish: str) -> Value:
        """A new state of a shape, with the dtype of another type."""
        state = Value(self.names.fresh("weight"), like.with_shape(tuple(shape)), is_state=True)
        self.weights[state] = value
        self.wishes[state] = wish or state.name
        return state

    def product(self, node: Node) -> Node:
        """A product with its transpose flags moved into its operands."""
        if node.primitive.name != "matmul":
            return node
        for at, flag in ((0, "transpose_a"), (1, "transpose_b")):
            node = self.without_flag(node, at, flag)
        return node

    def without_flag(self, node: Node, at: int, flag: str) -> Node:
        """The product without one of its transpose flags; for two matrices it stays, as their operator has it for free.

        Weights are transposed now, and a transposition that computes another operand also exchanges its last axes.
        """
        value, rank = node.inputs[at], node.inputs[at].type.rank
        if not node.attrs.get(flag) or max(v.type.rank for v in node.inputs) < 3:
            return node
        if value in self.weights:
            other = self.transposed_weight(value)
        else:
            maker = self.definer.get(value)
            if maker is None or maker.primitive.name != "transpose" or maker.after:
                return node
            order = maker.attrs["permutation"]
            exchanged = (*order[: rank - 2], order[rank - 1], order[rank - 2])
            other = self.e.transpose(maker.inputs[0], permutation=exchanged)
        inputs = tuple(other if i == at else v for i, v in enumerate(node.inputs))
        return replace(node, inputs=inputs, attrs={**node.attrs, flag: False})

    def transposed_weight(self, value: Value) -> Value:
        """A weight with its last two axes exchanged, as a view."""
        weight, shape = self.weights[value], value.type.shape
        exchanged = (*shape[:-2], shape[-1], shape[-2])
        wish = self.wishes.get(value, value.name)
        return self.weight(exchanged, value.type, lambda: weight().swapaxes(-1, -2), f"{wish}{TRANSPOSED}")

    def folded(self, node: Node) -> tuple[Value] | None:
        """The result of a node that adds or multiplies weights, folded with the affine operations before it."""
        affine = self.affine_of(node)
        if affine is None:
            return None
        maker = self.definer.get(affine.base)
        result = None
        if maker is not None and self.used[affine.base] == 1 and not maker.after:
            result = self.into_weight(node, maker, affine)
        if result is None and affine.length > 1 and affine.scale is not None and affine.shift is not None:
            result = self.by_channel(node, affine)
        if result is None:
            self.affine[node.output] = affine
            return None
        self.affine[result] = affine
        self.used[result] = self.used[node.output]
        return (result,)

    def affine_of(self, node: Node) -> _Affine | None:
        """The affine form of a node; None for a node that adds or multiplies no weight."""
        name = node.primitive.name
        if name not in ("add", "sub", "mul", "div"):
            return None
        kind = node.output.type
        if not kind.dtype.is_float or kind.dtype.is_half:
            return None
        for x, k in (node.inputs, node.inputs[::-1]):
            if x.type == kind and k in self.weights and x not in self.weights:
                axis = _axis(k, kind.rank)
                break
        else:
            return None
        is_turned = k is node.inputs[0]
        if axis == -1 or (is_turned and name == "div"):
            return None
        before = self.affine.get(x)
        if before is None or self.used[x] != 1 or (None not in (axis, before.axis) and axis != before.axis):
            before = _Affine(x)
        weight = self.weights[k]
        by = cache(lambda: weight().astype(np.float64).reshape(-1 if axis is not None else ()))
        before = replace(before, axis=before.axis if axis is None else axis, name=self.wishes.get(k, k.name))
        return _composed(before, name, by, is_turned)

    def into_weight(self, node: Node, maker: Node, affine: _Affine) -> Value | None:
        """The result with the factor in the weight of a convolution or matrix product, and the sum after it."""
        product = _PRODUCTS.get(maker.primitive.name)
        w, kind = (maker.inputs[1], maker.output.type) if product else (affine.base, affine.base.type)
        if product is None or w not in self.weights or w.type.rank != product.rank(kind):
            return None
        channels = product.channels(kind)
        if affine.axis not in (None, channels):
            return None
        self.e.scope, self.e.loc = maker.scope, maker.loc
        inputs = (maker.inputs[0], self.scaled(w, product.outputs(maker), affine.scale))
        (y,) = self.e.emit(maker.primitive, inputs, maker.attrs, name=node.output.name)
        self.used[y] = 1
        if affine.shift is None:
            return y
        is_plain = affine.length == 1 and node.primitive.name == "add"
        wish = affine.name if is_plain else _bias_of(self.wishes.get(w, w.name))
        count = kind.shape[channels]
        bias = self.numbers(affine.shift, (count,), kind, wish)
        if maker.primitive.is_convolution:
            bias = self.e.reshape(bias, shape=(1, count, *[1] * (kind.rank - 2)))
        return self.e.add(y, bias)  # type: ignore[no-any-return]

    def scaled(self, w: Value, axis: int, scale: Weight | None) -> Value:
        """A weight times numbers along one of its axes."""
        if scale is None:
            return w
        weight, dtype = self.weights[w], w.type.dtype.numpy

        def value() -> Array:
            by = np.broadcast_to(scale(), (w.type.shape[axis],))
            return np.asarray(weight() * np.expand_dims(by, tuple(i for i in range(w.type.rank) if i != axis)), dtype)

        return self.weight(w.type.shape, w.type, value, _folded(self.wishes.get(w, w.name)))

    def numbers(self, source: Weight, shape: tuple[int, ...], like: Type, wish: str) -> Value:
        """Numbers by channel as a weight of a shape."""

        def value() -> Array:
            return np.broadcast_to(source(), (prod(shape),)).reshape(shape).astype(like.dtype.numpy)

        return self.weight(shape, like, value, wish)

    def by_channel(self, node: Node, affine: _Affine) -> Value | None:
        """One product and one sum in place of several."""
        kind, axis = node.output.type, affine.axis
        if axis is None or affine.scale is None or affine.shift is None:
            return None
        shape = tuple(n if i == axis else 1 for i, n in enumerate(kind.shape))
        scale = self.numbers(affine.scale, shape, kind, f"{node.scope or node.output.name}.scale")
        shift = self.numbers(affine.shift, shape, kind, f"{node.scope or node.output.name}.shift")
        product = self.e.mul(affine.base, scale)
        self.used[product] = 1
        return self.e.add(product, shift)  # type: ignore[no-any-return]


def _axis(value: Value, rank: int) -> int | None:
    """The axis of a result of a rank along which a value has its numbers; None for one number, -1 for several axes."""
    axes = [i for i, n in enumerate(value.type.shape, rank - value.type.rank) if n != 1]
    return None if not axes else axes[0] if len(axes) == 1 else -1


def _composed(before: _Affine, name: str, by: Weight, is_turned: bool) -> _Affine:
    """The affine form after one more sum, difference, product or quotient, in float64."""
    scale, shift = before.scale or _number(1.0), before.shift or _number(0.0)
    after = replace(before, length=before.length + 1)
    if name == "mul":
        return replace(after, scale=lambda: scale() * by(), shift=before.shift and (lambda: shift() * by()))
    if name == "div":
        return replace(after, scale=lambda: scale() / by(), shift=before.shift and (lambda: shift() / by()))
    if name == "add":
        return replace(after, shift=lambda: shift() + by())
    if not is_turned:
        return replace(after, shift=lambda: shift() - by())
    return replace(after, scale=lambda: -scale(), shift=lambda: by() - shift())


def _number(value: float) -> Weight:
    return lambda: np.float64(value)  # type: ignore[return-value]


def _folded(name: str) -> str:
    """The name of a weight whose numbers differ from those of the parameter."""
    return name if name.endswith(FOLDED) else f"{name}{FOLDED}"


def _bias_of(name: str) -> str:
    """The name of a new bias beside a weight: `body.0.bias.folded` beside `body.0.weight.transposed`."""
    layer = name.removesuffix(FOLDED).removesuffix(TRANSPOSED).rpartition(".")[0]
    return f"{layer}.bias{FOLDED}".lstrip(".")


@dataclass(frozen=True)
class _Product:
    """The channel axes of a product: in its result and in its weight, with the rank of the weight."""

    channels: Callable[[Type], int]
    outputs: Callable[[Node], int]
    rank: Callable[[Type], int]


_PRODUCTS = {
    "convolution": _Product(lambda y: 1, lambda node: 0, lambda y: y.rank),
    "matmul": _Product(lambda y: y.rank - 1, lambda node: 0 if node.attrs.get("transpose_b") else 1, lambda y: 2),
}
