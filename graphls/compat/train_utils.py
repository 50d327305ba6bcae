"""Names of `mindspore.train._utils` that scripts and tests of others import."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.base.reporting import checked
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.operands import Operand

__all__ = ["_make_directory", "_to_tensor", "check_value_type"]


def _make_directory(path: TensorLike, arg_name: str = "path") -> str:
    """The absolute path of a folder, which is made. Raises GraphTypeError for what is no text."""
    if not isinstance(path, str) or not path.strip():
        raise GraphTypeError(f"The {arg_name!r} must be the path of a folder, but got {path!r}.")
    folder = Path(os.path.realpath(path))
    checked(lambda: folder.mkdir(parents=True, exist_ok=True))
    return str(folder)


def check_value_type(arg_name: str, arg_value: object, valid_types: object) -> None:
    """Raise GraphTypeError for a value of no such class; a bool is no int."""
    kinds = tuple(valid_types) if isinstance(valid_types, Iterable) else (valid_types,)
    if not isinstance(arg_value, kinds) or (isinstance(arg_value, bool) and bool not in kinds):
        names = [kind.__name__ for kind in kinds]
        got = type(arg_value).__name__
        message = f"For `{arg_name}` the type should be a valid type of {names}, but got {got}."
        raise GraphTypeError(message)


def _to_tensor(elem: TensorLike, scaling_sens: Operand | None = None) -> Any:
    """Arrays as tensors, and behind them a scale if one is given; one alone is no tuple."""
    items = elem if isinstance(elem, (tuple, list)) else [elem]
    made = [Tensor(item) if isinstance(item, np.ndarray) else item for item in items]
    made += [Tensor(np.float32(scaling_sens))] if scaling_sens else []
    return made[0] if len(made) == 1 else tuple(made)
