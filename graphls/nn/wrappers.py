"""Cells around a network: what evaluation returns, gradients with and without the value, and setting a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls import ops
from graphls.ir.errors import GraphTypeError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.ops.gradients import GradOperation
from graphls.ops.operands import tensor_of
from graphls.tensors.parameter import Parameter, ParameterTuple
from graphls.tensors.pytree import map_leaves
from graphls.tensors.tensor import TensorLike, is_tensor

__all__ = ["ForwardValueAndGrad", "ParameterUpdate", "WithEvalCell", "WithGradCell", "WithLossCell"]


class WithEvalCell(Cell):
    """A network and a loss for evaluation: gives (loss, outputs, label).

    With `add_cast_fp32` the outputs and a float label are cast to float32 first. Raises GraphTypeError for what is no
    cell and for a flag that is no bool.
    """

    def __init__(self, network: Cell, loss_fn: Cell, add_cast_fp32: bool = False) -> None:
        super().__init__(auto_prefix=False)
        for part in (network, loss_fn):
            if not isinstance(part, Cell):
                raise GraphTypeError(f"WithEvalCell takes cells, not {part!r}.")
        _check_flag("WithEvalCell", "add_cast_fp32", add_cast_fp32)
        self._network = network
        self._loss_fn = loss_fn
        self.add_cast_fp32 = add_cast_fp32

    def construct(self, data: TensorLike, label: TensorLike) -> tuple[Any, Any, Any]:
        outputs = self._network(data)
        if self.add_cast_fp32:
            outputs, label = map_leaves(_in_float32, outputs), map_leaves(_in_float32, label)
        return self._loss_fn(outputs, label), outputs, label


class ForwardValueAndGrad(Cell):
    """The value of a network and its gradients: (value, gradients), as GradOperation gives them with these flags.

    `network` is a cell or a function of tensors, `weights` the parameters for `get_by_list`. With `sens_param` the
    last input is the sensitivity. The forward runs once. Raises GraphTypeError for what cannot be called, flags
    that are no bools and `get_by_list` without parameters.
    """

    def __init__(
        self,
        network: Callable[..., Any],
        weights: Any = None,
        get_all: bool = False,
        get_by_list: bool = False,
        sens_param: bool = False,
    ) -> None:
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
        self.network = network if isinstance(network, Cell) else _Called(network)
        self.weights = ParameterTuple(weights) if get_by_list else weights
        self.get_all = get_all
        self.get_by_list = get_by_list
        self.sens_param = sens_param
        self.grad = GradOperation(get_all=get_all, get_by_list=get_by_list, sens_param=sens_param)

    def construct(self, *inputs: Any) -> tuple[Any, Any]:
        value = self.network(*(inputs[:-1] if self.sens_param else inputs))
        gradient = self.grad(self.network, self.weights) if self.get_by_list else self.grad(self.network)
        return value, gradient(*inputs)


class WithGradCell(Cell):
    """The gradients of a network by all its trainable parameters, in a tuple.

    With `loss_fn` the network and the loss are differentiated, else the network. `sens` is the sensitivity of the
    result, in its shape; None means ones. The network is set to training. Raises GraphTypeError for what is no cell.
    """

    def __init__(self, network: Cell, loss_fn: Cell | None = None, sens: Any = None) -> None:
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

    def construct(self, *inputs: Any) -> Any:
        gradient = self.grad(self.network_with_loss, self.weights)
        return gradient(*inputs) if self.sens is None else gradient(*inputs, self.sens)


class ParameterUpdate(Cell):
    """Gives a parameter the value that it is called with, and returns that value.

    Raises GraphTypeError for what is no parameter, GraphValueError for a value of another shape.
    """

    def __init__(self, param: Parameter) -> None:
        super().__init__(auto_prefix=False)
        if not isinstance(param, Parameter):
            raise GraphTypeError(f"For 'ParameterUpdate', 'param' must be 'Parameter', but got {type(param)}.")
        self._param = param

    def construct(self, x: TensorLike) -> Any:
        return ops.depend(x, ops.assign(self._param, x))


class _Called(Cell):
    """A function as a cell, so that its value and its gradient share one forward."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(auto_prefix=False)
        self.function = function

    def construct(self, *inputs: Any) -> Any:
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

    Raises GraphTypeError for what is no cell.
    """

    def __init__(self, backbone: Cell, loss_fn: Cell) -> None:
        super().__init__(auto_prefix=False)
        for part in (backbone, loss_fn):
            if not isinstance(part, Cell):
                raise GraphTypeError(f"WithLossCell takes cells, not {type(part).__name__}.")
        self._backbone = backbone
        self._loss_fn = loss_fn

    def construct(self, data: TensorLike, label: TensorLike) -> Any:
        return self._loss_fn(self._backbone(data), label)

    @property
    def backbone_network(self) -> Cell:
        """The network without the loss."""
        network: Cell = self._backbone
        return network
