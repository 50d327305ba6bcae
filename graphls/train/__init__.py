"""Training with few lines: the Model, which trains, evaluates and predicts, and what it calls on the way."""

from graphls.train.callbacks import *  # noqa: F403
from graphls.train.callbacks import __all__ as _callbacks
from graphls.train.model import Model

__all__ = ["Model", *_callbacks]
