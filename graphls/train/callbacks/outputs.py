"""Reading losses from what a step returned."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.train.callbacks.callback import InternalCallbackParam


def first_output(outputs: object) -> Any:
    """The first of several outputs, or the only one: the loss of a training step."""
    while isinstance(outputs, (tuple, list)) and outputs:
        outputs = outputs[0]
    return outputs


def loss_of(outputs: object) -> float | None:
    """The mean of the first output, or None where that is no number; reading it waits for the step."""
    loss = first_output(outputs)
    if isinstance(loss, (Tensor, np.ndarray, np.generic, int, float)):
        return float(np.mean(np.asarray(loss)))
    return None


def was_skipped(outputs: object) -> bool:
    """Whether a step with loss scaling, which returns (loss, overflow, scale, ...), says that it overflowed."""
    if not isinstance(outputs, tuple) or len(outputs) < 3 or not is_flag(outputs[1]):
        return False
    return bool(outputs[1].asnumpy().any())


def is_flag(output: object) -> bool:
    """Whether an output is a tensor of bools."""
    return isinstance(output, Tensor) and output.dtype.kind == "bool"


def scalars_of(told: InternalCallbackParam) -> dict[str, Any]:
    """The loss, the learning rate where it is a number, and the loss scale, as far as a run has them."""
    found: dict[str, Any] = {"loss": loss_of(told.net_outputs)}
    optimizer = told.get("optimizer") or getattr(told.train_network, "optimizer", None)
    rate = getattr(optimizer, "learning_rate", None)
    found["learning_rate"] = rate.asnumpy() if isinstance(rate, Parameter) else None
    scale = getattr(told.train_network, "_params", {}).get("scale_sense")
    found["loss_scale"] = None if scale is None else scale.asnumpy()
    return {name: value for name, value in found.items() if value is not None}
