"""Callbacks, which a Model calls before and after training, epochs, steps and evaluations."""

from graphls.train.callbacks.callback import (
    Callback,
    CallbackManager,
    InternalCallbackParam,
    LambdaCallback,
    RunContext,
)
from graphls.train.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint
from graphls.train.callbacks.learning_rates import LearningRateFinder, LearningRateScheduler, ReduceLROnPlateau
from graphls.train.callbacks.loggers import History, MLflowLogger, WandbLogger
from graphls.train.callbacks.monitors import LossMonitor, Progress, TimeMonitor
from graphls.train.callbacks.run_report import RunReport
from graphls.train.callbacks.stopping import EarlyStopping, OnRequestExit
from graphls.train.callbacks.summary import SummaryCollector, SummaryRecord

_CallbackManager = CallbackManager
_InternalCallbackParam = InternalCallbackParam

__all__ = [
    "Callback", "CheckpointConfig", "EarlyStopping", "History", "LambdaCallback", "LearningRateFinder",
    "LearningRateScheduler", "LossMonitor", "MLflowLogger", "ModelCheckpoint", "OnRequestExit", "Progress",
    "ReduceLROnPlateau", "RunContext", "RunReport", "SummaryCollector", "SummaryRecord", "TimeMonitor", "WandbLogger",
]  # fmt: skip
