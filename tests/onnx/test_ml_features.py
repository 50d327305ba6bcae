"""Operators of scikit-learn's converters on features (ai.onnx.ml) give what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import graphls
import graphls.onnx
from tests.onnx.models import tensor

F = np.array([[1.0, -2.0, 0.5], [0.0, np.nan, 3.0], [-1.0, 7.0, 7.0]], np.float32)
WHOLE = np.array([[1, 4], [0, -1], [4, 9]])
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Binarizer", [np.nan_to_num(F)], {"threshold": 0.4}),
    ("Imputer", [F], {"imputed_value_floats": [5.0], "replaced_value_float": float("nan")}),
    ("Imputer", [F], {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": 7.0}),
    ("Imputer", [WHOLE], {"imputed_value_int64s": [10, 11], "replaced_value_int64": 4}),
    ("FeatureVectorizer", [F, F[:, :2]], {"inputdimensions": [3, 2]}),
    ("FeatureVectorizer", [WHOLE], {"inputdimensions": [2]}),
    ("OneHotEncoder", [WHOLE], {"cats_int64s": [0, 4, 1, -1]}),
    ("OneHotEncoder", [np.nan_to_num(F)], {"cats_int64s": [1, 7, 0]}),
    ("LabelEncoder", [WHOLE], {"keys_int64s": [4, 0, 1], "values_int64s": [7, 8, 9], "default_int64": -5}),
    ("LabelEncoder", [WHOLE], {"keys_int64s": [4, 0], "values_floats": [0.5, 1.5], "default_float": 9.0}),
    ("LabelEncoder", [F], {"keys_floats": [7.0, 0.5, -1.0], "values_int64s": [1, 2, 3]}),
]


@pytest.mark.parametrize(("kind", "arrays", "attributes"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_an_operator(kind: str, arrays: list[Any], attributes: dict[str, Any]) -> None:
    feeds = {f"x{i}": array for i, array in enumerate(arrays)}
    node = helper.make_node(kind, list(feeds), ["y"], "n", domain="ai.onnx.ml", **attributes)
    inputs = [tensor(n, ["N", *a.shape[1:]], helper.np_dtype_to_tensor_dtype(a.dtype)) for n, a in feeds.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    found = graphls.compile(graphls.onnx.load(proto), *arrays)(*arrays).asnumpy()
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_strings_are_refused_with_a_way_out() -> None:
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], "n", domain="ai.onnx.ml", cats_strings=["a", "b"])
    graph = helper.make_graph([node], "g", [tensor("x", [2])], [tensor("y", None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    net = graphls.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    with pytest.raises(ValueError, match="its categories are strings, which a graph does not have; encode them before"):
        net(np.zeros(2, np.float32))
