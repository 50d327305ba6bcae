"""Analyses of a program: constants that must be known while the graph is traced, and products with constants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphls.onnx.program import Block, OnnxNode
from graphls.onnx.table import MICROSOFT
from graphls.onnx.tensors import Stored

_OF_SHAPES = ("Shape", "Size", "SequenceLength", "OptionalHasElement")
"""Operators whose results are known without the elements of their inputs."""
MATRICES = {
    ("", "MatMul"), ("", "Gemm"), (MICROSOFT, "FusedMatMul"), (MICROSOFT, "TransposeMatMul"), (MICROSOFT, "FusedGemm"),
    (MICROSOFT, "Attention"),
}  # fmt: skip
KERNELS = {("", "Conv"), (MICROSOFT, "FusedConv")}
SAME = ("Identity", "Cast")


class KnownConstants:
    """A backward walk from the inputs that rules must know to the constants that these come from.

    `known` are those constants; `untrained` those that are not trained by default, with what they are.
    """

    def __init__(self) -> None:
        self.known: set[Stored] = set()
        self.untrained: dict[Stored, str] = {}

    def block(self, block: Block, required: Iterable[str] = ()) -> set[str]:
        """Walk through a block in which some tensors must be known; returns those that it captures."""
        names = set(required)
        for node in reversed(block.nodes):
            names |= self._node(node, not names.isdisjoint(node.outputs), block)
        self.known.update(stored for name, stored in block.constants.items() if name in names)
        computed = {name for node in block.nodes for name in node.outputs}
        return names - computed - set(block.constants)

    def _node(self, node: OnnxNode, is_required: bool, block: Block) -> set[str]:
        """The inputs of a node, and the captured tensors of its blocks, that must be known."""
        names: set[str] = set()
        for inner in node.blocks:
            names |= self.block(inner, inner.outputs if is_required else ())
        if node.body is not None:
            outer = self.block(node.body, node.body.outputs if is_required else ())
            actual = dict(zip(node.body.inputs, node.inputs, strict=False))
            return {actual[name] for name in outer if name in actual} - {""}
        if node.entry is not None:
            numbered = list(enumerate(node.inputs))
            if node.entry.data_dependent:
                # All that its shapes come from would have to be known; only constants can be.
                return names | set(node.inputs) & set(block.constants)
            names.update(name for i, name in numbered if i in node.entry.known or i in node.entry.preferred)
            untrained = (block.constants.get(name) for i, name in numbered if i in node.entry.untrained)
            self.untrained.update(dict.fromkeys(filter(None, untrained), node.entry.untrained_role))
        if is_required and not (node.kind in _OF_SHAPES and not node.domain):
            names.update(node.inputs)
        return names - {""}


@dataclass(frozen=True)
class Product:
    """The operator that multiplies by a constant, and for a matrix the axis of the constant that is summed over."""

    stored: Stored
    node: OnnxNode
    axis: int = 0

    @property
    def is_convolution(self) -> bool:
        """True for a product with kernels, False for one with a matrix."""
        return (self.node.domain, self.node.kind) in KERNELS


def products(block: Block) -> list[Product]:
    """The products with constants in a block and in those inside of it, in order.

    Constants may be cast or transposed first, and passed to functions. Constants that are read elsewhere as well, such
    as tied embeddings, are left out.
    """
    search = _Search()
    search.block(block, {})
    return [product for product in search.products if product.stored not in search.elsewhere]


Known = dict[str, tuple[Stored, bool]]
"""The constant that a tensor is, and whether its axes are swapped, by the name of the tensor."""


class _Search:
    """A walk through blocks that collects products with constants, and the constants that are read elsewhere."""

    def __init__(self) -> None:
        self.products: list[Product] = []
        self.elsewhere: set[Stored] = set()

    def block(self, block: Block, around: Known) -> None:
        known = {**around, **{name: (stored, False) for name, stored in block.constants.items()}}
        for node in block.nodes:
            if node.body is not None:
                actual = zip(node.body.inputs, node.inputs, strict=False)
                self.block(node.body, {inner: known[outer] for inner, outer in actual if outer in known})
                continue
            for inner in node.blocks:
                self.block(inner, known)
            self.node(node, known)
        self.elsewhere.update(known[name][0] for name in block.outputs if name in known)

    def node(self, node: OnnxNode, known: Known) -> None:
        """Record the reads of a node; constants that it only casts or transposes become known under another name."""
        product = _product(node, known)
        if product is not None:
            self.products.append(product)
        for i, name in enumerate(node.inputs):
            if name in known and not (i == 1 and product is not None) and not _passes_on(node, known, name):
                self.elsewhere.add(known[name][0])


def _passes_on(node: OnnxNode, known: Known, name: str) -> bool:
    """Record the result of a node that only casts or transposes a constant as known; returns whether it does."""
    stored, is_swapped = known[name]
    is_transposed = node.kind == "Transpose" and stored.rank == 2 and node.attributes.get("perm", [1, 0]) == [1, 0]
    if node.domain or not (is_transposed or node.kind in SAME):
        return False
    known[node.outputs[0]] = stored, is_swapped != is_transposed
    return True


def _product(node: OnnxNode, known: Known) -> Product | None:
    kind = node.domain, node.kind
    if len(node.inputs) < 2 or node.inputs[1] not in known:
        return None
    stored, is_swapped = known[node.inputs[1]]
    if kind in KERNELS and not is_swapped and node.attributes.get("group", 1) == 1:
        return Product(stored, node)
    if kind in MATRICES and stored.rank == 2:
        return Product(stored, node, int(bool(node.attributes.get("transB", 0)) != is_swapped))
    return None
