"""`graphls.onnx.artifacts(...)` generates the files of a training, as `onnxruntime.training.artifacts` does."""

from __future__ import annotations

import sys
from types import ModuleType

from graphls.onnx.training.generation import LossType, OptimType, generate_artifacts

__all__ = ["LossType", "OptimType", "generate_artifacts"]


class _Callable(ModuleType):
    """A callable module, because `artifacts(...)` is the short form of `generate_artifacts(...)`."""

    __call__ = staticmethod(generate_artifacts)


sys.modules[__name__].__class__ = _Callable
