"""What the levels of mixed precision cast, by name; names that graphls has nothing for yet stand for themselves.

The lists are MindSpore's of the levels O1, O2 and auto. Cells are those of `graphls.nn`, operations are primitives.
"""

from __future__ import annotations

from graphls import nn
from graphls.nn.cell import Cell

_CONVOLUTIONS = frozenset({"convolution", "convolution_input_gradient"})
_PRODUCTS = frozenset({"matmul", "batch_matmul"})


def _cells(*names: str) -> tuple[type[Cell], ...]:
    return tuple(getattr(nn, name) for name in names if hasattr(nn, name))


NORMALISATIONS = _cells("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm")
"""Cells that O2 computes in float32."""

O1_CELLS = _cells(
    "Conv1d", "Conv2d", "Conv3d", "Conv1dTranspose", "Conv2dTranspose", "Conv3dTranspose", "Dense",
    "LSTMCell", "RNNCell", "GRUCell",
)  # fmt: skip
"""Cells that O1 computes in 16 bits."""

O1_OPERATIONS = _CONVOLUTIONS | _PRODUCTS | {"prelu", "relu", "ger"}
"""Operations that O1 computes in 16 bits, wherever they stand."""

AUTO_WIDE_CELLS = (*NORMALISATIONS, *_cells("GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "LossBase"))
"""Cells that auto computes in float32."""

AUTO_LOWERED = _CONVOLUTIONS | _PRODUCTS | {"prelu", "einsum", "addmm", "addbmm", "addmv", "baddbmm"}
"""Operations that auto computes in 16 bits."""

AUTO_WIDENED = frozenset({
    "pow", "exp", "expm1", "log", "log1p", "reciprocal", "rsqrt",
    "acos", "asin", "cosh", "sinh", "tan", "erfinv", "softplus",
    "softmax", "log_softmax", "layer_norm", "batch_norm", "group_norm",
    "prod", "cumprod", "cumsum", "cdist", "pdist", "renorm",
    "l1_loss", "smooth_l1_loss", "mse_loss", "nll_loss", "kl_div", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss",
    "triplet_margin_loss",
})  # fmt: skip
"""Operations that auto computes in float32; in others, as in sums and concatenations, the wider operand decides."""
