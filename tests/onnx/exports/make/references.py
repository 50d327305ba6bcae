"""What PyTorch gives for an example: outputs, loss, gradients, and the losses of training."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.onnx.exports.make.networks import Example

STEPS = 20


def make_distinct(network: Any) -> None:
    """Give each parameter other numbers than any other has, so that a number says which parameter it is from."""
    seen: set[float] = set()
    with torch.no_grad():
        for parameter in filter(lambda p: p.requires_grad, network.parameters()):
            if parameter.ndim < 2 or not parameter.abs().min():  # ones and zeros
                parameter += 0.1 * torch.randn_like(parameter)
            flat = parameter.reshape(-1)
            for i, value in enumerate(flat.tolist()):
                while value in seen or not value:
                    flat[i] += 0.01 * float(torch.randn(()))
                    value = float(flat[i])
                seen.add(value)


def loss_of(kind: str, y: Any, labels: Any) -> Any:
    """The mean loss."""
    if kind == "mse":
        return functional.mse_loss(y, labels)
    return functional.cross_entropy(y.reshape(-1, y.shape[-1]), labels.reshape(-1))


def trained(example: Example, network: Any) -> list[float]:
    """The losses of steps on the one batch, each before its update."""
    parameters, rate = [p for p in network.parameters() if p.requires_grad], example.learning_rate
    if example.optimizer == "adamw":
        optimizer: Any = torch.optim.AdamW(parameters, rate, weight_decay=0.01)
    else:
        optimizer = torch.optim.SGD(parameters, rate, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(example.loss, network(*example.inputs.values()), example.labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def reference(example: Example) -> dict[str, Any]:
    """Arrays by name; gradients in the order of the numbers that the parameters hold, in whatever form these come."""
    network = copy.deepcopy(example.network).eval()
    outputs = network(*example.inputs.values())
    network.train()
    loss = loss_of(example.loss, network(*example.inputs.values()), example.labels)
    loss.backward()
    pairs = [(p, p.grad) for p in network.parameters() if p.grad is not None]
    columns = zip(*pairs, strict=True)
    values, gradients = (torch.cat([t.detach().reshape(-1) for t in column]).numpy() for column in columns)
    assert len(set(values.tolist())) == values.size
    return {
        **{f"input.{name}": value.numpy() for name, value in example.inputs.items()},
        "labels": example.labels.numpy(),
        "outputs": outputs.detach().numpy(),
        "gradients": gradients[np.argsort(values)],
        "losses": np.array(trained(example, copy.deepcopy(example.network).train())),
        "loss": example.loss,
        "optimizer": example.optimizer,
        "learning_rate": example.learning_rate,
    }


def write(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays by name, compressed."""
    np.savez_compressed(path, **arrays)
