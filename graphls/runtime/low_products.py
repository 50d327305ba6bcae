"""Products of operands of 8 bits or 4: those that a device computes from float8 as such, and why it does not others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Node, Value, definers, walk
from graphls.ir.registry import lookup
from graphls.ir.types import DType, Type, float32
from graphls.passes.rewriter import Rewritten, TracedRewriter
from graphls.passes.simplify.dce import Dce
from graphls.primitives.arithmetic import Mul
from graphls.primitives.cast import Cast
from graphls.primitives.linear import Matmul, MatmulAdd
from graphls.primitives.scaled_matmul import BLOCKS, PAIRS
from graphls.primitives.scaling import Blocks, Dequantize

Array = np.ndarray[Any, Any]
Scale = tuple[Value, Value | None]

SIZES = (16, 16, 32), (48, 2064, 272)
"""Rows, summed elements and columns of products that a probe computes."""


@dataclass(frozen=True)
class LowProduct:
    """A product of two values that `makers` have dequantized; `operands` are the low types, in its shapes.

    `scales` has for each the scale of `makers` and a factor of it, None for 1, that all blocks share, as NVFP4 has it.
    """

    node: Node
    makers: tuple[Node, Node]
    scales: tuple[Scale, Scale]

    @property
    def operands(self) -> tuple[Type, Type]:
        a, b = (v.type.with_dtype(m.inputs[0].type.dtype) for v, m in zip(self.node.inputs, self.makers, strict=False))
        return a, b

    @property
    def transpose_a(self) -> bool:
        """Whether the last two axes of the first operand are exchanged first."""
        return bool(self.node.attrs.get("transpose_a"))

    @property
    def summed_axes(self) -> tuple[int, int]:
        """The axis of each operand over which the product sums."""
        a, b = (value.type.rank for value in self.node.inputs[:2])
        return a - (2 if self.transpose_a else 1), b - (1 if self.node.attrs.get("transpose_b") else 2)

    @property
    def obstacle(self) -> str:
        """Why it is no `scaled_matmul` of operands with one scale each, "" where it can be one."""
        kinds = tuple(kind.dtype for kind in self.operands)
        if self._no_matmul:
            return self._no_matmul
        if not all(map(_has_one_scale, self.makers)):
            return "scales for blocks, or of low dtypes"
        return "" if kinds in PAIRS else f"operands of {' and '.join(kind.long_name for kind in kinds)}"

    @property
    def obstacle_of_blocks(self) -> str:
        """Why it is no `scaled_matmul` of operands with scales for blocks, as MXFP8 and NVFP4 have them."""
        parts = zip(self.node.inputs, self.makers, self.scales, self.summed_axes, strict=False)
        return self._no_matmul or ("" if all(_has_blocks(*part) for part in parts) else "no blocks of MXFP8 or NVFP4")

    @property
    def _no_matmul(self) -> str:
        name = self.node.primitive.name
        return "" if isinstance(self.node.primitive, Matmul | MatmulAdd) else f"no operator for a {name}"


def low_products(graph: Graph) -> Iterator[LowProduct]:
    """The products of a graph and of its regions both operands of which are dequantized."""
    dequantized = {node.output: node for node in walk(graph) if isinstance(node.primitive, Dequantize)}
    sources, definer = with_moved(walk(graph), dequantized), definers(walk(graph)) if dequantized else {}
    for node in walk(graph):
        a, b = (sources.get(v) for v in node.inputs[:2]) if node.primitive.is_product else (None, None)
        if a is not None and b is not None:
            makers = dequantized[a], dequantized[b]
            yield LowProduct(node, makers, (_parts(makers[0], definer), _parts(makers[1], definer)))


def _parts(maker: Node, definer: Mapping[Value, Node]) -> Scale:
    """The scale of low numbers, and the factor of it that is one number, where it is a product with a low one."""
    scale = maker.inputs[1]
    product = definer.get(scale)
    if product is not None and isinstance(product.primitive, Mul):
        for wide, factor in (product.inputs, product.inputs[::-1]):
            cast = definer.get(wide)
            if cast is None or not isinstance(cast.primitive, Cast) or wide.type != scale.type:
                continue
            if factor.type.size == 1:
                return cast.inputs[0], factor
    return scale, None


def _has_blocks(value: Value, maker: Node, scale: Scale, summed: int) -> bool:
    """Whether a dequantized value, not moved, has several blocks as accelerators multiply them, or such of more rows.
    """
    low, block = maker.inputs[0].type, maker.attrs["block"]
    dtype, size = BLOCKS.get(low.dtype, (None, 0))
    counts = Blocks(low.shape, block).counts
    sizes = [n if count == 1 else own for n, count, own in zip(low.shape, counts, block, strict=True)]
    is_fit = value is maker.output and scale[0].type.dtype is dtype and sizes[summed] == size and counts[summed] > 1
    return is_fit and bool(low.size) and not any(n % own for n, own in zip(low.shape, sizes, strict=True))


def with_moved(nodes: Iterable[Node], values: Iterable[Value]) -> dict[Value, Value]:
    """Some values, and what has nothing but elements of one of them, moved: by each of both, the one of the values."""
    sources = {value: value for value in values}
    for node in nodes:
        if node.primitive.moves and len(node.inputs) == 1 and node.inputs[0] in sources:
            sources[node.output] = sources[node.inputs[0]]
    return sources


def with_scaled_products(graph: Graph, products: Iterable[LowProduct]) -> Rewritten:
    """The graph some of whose products read low operands as such; each has no obstacle, or none of blocks.

    Of

        %x = dequantize(%p, %s) {dtype=f32, block=[0, 0]} : f32[32,64]
        %y = dequantize(%q, %t) {dtype=f32, block=[0, 0]} : f32[64,16]
        %z = matmul(%x, %y) : f32[32,16]

    it makes

        %z = scaled_matmul(%p, %q, %s, %t) : f32[32,16]

    What moves %x or %y moves %p or %q, and a result of 16 bits is rounded from float32. Scales for blocks are of low
    dtypes; a factor that all blocks share, and a bias, come behind the product.
    """
    by_result = {product.node.output: product for product in products}
    return _Scaled(graph, by_result).rewritten(Dce().run) if by_result else Rewritten(graph)


def multiplies_float8(multiply: Callable[..., Array], dtype: DType) -> bool:
    """Whether products a @ b.T of a device, for each pair of float8 and times two scales, are as exact as in a dtype.

    `multiply` takes the operands and the scales, each an array of one number. Products that raise are wrong.
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
        if not are_products(result, scale * a.astype(np.float64), b.astype(np.float64), dtype):
            return False
    return True


