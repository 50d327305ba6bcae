"""Embeddings between casts: rows are picked, and their gradients added, in float32, not those of a table rounded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graphls.ir.graph import Node, Value
from graphls.ir.types import DType, bfloat16, float32
from graphls.passes.rewriter import users
from graphls.runtime.onednn.binding import DATA_TYPES
from graphls.runtime.onednn.numpy_indexing import adds_rows
from graphls.runtime.onednn.program.program import Group, Program


def embeddings(
    nodes: Sequence[Node], results: Collection[Value], definer: Mapping[Value, Node]
) -> Iterator[Group]:  # fmt: skip
    """The groups of gathers from a rounded table, and of casts of the gradient of one to float32."""
    if {node.primitive.name for node in nodes}.isdisjoint(("gather", "gather_gradient")):
        return
    readers = users(nodes)
    for node in nodes:
        maker = definer.get(node.inputs[0]) if node.inputs else None
        if maker is None or len(readers.get(node.inputs[0], ())) > 1 or node.inputs[0] in results:
            continue
        names = maker.primitive.name, node.primitive.name
        if names == ("cast", "gather") and _dtypes(maker) == (float32, bfloat16):
            yield _group(node, (maker.inputs[0], node.inputs[1]), _gather)
        elif names == ("gather_gradient", "cast") and _dtypes(node) == (bfloat16, float32) and adds_rows(maker):
            yield _group(node, maker.inputs, partial(_gradient, gradient=maker))


def _dtypes(cast: Node) -> tuple[DType, DType]:
    return cast.inputs[0].type.dtype, cast.output.type.dtype


def _group(node: Node, inputs: tuple[Value, ...], emit: Callable[..., Any]) -> Group:
    return Group((node,), inputs, node.outputs, partial(emit, node=node, inputs=inputs))


def _gather(program: Program, node: Node, inputs: tuple[Value, ...]) -> None:
    """Append the gather from the table in float32, and the roundings of its rows."""
    rows = _wide(node.output)
    program.interpret(replace(node, inputs=inputs, outputs=(rows,)))
    source = program.stored(rows)
    target = program.written(node.output, source.layout.with_dtype(DATA_TYPES[bfloat16]))
    program.append(program.reorder(source, target))


def _gradient(program: Program, node: Node, inputs: tuple[Value, ...], gradient: Node) -> None:
    """Append the sums of rows in float32, which are rounded no more."""
    g = _wide(inputs[0])
    program.alias(g, program.stored(inputs[0]))
    program.interpret(replace(gradient, inputs=(g, *inputs[1:]), outputs=node.outputs))


def _wide(value: Value) -> Value:
    return Value(value.name, value.type.with_dtype(float32))
