"""What losses share: operands in one dtype, checks of labels and settings, the reduction.

Losses of 16-bit operands are computed in float32 and rounded once, so that they overflow only where the result does.
"""

from __future__ import annotations

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DType, float32, int32, int64
from graphls.ops.elementwise import add, cast, mul, sub
from graphls.ops.logic import not_equal, where
from graphls.ops.operands import apply, floats, tensor_of
from graphls.ops.reductions import mean, sum
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor, TensorLike, is_tensor

REDUCTIONS = ("none", "mean", "sum")


def operands(name: str, *tensors: object) -> tuple[DType, tuple[Tensor, ...]]:
    """The float dtype of the result and the tensors in the dtype that the loss is computed in.

    Raises GraphTypeError for what is no tensor.
    """
    require_tensors(name, *tensors)
    together = floats(*dispatch.cast_operands(name, *tensors))
    dtype = together[0].dtype
    return dtype, tuple(cast(t, float32) if dtype.is_half else t for t in together)


def require_tensors(name: str, *tensors: object) -> None:
    """Raise GraphTypeError for what is no tensor."""
    for tensor in tensors:
        if not is_tensor(tensor):
            raise GraphTypeError(f"{name} takes tensors for logits and labels, not {type(tensor).__name__}.")


def require_same_shape(name: str, first: Tensor, second: Tensor) -> None:
    """Raise GraphValueError where the shapes of predictions and labels differ."""
    if first.shape != second.shape:
        raise GraphValueError(
            f"{name} takes labels in the shape of the predictions, {first.shape}, not {second.shape}."
        )


def class_numbers(
    name: str, target: TensorLike, shape: tuple[int, ...], classes: int, ignored: int | None = None
) -> Tensor:
    """Labels that are numbers of classes, int32 or int64, as a tensor of a shape.

    Raises GraphTypeError for another dtype, GraphValueError for another shape and, before a step runs, for a label
    that is neither in range(classes) nor `ignored`.
    """
    require_tensors(name, target)
    labels = tensor_of(target)
    if labels.dtype not in (int32, int64):
        raise GraphTypeError(f"{name} takes int32 or int64 labels, not {labels.type}; cast them.")
    if labels.shape != shape:
        advice = "; those of one-hot labels are ops.argmax(labels, 1)" if len(labels.shape) == len(shape) + 1 else ""
        message = f"{name} takes labels of the shape {shape} here, not {labels.shape}{advice}."
        raise GraphValueError(message)
    return apply("check_labels", labels, classes=classes, ignored=ignored)


def counted(labels: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    """Whether each label counts, and the labels with class 0 for those that do not."""
    counts = not_equal(labels, ignored)
    return counts, where(counts, labels, 0)


def two_classes(labels: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    """Losses of the one class and of the other, weighted by the probability of the one."""
    return add(mul(labels, positive), mul(sub(1.0, labels), negative))


def weighted(losses: Tensor, weight: TensorLike | None) -> Tensor:
    """Losses times a weight that broadcasts, if there is one."""
    return losses if weight is None else mul(losses, cast(weight, losses.dtype))


def class_weights(name: str, weight: TensorLike | None, classes: int, dtype: DType) -> Tensor | None:
    """A weight for each class in a dtype; raises GraphTypeError or GraphValueError for anything else."""
    if weight is None:
        return None
    require_tensors(f"The weight of {name}", weight)
    weights = tensor_of(weight)
    if weights.shape != (classes,):
        raise GraphValueError(f"The weight of {name} has the shape ({classes},), not {weights.shape}.")
    return cast(weights, dtype)


def reduced(name: str, losses: Tensor, reduction: str, dtype: DType) -> Tensor:
    """The mean, the sum or each of the losses in the dtype of the result."""
    check_reduction(name, reduction)
    if reduction == "none":
        return cast(losses, dtype)
    return cast(mean(losses) if reduction == "mean" else sum(losses), dtype)


def check_reduction(name: str, reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    """Raise GraphValueError for an unknown reduction."""
    if reduction not in allowed:
        raise GraphValueError(f"For {name!r}, the 'reduction' must be in {sorted(allowed)}, but got {reduction!r}.")
