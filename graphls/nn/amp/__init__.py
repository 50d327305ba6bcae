"""Mixed precision: managers and scalers of the loss scale, networks in 16 bits by levels, recipes of 8 and 4 bits."""

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
from graphls.passes.precision.forms import BlockForm, CurrentForm, DelayedForm, Form, MXForm, NVFP4Form
from graphls.passes.precision.recipes import MXFP8, NVFP4, BlockScaling, CurrentScaling, DelayedScaling, Recipe

__all__ = [
    "MXFP8",
    "NVFP4",
    "AdaptiveLossScaleUpdateCell",
    "BlockForm",
    "BlockScaling",
    "CurrentForm",
    "CurrentScaling",
    "DelayedForm",
    "DelayedScaling",
    "DynamicLossScaleManager",
    "DynamicLossScaleUpdateCell",
    "DynamicLossScaler",
    "FixedLossScaleManager",
    "FixedLossScaleUpdateCell",
    "Form",
    "LossScaleManager",
    "LossScaler",
    "MXForm",
    "NVFP4Form",
    "Recipe",
    "StaticLossScaler",
    "all_finite",
    "auto_mixed_precision",
    "build_train_network",
    "custom_mixed_precision",
    "get_black_list",
    "get_white_list",
]  # fmt: skip
