"""Training and evaluation steps on the models that `artifacts` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.files.files import as_path
from graphls.frontend.tensors.tensor import Array, TensorLike
from graphls.onnx.importing.files import read
from graphls.onnx.training.checkpoint import CheckpointState
from graphls.onnx.training.gradient_model import GRADIENT, UPDATED
from graphls.onnx.training.memory import Device, OrtValue, Row
from graphls.onnx.training.sessions import Bound, checked, open_session
from graphls.runtime.lowering.protos import remove_dead, replace_items
from graphls.runtime.lowering.weights import Weights, write_model
from graphls.runtime.onnxruntime.runtime import load_runtime

Results: TypeAlias = "Array | OrtValue | tuple[Array | OrtValue, ...]"


class Module:
    """The steps of a training model and of an evaluation model, on the parameters of a state.

    It is called with the inputs of the model, as arrays of NumPy or as OrtValues, and gives its outputs in kind, the
    loss first; in training mode it also adds to the gradients of the parameters. `training` says which mode it is in.

    Raises GraphTypeError for another state than a CheckpointState, GraphRuntimeError where ONNX Runtime is not
    installed or too old.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn, train
        >>> from graphls.onnx import artifacts
        >>> from graphls.onnx.training import CheckpointState, Module
        >>> net = nn.Dense(4, 3, weight_init="zeros", bias_init="zeros")
        >>> train.export(net, np.ones((1, 4), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> loss, adam = artifacts.LossType.MSELoss, artifacts.OptimType.AdamW
        >>> options = {"loss": loss, "optimizer": adam, "artifact_directory": "artifacts"}
        >>> artifacts.generate_artifacts("net.onnx", ["weight", "bias"], **options)
        >>> state = CheckpointState.load_checkpoint("artifacts/checkpoint")
        >>> module = Module("artifacts/training_model.onnx", state)
        >>> float(module(np.ones((1, 4), np.float32), np.ones((1, 3), np.float32)))
        1.0
    """

    training: bool

    def __init__(
        self, train_model_uri: object, state: CheckpointState, eval_model_uri: object = None, device: str = "cpu",
        session_options: object = None,
    ) -> None:  # fmt: skip
        if not isinstance(state, CheckpointState):
            raise GraphTypeError("A Module takes the CheckpointState that CheckpointState.load_checkpoint gives.")
        self.training = True
        load_runtime()
        self._device = Device(device)
        self._options = session_options
        self._state = state
        self._evaluation_uri = eval_model_uri
        if self._device.kind != "cpu":
            state._allocate(self._device)
        self._names = state._names(True)
        self._accumulates = False
        self._train = _Steps(train_model_uri, self)
        self._eval = None if eval_model_uri is None else _Steps(eval_model_uri, self)
        state._gradients = state._gradients or self._row()
        self._fresh = self._train.bound(state._gradients)
        self._sum: _Sum | None = None

    def __call__(self, *user_inputs: TensorLike | OrtValue) -> Results:
        """The outputs of a training or an evaluation step: a tuple, or the one array.

        Raises GraphTypeError and GraphValueError for inputs that do not fit, GraphRuntimeError without an evaluation
        model or without values of the parameters.
        """
        self._state._require_values()
        if not self.training:
            return self._current.run(self._current.bound(), user_inputs)
        if not self._accumulates:
            results = self._train.run(self._fresh, user_inputs)
            self._accumulates = True
            return results
        if self._sum is None:
            self._sum = _Sum(self)
        results = self._train.run(self._sum.step, user_inputs)
        self._sum.add()
        return results

    def train(self, mode: bool = True) -> Module:
        """Set the mode: training, or evaluation for False; returns the module."""
        self.training = mode
        return self

    def eval(self) -> Module:
        """Set the mode to evaluation; returns the module."""
        return self.train(False)

    def lazy_reset_grad(self) -> None:
        """Have the next training step replace the gradients rather than add to them."""
        self._accumulates = False

    def get_contiguous_parameters(self, trainable_only: bool = False) -> OrtValue:
        """The parameters one after the other, as an OrtValue of float32."""
        self._state._require_values()
        parts = [self._state._get(name).reshape(-1) for name in self._state._names(trainable_only)]
        joined = np.concatenate([part.astype(np.float32, copy=False) for part in parts] or [np.zeros(0, np.float32)])
        device = self._device
        value: OrtValue = device.runtime.OrtValue.ortvalue_from_numpy(joined, device.kind, device.number)
        return value

    def get_parameters_size(self, trainable_only: bool = True) -> int:
        """The number of elements of the parameters."""
        return sum(self._state._kinds[name].size for name in self._state._names(trainable_only))

    def copy_buffer_to_parameters(self, buffer: TensorLike | OrtValue, trainable_only: bool = True) -> None:
        """Set the parameters from a result of `get_contiguous_parameters`; raises GraphValueError for another size."""
        flat = np.asarray(buffer.numpy() if hasattr(buffer, "numpy") else buffer).reshape(-1)
        state, values, offset = self._state, {}, 0
        if flat.size != self.get_parameters_size(trainable_only):
            size = self.get_parameters_size(trainable_only)
            raise GraphValueError(f"The parameters are {size} numbers, not the {flat.size} of the buffer.")
        for name in state._names(trainable_only):
            kind = state._kinds[name]
            values[name] = flat[offset : offset + kind.size].reshape(kind.shape).astype(kind.dtype)
            offset += kind.size
        state._is_nominal = state._is_nominal and len(values) < len(state._kinds)
        state._set(values)

    def export_model_for_inferencing(self, inference_model_uri: object, graph_output_names: Sequence[str]) -> None:
        """Write the model of these outputs, with the current parameters of the state.

        Raises GraphRuntimeError without an evaluation model, GraphValueError for outputs that it has not.
        """
        if self._evaluation_uri is None:
            raise GraphRuntimeError("Exporting needs the evaluation model; give the Module its eval_model_uri.")
        self._state._require_values()
        values = {name: self._state._get(name) for name in self._state._kinds}
        _write_inference_model(self._evaluation_uri, inference_model_uri, graph_output_names, values)

    def input_names(self) -> list[str]:
        """The inputs of a step in the mode of the module."""
        return [info.name for info in self._current.inputs]

    def output_names(self) -> list[str]:
        """The outputs of a step in the mode of the module."""
        return list(self._current.outputs)

    @property
    def _current(self) -> _Steps:
        steps = self._train if self.training else self._eval
        if steps is None:
            raise GraphRuntimeError("The Module was made without an evaluation model; give its eval_model_uri.")
        return steps

    def _row(self) -> Row:
        """Zeros like the trained parameters."""
        return Row({name: self._state._kinds[name].shape for name in self._names}, np.float32, self._device)


class _Steps:
    """A model that runs on the parameters of a module."""

    def __init__(self, uri: object, module: Module) -> None:
        self.module = module
        self.session = open_session(uri, module._device, module._options)
        kinds = module._state._kinds
        infos = self.session.get_inputs()
        self.inputs = [info for info in infos if info.name not in kinds]
        self.parameters = [info.name for info in infos if info.name in kinds]
        names = [info.name for info in self.session.get_outputs()]
        gradients = {name + GRADIENT for name in module._names}
        self.updated = [name for name in names if name.removesuffix(UPDATED) in kinds and name.endswith(UPDATED)]
        self.outputs = [name for name in names if name not in gradients and name not in self.updated]
        self.gradients = [name for name in module._names if name + GRADIENT in names]
        self._plain: Bound | None = None

    def bound(self, gradients: Row | None = None) -> Bound:
        """A binding to the parameters, and of the gradients to a row."""
        if gradients is None and self._plain is not None:
            return self._plain
        bound = Bound(self.session, self.module._device)
        for name in self.parameters:
            bound.bind_input(name, *self.module._state._row(name).part(name))
        for name in self.gradients if gradients is not None else ():
            assert gradients is not None
            bound.bind_output(name + GRADIENT, *gradients.part(name))
        self._plain = bound if gradients is None else self._plain
        return bound

    def run(self, bound: Bound, inputs: Sequence[TensorLike | OrtValue]) -> Results:
        """The outputs for these inputs; values that the model updates go to the parameters."""
        if len(inputs) != len(self.inputs):
            listed = ", ".join(info.name for info in self.inputs)
            raise GraphTypeError(f"The model takes {len(self.inputs)} inputs ({listed}), not {len(inputs)}.")
        kind = self.module._device.runtime.OrtValue
        on_device = bool(inputs) and all(isinstance(value, kind) for value in inputs)
        bound.bind_new_outputs(self.outputs, not on_device)
        bound.bind_new_outputs(self.updated)
        operands = [v if isinstance(v, kind) else checked(i, v) for i, v in zip(self.inputs, inputs, strict=True)]
        for info, value in zip(self.inputs, operands, strict=True):
            if isinstance(value, kind):
                bound.binding.bind_ortvalue_input(info.name, value)
            else:
                bound.binding.bind_cpu_input(info.name, value)
        bound.run()
        outputs = dict(zip(self._order(bound), bound.binding.get_outputs(), strict=True))
        self._update({name.removesuffix(UPDATED): outputs[name].numpy() for name in self.updated})
        results = tuple(outputs[name] if on_device else outputs[name].numpy() for name in self.outputs)
        return results[0] if len(results) == 1 else results

    def _order(self, bound: Bound) -> list[str]:
        return [*(self.gradients_of(bound)), *self.outputs, *self.updated]

    def gradients_of(self, bound: Bound) -> list[str]:
        """The outputs that a binding writes to a row."""
        return [] if bound is self._plain else [name + GRADIENT for name in self.gradients]

    def _update(self, values: dict[str, Array]) -> None:
        if values:
            self.module._state._set(values)


class _Sum:
    """Gradients of a further step, which are added to the accumulated ones."""

    def __init__(self, module: Module) -> None:
        self.row = module._row()
        self.step = module._train.bound(self.row)
        gradients = module._state._gradients
        assert gradients is not None
        self.gradients = gradients

    def add(self) -> None:
        """Add the new gradients."""
        total = self.gradients.memory.get()
        np.add(total, self.row.memory.get(), out=total)
        self.gradients.memory.set(total)


def _write_inference_model(source: object, target: object, outputs: Sequence[str], values: Mapping[str, Array]) -> None:
    """Write the part of a model that computes some of its tensors; raises GraphValueError for unknown names."""
    model = read(as_path(source)).model()
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
