"""The prediction model of a bundle, with states named as in the step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, TensorShapeProto, ValueInfoProto, numpy_helper

from graphls.base.errors import GraphValueError
from graphls.base.files.files import open_file, write_parts
from graphls.ir.types import type_of
from graphls.runtime.lowering import Lowered
from graphls.runtime.lowering.protos import renamed
from graphls.runtime.lowering.types import ELEMENT_TYPES, exchanged
from graphls.runtime.lowering.weights import write_model
from graphls.step.export.manifest import CHUNK, PREDICT, Port, Predict, file_of
from graphls.step.export.names import chosen, output_names

DTYPES = {number: dtype.long_name for dtype, number in ELEMENT_TYPES.items()}


def ports_of(model: ModelProto) -> dict[str, Port]:
    """The inputs and outputs of a model by name; a size that is said nowhere is "?"."""
    return {info.name: _port(info) for info in (*model.graph.input, *model.graph.output)}


def _port(info: ValueInfoProto) -> Port:
    kind = info.type.tensor_type
    return Port(info.name, DTYPES[kind.elem_type], tuple(map(_size, kind.shape.dim)))


def _size(dim: TensorShapeProto.Dimension) -> int | str:
    return int(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"


@dataclass(frozen=True)
class Prediction:
    """A network in evaluation mode: its model and its results.

    `states` are the names in the step by those of the model, None for those that no step has, whose values are `own`.
    """

    lowered: Lowered
    cell: object
    results: object
    is_tensor: Callable[[object], bool]
    states: Mapping[str, str | None]
    own: Mapping[str, Any]

    def write(self, folder: Path, inputs: list[str]) -> Predict:
        """Write `predict.onnx`, whose inputs are called as the first `inputs` of the step, and tell of it."""
        lowered, states = self.lowered, self.states
        names = dict(zip(lowered.inputs, inputs, strict=False))
        names |= {tensor: called for name, tensor in lowered.states.items() if (called := states[name]) is not None}
        own = output_names(self.cell, self.is_tensor, self.results)
        outputs = chosen("output", own, None, set(names.values()))
        names |= dict(zip(lowered.outputs, outputs, strict=True))
        model = renamed(lowered.model, names)
        for name, array in self.own.items():
            _keep(model, lowered.states[name], array)
        write_model(folder / PREDICT, model, lowered.outside)
        ports = ports_of(model)
        state_names = tuple(called for name in lowered.states if (called := states[name]) is not None)
        input_ports = tuple(ports[name] for name in inputs[: len(lowered.inputs)])
        return Predict(file_of(folder / PREDICT), input_ports, tuple(ports[name] for name in outputs), state_names)


@dataclass(frozen=True)
class ReadPrediction:
    """The model in the folder of the bundle that a step was loaded from."""

    folder: Path
    description: Predict

    def write(self, folder: Path, inputs: list[str]) -> Predict:
        """Write that model again, with inputs called as the first `inputs` of the step, and tell of it.

        Raises GraphValueError where the file is gone or another one now.
        """
        path = self.folder / self.description.file.name
        if not os.path.isfile(path) or file_of(path).sha256 != self.description.file.sha256:
            text = f"{path} is no longer the model that predicts with this step; export it with predict=False, or"
            raise GraphValueError(f"{text} give the network as `predict`.")
        ports = tuple(replace(port, name=name) for port, name in zip(self.description.inputs, inputs, strict=False))
        names = {old.name: new.name for old, new in zip(self.description.inputs, ports, strict=True)}
        model = renamed(onnx.load(path, load_external_data=False), names)
        _copy_data(path, folder)
        write_model(folder / PREDICT, model, {})
        return replace(self.description, file=file_of(folder / PREDICT), inputs=ports)


def _copy_data(model: Path, folder: Path) -> None:
    """Copy the external data of a model, where it has some, in parts that fit into memory."""
    data = model.with_name(f"{model.name}.data")
    if data.is_file() and model.parent.resolve() != folder.resolve():
        with open_file(data) as file:
            write_parts(folder / data.name, iter(lambda: file.read(CHUNK), b""))


def _keep(model: ModelProto, name: str, array: Any) -> None:
    """Turn an input that is not a state of the step into a constant."""
    info = next(info for info in model.graph.input if info.name == name)
    model.graph.input.remove(info)
    kind = exchanged(type_of(array))
    model.graph.initializer.append(numpy_helper.from_array(array.astype(kind.dtype.numpy), name))
