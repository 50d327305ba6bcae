"""`graphls.onnx.artifacts(...)` writes what trains a model; with the names of `onnxruntime.training.artifacts`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from graphls.onnx.training.generation import LossType, OptimType, generate_artifacts

__all__ = ["LossType", "OptimType", "generate_artifacts"]


class _Callable(ModuleType):
    """A module that can be called, as code does that knows `generate_artifacts` by its short name."""

    def __call__(self, *arguments: Any, **options: Any) -> None:
        """See `generate_artifacts`."""
        generate_artifacts(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
