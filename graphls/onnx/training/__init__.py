"""Training of ONNX models from written files, with the classes of `onnxruntime.training.api`."""

from graphls.onnx.training import onnxblock
from graphls.onnx.training.checkpoint import CheckpointState
from graphls.onnx.training.module import Module
from graphls.onnx.training.optimizer import LinearLRScheduler, Optimizer

__all__ = ["CheckpointState", "LinearLRScheduler", "Module", "Optimizer", "onnxblock"]
