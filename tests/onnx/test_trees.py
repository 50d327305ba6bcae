"""Ensembles of decision trees give what ONNX Runtime gives, alone and in front of layers that train."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import graphls
import graphls.onnx
from graphls import nn
from tests.onnx.contrib_cases import RECENT
from tests.onnx.models import tensor

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES, TREES = 4, 3
X = np.random.default_rng(1).integers(-2, 3, (50, FEATURES)).astype(np.float32)
X[::7, 1] = np.nan


def trees(targets: int, modes: Any, seed: int, positive: bool = False, single: int | None = None) -> dict[str, Any]:
    """The attributes of random trees, with leaves of all targets or of one."""
    draw = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {name: [] for name in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing", "leaves"
    )}  # fmt: skip

    def grow(tree: int, number: int, depth: int) -> int:
        """Append a node and what is below it; returns the next free number."""
        at, is_leaf = len(columns["modes"]), depth == 4 or (depth > 1 and draw.random() < 0.3)
        mode = "LEAF" if is_leaf else str(draw.choice(modes))
        row = (tree, number, int(draw.integers(FEATURES)), float(draw.integers(-2, 3)), mode, 0, 0,
               int(draw.integers(2)), is_leaf)  # fmt: skip
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
        if is_leaf:
            return number + 1
        middle = grow(tree, number + 1, depth + 1)
        columns["truenodeids"][at], columns["falsenodeids"][at] = number + 1, middle
        return grow(tree, middle, depth + 1)

    for tree in range(TREES):
        grow(tree, 0, 0)
    ids = range(targets) if single is None else [single]
    rows = zip(columns["treeids"], columns["nodeids"], columns["leaves"], strict=True)
    leaves = [(tree, node, target) for tree, node, is_leaf in rows if is_leaf for target in ids]
    weights = draw.uniform(0.02, 0.3, len(leaves)) if positive else draw.normal(size=len(leaves))
    columns["missing_value_tracks_true"] = columns.pop("missing")
    columns.pop("leaves")
    nodes = {f"nodes_{name}": values for name, values in columns.items()}
    leaf = dict(zip(("treeids", "nodeids", "ids"), map(list, zip(*leaves, strict=True)), strict=True))
    return {**nodes, "leaf": leaf, "weights": [float(w) for w in weights]}


def ensemble(kind: str, attributes: dict[str, Any], outputs: str, **more: Any) -> ModelProto:
    prefix = "class" if kind.endswith("Classifier") else "target"
    leaf, weights = attributes.pop("leaf"), attributes.pop("weights")
    named = {f"{prefix}_{name}": value for name, value in leaf.items()} | {f"{prefix}_weights": weights}
    node = helper.make_node(kind, ["x"], outputs.split(), "n", domain="ai.onnx.ml", **attributes, **named, **more)
    types = {"label": TensorProto.INT64, "y": TensorProto.FLOAT}
    infos = [tensor(name, None, types[name]) for name in outputs.split()]
    graph = helper.make_graph([node], "g", [tensor("x", X.shape)], infos)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(proto: ModelProto, has_label: bool = True) -> None:
    """Compare with ONNX Runtime, labels also with ONNX's reference where that of ONNX Runtime is none of the model."""
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})
    if not has_label:
        expected[0] = ReferenceEvaluator(proto).run(None, {"x": X})[0]
    net = graphls.onnx.load(proto)
    found = graphls.compile(net, X)(X)
    for y, wanted in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(y.asnumpy().reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("modes", [MODES[:1], MODES[1:2], MODES], ids=["leq", "lt", "all"])
def test_regressors(aggregate: str, modes: Any) -> None:
    for targets in (1, 3):
        check(ensemble("TreeEnsembleRegressor", trees(targets, modes, targets), "y", n_targets=targets,
                       aggregate_function=aggregate, base_values=[0.5] * targets))  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("positive", [True, False])
def test_classifiers(transform: str, positive: bool) -> None:
    for classes, single in ((3, None), (2, None), (2, 1), (2, 0)):
        if not RECENT and (single, positive, transform) == (0, True, "LOGISTIC"):
            continue  # which this release does not transform
        attributes = trees(classes, MODES[:1], classes, positive, single)
        labels = [4, 7, 9][:classes]
        proto = ensemble("TreeEnsembleClassifier", attributes, "label y", classlabels_int64s=labels,
                         post_transform=transform)  # fmt: skip
        check(proto, has_label=classes > 2 or single is not None)


def test_layers_behind_trees_train() -> None:
    proto = ensemble("TreeEnsembleRegressor", trees(3, MODES[:1], 5), "y", n_targets=3)
    weight = np.ones((3, 1), np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    proto.graph.node.append(helper.make_node("MatMul", ["y", "w"], ["z"]))
    proto.graph.output[0].name = "z"
    net, target = graphls.onnx.load(proto), np.zeros((len(X), 1), np.float32)
    loss = nn.WithLossCell(net, nn.MSELoss())
    step = graphls.compile(nn.TrainOneStepCell(loss, nn.SGD(net.trainable_params(), 0.1)), X, target)
    losses = [float(step(X, target)) for _ in range(5)]
    assert losses[-1] < 0.5 * losses[0]


def test_a_tree_that_leads_nowhere_is_an_error() -> None:
    attributes = trees(1, MODES[:1], 0)
    attributes["nodes_truenodeids"][0] = 999
    with pytest.raises(ValueError, match="a node of its tree 0 leads to one that does not exist"):
        graphls.onnx.load(ensemble("TreeEnsembleRegressor", attributes, "y"))(X)
    attributes = trees(1, MODES[:1], 0)
    attributes["nodes_truenodeids"][1] = 0
    with pytest.raises(ValueError, match="lead in a circle"):
        graphls.onnx.load(ensemble("TreeEnsembleRegressor", attributes, "y"))(X)


@pytest.mark.skipif(not RECENT, reason="the release has no such kernel")
@pytest.mark.parametrize("aggregate", range(4))
def test_ensembles_with_leaves_of_their_own(aggregate: int) -> None:
    """Two trees of version 5 of the domain, with several modes and missing values."""
    weights = numpy_helper.from_array(np.array([5.25, 12.125, -12.25, 7.5, 1.0, -3.0], np.float32), "w")
    splits = numpy_helper.from_array(np.array([0.5, -1.0, 1.0, 0.0], np.float32), "s")
    modes = numpy_helper.from_array(np.array([0, 1, 3, 0], np.uint8), "m")
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], "n", domain="ai.onnx.ml", n_targets=2, aggregate_function=aggregate,
        tree_roots=[0, 3], nodes_modes=modes, nodes_splits=splits, nodes_featureids=[0, 1, 2, 3],
        nodes_truenodeids=[1, 0, 2, 4], nodes_trueleafs=[0, 1, 1, 1], nodes_falsenodeids=[2, 1, 3, 5],
        nodes_falseleafs=[0, 1, 1, 1], nodes_missing_value_tracks_true=[0, 1, 0, 0],
        leaf_targetids=[0, 1, 0, 1, 0, 1], leaf_weights=weights,
    )  # fmt: skip
    graph = helper.make_graph([node], "g", [tensor("x", X.shape)], [tensor("y", None)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    check(helper.make_model(graph, opset_imports=opsets, ir_version=9))
