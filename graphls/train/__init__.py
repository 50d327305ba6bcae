"""Training: Model, callbacks, metrics, checkpoints, and the export of networks for inference."""

from graphls.train.callbacks import *  # noqa: F403
from graphls.train.callbacks import __all__ as _callbacks
from graphls.train.metrics import *  # noqa: F403
from graphls.train.metrics import __all__ as _metrics
from graphls.train.model import Model
from graphls.train.serialization import *  # noqa: F403
from graphls.train.serialization import __all__ as _serialization

__all__ = ["Model", *_serialization, *_callbacks, *_metrics]
