"""Private names of `mindspore.nn`, `nn.optim` and `nn.loss`, and cells for several devices, which run on one here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from graphls import ops
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.nn.cell import Cell
from graphls.nn.function_cells import LossBase
from graphls.nn.learning_rate_schedule import LearningRate
from graphls.nn.micro_batches import micro_batch
from graphls.nn.optimizers.adaptive import Adam
from graphls.nn.optimizers.base import Decay, Parameters

__all__ = [
    "AdamOffload", "Jvp", "VirtualDatasetCellTriple", "Vjp", "_BroadCastCell", "_Loss", "_MicroBatch",
    "_VirtualDatasetCell", "opt_init_args_register",
]  # fmt: skip


_Loss = LossBase


class AdamOffload(Adam):
    """Adam; MindSpore keeps its moments on the CPU, here they are beside the parameters. Raises as Adam does."""

    def __init__(
        self, params: Parameters, learning_rate: LearningRate = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, use_locking: bool = False, use_nesterov: bool = False, weight_decay: Decay = 0.0,
        loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(params, learning_rate, beta1, beta2, eps, use_locking, use_nesterov, weight_decay, loss_scale)


class _Product(Cell):
    """A network, or a function of tensors, that is called with its inputs followed by vectors."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn


class Jvp(_Product):
    """`Jvp(fn)(*inputs, v)`: the outputs, and their directional derivatives along v, as of `ops.jvp`.

    v is a tensor, or a tuple of one for each of several inputs.
    """

    def construct(self, *args: Any) -> Any:
        *inputs, v = args
        return ops.jvp(self.fn, tuple(inputs), v)


class Vjp(_Product):
    """`Vjp(fn)(*inputs, v)`: the outputs, and the gradients by the inputs for the gradient v by the outputs.

    v is a tensor, or a tuple of one for each of several outputs. For one input the gradient is not a tuple.
    """

    def construct(self, *args: Any) -> Any:
        *inputs, v = args
        outputs, pulled = ops.vjp(self.fn, *inputs)
        gradients = pulled(*v) if isinstance(v, tuple) else pulled(v)
        return outputs, gradients[0] if len(inputs) == 1 else gradients


def opt_init_args_register(fn: Callable[..., None]) -> Callable[..., None]:
    """The `__init__` of an optimizer, whose arguments become its attributes `init_params` and `init_learning_rate`."""
    signature = inspect.signature(fn)

    @wraps(fn)
    def initialise(self: TensorLike, *args: TensorLike, **options: object) -> None:
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[1:])
        fn(self, *args, **options)
        self.__dict__.update(init_params=arguments, init_learning_rate=arguments.get("learning_rate"))

    return initialise


class _MicroBatch(Cell):
    """Part number `i` of all inputs, of `micro_size` equal parts along the first axis.

    Raises GraphValueError for a size that does not divide into such parts.
    """

    def __init__(self, micro_size: int) -> None:
        super().__init__()
        self.micro_size = micro_size

    def construct(self, i: int, *inputs: Tensor) -> tuple[Any, ...]:
        return micro_batch("_MicroBatch", inputs, i, self.micro_size)


class _VirtualDatasetCell(Cell):
    """The network itself: one device takes the whole batch."""

    def __init__(self, backbone: Cell) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone

    def construct(self, *inputs: object) -> Any:
        return self._backbone(*inputs)


class VirtualDatasetCellTriple(_VirtualDatasetCell):
    """The network itself: one device takes the whole batch."""


class _BroadCastCell(Cell):
    """The parameters themselves, as there is one device."""

    def __init__(self, params: Iterable[Parameter]) -> None:
        super().__init__()
        self.params = tuple(params)

    def construct(self) -> Any:
        return tuple(parameter.value() for parameter in self.params)
