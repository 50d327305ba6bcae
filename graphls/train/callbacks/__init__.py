"""Callbacks: what a Model calls before and after training, epochs, steps and evaluations."""

from graphls.train.callbacks.callback import Callback, CallbackManager, InternalCallbackParam, RunContext
from graphls.train.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint
from graphls.train.callbacks.early_stopping import EarlyStopping
from graphls.train.callbacks.history import History, LambdaCallback
from graphls.train.callbacks.learning_rate_finder import LearningRateFinder
from graphls.train.callbacks.learning_rates import LearningRateScheduler, ReduceLROnPlateau
from graphls.train.callbacks.loggers import MLflowLogger, WandbLogger
from graphls.train.callbacks.monitors import LossMonitor, TimeMonitor
from graphls.train.callbacks.progress import Progress
from graphls.train.callbacks.request_exit import OnRequestExit
from graphls.train.callbacks.run_report import RunReport
from graphls.train.callbacks.summary import SummaryCollector, SummaryRecord

_CallbackManager = CallbackManager
_InternalCallbackParam = InternalCallbackParam

__all__ = [
    "Callback", "CheckpointConfig", "EarlyStopping", "History", "LambdaCallback", "LearningRateFinder",
    "LearningRateScheduler", "LossMonitor", "MLflowLogger", "ModelCheckpoint", "OnRequestExit", "Progress",
    "ReduceLROnPlateau", "RunContext", "RunReport", "SummaryCollector", "SummaryRecord", "TimeMonitor", "WandbLogger",
]  # fmt: skip
