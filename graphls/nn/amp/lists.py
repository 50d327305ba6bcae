"""What the levels of mixed precision cast, by name; names that graphls has nothing for yet stand for themselves.

The lists are MindSpore's of the levels O1, O2 and auto. Cells are those of `graphls.nn`. Primitives say
themselves which levels compute them in 16 bits or in float32 (`lowered_at` and `widened_at` of `Primitive`); here stand
operations that are made of several primitives.
"""

from __future__ import annotations

from graphls import nn
from graphls.ir.registry import operations
from graphls.nn.cell import Cell


def _cells(*names: str) -> tuple[type[Cell], ...]:
    return tuple(getattr(nn, name) for name in names if hasattr(nn, name))


NORMALISATIONS = _cells("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm")
"""Cells that O2 computes in float32."""

O1_CELLS = _cells(
    "Conv1d", "Conv2d", "Conv3d", "Conv1dTranspose", "Conv2dTranspose", "Conv3dTranspose", "Dense",
    "LSTMCell", "RNNCell", "GRUCell",
)  # fmt: skip
"""Cells that O1 computes in 16 bits."""

LOWERED = {
    "O1": frozenset({"batch_matmul", "prelu", "ger"}),
    "auto": frozenset({"batch_matmul", "prelu", "einsum", "addmm", "addbmm", "addmv", "baddbmm"}),
}
"""Operations that a level computes in 16 bits, wherever they stand."""

AUTO_WIDE_CELLS = (*NORMALISATIONS, *_cells("GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "LossBase"))
"""Cells that auto computes in float32."""

WIDENED = {
    "auto": frozenset({
        "layer_norm", "batch_norm", "group_norm", "cumprod", "cdist", "pdist", "renorm",
        "l1_loss", "smooth_l1_loss", "mse_loss", "nll_loss", "kl_div", "binary_cross_entropy",
        "binary_cross_entropy_with_logits", "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss",
        "triplet_margin_loss",
    }),
}  # fmt: skip
"""Operations that a level computes in float32; in others, as in sums and concatenations, the wider operand decides."""


def lowered(level: str) -> frozenset[str]:
    """All operations that a level computes in 16 bits."""
    return LOWERED.get(level, frozenset()).union(p.name for p in operations() if level in p.lowered_at)


def widened(level: str) -> frozenset[str]:
    """All operations that a level computes in float32."""
    return WIDENED.get(level, frozenset()).union(p.name for p in operations() if level in p.widened_at)
