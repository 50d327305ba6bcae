"""Operators of an ONNX graph in an order in which they can run, which models in the wild do not always keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from onnx import GraphProto, NodeProto

from graphls.backends.onnx.shapes import subgraphs
from graphls.importing.types import plain, text_of
from graphls.ir.errors import GraphValueError
from graphls.ir.reach import stable_order


def in_order(nodes: Sequence[NodeProto]) -> Iterator[tuple[NodeProto, tuple[str, ...]]]:
    """The operators, each after those that it needs, with the names of the tensors that it needs.

    The order of the model stays wherever it can. Raises GraphValueError for a cycle.
    """
    needed = [tuple(dict.fromkeys(_needs(node))) for node in nodes]
    maker = {text_of(name): i for i, node in enumerate(nodes) for name in node.output if name}
    before = [{maker[name] for name in names if name in maker} for names in needed]
    for number in _sorted(nodes, before):
        yield nodes[number], needed[number]


def _sorted(nodes: Sequence[NodeProto], before: Sequence[set[int]]) -> Iterable[int]:
    order = stable_order(before)
    if len(order) < len(nodes):
        left = min(set(range(len(nodes))).difference(order))
        name = plain(text_of(nodes[left].op_type))
        raise GraphValueError(f"The operator {name} waits for its own result, in a cycle; export the model again.")
    return order


def _needs(node: NodeProto) -> Iterator[str]:
    """The tensors that an operator reads, those that its graphs take from around them included."""
    yield from map(text_of, filter(None, node.input))
    for _, graph in subgraphs(node):
        yield from _captured(graph)


def _captured(graph: GraphProto) -> Iterator[str]:
    own = {text_of(info.name) for info in graph.input} | {text_of(t.name) for t in graph.initializer}
    own |= {text_of(t.values.name) for t in graph.sparse_initializer}
    own |= {text_of(name) for node in graph.node for name in node.output}
    for node in graph.node:
        yield from (name for name in _needs(node) if name not in own)
    yield from (text_of(info.name) for info in graph.output if text_of(info.name) not in own)
