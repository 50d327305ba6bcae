"""Cells: layers, containers, losses, optimizers and training steps.

Every module lists its names in `__all__`, and they are all names of this package.
"""

# ruff: noqa: F403

from types import ModuleType as _Module
from typing import Any as _Any

from graphls.base.errors import GraphAttributeError as _GraphAttributeError
from graphls.frontend.names.habits import NAMESPACE as _NAMESPACE
from graphls.frontend.names.habits import instead as _instead
from graphls.nn import functions as _functions
from graphls.nn.activations import *
from graphls.nn.arrays import *
from graphls.nn.cell import *
from graphls.nn.containers import *
from graphls.nn.convolution import *
from graphls.nn.dense import *
from graphls.nn.dynamic_lr import *
from graphls.nn.function_cells import *
from graphls.nn.functions import *
from graphls.nn.grad_reducer import *
from graphls.nn.images import *
from graphls.nn.learning_rate_schedule import *
from graphls.nn.loss_scale import *
from graphls.nn.losses import *
from graphls.nn.micro_batches import *
from graphls.nn.normalization import *
from graphls.nn.optimizers import *
from graphls.nn.pooling import *
from graphls.nn.recurrent import *
from graphls.nn.train_step import *
from graphls.nn.train_step_mf import *
from graphls.nn.transformer import *
from graphls.ops.record import CELLS as _CELLS

__all__ = sorted(name for name, item in vars().items() if not name.startswith("_") and not isinstance(item, _Module))


def __getattr__(name: str) -> _Any:
    """A cell that is declared later; raises GraphAttributeError, which suggests a name, for others."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _CELLS:
        return getattr(_functions, name)
    raise _GraphAttributeError(f"graphls.nn has no {name!r}{_instead(name, _NAMESPACE, __all__)}.")
