"""The fold pass: constant folding, and algebraic identities that keep every bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from graphls.ir.graph import Graph, Node, Value
from graphls.ir.registry import lookup
from graphls.ir.types import DType, bool_, float8_e5m2, float8_e8m0fnu, float16
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import gradient_nodes
from graphls.passes.simplify.folding import Folded, Folding


def _moved(node: Node, value: Value, name: str, **attrs: Any) -> Node | Value:
    """`value` through one node of this primitive, or itself where it has the type of the result already."""
    if value.type == node.output.type:
        return value
    return replace(node, primitive=lookup(name), inputs=(value,), attrs=attrs, regions=())


def _shaped(f: Folding, node: Node) -> Folded:
    (x,), name = node.inputs, node.primitive.name
    value = f.inner_operand(node) or x
    unchanged = value is x and x.type != node.output.type
    return None if unchanged else _moved(node, value, name, shape=node.output.type.shape)


def _broadcast(f: Folding, node: Node) -> Folded:
    """One element needs no reshaping before it is repeated."""
    maker = f.definer.get(node.inputs[0])
    if maker is None or maker.primitive.name != "reshape":
        return _shaped(f, node)
    x = maker.inputs[0].type
    fits = x.size == 1 and x.rank <= node.output.type.rank
    return replace(node, inputs=maker.inputs) if fits else _shaped(f, node)


def _reshape(f: Folding, node: Node) -> Folded:
    """One element that is repeated needs no reshaping afterwards."""
    maker = f.definer.get(node.inputs[0])
    if maker is None or maker.after or maker.primitive.name != "broadcast_to":
        return _shaped(f, node)
    x, shape = maker.inputs[0].type, node.output.type.shape
    if x.size > 1 or x.rank > len(shape) or node.output.type.size < 2:
        return _shaped(f, node)
    return replace(node, primitive=maker.primitive, inputs=maker.inputs, attrs={"shape": shape})


def _neg(f: Folding, node: Node) -> Folded:
    """A negated product negates its constant factor, and a repeated element is negated before it is repeated."""
    before = f.inner_operand(node)
    if before is not None:
        return before
    maker = f.definer.get(node.inputs[0])
    if maker is None or maker.after:
        return None
    if maker.primitive.name == "broadcast_to" and maker.inputs[0].type.size == 1:
        return replace(node, primitive=maker.primitive, inputs=(_negated(f, maker.inputs[0]),), attrs=maker.attrs)
    return _product_negated(f, maker)


def _negated(f: Folding, value: Value) -> Value:
    maker = f.definer.get(value)
    product = _product_negated(f, maker) if maker is not None and not maker.after else None
    return f.e.neg(value) if product is None else product


def _product_negated(f: Folding, maker: Node) -> Value | None:
    """The product with its constant factor negated, where a node multiplies by a constant."""
    if maker.primitive.name != "mul" or not maker.output.type.dtype.is_float or maker.output in f.checked:
        return None
    for value, other in (maker.inputs, maker.inputs[::-1]):
        number = f.number(value)
        if number is not None and other.type == maker.output.type:
            return f.e.mul(other, f.e.constant(-number))  # type: ignore[no-any-return]
    return None


def _transpose(f: Folding, node: Node) -> Folded:
    order, x = node.attrs["permutation"], node.inputs[0]
    before = f.inner_operand(node)
    if before is not None:
        first = f.definer[x].attrs["permutation"]
        order, x = tuple(first[i] for i in order), before
    if order == tuple(range(len(order))):
        return x
    return None if before is None else replace(node, inputs=(x,), attrs={"permutation": order})


def _cast(f: Folding, node: Node) -> Folded:
    (x,), to = node.inputs, node.output.type.dtype
    changes_infinities = to is float8_e5m2 and node.attrs.get("saturate", True)
    if x.type.dtype is to and not changes_infinities:
        return x
    before = f.inner_operand(node)
    if before is None or not _passes_through(before.type.dtype, x.type.dtype, to):
        return None
    return before if before.type.dtype is to and not changes_infinities else replace(node, inputs=(before,))


def _passes_through(first: DType, middle: DType, last: DType) -> bool:
    """Whether casting from `first` over `middle` to `last` gives the bits of one cast.

    Floats beyond the range of an integer, and wide integers that round to a half, may differ.
    """
    is_integer = first.kind in ("int", "uint")
    if is_integer:
        uneven = last.is_half or last.is_low
    else:
        uneven = first.kind in ("float", "low") and last.kind in ("int", "uint")
    return is_lossless(first, middle) and (first is last or not uneven)


def is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of one dtype is a value of the other."""
    if source is target or (source is bool_ and target is not float8_e8m0fnu):
        return True
    if source.is_low:
        return target.is_float and (target is not float16 or source is not float8_e8m0fnu)
    if target.is_low:
        return False
    if source.is_float:
        return target.is_float and target.itemsize > source.itemsize
    if target.is_float:
        return 8 * source.itemsize <= _DIGITS[target.name]
    wider = target.itemsize > source.itemsize
    return wider and (target.kind == "int" or target.kind == source.kind)


_DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def _where(f: Folding, node: Node) -> Folded:
    condition, x, y = node.inputs
    known = f.number(condition)
    if node.output in f.checked or (known is None and x is not y):
        return None
    chosen = x if known is None or known else y
    return _moved(node, chosen, "broadcast_to", shape=node.output.type.shape)


def _single(f: Folding, node: Node) -> Folded:
    """A reduction of one element at a time."""
    (x,), kind = node.inputs, node.output.type
    return _moved(node, x, "reshape", shape=kind.shape) if x.type.size == kind.size else None


def _sum(f: Folding, node: Node) -> Folded:
    """A sum of one element at a time, of integers only, as NumPy's sum of -0.0 alone is 0.0."""
    return None if node.output.type.dtype.is_float else _single(f, node)


def _cond(f: Folding, node: Node) -> Folded:
    """The chosen region in place of the node, or outer values in place of outputs that are the same in both."""
    known = f.number(node.inputs[0])
    if known is not None and not (f.checked and node.phase == "backward"):
        chosen = node.regions[0 if known else 1]
        for inner in chosen.nodes:
            f.e.append(inner)
        return chosen.outputs
    first, second = (r.outputs for r in node.regions)
    pairs = zip(node.outputs, first, second, strict=True)
    same = {out: a for out, a, b in pairs if a is b and out not in f.checked}
    f.mapping.update(same)
    return None if len(same) < len(node.outputs) else first


RULES: dict[str, Callable[[Folding, Node], Folded]] = {
    "depend": lambda f, n: n.inputs[0],
    "stop_gradient": lambda f, n: n.inputs[0],
    "custom_gradient": lambda f, n: n.inputs[: n.attrs["outputs"]],
    "neg": _neg,
    "logical_not": lambda f, n: f.inner_operand(n),
    "cast": _cast,
    "reshape": _reshape,
    "broadcast_to": _broadcast,
    "transpose": _transpose,
    "where": _where,
    "max": _single,
    "min": _single,
    "prod": _single,
    "all": _single,
    "any": _single,
    "sum": _sum,
    "cond": _cond,
}


@register_pass
@dataclass(frozen=True)
class Fold:
    """Evaluate small results of constants, and remove nodes that keep every bit of their operand.

    Before:

        %a = constant() {value=array(f32[], [2.0])} : f32[]  // forward
        %b = constant() {value=array(f32[], [0.5])} : f32[]  // forward
        %c = mul(%a, %b) : f32[]  // forward
        %y = mul(%x, %c) : f32[4]  // forward
        %z = exp(%y) : f32[4]  // forward

    After (`dce` removes dead nodes):

        %a = constant() {value=array(f32[], [2.0])} : f32[]  // forward
        %b = constant() {value=array(f32[], [0.5])} : f32[]  // forward
        %c = constant() {value=array(f32[], [1.0])} : f32[]  // forward
        %z = exp(%x) : f32[4]  // forward

    Results are computed up to `limit` elements, or as many as the operands have. Infinities, nan, the sign of
    zero and rounding are kept, so `x * 0` and `x + 0.0` stay. Nodes with control edges stay, since the edges
    order them. A graph with `gradient` nodes stays as it is, because equal values have different gradients.
    """

    limit: int = 1024
    name = "fold"

    def run(self, graph: Graph) -> Graph:
        """The graph with less to compute."""
        if any(gradient_nodes(graph)):
            return graph
        return Folding(graph, RULES, self.limit).run()
