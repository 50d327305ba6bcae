"""An inference model: a part of an evaluation model, with parameters as its constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import numpy_helper

from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path
from graphls.onnx.importing.files import read
from graphls.onnx.training.memory import Array
from graphls.runtime.lowering.protos import remove_dead, replace_items
from graphls.runtime.lowering.weights import Weights, write_model


def write_inference_model(source: object, target: object, outputs: Sequence[str], values: Mapping[str, Array]) -> None:
    """Write what a model needs for some of its tensors; raises GraphValueError for names that it has not."""
    model = read(source).model()
    graph, infos = model.graph, {}
    known = onnx.shape_inference.infer_shapes(model).graph
    for info in (*known.value_info, *known.output):
        infos[info.name] = info
    for name in outputs:
        if name not in infos:
            raise GraphValueError(f"The evaluation model has no tensor {name!r} that could be an output.")
    read_names = remove_dead(graph, outputs)
    replace_items(graph.output, [infos[name] for name in outputs])
    replace_items(graph.input, [info for info in graph.input if info.name in read_names and info.name not in values])
    weights = Weights({}, sum(len(tensor.raw_data) for tensor in graph.initializer))
    for name in filter(read_names.__contains__, values):
        tensor = numpy_helper.from_array(values[name][()], name)
        tensor.ClearField("raw_data")
        weights.fill(tensor, values[name])
        graph.initializer.append(tensor)
    write_model(as_path(target), model, weights.outside)
