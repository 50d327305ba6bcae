"""A scan as the operators of all its iterations, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.backends.onnx.values import Values
from graphls.ir.graph import Node
from graphls.primitives.shape import concatenated


def unrolled(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """What a scan of known length gives, of operators that are written once for each iteration."""
    (region,), count, length = node.regions, node.attrs["carries"], node.attrs["length"]
    carried = list(names[:count])
    elements = [_elements(e, name, length) for name in names[count:]]
    stacks: list[list[str]] = [[] for _ in node.outputs[count:]]
    order = range(length)[:: -1 if node.attrs["reverse"] else 1]
    for i in order:
        with e.branch_body(e.body):
            for value, name in zip(region.inputs, (*carried, *(parts[i] for parts in elements)), strict=True):
                e.forms[value] = {value.type.dtype: name}
            e.nodes(region.nodes, region.outputs)
            carried = [e.form(v, v.type.dtype) for v in region.outputs[:count]]
            for stack, value in zip(stacks, region.outputs[count:], strict=True):
                stack.append(e.Unsqueeze(e.form(value, value.type.dtype), e.ints([0])))
    e.node = node
    return (*carried, *(concatenated(e, [stack[i] for i in order], axis=0) for stack in stacks))


def _elements(e: Values, array: str, length: int) -> list[str]:
    """The elements of an array along its first axis."""
    parts = e.results("Split", [array, e.ints([1] * length)], {"axis": 0}, length) if length > 1 else (array,)
    return [e.Squeeze(part, e.ints([0])) for part in parts]
