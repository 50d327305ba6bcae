"""Gradients of the first step in graphls."""

from __future__ import annotations

import numpy as np

import graphls
from benchmarks.peers import graphls_networks
from benchmarks.peers.rows import Row, first_value
from graphls import Tensor, amp, nn, ops


class Gradients(nn.Cell):
    """The gradients of all weights of a network, computed in float32 or, by "to_float" or a level, in bfloat16."""

    def __init__(self, row: Row, way: str = "float32", engine: str = "onnxruntime") -> None:
        super().__init__()
        self.row, self.engine = row, engine
        network = getattr(graphls_networks, row.name)(**row.sizes)
        if way == "to_float":
            network.to_float(graphls.bfloat16)
        elif way != "float32":
            network = amp.auto_mixed_precision(network, way, graphls.bfloat16)
        self.weights = {parameter.name: parameter for parameter in network.trainable_params()}
        self.network, self.loss = network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        self.step = None
        self.set_train()

    def construct(self, x: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        def loss(x: Tensor, labels: Tensor) -> Tensor:
            return self.loss(ops.cast(self.network(x), graphls.float32), labels)

        return graphls.value_and_grad(loss, None, list(self.weights.values()))(x, labels)[1]

    def of(self, draw: int) -> dict[str, np.ndarray]:
        """Those of a draw of weights and batch, by the names of the weights."""
        for name, parameter in self.weights.items():
            parameter.set_data(first_value(name, parameter.shape, draw))
        batch = self.row.batch(draw)
        if self.step is None:
            self.step = graphls.compile(self, *batch, engine=self.engine)
        return {name: g.asnumpy() for name, g in zip(self.weights, self.step(*batch), strict=True)}
