"""Functions under the argument names of `mindspore.mint`, which are PyTorch's: input, other, dim, keepdim."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from graphls.tensors.tensor import TensorLike

SPELLINGS = {
    "dim": ("dim", "axis", "dims"),
    "dims": ("dims", "axis"),
    "keepdim": ("keepdim", "keepdims", "keep_dims"),
    "end_dim": ("end_dim",),
}
PLACES = {"input": 0, "self": 0, "other": 1, "mat2": 1, "vec2": 1, "exponent": 1}


def with_torch_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose arguments may have PyTorch's names as well; by position they are the same."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def called(*args: TensorLike, **options: object) -> Any:
        given = {}
        for name, value in options.items():
            if name in names:
                given[name] = value
            elif name in SPELLINGS:
                given[next((other for other in SPELLINGS[name] if other in names), name)] = value
            elif name in PLACES and len(args) <= PLACES[name] < len(names):
                given[names[PLACES[name]]] = value
            else:
                given[name] = value
        return function(*args, **given)

    return called
