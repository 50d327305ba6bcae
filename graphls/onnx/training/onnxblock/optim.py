"""Optimizers as blocks; those of `onnxruntime.training.onnxblock.optim`."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper

from graphls.base.errors import GraphRuntimeError
from graphls.onnx.training.onnxblock.blocks import Block
from graphls.onnx.training.parameters import MOMENTS
from graphls.runtime.lowering.protos import copied, rename

PARAMETERS, GRADIENTS = "parameters", "gradients"
RATE, STEP, NORM = "learning_rate", "step", "gradient_norm"
"""The inputs of an optimizer model; those with a new value have an output with `.updated` behind the name."""


class ClipGradNorm(Block):
    """Gradients scaled so that the norm of all of them is at most `max_norm`."""

    def __init__(self, max_norm: float) -> None:
        super().__init__()
        self._max_norm = max_norm

    def build(self, gradients_name: str) -> str:
        """The name of the scaled gradients; the norm of all gradients becomes an input of the model."""
        self.base.graph.input.append(helper.make_tensor_value_info(NORM, TensorProto.FLOAT, [1]))
        beyond = self.append("Add", [NORM, self.constant(np.array([1e-6], np.float32))])
        ratio = self.append("Div", [self.constant(np.array([self._max_norm], np.float32)), beyond])
        factor = self.append("Min", [ratio, self.constant(np.ones(1, np.float32))])
        return self.append("Mul", [gradients_name, factor])


class _Optimizer(Block):
    """An elementwise optimizer model, which takes any part of all parameters, packed into one row."""

    moments: tuple[str, ...] = ()

    def __init__(self, clip_grad: ClipGradNorm | None = None) -> None:
        super().__init__()
        self._clip_grad = clip_grad
        self._model: ModelProto | None = None

    def build(self, parameters: object = None) -> str:
        """Build the optimizer in the open model; returns the name of the new parameters."""
        graph = self.base.graph
        graph.input.append(helper.make_tensor_value_info(RATE, TensorProto.FLOAT, [1]))
        graph.input.append(helper.make_tensor_value_info(STEP, TensorProto.INT64, [1]))
        rows = (PARAMETERS, GRADIENTS, *self.moments)
        graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["count"]) for name in rows)
        gradients = self._clip_grad(GRADIENTS) if self._clip_grad is not None else GRADIENTS
        updated = {result: f"{name}.updated" for name, result in self._updated(gradients).items()}
        for name in updated.values():
            graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["count"]))
        rename(graph, updated)
        self._model = copied(self.base)
        return f"{PARAMETERS}.updated"

    def to_model_proto(self) -> ModelProto:
        """The optimizer model; raises GraphRuntimeError before it was built."""
        if self._model is None:
            raise GraphRuntimeError("An optimizer is a model after it was called with the parameters.")
        return self._model

    def _updated(self, gradients: str) -> dict[str, str]:
        """The tensors with the new values of the parameters and moments, by the names of these."""
        raise NotImplementedError

    def _number(self, value: float) -> str:
        return self.constant(np.array([value], np.float32))


class SGD(_Optimizer):
    """Parameters less the learning rate times the gradients."""

    def _updated(self, gradients: str) -> dict[str, str]:
        return {PARAMETERS: self.append("Sub", [PARAMETERS, self.append("Mul", [gradients, RATE])])}


class AdamW(_Optimizer):
    """Adam with a decay of the weights that follows its update, as in Hugging Face's transformers."""

    moments = MOMENTS

    def __init__(
        self, bias_correction: bool = True, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6,
        weight_decay: float = 0.0, clip_grad: ClipGradNorm | None = None,
    ) -> None:  # fmt: skip
        super().__init__(clip_grad)
        self._bias_correction = bias_correction
        self._betas = betas
        self._epsilon = eps
        self._weight_decay = weight_decay

    def _updated(self, gradients: str) -> dict[str, str]:
        squares = self.append("Mul", [gradients, gradients])
        first, second = (
            self.append("Add", [self._scaled(name, beta), self._scaled(new, 1 - beta)])
            for name, new, beta in zip(MOMENTS, (gradients, squares), self._betas, strict=True)
        )
        divisor = self.append("Add", [self.append("Sqrt", [second]), self._number(self._epsilon)])
        change = self.append("Mul", [self.append("Div", [first, divisor]), self._rate()])
        updated = self.append("Sub", [PARAMETERS, change])
        if self._weight_decay:
            decay = self._scaled(RATE, self._weight_decay)
            updated = self.append("Mul", [updated, self.append("Sub", [self._number(1.0), decay])])
        return dict(zip((PARAMETERS, *MOMENTS), (updated, first, second), strict=True))

    def _scaled(self, name: str, factor: float) -> str:
        return self.append("Mul", [name, self._number(factor)])

    def _rate(self) -> str:
        """The learning rate with the bias correction of the moments."""
        if not self._bias_correction:
            return RATE
        step = self.append("Cast", [STEP], to=TensorProto.DOUBLE)
        first, second = (self._correction(beta, step) for beta in self._betas)
        ratio = self.append("Div", [self.append("Sqrt", [second]), first])
        return self.append("Mul", [RATE, self.append("Cast", [ratio], to=TensorProto.FLOAT)])

    def _correction(self, beta: float, step: str) -> str:
        """1 - beta ** step."""
        power = self.append("Pow", [self.constant(np.array([beta])), step])
        return self.append("Sub", [self.constant(np.ones(1)), power])
