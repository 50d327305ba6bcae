"""`mindspore.boost` on one device, where its algorithms change nothing, and `LessBN`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.checks import positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.base.reporting import warn
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import int32
from graphls.nn.cell import Cell
from graphls.nn.dense import Dense
from graphls.nn.initializer import Initial, initializer
from graphls.nn.optimizers.base import Optimizer
from graphls.nn.train_step import TrainOneStepCell, TrainOneStepWithLossScaleCell

__all__ = [
    "AutoBoost", "BoostTrainOneStepCell", "BoostTrainOneStepWithLossScaleCell", "CommonHeadLastFN",
    "GradientAccumulation", "LessBN", "OptimizerProcess", "ParameterProcess", "gradient_accumulation_op",
    "gradient_clear_op",
]  # fmt: skip


class CommonHeadLastFN(Cell):
    """`multiplier * (norm(x) @ norm(weight).T + bias)`, for x (N, in_channels): (N, out_channels).

    Rows of x and of the weight are divided by their norm; the multiplier is a parameter with the initial value 1.
    """

    def __init__(
        self, in_channels: int, out_channels: int, weight_init: Initial = "normal", bias_init: Initial = "zeros",
        has_bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.weight = Parameter(initializer(weight_init, [out_channels, in_channels]), name="weight")
        self.multiplier = Parameter(np.ones([1], np.float32), name="multiplier")
        self.has_bias = has_bias
        if has_bias:
            self.bias = Parameter(initializer(bias_init, [out_channels]), name="bias")
        self.normalize = ops.L2Normalize(axis=1)

    def construct(self, x: TensorLike) -> Any:
        product = ops.matmul(self.normalize(x), ops.transpose(self.normalize(self.weight), (1, 0)))
        return self.multiplier * (product + self.bias if self.has_bias else product)


class LessBN(Cell):
    """A network whose last Dense layer becomes a CommonHeadLastFN without bias if `fn_flag` is set."""

    def __init__(self, network: Cell, fn_flag: bool = False) -> None:
        super().__init__()
        self.network = network
        if fn_flag:
            _replace_last_dense(network)

    def construct(self, *inputs: TensorLike) -> Any:
        return self.network(*inputs)


def _replace_last_dense(cell: Cell) -> None:
    """Replace the last Dense of a cell, and of each other cell inside of it."""
    dense = None
    for name, inner in cell.name_cells().items():
        if isinstance(inner, Dense):
            dense = name, inner
        else:
            _replace_last_dense(inner)
    if dense is not None:
        name, layer = dense
        rows, columns = layer.weight.shape
        head = CommonHeadLastFN(columns, rows, layer.weight, has_bias=False)
        head.update_parameters_name(f"{layer.weight.name.rpartition('.')[0]}.".lstrip("."))
        setattr(cell, name, head)


LEVELS = ("O0", "O1", "O2")


class BoostTrainOneStepCell(TrainOneStepCell):
    """A TrainOneStepCell: the additions of MindSpore's boost do not change the results."""


class BoostTrainOneStepWithLossScaleCell(TrainOneStepWithLossScaleCell):
    """A TrainOneStepWithLossScaleCell: the additions of MindSpore's boost do not change the results."""


gradient_accumulation_op = ops.MultitypeFuncGraph("gradient_accumulation_op")
gradient_clear_op = ops.MultitypeFuncGraph("gradient_clear_op")


@gradient_accumulation_op.register("Int64", "Tensor", "Tensor")
def _accumulated(accumulation_step: int, cumulative_grad: Tensor, grad: Tensor) -> Any:
    """Add a part of a gradient to a parameter."""
    return ops.assign_add(cumulative_grad, ops.cast(grad / accumulation_step, cumulative_grad.dtype))


@gradient_clear_op.register("Tensor")
def _cleared(cumulative_grad: TensorLike) -> Any:
    """Set a parameter to zeros."""
    return ops.assign(cumulative_grad, ops.zeros_like(cumulative_grad))


class GradientAccumulation(Cell):
    """Accumulates gradients, and updates by their mean in every `max_accumulation_step`-th call.

    `accumulate(loss, gradients)` returns the loss. Raises GraphTypeError for anything but an optimizer, GraphValueError
    for a number that is not an integer of 1 or more.
    """

    hyper_map = ops.HyperMap()

    def __init__(self, max_accumulation_step: int, optimizer: Optimizer) -> None:
        super().__init__(auto_prefix=False)
        if not isinstance(optimizer, Optimizer):
            raise GraphTypeError(f"GradientAccumulation takes an Optimizer, not {optimizer!r}.")
        name = type(self).__name__
        self.max_accumulation_step = positive_int(name, "max_accumulation_step", max_accumulation_step)
        self.optimizer = optimizer
        self.accumulated = ParameterTuple(
            Parameter(np.zeros(p.shape, p.dtype.numpy), f"accumulated.{p.name}", False) for p in optimizer.parameters
        )
        self.accumulation_step = Parameter(Tensor(0, int32), "accumulation_step", False)

    def construct(self, loss: TensorLike, grads: Tensor) -> Any:
        sums = [
            gradient_accumulation_op(self.max_accumulation_step, total, grad)
            for total, grad in zip(self.accumulated, grads, strict=True)
        ]
        count = ops.assign_add(self.accumulation_step, Tensor(1, int32))
        if count >= self.max_accumulation_step:
            loss = ops.depend(loss, self.optimizer(tuple(sums)))
            for total in self.accumulated:
                gradient_clear_op(total)
            ops.assign(self.accumulation_step, Tensor(0, int32))
        return loss


class AutoBoost:
    """MindSpore's selection of faster training algorithms; there are none here, so networks stay as they are.

    Raises GraphValueError for an unknown level, and warns once of a level above O0.
    """

    def __init__(self, level: str = "O0", boost_config_dict: object = "") -> None:
        if level not in LEVELS:
            known = ", ".join(LEVELS)
            raise GraphValueError(f"A level of boost is one of {known}, not {level!r}.")
        if level != "O0":
            warn(refusal("boost", f"level={level!r}, which has no effect"))
        self.level, self.boost_config_dict = level, boost_config_dict

    def network_auto_process_train(self, network: Cell, optimizer: Optimizer) -> tuple[Cell, Optimizer]:
        """The network and the optimizer themselves."""
        return network, optimizer

    def network_auto_process_eval(self, network: Cell) -> Cell:
        """The network itself."""
        return network


class OptimizerProcess:
    """An optimizer whose gradients MindSpore may centralize."""

    def __init__(self, opt: Optimizer) -> None:
        self.opt = opt

    def generate_new_optimizer(self) -> Optimizer:
        """The optimizer itself."""
        return self.opt


class ParameterProcess:
    """Groups of parameters."""

    def assign_parameter_group(self, parameters: Sequence[Parameter], split_point: TensorLike | None = None) -> Any:
        """The parameters themselves, as one group."""
        return parameters

    @staticmethod
    def generate_group_params(parameters: Sequence[Parameter], origin_params: TensorLike) -> Any:
        """The groups, unchanged."""
        return origin_params
