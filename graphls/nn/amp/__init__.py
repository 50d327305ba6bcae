"""Mixed precision: managers and scalers of the loss scale, and networks in 16 bits by levels."""

from graphls.nn.amp.build import build_train_network
from graphls.nn.amp.precision import auto_mixed_precision, custom_mixed_precision, get_black_list, get_white_list
from graphls.nn.loss_scale import (
    AdaptiveLossScaleUpdateCell,
    DynamicLossScaleManager,
    DynamicLossScaler,
    DynamicLossScaleUpdateCell,
    FixedLossScaleManager,
    FixedLossScaleUpdateCell,
    LossScaleManager,
    LossScaler,
    StaticLossScaler,
    all_finite,
)

__all__ = [
    "AdaptiveLossScaleUpdateCell", "DynamicLossScaleManager", "DynamicLossScaleUpdateCell", "DynamicLossScaler",
    "FixedLossScaleManager", "FixedLossScaleUpdateCell", "LossScaleManager", "LossScaler", "StaticLossScaler",
    "all_finite", "auto_mixed_precision", "build_train_network", "custom_mixed_precision", "get_black_list",
    "get_white_list",
]  # fmt: skip
