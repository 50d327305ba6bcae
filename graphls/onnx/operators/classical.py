"""Linear models and scalers of scikit-learn (ai.onnx.ml), whose weights are attributes and are not trained."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import float32
from graphls.onnx.table import operator
from graphls.onnx.values import Floats, Input, Ints, Strings
from graphls.ops.operands import tensor_of

DOMAIN = "ai.onnx.ml"


def _floats(values: Floats) -> Tensor:
    return Tensor.from_numpy(np.array(values, np.float32))


def _wide(x: Input) -> Tensor:
    x = tensor_of(x)
    return x if x.dtype.is_float else ops.cast(x, float32)


def _transformed(scores: Tensor, name: str) -> Tensor:
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return ops.sigmoid(scores)
    if name == "SOFTMAX":
        return ops.softmax(scores, -1)
    raise GraphValueError(f"the transform {name!r} of scores is not known.")


def _scores(x: Input, coefficients: Floats, intercepts: Floats, count: int) -> Tensor:
    """A row of scores for each sample."""
    x = _wide(x)
    x = ops.reshape(x, (-1, x.shape[-1]))
    weights = ops.reshape(_floats(coefficients), (count, x.shape[-1]))
    scores = ops.matmul(x, ops.transpose(weights, (1, 0)))
    return scores + _floats(intercepts) if intercepts else scores


@operator("Scaler", domain=DOMAIN)
def scaler(x: Input, *, offset: Floats = (0.0,), scale: Floats = (1.0,)) -> Tensor:
    return (_wide(x) - _floats(offset)) * _floats(scale)


@operator("Normalizer", domain=DOMAIN)
def normalizer(x: Input, *, norm: str = "MAX") -> Tensor:
    """Each row divided by its largest element, the sum of the sizes of all, or its length, unless that is 0."""
    x = _wide(x)
    if norm == "MAX":
        size = ops.amax(x, -1, True)
    else:
        size = ops.sum(ops.abs(x), -1, True) if norm == "L1" else ops.norm(x, dim=-1, keepdim=True)
    return x / ops.where(ops.equal(size, 0), ops.ones_like(size), size)


@operator("LinearRegressor", domain=DOMAIN)
def linear_regressor(
    x: Input, *, coefficients: Floats, intercepts: Floats = (), targets: int = 1,
    post_transform: str = "NONE",
) -> Tensor:  # fmt: skip
    return _transformed(_scores(x, coefficients, intercepts, targets), post_transform)


@operator("LinearClassifier", domain=DOMAIN)
def linear_classifier(
    x: Input, *, coefficients: Floats, intercepts: Floats = (), classlabels_ints: Ints = (),
    classlabels_strings: Strings = (), multi_class: int = 0, post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The label of the largest score, or its index where labels are strings, and the scores."""
    labels = classlabels_ints or range(len(classlabels_strings))
    features = tensor_of(x).shape[-1]
    if len(coefficients) != len(labels) * features:
        raise GraphValueError(f"it has {len(labels)} classes, but {len(coefficients)} weights for {features} features.")
    scores = _scores(x, coefficients, intercepts, len(labels))
    chosen = ops.gather(Tensor.from_numpy(np.array(labels, np.int64)), ops.argmax(scores, -1), 0)
    return chosen, _transformed(scores, post_transform)


@operator("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(x: Input, positions: Input) -> Tensor:
    """The columns at some positions; a vector is one row."""
    x = tensor_of(x)
    rows = ops.reshape(x, (-1, x.shape[-1]))
    columns = ops.gather(rows, ops.reshape(tensor_of(positions), (-1,)), 1)
    return ops.reshape(columns, (*x.shape[:-1], columns.shape[-1])) if x.ndim > 1 else columns
