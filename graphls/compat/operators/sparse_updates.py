"""Operators of MindSpore that update only the rows of parameters that have gradients.

Several gradients of one row are added first. Rows without one stay as they are, except in `FusedSparseAdam`, whose
moments decay everywhere. Each returns the updated values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls import ops
from graphls.frontend.names.lazy import offering
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.operands import Operand
from graphls.ops.primitive import REQUIRED, Operator, operator
from graphls.ops.update_rules import shrunk, value_of, written


def _dense(var: TensorLike, grad: TensorLike, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The dense gradient of the parameter, and a mask of the rows that have one."""
    value = value_of(var)
    count = ops.zeros((value.shape[0],), value.dtype)
    hits = ops.index_add(count, indices, ops.ones(indices.shape, value.dtype), 0)
    dense = ops.index_add(ops.zeros_like(value), indices, ops.cast(grad, value.dtype), 0)
    return dense, ops.reshape(hits > 0, (value.shape[0], *(1,) * (value.ndim - 1)))


def _rows(var: TensorLike, rows: Tensor, new: Tensor) -> Tensor:
    """Write new values to the rows that have gradients."""
    return written(var, ops.where(rows, new, value_of(var)))


def _adagrad(
    var: Parameter, accum: TensorLike, grad: TensorLike, indices: Tensor, lr: float, epsilon: float, update_slots: bool,
) -> Any:  # fmt: skip
    g, rows = _dense(var, grad, indices)
    squares = value_of(accum) + g * g if update_slots else value_of(accum)
    new = value_of(var) - g * lr / (ops.sqrt(squares) + epsilon)
    return _rows(var, rows, new), (_rows(accum, rows, squares) if update_slots else value_of(accum))


def _adagrad_plain(
    var: Parameter, accum: TensorLike, grad: TensorLike, indices: Tensor, lr: float, update_slots: bool = True,
    use_locking: bool = False,
) -> Any:  # fmt: skip
    """accum += g ** 2; var -= lr * g / sqrt(accum)."""
    return _adagrad(var, accum, grad, indices, lr, 0.0, update_slots)


def _adagrad_with_epsilon(
    var: Parameter, accum: TensorLike, grad: TensorLike, indices: Tensor, lr: float, epsilon: float,
    use_locking: bool = False,
    update_slots: bool = True,
) -> Any:  # fmt: skip
    """accum += g ** 2; var -= lr * g / (sqrt(accum) + epsilon)."""
    return _adagrad(var, accum, grad, indices, lr, epsilon, update_slots)


def _ftrl(
    var: Parameter, accum: TensorLike, linear: TensorLike, grad: TensorLike, indices: Tensor, lr: float,
    l1: float, l2: float, lr_power: float,
    use_locking: bool = False,
) -> Any:  # fmt: skip
    """Follow the regularised leader (McMahan et al., 2013)."""
    g, rows = _dense(var, grad, indices)
    old, squares = value_of(accum), value_of(accum) + g * g
    grown, before = ops.pow(squares, -lr_power), ops.pow(old, -lr_power)
    total = value_of(linear) + g - (grown - before) / lr * value_of(var)
    new = -shrunk(total, l1) / (grown / lr + 2 * l2)
    return _rows(var, rows, new), _rows(accum, rows, squares), _rows(linear, rows, total)


def _proximal(
    var: TensorLike, accum: Operand, lr: TensorLike, l1: Operand, l2: Operand, grad: TensorLike, indices: Tensor,
    use_locking: bool = False,
) -> Any:  # fmt: skip
    """accum += g ** 2; a proximal step with the rate lr / sqrt(accum)."""
    g, rows = _dense(var, grad, indices)
    squares = value_of(accum) + g * g
    rate = lr / ops.sqrt(squares)
    new = shrunk(value_of(var) - g * rate, rate * l1) / (rate * l2 + 1.0)
    return _rows(var, rows, new), _rows(accum, rows, squares)


def _adam(is_lazy: bool) -> Callable[..., Any]:
    def update(
        var: Parameter, m: Operand, v: Operand, beta1_power: Operand, beta2_power: Operand, lr: Operand, beta1: Operand,
        beta2: Operand, epsilon: TensorLike,
        grad: TensorLike, indices: Tensor, use_locking: bool = False, use_nesterov: bool = False,
    ) -> Any:  # fmt: skip
        """Adam, with bias corrections from the powers of the betas."""
        g, rows = _dense(var, grad, indices)
        rows = rows if is_lazy else ops.ones_like(rows)
        first = value_of(m) * beta1 + g * (1 - beta1)
        second = value_of(v) * beta2 + g * g * (1 - beta2)
        rate = lr * ops.sqrt(1 - beta2_power) / (1 - beta1_power)
        step = first * beta1 + g * (1 - beta1) if use_nesterov else first
        new = value_of(var) - rate * step / (ops.sqrt(second) + epsilon)
        return _rows(var, rows, new), _rows(m, rows, first), _rows(v, rows, second)

    return update


_FTRL = {"lr": REQUIRED, "l1": REQUIRED, "l2": REQUIRED, "lr_power": REQUIRED, "use_locking": False}
_ADAM = {"use_locking": False, "use_nesterov": False}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "FusedSparseAdam": (_adam(False), _ADAM),
    "FusedSparseFtrl": (_ftrl, _FTRL),
    "FusedSparseLazyAdam": (_adam(True), _ADAM),
    "FusedSparseProximalAdagrad": (_proximal, {"use_locking": False}),
    "SparseApplyAdagrad": (_adagrad_plain, {"lr": REQUIRED, "update_slots": True, "use_locking": False}),
    "SparseApplyAdagradV2": (
        _adagrad_with_epsilon, {"lr": REQUIRED, "epsilon": REQUIRED, "use_locking": False, "update_slots": True}
    ),
    "SparseApplyFtrl": (_ftrl, _FTRL),
    "SparseApplyProximalAdagrad": (_proximal, {"use_locking": False}),
}  # fmt: skip

_operators: dict[str, type[Operator]] = {
    name: operator(name, *definition, __name__) for name, definition in CONFIGURED.items()
}

__getattr__, __dir__ = offering(_operators)
