"""A training step in graphls."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import graphls
from benchmarks.peers import graphls_networks
from benchmarks.peers.contenders import Contender
from benchmarks.peers.rows import Row, first_value
from graphls import amp, nn
from graphls.passes.precision.recipes import RECIPES

warnings.filterwarnings("ignore", message="Gradients in float32 need no loss scaling")


def load(contender: Contender) -> None:
    """Import what graphls imports when it first needs it."""
    for package in ("onnx", "onnxruntime"):
        import_module(package)


class Training:
    """A network, its loss and its optimizer, compiled at the first step."""

    def __init__(self, row: Row, contender: Contender) -> None:
        self.batch = row.batch()
        self.network: nn.Cell = getattr(graphls_networks, row.name)(**row.sizes)
        self.parameters = {parameter.name: parameter for parameter in self.network.trainable_params()}
        self.scaled = contender.precision == "scaled"
        self.cell = self._step_of(row, contender.precision).set_train()
        self.options = {"engine": contender.engine} if contender.engine else {}
        self.compiled: Any = None

    def _step_of(self, row: Row, precision: str) -> nn.Cell:
        if precision == "bfloat16":
            self.network = amp.auto_mixed_precision(self.network, "O2", graphls.bfloat16)
        elif precision in RECIPES:
            self.network.to_float(RECIPES[precision]())
        loss = nn.WithLossCell(self.network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        parameters = loss.trainable_params()
        adam = row.optimizer == "adam"
        optimizer = nn.Adam(parameters, row.rate) if adam else nn.Momentum(parameters, row.rate, 0.9)
        if precision == "scaled":
            return nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2**10, 2, 2000))
        return nn.TrainOneStepCell(loss, optimizer)

    def set_values(self) -> None:
        """Give every parameter its first value."""
        for name, parameter in self.parameters.items():
            parameter.set_data(first_value(name, parameter.shape))

    def step(self) -> graphls.Tensor:
        """One step."""
        if self.compiled is None:
            self.compiled = graphls.compile(self.cell, *self.batch, **self.options)
        result = self.compiled(*self.batch)
        return result[0] if self.scaled else result
