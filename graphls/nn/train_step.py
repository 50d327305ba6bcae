"""Training steps, and cells around a network: evaluation with a loss, gradients, and assignment of a parameter."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

from graphls import ops
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.frontend.trace.tracer import current_tracer, in_phase
from graphls.ir.types import DTypeLike, float32, float64, int32
from graphls.nn.arrays import Identity
from graphls.nn.called_function import CellOrFunction, as_cell
from graphls.nn.cell import Cell
from graphls.nn.grad_reducer import (
    DistributedGradReducer,
    adds_for_devices,
    any_rank,
    broadcast_parameters,
    is_data_parallel,
    sum_over_ranks,
)
from graphls.nn.optimizers.base import Optimizer
from graphls.ops.gradients import GradOperation
from graphls.ops.operands import tensor_of
from graphls.ops.state import overflow_get, overflow_start
from graphls.passes.precision.recipes import Recipe
from graphls.runtime.context import get_context
from graphls.runtime.context.parallel import get_auto_parallel_context, takes_parameters_of_first_rank

__all__ = [
    "ForwardValueAndGrad", "ParameterUpdate", "TrainOneStepCell", "TrainOneStepWithLossScaleCell", "WithEvalCell",
    "WithGradCell", "WithLossCell",
]  # fmt: skip


class WithEvalCell(Cell):
    """A network and a loss for evaluation: returns (loss, outputs, label).

    With `add_cast_fp32` the outputs and a float label are cast to float32 first. Raises GraphTypeError for anything but
    cells and functions, and for a flag that is not a bool.
    """

    def __init__(self, network: CellOrFunction, loss_fn: CellOrFunction, add_cast_fp32: bool = False) -> None:
        super().__init__(auto_prefix=False)
        _check_flag("WithEvalCell", "add_cast_fp32", add_cast_fp32)
        self._network = as_cell(network, "network")
        self._loss_fn = as_cell(loss_fn, "loss_fn")
        self.add_cast_fp32 = add_cast_fp32

    def construct(self, data: TensorLike, label: TensorLike) -> tuple[Any, Any, Any]:
        outputs = self._network(data)
        if self.add_cast_fp32:
            outputs, label = map_leaves(_in_float32, outputs), map_leaves(_in_float32, label)
        return self._loss_fn(outputs, label), outputs, label


class ForwardValueAndGrad(Cell):
    """The value of a network and its gradients: (value, gradients), as GradOperation returns them with these flags.

    `network` is a cell or a function of tensors, `weights` the parameters for `get_by_list`. With `sens_param` the
    last input is the sensitivity. The forward runs once. Raises GraphTypeError for a network that is not callable,
    flags that are not bools and `get_by_list` without parameters.

    Examples:
        >>> from graphls import nn, tensor
        >>> net = nn.WithLossCell(nn.Dense(2, 1, weight_init="zeros", bias_init="zeros"), nn.MSELoss())
        >>> with_gradients = nn.ForwardValueAndGrad(net, net.trainable_params(), get_by_list=True)
        >>> loss, gradients = with_gradients(tensor([[1.0, 2.0]]), tensor([[1.0]]))
        >>> loss
        Tensor(shape=[], dtype=Float32, value=1.0)
        >>> gradients
        (Tensor(shape=[1, 2], dtype=Float32, value=[[-2. -4.]]), Tensor(shape=[1], dtype=Float32, value=[-2.]))
    """

    def __init__(
        self, network: Callable[..., Any], weights: Sequence[Parameter] | None = None, get_all: bool = False,
        get_by_list: bool = False, sens_param: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(auto_prefix=False)
        if not callable(network):
            raise GraphTypeError(
                "For 'ForwardValueAndGrad', the argument 'network' must be cell, function type or method type, but got "
                f"'{type(network)}'.",
            )
        for name, flag in {"get_all": get_all, "get_by_list": get_by_list, "sens_param": sens_param}.items():
            _check_flag("ForwardValueAndGrad", name, flag)
        if get_by_list and not isinstance(weights, (tuple, list)):
            raise GraphTypeError(
                "For 'ForwardValueAndGrad', when 'get_by_list' is set to True, the argument 'weights' must be "
                f"Parameters array, but got '{type(weights)}'.",
            )
        self.network = network if isinstance(network, Cell) else _FunctionCell(network)
        self.weights = ParameterTuple(weights or ()) if get_by_list else weights
        self.get_all = get_all
        self.get_by_list = get_by_list
        self.sens_param = sens_param
        self.grad = GradOperation(get_all=get_all, get_by_list=get_by_list, sens_param=sens_param)

    def construct(self, *inputs: object) -> tuple[Any, Any]:
        value = self.network(*(inputs[:-1] if self.sens_param else inputs))
        gradient = self.grad(self.network, self.weights) if self.get_by_list else self.grad(self.network)
        return value, gradient(*inputs)


class WithGradCell(Cell):
    """The gradients of a network by all its trainable parameters, in a tuple.

    With `loss_fn` the network and the loss are differentiated, else the network. `sens` is the sensitivity of the
    result, in its shape; None means ones. The network is set to training. Raises GraphTypeError for anything but a
    cell.
    """

    def __init__(self, network: Cell, loss_fn: Cell | None = None, sens: TensorLike | None = None) -> None:
        super().__init__(auto_prefix=False)
        if not isinstance(network, Cell):
            raise GraphTypeError(f"WithGradCell takes a cell, not {network!r}.")
        self.network = network
        self.loss_fn = loss_fn
        self.weights = ParameterTuple(network.trainable_params())
        self.grad = GradOperation(get_by_list=True, sens_param=sens is not None)
        self.sens = sens
        self.network_with_loss = network if loss_fn is None else WithLossCell(network, loss_fn)
        self.network_with_loss.set_train()

    def construct(self, *inputs: object) -> Any:
        gradient = self.grad(self.network_with_loss, self.weights)
        return gradient(*inputs) if self.sens is None else gradient(*inputs, self.sens)


class ParameterUpdate(Cell):
    """Assigns the input to a parameter, and returns it.

    Raises GraphTypeError for anything but a parameter, GraphValueError for a value of another shape.
    """

    def __init__(self, param: Parameter) -> None:
        super().__init__(auto_prefix=False)
        if not isinstance(param, Parameter):
            raise GraphTypeError(f"For 'ParameterUpdate', 'param' must be 'Parameter', but got {type(param)}.")
        self._param = param

    def construct(self, x: TensorLike) -> Any:
        return ops.depend(x, ops.assign(self._param, x))


class _FunctionCell(Cell):
    """A function as a cell, so that its value and its gradient share one forward."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(auto_prefix=False)
        self.function = function

    def construct(self, *inputs: object) -> Any:
        return self.function(*inputs)


