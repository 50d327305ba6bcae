"""Exports of other frameworks in graphls beside what these frameworks gave: outputs, gradients, losses of training."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import graphls
import graphls.onnx
from graphls import amp, nn, ops

FILES = Path(__file__).parent / "files"
NO_PARAMETERS = ("zeros_*", "matmul_*")
"""Keras's first states with what follows of them."""
NOISE = 1e-6
"""The part of the whole gradient below which that of a tensor is 0 but for roundings, as that of the bias of keys."""


@dataclass
class Export:
    """A file of an exporter, and the arrays that the framework gave."""

    name: str

    def __post_init__(self) -> None:
        self.path = FILES / f"{self.name}.onnx"
        with np.load(FILES / f"{self.name.partition('.')[0]}.npz") as file:
            self.arrays = dict(file)
        self.labels = graphls.Tensor(self.arrays["labels"])
        self.loss = str(self.arrays["loss"])

    def load(self) -> Any:
        """The network, without training what is no parameter of the framework."""
        return graphls.onnx.load(self.path, frozen=lambda name: any(fnmatch(name, p) for p in NO_PARAMETERS))

    @property
    def inputs(self) -> list[Any]:
        return [graphls.Tensor(a) for name, a in self.arrays.items() if name.startswith("input.")]

    @property
    def feeds(self) -> dict[str, Any]:
        return {name[6:]: array for name, array in self.arrays.items() if name.startswith("input.")}


class WithLoss(nn.Cell):
    """The mean loss of a network."""

    def __init__(self, net: Any, kind: str) -> None:
        super().__init__()
        self.net = net
        self.kind = kind

    def construct(self, *values: Any) -> Any:
        *inputs, labels = values
        y = self.net(*inputs)
        if self.kind == "mse":
            return ops.mse_loss(y, labels)
        return ops.cross_entropy(ops.reshape(y, (-1, y.shape[-1])), ops.reshape(labels, (-1,)))


def outputs_difference(export: Export) -> float:
    """The largest difference of the outputs in evaluation mode, by the largest of them."""
    net = export.load()
    net.set_train(False)
    wanted = export.arrays["outputs"]
    return float(np.abs(net(*export.inputs).asnumpy() - wanted).max() / np.abs(wanted).max())


def gradients_difference(export: Export) -> float:
    """The largest difference of a tensor's gradient in training mode, by its norm."""
    net = export.load()
    cell = WithLoss(net, export.loss)
    cell.set_train()
    parameters = list(net.trainable_params())
    gradients = ops.grad(cell, None, parameters)(*export.inputs, export.labels)
    wanted = export.arrays["gradients"]
    return max(differences_of([p.asnumpy() for p in parameters], [g.asnumpy() for g in gradients], wanted))


def differences_of(values: list[Any], found: list[Any], wanted: Any) -> list[float]:
    """Of each tensor; the wanted gradients stand in the order of the numbers that all parameters hold."""
    together = np.concatenate([v.reshape(-1) for v in values])
    assert together.size == wanted.size
    placed = np.empty_like(wanted)
    placed[np.argsort(together)] = wanted
    parts = np.split(placed, np.cumsum([v.size for v in values])[:-1])
    whole = np.linalg.norm(wanted)
    norms = [np.linalg.norm(w) for w in parts]
    rows = zip(found, parts, norms, strict=True)
    return [
        float(np.linalg.norm(g.reshape(-1) - w) / (norm if norm > NOISE * whole else whole)) for g, w, norm in rows
    ]


def trained(export: Export, level: str = "O0") -> tuple[Any, list[float]]:
    """The network after as many steps as the framework made, with the loss before each; in float16 from level O1 on."""
    net, rate = export.load(), float(export.arrays["learning_rate"])
    parameters = net.trainable_params()
    if export.arrays["optimizer"] == "adamw":
        optimizer: Any = nn.AdamW(parameters, rate, weight_decay=0.01)
    else:
        optimizer = nn.Momentum(parameters, rate, 0.9)
    cell = WithLoss(net, export.loss)
    if level == "O0":
        step = nn.TrainOneStepCell(cell, optimizer)
    else:
        scaling = amp.DynamicLossScaleManager(2.0**10)
        step = amp.build_train_network(cell, optimizer, level=level, loss_scale_manager=scaling)
    step.set_train()
    inputs = [*export.inputs, export.labels]
    results = (step(*inputs) for _ in export.arrays["losses"])
    return net, [float((y[0] if isinstance(y, tuple) else y).asnumpy()) for y in results]


def losses_difference(export: Export, folder: Path) -> tuple[float, float]:
    """The largest difference of the losses of training, by the loss; and of what ONNX Runtime gives for the file."""
    net, losses = trained(export)
    wanted = export.arrays["losses"]
    net.set_train(False)
    graphls.onnx.save(net, folder / "trained.onnx")
    y = onnxruntime.InferenceSession(folder / "trained.onnx").run(None, export.feeds)[0]
    found = net(*export.inputs).asnumpy()
    return float(np.abs(losses / wanted - 1).max()), float(np.abs(y - found).max() / np.abs(found).max())
