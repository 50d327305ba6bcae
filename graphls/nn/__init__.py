"""Cells: layers, containers, losses, optimizers and training steps.

Every module lists its names in `__all__`, and they are all names of this package.
"""

# ruff: noqa: F403

from types import ModuleType as _Module
from typing import Any as _Any

from graphls.nn.accumulation import *
from graphls.nn.activations import *
from graphls.nn.activations_hard import *
from graphls.nn.activations_smooth import *
from graphls.nn.attention import *
from graphls.nn.cell import *
from graphls.nn.containers import *
from graphls.nn.dynamic_lr import *
from graphls.nn.embedding import *
from graphls.nn.image_quality import *
from graphls.nn.layer_norm import *
from graphls.nn.layers import *
from graphls.nn.layers_adaptive import *
from graphls.nn.layers_arrays import *
from graphls.nn.layers_bilinear import *
from graphls.nn.layers_convolution import *
from graphls.nn.layers_dropout import *
from graphls.nn.layers_norm import *
from graphls.nn.layers_norm_sample import *
from graphls.nn.layers_padding import *
from graphls.nn.layers_pooling import *
from graphls.nn.layers_reduce import *
from graphls.nn.layers_resize import *
from graphls.nn.layers_transposed import *
from graphls.nn.layers_unpooling import *
from graphls.nn.learning_rate_schedule import *
from graphls.nn.loss_scale import *
from graphls.nn.losses import *
from graphls.nn.losses_classes import *
from graphls.nn.losses_distances import *
from graphls.nn.losses_elementwise import *
from graphls.nn.optimizers import *
from graphls.nn.optimizers_adam import *
from graphls.nn.optimizers_adaptive import *
from graphls.nn.optimizers_decoupled import *
from graphls.nn.optimizers_factored import *
from graphls.nn.optimizers_layerwise import *
from graphls.nn.optimizers_momentum import *
from graphls.nn.optimizers_proximal import *
from graphls.nn.optimizers_steps import *
from graphls.nn.recurrent import *
from graphls.nn.recurrent_cells import *
from graphls.nn.time_distributed import *
from graphls.nn.train_step import *
from graphls.nn.train_step_mf import *
from graphls.nn.transformer import *
from graphls.nn.transformer_layers import *
from graphls.nn.wrappers import *

__all__ = sorted(name for name, item in vars().items() if not name.startswith("_") and not isinstance(item, _Module))


def __getattr__(name: str) -> _Any:
    """Raise GraphAttributeError, which says what to write instead or what is near."""
    if name.startswith("__"):
        raise AttributeError(name)
    from graphls.ir.errors import GraphAttributeError
    from graphls.names.habits import PACKAGE, instead

    raise GraphAttributeError(f"graphls.nn has no {name!r}{instead(name, PACKAGE, __all__)}.")
