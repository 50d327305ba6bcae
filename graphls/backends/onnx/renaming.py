"""Other names for tensors of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from onnx import GraphProto, ModelProto

from graphls.backends.onnx.shapes import graphs


def renamed(model: ModelProto, names: Mapping[str, str]) -> ModelProto:
    """A copy of a model with tensors called as `names` says, in its subgraphs as well.

    A tensor inside that has a wished name already makes room and gets a number behind it.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    parts = list(graphs(copy.graph))
    new = {**_making_room(parts, names), **names}
    for part in parts:
        for node in part.node:
            node.input[:] = [new.get(name, name) for name in node.input]
            node.output[:] = [new.get(name, name) for name in node.output]
        for item in (*part.input, *part.output, *part.value_info, *part.initializer):
            item.name = new.get(item.name, item.name)
    return copy


def _making_room(parts: Iterable[GraphProto], names: Mapping[str, str]) -> dict[str, str]:
    """Other names for tensors that are called as others shall be."""
    used = {name for part in parts for name in _tensors(part)}
    taken, moved = used | set(names.values()), {}
    for name in (used & set(names.values())) - names.keys():
        moved[name] = next(free for i in count(1) if (free := f"{name}_{i}") not in taken)
        taken.add(moved[name])
    return moved


def _tensors(part: GraphProto) -> Iterator[str]:
    for node in part.node:
        yield from node.output
    for item in (*part.input, *part.initializer):
        yield item.name
