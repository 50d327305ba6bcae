"""Names of `mindspore.nn.optim` and `mindspore.nn.loss` that are not public."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps

from graphls.nn.function_cells import LossBase
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.optimizers.adam import Adam
from graphls.nn.optimizers.base import Decay, Parameters
from graphls.tensors.tensor import TensorLike

_Loss = LossBase

__all__ = ["AdamOffload", "_Loss", "opt_init_args_register"]


class AdamOffload(Adam):
    """Adam; MindSpore computes its moments on the CPU, here they are where the parameters are. Raises as Adam does."""

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, use_locking: bool = False, use_nesterov: bool = False, weight_decay: Decay = 0.0,
        loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(params, learning_rate, beta1, beta2, eps, use_locking, use_nesterov, weight_decay, loss_scale)


def opt_init_args_register(fn: Callable[..., None]) -> Callable[..., None]:
    """The `__init__` of an optimizer, whose arguments become its attributes `init_params` and `init_learning_rate`."""
    signature = inspect.signature(fn)

    @wraps(fn)
    def initialise(self: TensorLike, *args: TensorLike, **options: object) -> None:
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        fn(self, *args, **options)
        self.__dict__.update(init_params=given, init_learning_rate=given.get("learning_rate"))

    return initialise
