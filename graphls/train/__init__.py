"""Training with few lines: the Model, which trains, evaluates and predicts, what it calls on the way, and metrics."""

from graphls.train.callbacks import *  # noqa: F403
from graphls.train.callbacks import __all__ as _callbacks
from graphls.train.metrics import *  # noqa: F403
from graphls.train.metrics import __all__ as _metrics
from graphls.train.model import Model

__all__ = ["Model", *_callbacks, *_metrics]
