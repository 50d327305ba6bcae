"""Losses as blocks; those of `onnxruntime.training.onnxblock.loss`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper

from graphls.base.errors import GraphRuntimeError
from graphls.onnx.training.onnxblock.blocks import Attribute, Block, InputLike, shape_of, tensor_exists

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

REDUCTIONS = {"mean": "ReduceMean", "sum": "ReduceSum", "none": ""}


class _Loss(Block):
    """A loss, reduced to its mean or sum, or not at all."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise GraphRuntimeError(f"Reduction {reduction} not supported; use one of {', '.join(REDUCTIONS)}.")
        self._reduction = reduction

    def _reduced(self, name: str) -> str:
        kind = REDUCTIONS[self._reduction]
        return self.append(kind, [name], keepdims=0) if kind else name

    def _target(self, like: str, name: str) -> str:
        return name if tensor_exists(self.base, name) else str(InputLike(like)(name))


class MSELoss(_Loss):
    """The squares of the differences to a target, an input like the output of the model."""

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        difference = self.append("Sub", [loss_input_name, self._target(loss_input_name, target_name)])
        return self._reduced(self.append("Mul", [difference, difference]))


class L1Loss(_Loss):
    """The absolute values of the differences to a target, an input like the output of the model."""

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        difference = self.append("Sub", [loss_input_name, self._target(loss_input_name, target_name)])
        return self._reduced(self.append("Abs", [difference]))


class BCEWithLogitsLoss(_Loss):
    """The binary cross entropy of logits and a target, in a form that is finite for every logit.

    `weight` multiplies the loss of each element, `pos_weight` that of positive ones.
    """

    def __init__(
        self, weight: ArrayLike | None = None, reduction: str = "mean", pos_weight: ArrayLike | None = None
    ) -> None:
        super().__init__(reduction)
        self._weight = weight
        self._pos_weight = pos_weight

    def build(self, loss_input_name: str, target_name: str = "target") -> str:
        target = self._target(loss_input_name, target_name)
        of_positive = self._softplus(self.append("Neg", [loss_input_name]))
        positive = self.append("Mul", [target, of_positive])
        if self._pos_weight is not None:
            positive = self.append("Mul", [positive, self.constant(self._pos_weight, "pos_weight")])
        rest = self.append("Sub", [self.constant(np.ones(1, np.float32)), target])
        loss = self.append("Add", [positive, self.append("Mul", [rest, self._softplus(loss_input_name)])])
        if self._weight is not None:
            loss = self.append("Mul", [loss, self.constant(self._weight, "weight")])
        return self._reduced(loss)

    def _softplus(self, name: str) -> str:
        return self.append("Softplus", [name])


class CrossEntropyLoss(_Loss):
    """The cross entropy of scores, with the classes along the last axis, and int64 labels.

    `weight` has a factor for each class; labels that are `ignore_index` do not count.
    """

    def __init__(
        self, weight: ArrayLike | None = None, reduction: str = "mean", ignore_index: int | None = None
    ) -> None:
        super().__init__(reduction)
        self._weight = weight
        self._ignore_index = ignore_index

    def build(self, scores_input_name: str, labels_name: str = "labels") -> str:
        shape = shape_of(self.info(scores_input_name))
        if not tensor_exists(self.base, labels_name):
            info = helper.make_tensor_value_info(labels_name, TensorProto.INT64, shape[:-1])
            self.base.graph.input.append(info)
        if self._weight is None and self._ignore_index is None and self._opset >= 13:
            return self._reduced(self._negative_log_probability(scores_input_name, labels_name))
        inputs = self._with_classes_second(scores_input_name, labels_name, len(shape))
        if self._weight is not None:
            inputs.append(self.constant(self._weight, "celoss.weight"))
        if self._ignore_index is None:
            return self.append("SoftmaxCrossEntropyLoss", inputs, reduction=self._reduction)
        settings: dict[str, Attribute] = {"reduction": self._reduction, "ignore_index": self._ignore_index}
        return self.append("SoftmaxCrossEntropyLoss", inputs, "", **settings)

    @property
    def _opset(self) -> int:
        return next((entry.version for entry in self.base.opset_import if entry.domain in ("", "ai.onnx")), 1)

    def _negative_log_probability(self, scores: str, labels: str) -> str:
        """The loss of each label, without the transpositions of the operator of ONNX."""
        last = self.constant(np.array([-1]))
        index = self.append("Unsqueeze", [labels, last])
        chosen = self.append("GatherElements", [self.append("LogSoftmax", [scores], axis=-1), index], axis=-1)
        return self.append("Neg", [self.append("Squeeze", [chosen, last])])

    def _with_classes_second(self, scores: str, labels: str, rank: int) -> list[str]:
        """Scores and labels as the operator takes them: with the classes along the second axis."""
        if rank < 3:
            return [scores, labels]
        if self._reduction == "none":
            return [self.append("Transpose", [scores], perm=[0, rank - 1, *range(1, rank - 1)]), labels]
        flat = self.append("Flatten", [scores], axis=rank - 1)
        return [flat, self.append("Reshape", [labels, self.constant(np.array([-1]))])]