def are_products(result: Array, a: Array, b: Array, dtype: DType) -> bool:
    """Whether a result is a @ b.T of float64 as exactly as a dtype has it, and nan in the first row, which has a nan.

    An error is at most four units in the last place, of the sum of absolute values.
    """
    x, y = a[1:], b.T
    bound = 4 * float(np.finfo(dtype.numpy).eps) * (abs(x) @ abs(y))
    return bool(np.isnan(result[0]).all() and (abs(result[1:] - x @ y) <= bound).all())


def _has_one_scale(dequantize: Node) -> bool:
    blocks = Blocks(dequantize.output.type.shape, dequantize.attrs["block"])
    return blocks.is_one and dequantize.inputs[1].type.dtype.is_float


class _Scaled(TracedRewriter):
    """`low` has, for what is dequantized by one scale or then moved, the low value of its shape and its scale."""

    def __init__(self, graph: Graph, products: Mapping[Value, LowProduct]) -> None:
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
        elif (product := self.products.get(node.outputs[0]) if node.outputs else None) is not None:
            return self._by_blocks(node, product) if product.obstacle else self._by_one_scale(node)
        return node

    def _by_one_scale(self, node: Node) -> Node:
        (a, scale_a), (b, scale_b) = (self.low[value] for value in node.inputs[:2])
        return self._product(node, (a, b, scale_a, scale_b))

    def _by_blocks(self, node: Node, product: LowProduct) -> Node:
        lows = [maker.inputs[0] for maker in product.makers]
        pairs = zip(lows, product.scales, product.summed_axes, strict=True)
        scales = [self._of_rows(scale, low.type.shape, summed) for low, (scale, _), summed in pairs]
        return self._product(node, (*lows, *scales), [factor for _, factor in product.scales if factor is not None])

    def _of_rows(self, scale: Value, shape: tuple[int, ...], summed: int) -> Value:
        """The scales of blocks of one row: NVFP4 has one scale for 16 x 16 numbers of a weight."""
        for axis, (n, count) in enumerate(zip(shape, scale.type.shape, strict=True)):
            if axis != summed and n != count:
                before, after = scale.type.shape[:axis], scale.type.shape[axis + 1 :]
                parts = self.e.reshape(scale, shape=(*before, count, 1, *after))
                repeated = self.e.broadcast_to(parts, shape=(*before, count, n // count, *after))
                scale = self.e.reshape(repeated, shape=(*before, n, *after))
        return scale

    def _product(self, node: Node, operands: tuple[Value, ...], factors: Sequence[Value] = ()) -> Node:
        """A product as a `scaled_matmul`, and behind it factors, a bias and the cast to 16 bits."""
        bias, kind = node.inputs[2:], node.output.type
        product = replace(node, primitive=lookup("scaled_matmul"), inputs=operands)
        if not (factors or bias) and kind.dtype is float32:
            return product
        (total,) = self.e.emit(product.primitive, operands, node.attrs)
        for factor in factors:
            total = self.e.mul(total, self.e.reshape(factor, shape=()))
        for each in bias:
            total = self.e.add(total, each if each.type.dtype is float32 else self.e.cast(each, dtype=float32))
        if kind.dtype is float32:  # the last of these nodes gives the result itself
            return replace(self.e.nodes.pop(), outputs=node.outputs)
        return replace(node, primitive=lookup("cast"), inputs=(total,), attrs={"dtype": kind.dtype})
