"""Loss scaling for training steps that are written as functions: scale, unscale, adjust."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.checks import positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Tensor, is_tensor
from graphls.ir.types import float32, float64
from graphls.ops.operands import state_of, tensor_of
from graphls.ops.state import overflow_get


class LossScaler(ABC):
    """The interface of scalers, whose methods work inside of traced functions and at once outside of them.

    Examples:
        >>> from graphls.amp import DynamicLossScaler, LossScaler, StaticLossScaler
        >>> issubclass(DynamicLossScaler, LossScaler), issubclass(StaticLossScaler, LossScaler)
        (True, True)
    """

    @abstractmethod
    def scale(self, inputs: Any) -> Any:
        """A tensor, or every tensor of a nest, times the scale."""

    @abstractmethod
    def unscale(self, inputs: object) -> Any:
        """A tensor, or every tensor of a nest, divided by the scale."""

    @abstractmethod
    def adjust(self, grads_finite: object) -> bool:
        """Update the scale, given whether all gradients were finite; returns whether this scaler does that."""


class StaticLossScaler(LossScaler):
    """A scale that stays as it is: the Parameter `scale_value`, float32 of shape ().

    `scale` multiplies in the dtype of its input, so a scale beyond the range of float16 makes infinities there.
    `unscale` computes 1 / scale and the product in float32 (float64 for a float64 input) and casts the result back, so
    a large scale is not lost to rounding before it is used. Both keep dtype and shape. Raises GraphTypeError for a
    scale that is not a number, GraphValueError for one below 1.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.amp import StaticLossScaler
        >>> scaler = StaticLossScaler(128.0)
        >>> scaler.scale(tensor([0.5])), scaler.unscale(tensor([64.0]))
        (Tensor(shape=[1], dtype=Float32, value=[64.]), Tensor(shape=[1], dtype=Float32, value=[0.5]))
    """

    def __init__(self, scale_value: float) -> None:
        if isinstance(scale_value, bool) or not isinstance(scale_value, (int, float)):
            raise GraphTypeError(
                "The type of 'scale_value' should be one of '['float','int']', but got type "
                f"{type(scale_value).__name__!r}.",
            )
        if not scale_value >= 1:
            raise GraphValueError(f"The argument 'scale_value' must be > 1, but got {scale_value}")
        self.scale_value = Parameter(np.array(scale_value, np.float32), name="scale_value", requires_grad=False)

    def scale(self, inputs: Any) -> Any:
        """A tensor, or every tensor of a nest, times the scale, in its own dtype."""
        scale = state_of(self.scale_value)

        def scaled(leaf: object) -> Tensor:
            x = tensor_of(leaf)
            return ops.mul(x, ops.cast(scale, x.dtype))

        return map_leaves(scaled, inputs)

    def unscale(self, inputs: object) -> Any:
        """A tensor, or every tensor of a nest, divided by the scale, in its own dtype."""
        inverse = ops.reciprocal(state_of(self.scale_value))

        def unscaled(leaf: Any) -> Tensor:
            x = tensor_of(leaf)
            wide = float64 if x.dtype is float64 else float32
            return ops.cast(ops.mul(ops.cast(x, wide), ops.cast(inverse, wide)), x.dtype)

        return map_leaves(unscaled, inputs)

    def adjust(self, grads_finite: object) -> bool:
        """Changes nothing; returns False."""
        return False


class DynamicLossScaler(StaticLossScaler):
    """A scale that is divided by `scale_factor` at an overflow and multiplied by it after `scale_window` steps.

    It stays between 1 and the largest float32: a rise beyond that does not happen. The states are the Parameters
    `scale_value`, float32, and `counter`, int32, the finite steps since the scale last changed, both of shape ().
    `scale` and `unscale` are those of StaticLossScaler. Raises GraphTypeError for a scale that is not a number and for
    factors and windows that are not integers, GraphValueError for any of them below 1.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.amp import DynamicLossScaler
        >>> scaler = DynamicLossScaler(1024, 2, 1000)
        >>> scaler.scale(tensor(0.5))
        Tensor(shape=[], dtype=Float32, value=512.0)
        >>> scaler.adjust(tensor(False))
        True
        >>> scaler.scale_value.asnumpy()
        array(512., dtype=float32)
    """

    def __init__(self, scale_value: float, scale_factor: int, scale_window: int) -> None:
        super().__init__(scale_value)
        self.scale_window = positive_int("DynamicLossScaler", "scale_window", scale_window)
        self.scale_factor = positive_int("DynamicLossScaler", "scale_factor", scale_factor)
        self.counter = Parameter(np.array(0, np.int32), name="counter", requires_grad=False)

    def adjust(self, grads_finite: object) -> bool:
        """Update scale and counter, given a bool of shape (), whether all gradients were finite; returns True."""
        scale, counter, factor = state_of(self.scale_value), state_of(self.counter), float(self.scale_factor)
        risen = ops.mul(scale, factor)
        rises = ops.logical_and(ops.equal(counter, self.scale_window - 1), ops.isfinite(risen))
        fallen = ops.maximum(ops.div(scale, factor), 1.0)
        ops.assign(self.scale_value, ops.where(grads_finite, ops.where(rises, risen, scale), fallen))
        ops.assign(self.counter, ops.where(grads_finite, ops.mod(ops.add(counter, 1), self.scale_window), 0))
        return True


def all_finite(inputs: object, status: object = None) -> Tensor:
    """Returns whether every float in a tuple or list of tensors is neither infinite nor nan: bool of shape ().

    Lists may nest; integers and bools count as finite. In a traced function this closes an overflow window, so the
    compiler places it around the backward that computed `inputs` and proves that. `status` is MindSpore 2.0's and
    changes nothing. Raises GraphTypeError for a bare tensor and for anything but tensors, GraphValueError where there
    is none.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.amp import all_finite
        >>> all_finite([tensor([1.0, 2.0]), tensor([float("inf")])])
        Tensor(shape=[], dtype=Bool, value=False)
    """
    if not isinstance(inputs, (tuple, list)):
        raise GraphTypeError(f"all_finite takes a tuple or list of tensors, not {inputs!r}.")
    tensors = leaves(inputs)
    if not all(map(is_tensor, tensors)):
        raise GraphTypeError("all_finite takes tensors in a tuple or list, and nothing else there.")
    if not tensors:
        raise GraphValueError("all_finite takes one tensor or more.")
    floats = [x for x in map(tensor_of, tensors) if x.dtype.is_float]
    return ops.logical_not(overflow_get(None, floats)) if floats else Tensor(True)
