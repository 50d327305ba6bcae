"""Steps of the optimizer model that `artifacts` writes, and a schedule of its learning rate."""

from __future__ import annotations

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.onnx.training.memory import HostMemory, Row
from graphls.onnx.training.module import Module
from graphls.onnx.training.onnxblock.optim import GRADIENTS, NORM, PARAMETERS, RATE, STEP
from graphls.onnx.training.parameters import MOMENTS
from graphls.onnx.training.sessions import Bound, open_session
from graphls.runtime.onnxruntime.blocks import block_size

FIRST_RATE = 0.001


class Optimizer:
    """Updates the parameters of a module by their gradients.

    Raises GraphTypeError for what is not a Module, GraphFileError where there is no such model, GraphValueError for
    one that does not run.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn, train
        >>> from graphls.onnx import artifacts
        >>> from graphls.onnx.training import CheckpointState, Module, Optimizer
        >>> net = nn.Dense(4, 3, weight_init="zeros", bias_init="zeros")
        >>> train.export(net, np.ones((1, 4), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> loss, adam = artifacts.LossType.MSELoss, artifacts.OptimType.AdamW
        >>> options = {"loss": loss, "optimizer": adam, "artifact_directory": "artifacts"}
        >>> artifacts.generate_artifacts("net.onnx", ["weight", "bias"], **options)
        >>> module = Module("artifacts/training_model.onnx", CheckpointState.load_checkpoint("artifacts/checkpoint"))
        >>> optimizer = Optimizer("artifacts/optimizer_model.onnx", module)
        >>> optimizer.set_learning_rate(0.1)
        >>> x, y = np.ones((1, 4), np.float32), np.ones((1, 3), np.float32)
        >>> for _ in range(2):
        ...     loss = module(x, y)
        ...     optimizer.step()
        ...     module.lazy_reset_grad()
        >>> float(loss) < 1
        True
    """

    def __init__(self, optimizer_uri: object, module: Module) -> None:
        if not isinstance(module, Module):
            raise GraphTypeError("An Optimizer takes a Module of graphls.onnx.training.")
        self._module = module
        self._state = module._state
        self._session = open_session(optimizer_uri, module._device, module._options)
        names = {info.name for info in self._session.get_inputs()}
        self._numbers = {name: HostMemory(1, np.dtype(np.float32)) for name in (RATE, NORM) if name in names}
        saved = self._state._content.optimizer
        self._step = self._state._step
        self._step.array[0] = int(saved.get(STEP, 0))
        self.set_learning_rate(saved.get(RATE, FIRST_RATE))
        self._state._moments = {name: self._moment(name) for name in MOMENTS if name in names}
        self._parts = self._bound(names)

    def _moment(self, name: str) -> Row:
        """A moment of each parameter: zeros, or the values of the checkpoint."""
        row, joined, offset = self._module._row(), self._state._content.moments.get(name), 0
        if name in self._state._moments:
            return self._state._moments[name]
        if joined is None:
            return row
        values = {}
        for parameter, shape in row.shapes.items():
            count = self._state._kinds[parameter].size
            values[parameter] = joined[offset : offset + count].reshape(shape)
            offset += count
        row.set(values)
        return row

    def _bound(self, names: set[str]) -> list[Bound]:
        """A binding for each part of the parameters, in place: on a CPU, of as many as fit its caches."""
        gradients = self._state._gradients
        assert gradients is not None
        if not self._module._names:
            return []
        rows = {PARAMETERS: self._state._row(self._module._names[0]), GRADIENTS: gradients, **self._state._moments}
        size = block_size() if self._module._device.kind == "cpu" else gradients.count
        return [
            self._part(rows, offset, min(size, gradients.count - offset), names)
            for offset in range(0, gradients.count, size)
        ]

    def _part(self, rows: dict[str, Row], offset: int, count: int, names: set[str]) -> Bound:
        bound = Bound(self._session, self._module._device)
        for name, row in rows.items():
            bound.bind_input(name, row.memory, offset, (count,))
            if name != GRADIENTS:
                bound.bind_output(f"{name}.updated", row.memory, offset, (count,))
        for name, memory in self._numbers.items():
            bound.bind_input(name, memory, 0, (1,))
        if STEP in names:
            bound.bind_input(STEP, self._step, 0, (1,))
        return bound

    def step(self) -> None:
        """Update the parameters by their gradients."""
        self._state._require_values()
        self._step.array[0] += 1
        if NORM in self._numbers:
            assert self._state._gradients is not None
            self._numbers[NORM].array[0] = np.linalg.norm(self._state._gradients.memory.get())
        for part in self._parts:
            part.run()
        self._note()

    def set_learning_rate(self, learning_rate: float) -> None:
        """Set the learning rate of the next steps."""
        self._numbers[RATE].array[0] = learning_rate
        self._note()

    def get_learning_rate(self) -> float:
        """The learning rate."""
        return float(self._numbers[RATE].array[0])

    def _note(self) -> None:
        self._state._content.optimizer = {STEP: int(self._step.array[0]), RATE: self.get_learning_rate()}


class LinearLRScheduler:
    """A learning rate that rises from 0 in `warmup_step_count` steps and falls to 0 at `total_step_count`.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn, train
        >>> from graphls.onnx import artifacts
        >>> from graphls.onnx.training import CheckpointState, LinearLRScheduler, Module, Optimizer
        >>> train.export(nn.Dense(4, 3), np.ones((1, 4), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> loss, adam = artifacts.LossType.MSELoss, artifacts.OptimType.AdamW
        >>> options = {"loss": loss, "optimizer": adam, "artifact_directory": "artifacts"}
        >>> artifacts.generate_artifacts("net.onnx", ["weight", "bias"], **options)
        >>> module = Module("artifacts/training_model.onnx", CheckpointState.load_checkpoint("artifacts/checkpoint"))
        >>> optimizer = Optimizer("artifacts/optimizer_model.onnx", module)
        >>> scheduler = LinearLRScheduler(optimizer, warmup_step_count=2, total_step_count=4, initial_lr=0.5)
        >>> scheduler.step()
        >>> optimizer.get_learning_rate()
        0.0
    """

    def __init__(self, optimizer: Optimizer, warmup_step_count: int, total_step_count: int, initial_lr: float) -> None:
        self._optimizer = optimizer
        self._warmup = warmup_step_count
        self._total = total_step_count
        self._first = initial_lr
        self.step()

    def step(self) -> None:
        """Set the learning rate for the number of steps that the optimizer has done."""
        done = int(self._optimizer._step.array[0])
        if done < self._warmup:
            factor = done / max(1, self._warmup)
        else:
            factor = max(0.0, (self._total - done) / max(1, self._total - self._warmup))
        self._optimizer.set_learning_rate(self._first * factor)
