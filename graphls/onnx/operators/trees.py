"""Ensembles of decision trees (ai.onnx.ml), which are not trained and pass no gradient to their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.ir.types import float32
from graphls.onnx.operators.classical import DOMAIN, transformed
from graphls.onnx.table import operator
from graphls.onnx.values import Floats, Input, Ints, Strings, array_of
from graphls.ops.operands import tensor_of
from graphls.ops.state import stop_gradient

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_LEAF = "LEAF"


@dataclass(frozen=True)
class Ensemble:
    """Nodes of all trees by number: the branches of a leaf lead to itself."""

    features: Array
    values: Array
    modes: list[str]
    children: Array
    """The next nodes (nodes, 2), that of a condition that does not hold first."""
    missing: Array
    roots: Array
    depth: int
    weights: Array
    """What a leaf adds to each target."""
    has_weight: Array
    """The targets that a leaf has a weight for."""

    def leaves(self, x: Tensor) -> Tensor:
        """The leaf of each tree that a row of features reaches: (rows, trees)."""
        at = ops.broadcast_to(Tensor(self.roots[None]), (x.shape[0], len(self.roots)))
        columns = [Tensor(array) for array in (self.features, self.values, self.missing)]
        flat = Tensor(self.children.reshape(-1))
        for _ in range(self.depth):
            feature, value, missing = (ops.gather(column, at, 0) for column in columns)
            element = ops.cast(ops.gather_elements(x, 1, feature), value.dtype)
            holds = ops.logical_or(self._holds(at, element, value), ops.logical_and(ops.isnan(element), missing))
            at = ops.gather(flat, 2 * at + ops.cast(holds, "int64"), 0)
        return at

    def _holds(self, at: Tensor, element: Tensor, value: Tensor) -> Tensor:
        compare = {
            "BRANCH_LEQ": ops.le, "BRANCH_LT": ops.less, "BRANCH_GTE": ops.ge, "BRANCH_GT": ops.gt,
            "BRANCH_EQ": ops.equal, "BRANCH_NEQ": ops.not_equal,
        }  # fmt: skip
        used = sorted(set(self.modes) - {_LEAF})
        if len(used) == 1:
            return compare[used[0]](element, value)
        result = ops.zeros(element.shape, "bool")
        for mode in used:
            is_mode = ops.gather(Tensor(np.array([m == mode for m in self.modes])), at, 0)
            result = ops.logical_or(result, ops.logical_and(is_mode, compare[mode](element, value)))
        return result

    def scores(self, x: Input, aggregate: str = "SUM") -> Tensor:
        """The weights of the leaves of all trees: (rows, targets)."""
        x = tensor_of(x)
        leaves = self.leaves(stop_gradient(x) if x.dtype.is_float else x)
        rows = ops.gather(Tensor(self.weights), leaves, 0)
        if aggregate in ("MIN", "MAX"):
            has_weight = ops.gather(Tensor(self.has_weight), leaves, 0)
            rows = ops.where(has_weight, rows, np.inf if aggregate == "MIN" else -np.inf)
            extreme = ops.amin(rows, 1) if aggregate == "MIN" else ops.amax(rows, 1)
            return ops.where(ops.any(has_weight, 1), extreme, 0.0)
        if aggregate not in ("SUM", "AVERAGE"):
            raise GraphValueError(f"the aggregate function {aggregate!r} of trees is not known.")
        total = ops.sum(rows, 1)
        return total / float(len(self.roots)) if aggregate == "AVERAGE" else total


def _numbers(values: Floats, tensor: Input | None, default: float = 0.0, count: int = 0) -> Array:
    """An attribute of floats, which may be a tensor."""
    array = np.array(values, np.float32) if tensor is None else array_of(tensor)
    return array if array.size else np.full(count, default, np.float32)


def ensemble_of(targets: int, leaf_trees: Ints, leaf_nodes: Ints, leaf_ids: Ints, leaf_weights: Array, **nodes: Any
) -> Ensemble:  # fmt: skip
    """The nodes of ensembles from the attributes of their operators; raises GraphValueError for broken trees."""
    trees, modes = nodes["nodes_treeids"], list(nodes["nodes_modes"])
    numbers = {key: i for i, key in enumerate(zip(trees, nodes["nodes_nodeids"], strict=True))}
    count = len(numbers)
    unknown = set(modes) - {*_MODES, _LEAF}
    if unknown:
        raise GraphValueError(f"the mode {min(unknown)!r} of nodes is not known.")
    children = np.repeat(np.arange(count, dtype=np.int64)[:, None], 2, 1)
    for i, (tree, mode) in enumerate(zip(trees, modes, strict=True)):
        if mode != _LEAF:
            branches = (nodes["nodes_falsenodeids"][i], nodes["nodes_truenodeids"][i])
            if any((tree, branch) not in numbers for branch in branches):
                raise GraphValueError(f"a node of its tree {tree} leads to one that does not exist.")
            children[i] = [numbers[tree, branch] for branch in branches]
    values = _numbers(nodes.get("nodes_values", ()), nodes.get("nodes_values_as_tensor"), 0.0, count)
    weights = np.zeros((count, targets), leaf_weights.dtype)
    has_weight = weights.astype(bool)
    for tree, node, target, weight in zip(leaf_trees, leaf_nodes, leaf_ids, leaf_weights, strict=True):
        weights[numbers[tree, node], target] += weight
        has_weight[numbers[tree, node], target] = True
    roots = np.setdiff1d(np.arange(count), [c for i, pair in enumerate(children) for c in pair if c != i])
    missing = np.array(nodes.get("nodes_missing_value_tracks_true") or [0] * count, bool)
    features = np.array(nodes["nodes_featureids"], np.int64)
    depth = _depth(children, roots)
    return Ensemble(features, values, modes, children, missing, roots, depth, weights, has_weight)


def _depth(children: Array, roots: Array) -> int:
    """The number of branches to the deepest leaf; raises GraphValueError for nodes that no root leads to."""
    at, depth, reached = roots, 0, set(roots)
    while (children[at] != at[:, None]).any() and depth < len(children):
        at, depth = np.unique(children[at]), depth + 1
        reached.update(at)
    if len(reached) < len(children) or depth == len(children):
        raise GraphValueError("the nodes of its trees lead in a circle.")
    return depth


@operator("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(
    x: Input, *, aggregate_function: str = "SUM", base_values: Floats = (), base_values_as_tensor: Input | None = None,
    n_targets: int = 1, post_transform: str = "NONE", target_ids: Ints, target_nodeids: Ints, target_treeids: Ints,
    target_weights: Floats = (), target_weights_as_tensor: Input | None = None, nodes_hitrates: Floats = (),
    nodes_hitrates_as_tensor: Input | None = None, **nodes: Any,
) -> Tensor:  # fmt: skip
    weights = _numbers(target_weights, target_weights_as_tensor)
    ensemble = ensemble_of(n_targets, target_treeids, target_nodeids, target_ids, weights, **nodes)
    base = _numbers(base_values, base_values_as_tensor, 0.0, n_targets)
    return transformed(ops.cast(ensemble.scores(x, aggregate_function) + Tensor(base), float32), post_transform)


@operator("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(
    x: Input, *, base_values: Floats = (), base_values_as_tensor: Input | None = None, class_ids: Ints,
    class_nodeids: Ints, class_treeids: Ints, class_weights: Floats = (), class_weights_as_tensor: Input | None = None,
    classlabels_int64s: Ints = (), classlabels_strings: Strings = (), post_transform: str = "NONE",
    nodes_hitrates: Floats = (), nodes_hitrates_as_tensor: Input | None = None, **nodes: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The label of the largest score, or its index where labels are strings, and the scores."""
    labels = np.array(classlabels_int64s or range(len(classlabels_strings)), np.int64)
    weights = _numbers(class_weights, class_weights_as_tensor)
    ensemble = ensemble_of(len(labels), class_treeids, class_nodeids, class_ids, weights, **nodes)
    base = _numbers(base_values, base_values_as_tensor)
    scores = ensemble.scores(x)
    if len(labels) == 2 and len(set(class_ids)) == 1:  # the only score is that of the second class
        first = scores[:, class_ids[0]] + (float(base[-1]) if base.size else 0.0)
        is_share = bool((weights >= 0).all())
        chosen = ops.cast(ops.gt(first, 0.5 if is_share else 0.0), "int64")
        other = 1.0 - first if is_share and post_transform != "LOGISTIC" else -first
        is_added = class_ids[0] == 0
        scores = ops.stack((other if is_added else ops.zeros_like(first), first), 1)
        scores = scores if is_added and post_transform == "SOFTMAX" else transformed(scores, post_transform)
    else:
        scores = scores + Tensor(base) if base.size else scores
        chosen = ops.argmax(scores, -1)
        scores = transformed(scores, post_transform)
    return ops.gather(Tensor(labels), ops.cast(chosen, "int64"), 0), ops.cast(scores, float32)


