"""Utilities for ONNX graphs: names, traversal, topological order, renaming, dead code removal and inferred types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from graphls.base.errors import GraphValueError
from graphls.ir.build import Names
from graphls.ir.reachability import stable_order
from graphls.ir.text import quoted

TELLS_SHAPES = 4096
"""Bytes up to which a constant is shown to shape inference, which reads the sizes and axes that it holds."""

DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")

AnyMessage = TypeVar("AnyMessage", ModelProto, NodeProto, TensorProto, ValueInfoProto)
_PLAIN = re.compile(r"[A-Za-z0-9_./:-]+")


def text_of(value: str | bytes) -> str:
    """A string of a model; protobuf returns bytes if it is not UTF-8."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def clean(text: str) -> str:
    """The text in UTF-8, with lone surrogates, which paths of files and names of cells may have, escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def plain(name: str) -> str:
    """A name as the text form shows it, in quotes if need be."""
    return quoted(name, _PLAIN)


def copied(message: AnyMessage) -> AnyMessage:
    """A copy of a message."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def replace_items(field: Any, items: Iterable[object]) -> None:
    """Replace the items of a repeated field of a message; the new items may be some of its own."""
    copies = list(items)
    del field[:]
    field.extend(copies)


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and the subgraphs of its nodes."""
    yield graph
    for node in operators(graph.node):
        yield from (inner for _, inner in subgraphs(node))


def operators(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Operators, each before those of its subgraphs."""
    for node in nodes:
        yield node
        for _, graph in subgraphs(node):
            yield from operators(graph.node)


def subgraphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs among the attributes of a node, with the names of the attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for number, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}_{number}", graph


def names_read(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """The names of the tensors that operators read, including those that their branches and bodies read or return."""
    for node in nodes:
        yield from node.input
        for _, body in subgraphs(node):
            yield from names_read(body.node)
            yield from (info.name for info in body.output)


def in_order(nodes: Sequence[NodeProto]) -> Iterator[tuple[NodeProto, tuple[str, ...]]]:
    """The operators in topological order, with the names of the tensors that each reads or captures.

    The order of the model, which need not be topological, changes as little as possible. Raises GraphValueError for a
    cycle.
    """
    operands = [tuple(dict.fromkeys(_operands(node))) for node in nodes]
    producer = {text_of(name): i for i, node in enumerate(nodes) for name in node.output if name}
    order = stable_order([{producer[name] for name in names if name in producer} for names in operands])
    if len(order) < len(nodes):
        left = min(set(range(len(nodes))).difference(order))
        name = plain(text_of(nodes[left].op_type))
        raise GraphValueError(f"The operator {name} waits for its own result, in a cycle; export the model again.")
    for number in order:
        yield nodes[number], operands[number]


def _operands(node: NodeProto) -> Iterator[str]:
    """The tensors that an operator reads, including those that its subgraphs capture."""
    yield from map(text_of, filter(None, node.input))
    for _, graph in subgraphs(node):
        yield from _captured(graph)


def _captured(graph: GraphProto) -> Iterator[str]:
    own = {text_of(info.name) for info in graph.input} | {text_of(t.name) for t in graph.initializer}
    own |= {text_of(t.values.name) for t in graph.sparse_initializer}
    own |= {text_of(name) for node in graph.node for name in node.output}
    for node in graph.node:
        yield from (name for name in _operands(node) if name not in own)
    yield from (text_of(info.name) for info in graph.output if text_of(info.name) not in own)


def needed_for(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[tuple[NodeProto, tuple[str, ...]]]:
    """The operators that some tensors depend on, in the form of `in_order`."""
    live, result = set(outputs), []
    for node, names in reversed(list(in_order(nodes))):
        if not live.isdisjoint(map(text_of, filter(None, node.output))):
            live.update(names)
            result.append((node, names))
    return result[::-1]


def remove_dead(graph: GraphProto, outputs: Iterable[str] | None = None) -> set[str]:
    """Remove operators and constants that the outputs, or the given tensors, do not depend on; returns live names."""
    read = {info.name for info in graph.output} if outputs is None else set(outputs)
    live = needed_for(list(graph.node), read)
    read.update(name for _, names in live for name in names)
    replace_items(graph.node, [node for node, _ in live])
    replace_items(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in read])
    return read


def renamed(model: ModelProto, names: Mapping[str, str]) -> ModelProto:
    """A copy of a model with renamed tensors; see `rename`."""
    copy = copied(model)
    rename(copy.graph, names)
    return copy


def rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename tensors of a graph, also in branches and loops; other tensors of a new name get a number."""
    parts = list(graphs(graph))
    used = [name for part in parts for name in _defined(part)]
    fresh, targets = Names({*names.values(), *used}), set(names.values())
    new = {name: fresh.fresh(name) for name in used if name in targets and name not in names} | dict(names)
    for part in parts:
        for item in (*part.input, *part.output, *part.value_info, *part.initializer):
            item.name = new.get(item.name, item.name)
        for node in part.node:
            node.input[:] = [new.get(name, name) for name in node.input]
            node.output[:] = [new.get(name, name) for name in node.output]


def _defined(graph: GraphProto) -> Iterator[str]:
    """The names of the tensors that a graph defines."""
    for node in graph.node:
        yield from filter(None, node.output)
    yield from (item.name for item in (*graph.input, *graph.initializer))


def with_types(model: ModelProto) -> ModelProto:
    """A copy of a model of graphls with the types of its tensors in `value_info`, without large constants."""
    light = without_data(model)
    try:
        return onnx.shape_inference.infer_shapes(light)
    except Exception:  # of many kinds: types only help readers, and saving goes on without them
        return light


def without_data(model: ModelProto) -> ModelProto:
    """A copy whose large constants have no data."""
    light = copied(model)
    for graph in graphs(light.graph):
        for tensor in graph.initializer:
            if tensor.ByteSize() > TELLS_SHAPES:
                for field in DATA:
                    tensor.ClearField(field)
    return light