def _check_flag(cell: str, name: str, flag: TensorLike) -> None:
    if not isinstance(flag, bool):
        raise GraphTypeError(
            f"For '{cell}', the type of '{name}' should be 'bool', but got type '{type(flag).__name__}'.",
        )


def _in_float32(leaf: TensorLike) -> Any:
    return ops.cast(leaf, float32) if is_tensor(leaf) and tensor_of(leaf).dtype.is_float else leaf


class WithLossCell(Cell):
    """A network and a loss: `loss_fn(backbone(data), label)`.

    Either may be a function of tensors. Raises GraphTypeError for anything else.
    """

    def __init__(self, backbone: CellOrFunction, loss_fn: CellOrFunction) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = as_cell(backbone, "backbone")
        self._loss_fn = as_cell(loss_fn, "loss_fn")

    def construct(self, data: TensorLike, label: TensorLike) -> Any:
        return self._loss_fn(self._backbone(data), label)

    @property
    def backbone_network(self) -> Cell:
        """The network without the loss."""
        network: Cell = self._backbone
        return network


class TrainOneStepCell(Cell):
    """One training step: loss, gradients, optimizer.

    `network` computes the loss from its inputs, `optimizer` holds the parameters to train. `sens`, a number or a
    tensor of one element, scales the gradients and is not divided out again (give the optimizer `loss_scale=sens` for
    that). With `return_grad` the step returns (loss, gradients by parameter name). The step returns the loss, of any
    shape, and differentiates the same value, so the forward runs once. Of several outputs the sum is differentiated.

    Raises GraphTypeError for a network or optimizer that is not a cell and for another `sens`, GraphValueError where
    `sens` is 0 or has more elements.

    Examples:
        >>> import graphls
        >>> from graphls import nn, tensor
        >>> net = nn.Dense(2, 1, weight_init="zeros", bias_init="zeros")
        >>> train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.05))
        >>> x, y = tensor([[1.0, 2.0]]), tensor([[1.0]])
        >>> step = graphls.compile(train, x, y)
        >>> [round(float(step(x, y)), 4) for _ in range(3)]
        [1.0, 0.16, 0.0256]
    """

    def __init__(
        self, network: Cell, optimizer: Cell, sens: float | Tensor | None = None, return_grad: bool = False
    ) -> None:
        super().__init__(auto_prefix=False)
        for part in (network, optimizer):
            if not isinstance(part, Cell):
                raise GraphTypeError(f"A training step takes cells, not {part!r}.")
        _check_sens(sens)
        self.network = network
        self.network.set_grad()
        self.optimizer = optimizer
        self.weights = optimizer.parameters
        self.grad = GradOperation(get_by_list=True, sens_param=True)
        self.grad_no_sens = GradOperation(get_by_list=True)
        self.sense_flag, self.sens = sens is not None, 1.0 if sens is None else sens
        self.parallel_mode = get_auto_parallel_context("parallel_mode")
        self.return_grad = return_grad
        self.reducer_flag, self.degree = is_data_parallel(), 1
        self.use_graceful_exit = False  # read by subclasses of scripts; OnRequestExit ends a run without it
        self.grad_reducer: Cell = Identity()
        if self.reducer_flag:
            self._join_ranks()
        elif adds_for_devices():
            self.grad_reducer = DistributedGradReducer(self.weights)

    def _join_ranks(self) -> None:
        """Train with the other ranks: start from the parameters of rank 0, and reduce the gradients of all."""
        self.grad_reducer = DistributedGradReducer(self.weights)
        self.degree = self.grad_reducer.degree
        if takes_parameters_of_first_rank():
            broadcast_parameters(dict.fromkeys((*self.network.get_parameters(), *self.optimizer.get_parameters())))

    def __call__(self, *args: Any, **options: Any) -> Any:
        if current_tracer() is None and isinstance(self.optimizer, Optimizer):
            self.optimizer.warn_after_schedule()
        return super().__call__(*args, **options)

    @property
    def _output_names(self) -> str | tuple[str, ...]:
        """The names of the results outside of Python, such as in a bundle."""
        return ("loss", "gradients") if self.return_grad else "loss"

    def to_float(self, dst_type: DTypeLike | Recipe | None) -> Cell:
        """Compute the network in this dtype; scale, gradients and optimizer keep theirs. Raises as Cell.to_float."""
        self.network.to_float(dst_type)
        return self

    def construct(self, *inputs: object) -> Any:
        loss = self.network(*inputs)
        grads = self.grad_reducer(self._gradients(loss, inputs))
        loss = ops.depend(loss, self.optimizer(grads))
        if self.return_grad:
            return loss, {p.name: g for p, g in zip(self.weights, grads, strict=True)}
        return loss

    def _gradients(self, loss: Any, inputs: tuple[object, ...]) -> Any:
        """The gradients of this rank, scaled if there is a `sens`."""
        if self.sense_flag:
            return self.grad(self.network, self.weights)(*inputs, sensitivity_like(loss, self.sens))
        return self.grad_no_sens(self.network, self.weights)(*inputs)


