"""An inference model: a part of an evaluation model, with parameters as its constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import numpy_helper

from graphls.backends.onnx.weights import Weights, write_model
from graphls.files.files import as_path
from graphls.importing.files import bytes_of, parsed
from graphls.importing.schedule import in_order
from graphls.importing.types import text_of
from graphls.ir.errors import GraphValueError
from graphls.onnx.training.memory import Array


def write_inference_model(
    source: object, target: object, outputs: Sequence[str], values: Mapping[str, Array]
) -> None:
    """Write what a model needs for some of its tensors; raises GraphValueError for names that it has not."""
    path = as_path(source)
    model = parsed(bytes_of(path), str(path))
    graph, infos = model.graph, {}
    known = onnx.shape_inference.infer_shapes(model).graph
    for info in (*known.value_info, *known.output):
        infos[info.name] = info
    for name in outputs:
        if name not in infos:
            raise GraphValueError(f"The evaluation model has no tensor {name!r} that could be an output.")
    wanted, kept = set(outputs), []
    for node, needed in reversed(list(in_order(list(graph.node)))):
        if wanted.isdisjoint(map(text_of, node.output)):
            continue
        wanted.update(needed)
        kept.append(node)
    _put(graph.node, kept[::-1])
    _put(graph.output, [infos[name] for name in outputs])
    _put(graph.input, [info for info in graph.input if info.name in wanted and info.name not in values])
    _put(graph.initializer, [tensor for tensor in graph.initializer if tensor.name in wanted])
    weights = Weights({}, sum(len(tensor.raw_data) for tensor in graph.initializer))
    for name in filter(wanted.__contains__, values):
        tensor = numpy_helper.from_array(values[name][()], name)
        tensor.ClearField("raw_data")
        weights.fill(tensor, values[name])
        graph.initializer.append(tensor)
    write_model(as_path(target), model, weights.outside)


def _put(field: Any, items: Sequence[Any]) -> None:
    """Give a repeated field other messages."""
    copies = [type(item).FromString(item.SerializeToString()) for item in items]
    del field[:]
    field.extend(copies)
