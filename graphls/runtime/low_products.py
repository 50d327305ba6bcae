"""Products of operands of 8 bits or 4: those that a device computes from float8 as such, and why it does not others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.registry import lookup
from graphls.ir.types import DType, Type, float32
from graphls.passes.rewriter import Rewritten, TracedRewriter
from graphls.passes.simplify.dce import Dce
from graphls.primitives.linear import Matmul, MatmulAdd
from graphls.primitives.scaled_matmul import PAIRS
from graphls.primitives.scaling import Blocks, Dequantize

Array = np.ndarray[Any, Any]

SIZES = (16, 16, 32), (48, 2064, 272)
"""Rows, summed elements and columns of products that a probe computes."""


@dataclass(frozen=True)
class LowProduct:
    """A product of two values that `makers` have dequantized; `operands` are the low types, in its shapes."""

    node: Node
    makers: tuple[Node, Node]

    @property
    def operands(self) -> tuple[Type, Type]:
        a, b = (v.type.with_dtype(m.inputs[0].type.dtype) for v, m in zip(self.node.inputs, self.makers, strict=False))
        return a, b

    @property
    def transpose_a(self) -> bool:
        """Whether the last two axes of the first operand are exchanged first."""
        return bool(self.node.attrs.get("transpose_a"))

    @property
    def obstacle(self) -> str:
        """Why it is no `scaled_matmul`, "" where it can be one."""
        if not isinstance(self.node.primitive, Matmul | MatmulAdd):
            return f"no operator for a {self.node.primitive.name}"
        kinds = tuple(kind.dtype for kind in self.operands)
        if kinds not in PAIRS:
            return f"operands of {' and '.join(kind.long_name for kind in kinds)}"
        return "" if all(map(_has_one_scale, self.makers)) else "scales for blocks, or of low dtypes"


def low_products(graph: Graph) -> Iterator[LowProduct]:
    """The products of a graph and of its regions both operands of which are dequantized."""
    dequantized = {node.output: node for node in walk(graph) if isinstance(node.primitive, Dequantize)}
    sources = with_moved(walk(graph), dequantized)
    for node in walk(graph):
        a, b = (sources.get(v) for v in node.inputs[:2]) if node.primitive.is_product else (None, None)
        if a is not None and b is not None:
            yield LowProduct(node, (dequantized[a], dequantized[b]))


def with_moved(nodes: Iterable[Node], values: Iterable[Value]) -> dict[Value, Value]:
    """Some values, and what has nothing but elements of one of them, moved: by each of both, the one of the values."""
    sources = {value: value for value in values}
    for node in nodes:
        if node.primitive.moves and len(node.inputs) == 1 and node.inputs[0] in sources:
            sources[node.output] = sources[node.inputs[0]]
    return sources


def with_scaled_products(graph: Graph, reasons: Mapping[Node, str]) -> Rewritten:
    """The graph whose low products read float8 as such, except for those that a reason forbids.

    Of

        %x = dequantize(%p, %s) {dtype=f32, block=[0, 0]} : f32[32,64]
        %y = dequantize(%q, %t) {dtype=f32, block=[0, 0]} : f32[64,16]
        %z = matmul(%x, %y) : f32[32,16]

    it makes

        %z = scaled_matmul(%p, %q, %s, %t) : f32[32,16]

    What moves %x or %y moves %p or %q, and a result of 16 bits is rounded from float32.
    """
    products = {node.output for node, reason in reasons.items() if not reason}
    return _Scaled(graph, products).rewritten(Dce().run) if products else Rewritten(graph)


def multiplies_float8(multiply: Callable[..., Array], dtype: DType) -> bool:
    """Whether products a @ b.T of a device, for each pair of float8 and times two scales, are as exact as in a dtype.

    `multiply` takes the operands and the scales, each an array of one number. An error is at most four units in the
    last place of a dtype, of the sum of absolute values; a nan stays one, and products that raise are wrong.
    """
    random, scales = np.random.default_rng(0), (np.array([0.37], np.float32), np.array([5.3], np.float32))
    scale = float(scales[0][0]) * float(scales[1][0])
    for (rows, inner, columns), pair in product(SIZES, PAIRS):
        a, b = (random.standard_normal((n, inner)).astype(k.numpy) for n, k in zip((rows, columns), pair, strict=True))
        a[0, 0] = np.nan
        try:
            result = multiply(a, b, *scales)
        except Exception:  # errors of runtimes have no common class
            return False
        x, y = a[1:].astype(np.float64), b.T.astype(np.float64)
        bound = 4 * float(np.finfo(dtype.numpy).eps) * scale * (abs(x) @ abs(y))
        if not np.isnan(result[0]).all() or not (abs(result[1:] - scale * (x @ y)) <= bound).all():
            return False
    return True


def _has_one_scale(dequantize: Node) -> bool:
    blocks = Blocks(dequantize.output.type.shape, dequantize.attrs["block"])
    return blocks.is_one and dequantize.inputs[1].type.dtype.is_float


class _Scaled(TracedRewriter):
    """`low` has, for what is dequantized by one scale or then moved, the low value of its shape and its scale."""

    def __init__(self, graph: Graph, products: set[Value]) -> None:
        super().__init__(graph)
        self.products = products
        self.low: dict[Value, tuple[Value, Value]] = {}

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if isinstance(node.primitive, Dequantize) and _has_one_scale(node):
            self.low[node.output] = node.inputs[0], node.inputs[1]
        elif node.primitive.moves and len(node.inputs) == 1 and node.inputs[0] in self.low:
            value, scale = self.low[node.inputs[0]]
            (moved,) = self.e.emit(node.primitive, (value,), node.attrs)
            self.low[node.output] = moved, scale
        elif not self.products.isdisjoint(node.outputs):
            return self._scaled(node)
        return node

    def _scaled(self, node: Node) -> Node:
        """A product as a `scaled_matmul`, and behind it a bias and the cast to 16 bits."""
        (a, b, *bias), kind = node.inputs, node.output.type
        pairs = self.low[a], self.low[b]
        operands = tuple(value for value, _ in pairs) + tuple(scale for _, scale in pairs)
        product = replace(node, primitive=lookup("scaled_matmul"), inputs=operands)
        if not bias and kind.dtype is float32:
            return product
        (total,) = self.e.emit(product.primitive, operands, node.attrs)
        if bias:
            wide = bias[0] if kind.dtype is float32 else self.e.cast(bias[0], dtype=float32)
            if kind.dtype is float32:
                return replace(node, primitive=lookup("add"), inputs=(total, wide), attrs={})
            total = self.e.add(total, wide)
        return replace(node, primitive=lookup("cast"), inputs=(total,), attrs={"dtype": kind.dtype})