class TrainOneStepWithLossScaleCell(TrainOneStepCell):
    """One training step in mixed precision: the loss is scaled, an overflowing step is skipped.

    `scale_sense` is a cell such as DynamicLossScaleUpdateCell, which updates the scale in the step, or a tensor of
    shape () or (1,), which `set_sense_scale` updates from outside. The step returns (loss, overflow: bool of
    shape (), the scale after the step). Where `overflow` is true, no parameter, moment or counter of the
    optimizer has changed. Gradients are divided by the scale in float32.

    A subclass can write its own `construct` from `start_overflow_check`, `get_overflow_status` and
    `process_loss_scale`. Raises GraphTypeError for another `scale_sense`, GraphValueError for another shape.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> network = nn.WithLossCell(nn.Dense(2, 1).to_float(graphls.float16), nn.MSELoss())
        >>> optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
        >>> x, y = np.ones((4, 2), np.float32), np.full((4, 1), 100, np.float32)
        >>> scale = nn.DynamicLossScaleUpdateCell(2**20, scale_factor=2, scale_window=100)
        >>> step = graphls.compile(nn.TrainOneStepWithLossScaleCell(network, optimizer, scale), x, y)
        >>> loss, overflow, scale = step(x, y)
        >>> bool(overflow), float(scale)  # the gradients did not fit into float16, so the step was skipped
        (True, 524288.0)
    """

    def __init__(self, network: Cell, optimizer: Cell, scale_sense: float | Cell | Tensor) -> None:
        super().__init__(network, optimizer, sens=None)
        self.loss_scaling_manager = scale_sense if isinstance(scale_sense, Cell) else None
        if isinstance(scale_sense, Cell):
            scale_sense = Tensor(scale_sense.get_loss_scale(), float32)
        if not isinstance(scale_sense, Tensor):
            raise GraphTypeError(
                "For 'TrainOneStepWithLossScaleCell', the 'scale_sense' must be Cell or Tensor, but got 'scale_sense' "
                f"type: {type(scale_sense)}.",
            )
        if scale_sense.shape not in ((), (1,)):
            raise GraphValueError(
                "For 'TrainOneStepWithLossScaleCell', the shape of 'scale_sense' must be (1,) or (), but got "
                f"{scale_sense.shape}.",
            )
        self.scale_sense = Parameter(scale_sense, name="scale_sense", requires_grad=False)
        self._make_tools()

    @property
    def _output_names(self) -> str | tuple[str, ...]:
        return ("loss", "overflow", "scale")

    def _make_tools(self) -> None:
        """Set the operators that subclasses in scripts compute with, under MindSpore's names."""
        self.is_distributed, self.gpu_target = self.reducer_flag, get_context("device_target") == "GPU"
        self.hyper_map, self.allreduce = ops.HyperMap(), sum_over_ranks if self.is_distributed else ops.identity
        self.reduce_sum, self.reduce_all = ops.ReduceSum(keep_dims=False), ops.ReduceAll(keep_dims=False)
        self.less_equal, self.equal, self.logic_not = ops.LessEqual(), ops.Equal(), ops.LogicalNot()
        self.base, self.base0 = Tensor(1, float32), Tensor(0, int32)
        self.ascend_910a_target = self.ascend_910b_target = False

    def construct(self, *inputs: object) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(*inputs, sensitivity_like(loss, scale))
        grads = self.over_ranks(grads, scale)
        cond = self.get_overflow_status(status, grads)
        overflow = self.process_loss_scale(cond)
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, cond, scale

    def over_ranks(self, grads: Sequence[TensorLike], scale: Tensor) -> Any:
        """The gradients reduced over all ranks and unscaled; unscaled last where 16-bit ones are sent as they are."""
        if getattr(self.grad_reducer, "in_float32", True):
            return self.grad_reducer(unscaled(grads, scale))
        return unscaled(self.grad_reducer(grads), scale)

    def start_overflow_check(self, pre_cond: TensorLike, compute_input: TensorLike) -> tuple[Any, Any]:
        """Open the window of overflow detection after `pre_cond`.

        Returns the status, which `get_overflow_status` takes, and `compute_input` ordered after the opening.
        """
        return overflow_start(pre_cond, compute_input)

    def get_overflow_status(self, status: object, compute_output: object) -> Tensor:
        """Returns whether `compute_output`, a tensor or a pytree of them, overflowed, on any rank: bool of shape ().

        `status` is the first result of `start_overflow_check`. Any other object leaves it to the compiler to
        place the window after the loss and before the gradients.
        """
        flag = overflow_get(status, compute_output)
        return any_rank(flag) if self.is_distributed else flag

    def process_loss_scale(self, overflow: Tensor) -> Tensor:
        """Update the scale by the overflow status, if a cell was given for it; returns the status."""
        if self.loss_scaling_manager is None:
            return overflow
        result: Tensor = self.loss_scaling_manager(self.scale_sense, overflow)
        return result

    def set_sense_scale(self, sens: TensorLike | None) -> None:
        """Set the scale from outside of the step.

        Raises GraphTypeError for anything but a tensor of the same dtype, GraphValueError for another shape.
        """
        scale = self.scale_sense
        if not isinstance(sens, Tensor):
            raise GraphTypeError(
                f"For 'TrainOneStepWithLossScaleCell', the type of 'sens' must be Tensor, but got {type(sens)}.",
            )
        if sens.dtype is not scale.dtype:
            raise GraphTypeError(f"The scale is {scale.dtype!r}, so 'sens' cannot be {sens.dtype!r}.")
        if sens.shape != scale.shape:
            raise GraphValueError(f"The scale has the shape {scale.shape}, so 'sens' cannot have {sens.shape}.")
        scale.set_data(sens)


