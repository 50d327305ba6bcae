"""Lowers a scan of known length to its unrolled iterations."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.ir.graph import Node
from graphls.ir.types import Type
from graphls.primitives.shape import concatenated
from graphls.runtime.lowering.values import Forms, Values


def unrolled(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """The results of a scan of known length, by operators written once for each iteration.

    Arrays along which it goes are taken apart, and the results of iterations joined, along their own first axis: an
    operator for each of them that gives or takes the axis of iterations would be a fifth of all.
    """
    (region,), count, length = node.regions, node.attrs["carries"], node.attrs["length"]
    carried: list[Forms] = [{v.type.dtype: name} for v, name in zip(region.inputs, names[:count], strict=False)]
    elements = [
        _elements(e, name, value.type, length) for name, value in zip(names[count:], region.inputs[count:], strict=True)
    ]
    stacks: list[list[Forms]] = [[{}] * length for _ in node.outputs[count:]]
    for i in range(length)[:: -1 if node.attrs["reverse"] else 1]:
        with e.branch_body(e.body):
            for value, forms in zip(region.inputs, (*carried, *(parts[i] for parts in elements)), strict=True):
                e.forms[value] = forms
            e.nodes(region.nodes, region.outputs)
            for value in region.outputs:
                e.form(value, value.type.dtype)
            carried = [e.forms[v] for v in region.outputs[:count]]
            for stack, value in zip(stacks, region.outputs[count:], strict=True):
                stack[i] = e.forms[value]
    e.node = node
    kinds = (v.type for v in region.outputs[count:])
    last = (forms[v.type.dtype] for v, forms in zip(region.outputs[:count], carried, strict=True))
    return (*last, *(_stack(e, parts, kind) for parts, kind in zip(stacks, kinds, strict=True)))


def _elements(e: Values, array: str, kind: Type, length: int) -> Sequence[Forms]:
    """The elements of an array along its first axis; where a scan has made them, those that it made."""
    if array in e.elements:
        return e.elements[array]
    rows = kind.shape[0] if kind.rank else 1
    if kind.rank:
        array = e.Reshape(array, e.ints((length * rows, *kind.shape[1:])))
    parts = e.results("Split", [array, e.ints([rows] * length)], {"axis": 0}, length) if length > 1 else (array,)
    return [{kind.dtype: part if kind.rank else e.Reshape(part, e.ints([]))} for part in parts]


def _stack(e: Values, parts: Sequence[Forms], kind: Type) -> str:
    """The results of all iterations as one array, which nobody reads but scans that take its elements, or others."""
    names = [forms[kind.dtype] if kind.rank else e.Reshape(forms[kind.dtype], e.ints([1])) for forms in parts]
    rows = concatenated(e, names, axis=0)
    array = e.Reshape(rows, e.ints((len(parts), *kind.shape))) if kind.rank else rows
    e.elements[array] = parts
    return array
