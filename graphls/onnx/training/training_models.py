"""Builds the two models of a training: the training model, and the evaluation model with the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from graphls.base.errors import GraphValueError
from graphls.onnx.importing.files import Original
from graphls.onnx.tensors import Stored
from graphls.onnx.training.gradient_model import training_model
from graphls.onnx.training.sizes import set_sizes
from graphls.runtime.lowering.protos import copied, replace_items, text_of


@dataclass(frozen=True)
class TrainingModels:
    """The two models of a training, and the trained and the frozen parameters with their values."""

    training: ModelProto
    evaluation: ModelProto
    trained: list[TensorProto]
    frozen: list[TensorProto]


def training_models(
    model: ModelProto, path: str | PathLike[str] | None, trained: Sequence[str], frozen: Sequence[str]
) -> TrainingModels:
    """The models to train a model whose first output is the loss; see `generate_artifacts`."""
    model, folder = copied(model), None if path is None else Path(path).parent
    set_sizes(model, {})
    _constants_as_initializers(model.graph, {*trained, *frozen})
    _check_names(model.graph, trained, frozen)
    original = Original(model.SerializeToString(), None if folder is None else folder / "model.onnx")
    training = training_model(original, list(trained) or None, frozen)
    untrained = dict.fromkeys((*frozen, *training.written))
    _load(model.graph, folder)
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    parameters = [[initializers[name] for name in names] for names in (training.trained, untrained)]
    for tensor in parameters[0]:
        if tensor.data_type != TensorProto.FLOAT:
            raise GraphValueError(f"Parameters that are trained are of float32, which {tensor.name!r} is not.")
    return TrainingModels(training.model, _evaluation(model, [*training.trained, *untrained]), *parameters)


def _check_names(graph: GraphProto, trained: Sequence[str], frozen: Sequence[str]) -> None:
    both, initializers = set(trained) & set(frozen), {tensor.name for tensor in graph.initializer}
    if both:
        raise GraphValueError(f"{', '.join(sorted(both))} cannot be trained and frozen at the same time.")
    for name in (*trained, *frozen):
        if name not in initializers:
            raise GraphValueError(f"The model has no parameter {name!r} that could be trained or frozen.")


def _constants_as_initializers(graph: GraphProto, names: set[str]) -> None:
    """Replace the Constant nodes that are parameters by initializers."""
    for node in list(graph.node):
        attribute = node.attribute[0] if node.op_type == "Constant" and node.attribute else None
        if attribute is not None and attribute.HasField("t") and node.output[0] in names:
            tensor = graph.initializer.add()
            tensor.CopyFrom(attribute.t)
            tensor.name = node.output[0]
            graph.node.remove(node)


def _load(graph: GraphProto, folder: Path | None) -> None:
    """Load external data into the model."""
    for tensor in graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            array = Stored(text_of(tensor.name), tensor, folder).read()
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _evaluation(model: ModelProto, parameters: Sequence[str]) -> ModelProto:
    """The model with its parameters as inputs, in evaluation mode."""
    graph, names = model.graph, set(parameters)
    declared = {info.name for info in graph.input}
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    for name in parameters:
        if name not in declared:
            tensor = initializers[name]
            graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))
    replace_items(graph.initializer, [tensor for tensor in graph.initializer if tensor.name not in names])
    for node in graph.node:
        if node.op_type == "Dropout" and len(node.input) > 2:
            node.input[2] = ""
        if node.op_type == "BatchNormalization":
            _use_running_statistics(node)
    return model


def _use_running_statistics(node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name == "training_mode" and attribute.i:
            attribute.i = 0
            del node.output[1:]
