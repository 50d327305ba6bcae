"""Names of `mindspore.nn.optim` and `mindspore.nn.loss` that are not public."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from graphls.nn.losses import LossBase

_Loss = LossBase

__all__ = ["_Loss", "opt_init_args_register"]


def opt_init_args_register(fn: Callable[..., None]) -> Callable[..., None]:
    """The `__init__` of an optimizer, whose arguments become its attributes `init_params` and `init_learning_rate`."""
    signature = inspect.signature(fn)

    @wraps(fn)
    def initialise(self: Any, *args: Any, **options: Any) -> None:
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        fn(self, *args, **options)
        self.__dict__.update(init_params=given, init_learning_rate=given.get("learning_rate"))

    return initialise
