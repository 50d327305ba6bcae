"""Helpers of `mindspore.train._utils`: folders, checks of types, arrays as tensors."""

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
    """Create a folder; returns its absolute path. Raises GraphTypeError for anything but a text."""
    if not isinstance(path, str) or not path.strip():
        raise GraphTypeError(f"The {arg_name!r} must be the path of a folder, but got {path!r}.")
    folder = Path(os.path.realpath(path))
    checked(lambda: folder.mkdir(parents=True, exist_ok=True))
    return str(folder)


def check_value_type(arg_name: str, arg_value: object, valid_types: object) -> None:
    """Raise GraphTypeError for a value of another class; a bool is not an int."""
    kinds = tuple(valid_types) if isinstance(valid_types, Iterable) else (valid_types,)
    if not isinstance(arg_value, kinds) or (isinstance(arg_value, bool) and bool not in kinds):
        names = [kind.__name__ for kind in kinds]
        got = type(arg_value).__name__
        message = f"For `{arg_name}` the type should be a valid type of {names}, but got {got}."
        raise GraphTypeError(message)


def _to_tensor(elem: TensorLike, scaling_sens: Operand | None = None) -> Any:
    """Arrays as tensors, followed by the scale, if there is one; a single tensor is not a tuple."""
    items = elem if isinstance(elem, (tuple, list)) else [elem]
    tensors = [Tensor(item) if isinstance(item, np.ndarray) else item for item in items]
    tensors += [Tensor(np.float32(scaling_sens))] if scaling_sens else []
    return tensors[0] if len(tensors) == 1 else tuple(tensors)
