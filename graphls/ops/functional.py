"""MindSpore 1's `ops.functional`: all functions of `graphls.ops`, and two names of its own."""

from __future__ import annotations

from typing import Any

import graphls.ops
from graphls.ops.math.elementwise import equal as tensor_eq
from graphls.ops.math.elementwise import neg as neg_tensor

__all__ = ["neg_tensor", "tensor_eq"]
__all__.extend(graphls.ops.__all__)


def __getattr__(name: str) -> Any:
    return getattr(graphls.ops, name)


def __dir__() -> list[str]:
    return [*__all__]
