"""Linear models and transformers of features of scikit-learn (ai.onnx.ml), whose numbers are attributes."""

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


def transformed(scores: Tensor, name: str) -> Tensor:
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
    return transformed(_scores(x, coefficients, intercepts, targets), post_transform)


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
    return chosen, transformed(scores, post_transform)


@operator("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(x: Input, positions: Input) -> Tensor:
    """The columns at some positions; a vector is one row."""
    x = tensor_of(x)
    rows = ops.reshape(x, (-1, x.shape[-1]))
    columns = ops.gather(rows, ops.reshape(tensor_of(positions), (-1,)), 1)
    return ops.reshape(columns, (*x.shape[:-1], columns.shape[-1])) if x.ndim > 1 else columns


@operator("Binarizer", domain=DOMAIN)
def binarizer(x: Input, *, threshold: float = 0.0) -> Tensor:
    x = tensor_of(x)
    return ops.cast(ops.gt(x, threshold), x.dtype)


@operator("Imputer", domain=DOMAIN)
def imputer(
    x: Input, *, imputed_value_floats: Floats = (), imputed_value_int64s: Ints = (), replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Tensor:  # fmt: skip
    """Replaces elements of one value, which may be nan, by a number or by that of their column."""
    x = tensor_of(x)
    replaced = replaced_value_float if x.dtype.is_float else replaced_value_int64
    values = np.array(imputed_value_floats if x.dtype.is_float else imputed_value_int64s, x.dtype.numpy)
    is_missing = ops.isnan(x) if np.isnan(replaced) else ops.equal(x, replaced)
    return ops.where(is_missing, Tensor.from_numpy(values), x)


@operator("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(*inputs: Input, inputdimensions: Ints = ()) -> Tensor:
    """The columns of all inputs beside each other."""
    tensors = [ops.cast(x, float32) for x in inputs]
    return ops.concat(tuple(x if x.ndim > 1 else ops.reshape(x, (1, -1)) for x in tensors), 1)


@operator("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(x: Input, *, cats_int64s: Ints = (), cats_strings: Strings = (), zeros: int = 1) -> Tensor:
    """A new last axis with a 1 for the category of each element; elements of none are zeros."""
    if cats_strings:
        raise GraphValueError("its categories are strings, which a graph does not have; encode them before the model.")
    x = tensor_of(x)
    categories = Tensor.from_numpy(np.array(cats_int64s, np.int64))
    return ops.cast(ops.equal(ops.expand_dims(ops.cast(x, "int64"), -1), categories), float32)


@operator("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder(
    x: Input, *, keys_floats: Floats = (), keys_int64s: Ints = (), values_floats: Floats = (), values_int64s: Ints = (),
    default_float: float = 0.0, default_int64: int = -1, keys_strings: Strings = (), values_strings: Strings = (),
    default_string: str = "",
) -> Tensor:  # fmt: skip
    """The value of the key that each element is; the default where it is none."""
    if keys_strings or values_strings:
        raise GraphValueError("it maps strings, which a graph does not have; encode them before the model.")
    x = tensor_of(x)
    keys = np.array(keys_floats or keys_int64s, np.float32 if keys_floats else np.int64)
    values = np.array([*values_floats, default_float], np.float32)
    if values_int64s:
        values = np.array([*values_int64s, default_int64], np.int64)
    wide = ops.expand_dims(ops.cast(x, "float32" if keys_floats else "int64"), -1)
    is_key = ops.equal(wide, Tensor.from_numpy(keys))
    number = ops.where(ops.any(is_key, -1), ops.argmax(ops.cast(is_key, "int32"), -1), len(keys))
    return ops.gather(Tensor.from_numpy(values), number, 0)
