"""Training of a network of `graphls.from_torch`, and its storage in files for tests without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphls import Parameter, nn, ops
from graphls.onnx.pytorch.cell import ModeSource, TorchCell, cell_class
from graphls.onnx.pytorch.structure import Constant, Fields, Items, Leaf

FILES = Path(__file__).parent / "files"
STEPS, RATE = 10, 0.1
STRUCTURES = {"Constant": Constant, "Fields": Fields, "Items": Items, "Leaf": Leaf}


class WithLoss(nn.Cell):
    """The mean cross-entropy of a network."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def construct(self, *values: Any) -> Any:
        *inputs, labels = values
        logits = logits_of(self.net(*inputs))
        return ops.cross_entropy(ops.reshape(logits, (-1, logits.shape[-1])), labels)


def logits_of(results: Any) -> Any:
    """The tensor among the results that the loss takes."""
    if isinstance(results, dict):
        return results["logits"]
    return results[0] if isinstance(results, tuple) else results


def trained(net: Any, inputs: dict[str, Any], labels: Any, steps: int = STEPS) -> list[float]:
    """The losses of steps of SGD with momentum, each before its update."""
    step = nn.TrainOneStepCell(WithLoss(net), nn.Momentum(net.trainable_params(), RATE, 0.9)).set_train()
    arrays = [inputs[name] for name in net.argument_names]
    return [float(step(*arrays, labels).asnumpy()) for _ in range(steps)]


def write(name: str, net: TorchCell, arrays: dict[str, Any]) -> None:
    """Write a network with reference results."""
    sources = net.__dict__["_sources"]
    stored: dict[str, Any] = {f"model.{i}": np.frombuffer(s.data, np.uint8) for i, s in enumerate(sources)}
    fields = [{**vars(source), "data": b""} for source in sources]
    trainable = {p.name for p in net.trainable_params()}
    stored.update({f"parameter.{key}": p.asnumpy() for key, p in net.parameters_dict().items()})
    stored["description"] = repr((net.arguments, fields, sorted(trainable)))
    np.savez_compressed(FILES / f"{name}.npz", **stored, **arrays)


def read(name: str) -> tuple[TorchCell, dict[str, Any]]:
    """A network and the reference results."""
    with np.load(FILES / f"{name}.npz") as file:
        arrays = dict(file)
    arguments, fields, trainable = eval(str(arrays["description"]), dict(STRUCTURES))
    sources = [ModeSource(**{**field, "data": arrays[f"model.{i}"].tobytes()}) for i, field in enumerate(fields)]
    named = {key.removeprefix("parameter."): array for key, array in arrays.items() if key.startswith("parameter.")}
    parameters = {key: Parameter(array, key, requires_grad=key in trainable) for key, array in named.items()}
    return cell_class(arguments)(sources, parameters, {key: (key,) for key in parameters}), arrays
