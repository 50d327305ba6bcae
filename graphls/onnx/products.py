"""The weights of a model that operators multiply tensors by, as they stand in its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphls.onnx.program import Block, OnnxNode
from graphls.onnx.table import MICROSOFT
from graphls.onnx.tensors import Stored

MATRICES = {
    ("", "MatMul"), ("", "Gemm"), (MICROSOFT, "FusedMatMul"), (MICROSOFT, "TransposeMatMul"), (MICROSOFT, "FusedGemm"),
    (MICROSOFT, "Attention"),
}  # fmt: skip
KERNELS = {("", "Conv"), (MICROSOFT, "FusedConv")}
SAME = ("Identity", "Cast")


@dataclass(frozen=True)
class Product:
    """The operator that multiplies by a constant, and for a matrix the axis of the constant that is summed over."""

    stored: Stored
    node: OnnxNode
    axis: int = 0

    @property
    def is_convolution(self) -> bool:
        """Whether the constant holds kernels."""
        return (self.node.domain, self.node.kind) in KERNELS


def products(block: Block, around: Mapping[str, tuple[Stored, bool]] = {}) -> Iterator[Product]:
    """The products with constants in a block and in those inside of it; `around` is what it knows from outside.

    Constants may be cast or transposed first, and given to functions.
    """
    found = {**around, **{name: (stored, False) for name, stored in block.constants.items()}}
    for node in block.nodes:
        if node.body is not None:
            actual = zip(node.body.inputs, node.inputs, strict=False)
            yield from products(node.body, {inner: found[outer] for inner, outer in actual if outer in found})
            continue
        for inner in node.blocks:
            yield from products(inner, found)
        if node.inputs and node.inputs[0] in found and not node.domain:
            stored, is_swapped = found[node.inputs[0]]
            if node.kind in SAME:
                found[node.outputs[0]] = stored, is_swapped
            if node.kind == "Transpose" and stored.rank == 2 and node.attributes.get("perm", [1, 0]) == [1, 0]:
                found[node.outputs[0]] = stored, not is_swapped
        yield from _product(node, found)


def _product(node: OnnxNode, found: Mapping[str, tuple[Stored, bool]]) -> Iterator[Product]:
    kind = node.domain, node.kind
    if len(node.inputs) < 2 or node.inputs[1] not in found:
        return
    stored, is_swapped = found[node.inputs[1]]
    if kind in KERNELS and not is_swapped and node.attributes.get("group", 1) == 1:
        yield Product(stored, node)
    if kind in MATRICES and stored.rank == 2:
        yield Product(stored, node, int(bool(node.attributes.get("transB", 0)) != is_swapped))