_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC")


@operator("TreeEnsemble", domain=DOMAIN, since=5)
def tree_ensemble(
    x: Input, *, aggregate_function: int = 1, n_targets: int, leaf_targetids: Ints, leaf_weights: Input,
    nodes_falseleafs: Ints, nodes_falsenodeids: Ints, nodes_featureids: Ints, nodes_modes: Input, nodes_splits: Input,
    nodes_trueleafs: Ints, nodes_truenodeids: Ints, tree_roots: Ints, nodes_missing_value_tracks_true: Ints = (),
    nodes_hitrates: Input | None = None, membership_values: Input | None = None, post_transform: int = 0,
) -> Tensor:  # fmt: skip
    """Trees whose leaves are numbered apart from branches, and here come after them."""
    kinds, inner, leaves = array_of(nodes_modes), len(nodes_featureids), len(leaf_targetids)
    if kinds.max(initial=0) >= len(_MODES):
        text = "a branch tests whether a feature is in a set"
        raise GraphValueError(f"{text}; convert the model with version 3 of ai.onnx.ml.")
    if post_transform >= len(_TRANSFORMS):
        raise GraphValueError(f"the transform {post_transform} of scores is not known.")
    pairs = ((nodes_falsenodeids, nodes_falseleafs), (nodes_truenodeids, nodes_trueleafs))
    branches = np.array([np.add(ids, inner * np.array(are_leaves)) for ids, are_leaves in pairs], np.int64).T
    if branches.min(initial=0) < 0 or branches.max(initial=0) >= inner + leaves:
        raise GraphValueError("a node of its trees leads to one that does not exist.")
    ends = np.arange(inner, inner + leaves)
    numbers = array_of(leaf_weights)
    weights = np.zeros((inner + leaves, n_targets), numbers.dtype)
    weights[ends, list(leaf_targetids)] = numbers
    has_weight = np.zeros(weights.shape, bool)
    has_weight[ends, list(leaf_targetids)] = True
    features, values, missing = (
        np.concatenate([np.asarray(column), np.zeros(leaves, np.asarray(column).dtype)])
        for column in (
            np.array(nodes_featureids, np.int64), array_of(nodes_splits),
            np.array(nodes_missing_value_tracks_true or [0] * inner, bool),
        )
    )  # fmt: skip
    children, roots = np.concatenate([branches, np.stack([ends, ends], 1)]), np.array(tree_roots, np.int64)
    modes = [*(_MODES[kind] for kind in kinds), *[_LEAF] * leaves]
    depth = _depth(children, roots)
    ensemble = Ensemble(features, values, modes, children, missing, roots, depth, weights, has_weight)
    scores = ensemble.scores(x, _AGGREGATES[aggregate_function])
    return transformed(ops.cast(scores, tensor_of(x).dtype), _TRANSFORMS[post_transform])