def _check_sens(sens: object) -> None:
    if sens is None:
        return
    if not isinstance(sens, (numbers.Real, Tensor)):
        raise GraphTypeError(f"The 'sens' of a training step is a number, not {sens!r}.")
    if isinstance(sens, Tensor) and sens.size != 1:
        raise GraphValueError(f"The 'sens' of a training step is one number, not {sens.type}.")
    if sens == 0:
        raise GraphValueError("The input argument of 'sens' can not be 0.")


def sensitivity_like(loss: TensorLike, scale: object) -> Any:
    """The scale in the dtype and shape of every output that is differentiated."""

    def like(leaf: Tensor) -> Any:
        if not is_tensor(leaf) or not leaf.dtype.is_float:
            return None
        value = ops.reshape(scale, ()) if isinstance(scale, Tensor) else Tensor(scale, leaf.dtype)
        return ops.broadcast_to(ops.cast(value, leaf.dtype), leaf.shape)

    with in_phase("backward"):
        return map_leaves(like, loss)


def unscaled(grads: TensorLike, scale: Tensor) -> Any:
    """Gradients divided by the scale, in float32 (float64 stays), so that a large scale is not lost to rounding."""
    with in_phase("backward"):
        inverse = ops.reshape(ops.reciprocal(ops.cast(scale, float32)), ())
        return map_leaves(lambda g: ops.mul(g if g.dtype is float64 else ops.cast(g, float32), inverse), grads)
