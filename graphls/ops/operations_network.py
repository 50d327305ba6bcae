"""The operator classes of activations and losses (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ops import activations, losses
from graphls.ops.elementwise import mul, square
from graphls.ops.operands import float_of
from graphls.ops.reductions import sum
from graphls.tensor import Tensor


def _l2_loss(input_x: Any) -> Tensor:
    """Half of the sum of squares."""
    return mul(sum(square(float_of(input_x))), 0.5)


PLAIN: dict[str, Callable[..., Any]] = {
    "FastGeLU": activations.fast_gelu,
    "HSigmoid": activations.hardsigmoid,
    "HSwish": activations.hardswish,
    "L2Loss": _l2_loss,
    "Mish": activations.mish,
    "PReLU": activations.prelu,
    "ReLU6": activations.relu6,
    "SeLU": activations.selu,
    "Softplus": activations.softplus,
    "Softsign": activations.softsign,
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "BCEWithLogitsLoss": (losses.binary_cross_entropy_with_logits, {"reduction": "mean"}),
    "BinaryCrossEntropy": (losses.binary_cross_entropy, {"reduction": "mean"}),
    "CeLU": (activations.celu, {"alpha": 1.0}),
    "Elu": (activations.elu, {"alpha": 1.0}),
    "HShrink": (activations.hardshrink, {"lambd": 0.5}),
    "KLDivLoss": (losses.kl_div, {"reduction": "mean"}),
    "SmoothL1Loss": (losses.smooth_l1_loss, {"beta": 1.0, "reduction": "none"}),
    "SoftMarginLoss": (losses.soft_margin_loss, {"reduction": "mean"}),
    "SoftShrink": (activations.softshrink, {"lambd": 0.5}),
}
