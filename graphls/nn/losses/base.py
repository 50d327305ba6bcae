"""Losses, and the cell that puts a loss behind a network."""

from __future__ import annotations

from graphls import ops
from graphls.ir.checks import boolean
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import int32, int64
from graphls.nn.function_cells import LossBase
from graphls.ops.losses import require_tensors
from graphls.ops.operands import apply, tensor_of
from graphls.tensors.dispatch import promoted
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["SoftmaxCrossEntropyWithLogits"]


class SoftmaxCrossEntropyWithLogits(LossBase):
    """-sum(labels * log_softmax(logits)) for each sample of logits (N, C).

    With `sparse`, labels are the numbers of classes, int32 or int64 of shape (N,); else they are probabilities in the
    shape of the logits. Raises GraphTypeError for labels of another dtype, GraphValueError for another shape and,
    before the step runs, for a label out of range(C), nan or infinite.
    """

    def __init__(self, sparse: bool = False, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.sparse = boolean("SoftmaxCrossEntropyWithLogits", "sparse", sparse)

    def construct(self, logits: TensorLike, labels: TensorLike) -> Tensor:
        require_tensors("SoftmaxCrossEntropyWithLogits", logits, labels)
        logits, labels = tensor_of(logits), tensor_of(labels)
        if logits.ndim != 2:
            raise GraphValueError(f"The logits have the shape (N, C), not that of {logits.type}.")
        return self.get_loss(_sparse(logits, labels) if self.sparse else _dense(logits, labels))


def _sparse(logits: Tensor, labels: Tensor) -> Tensor:
    if labels.dtype not in (int32, int64):
        advice = "use sparse=False for one-hot labels" if labels.shape == logits.shape else "cast them"
        raise GraphTypeError(f"Sparse labels are int32 or int64, not {labels.type}; {advice}.")
    if labels.shape != logits.shape[:1]:
        raise GraphValueError(
            f"Sparse labels for logits {logits.type} have the shape ({logits.shape[0]},), not {labels.shape}; "
            "reshape them.",
        )
    labels = apply("check_labels", labels, classes=logits.shape[1])
    picked = ops.gather_elements(ops.log_softmax(logits), 1, ops.expand_dims(labels, 1))
    return ops.neg(ops.reshape(picked, labels.shape))


def _dense(logits: Tensor, labels: Tensor) -> Tensor:
    if not labels.dtype.is_float:
        raise GraphTypeError(
            f"Labels that are probabilities are floats, not {labels.type}; cast them, or use sparse=True.",
        )
    if labels.shape != logits.shape:
        raise GraphValueError(f"The labels {labels.type} must have the shape of {logits.type}.")
    labels = apply("check_labels", labels)
    logits, labels = promoted(logits, labels)
    return ops.neg(ops.sum(ops.mul(labels, ops.log_softmax(logits)), axis=1))
