"""Operators of MindSpore that run on the host: Python functions, gradient hooks, box suppression, edit distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from graphls.base.checks import boolean
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.rewriting.functions import in_trace
from graphls.ir.types import Type, as_dtype, bool_, float32, int32
from graphls.nn.hook_kinds import returns_none
from graphls.nn.hooks import of_gradients
from graphls.ops.arrays.selection import known
from graphls.ops.gradients import with_hooks
from graphls.ops.host_calls import pure_callback, py_func
from graphls.ops.operands import tensor_of
from graphls.ops.primitive import Operator
from graphls.runtime.context import is_eager

__all__ = ["EditDistance", "HookBackward", "InsertGradientOf", "NMSWithMask", "PyFunc"]


class PyFunc(Operator):
    """`PyFunc(fn, in_types, in_shapes, out_types, out_shapes)(tensors)`: a tuple of results of a Python function.

    It is a `py_func` if it is `stateful`, else a `pure_callback`. Raises GraphTypeError for tensors of other types than
    declared.
    """

    def __init__(
        self, fn: Callable[..., Any], in_types: Sequence[Any], in_shapes: Sequence[Sequence[int]],
        out_types: Sequence[Any], out_shapes: Sequence[Sequence[int]], stateful: bool = True,
    ) -> None:  # fmt: skip
        self.settings = {"stateful": stateful}
        self.fn, self.stateful = fn, stateful
        self.inputs = [Type(as_dtype(dtype), tuple(shape)) for dtype, shape in zip(in_types, in_shapes, strict=True)]
        self.outputs = tuple(zip(map(tuple, out_shapes), out_types, strict=True))

    def __call__(self, input_x: Sequence[Tensor]) -> tuple[Tensor, ...]:
        tensors = [tensor_of(x) for x in input_x]
        if [t.type for t in tensors] != self.inputs:
            types = ", ".join(str(t.type) for t in tensors)
            raise GraphTypeError(f"This PyFunc takes {', '.join(map(str, self.inputs))}, not {types}.")
        call = py_func if self.stateful else pure_callback
        results: tuple[Tensor, ...] = call(self._as_tuple, self.outputs, *tensors)
        return results

    def _as_tuple(self, *arrays: Any) -> Any:
        result = self.fn(*arrays)
        return (result,) if len(self.outputs) == 1 and not isinstance(result, (tuple, list)) else result


class InsertGradientOf(Operator):
    """`InsertGradientOf(f)(x)`: x itself, with the gradient `f(gradient)`."""

    def __init__(self, f: Callable[[Tensor], Tensor]) -> None:
        self.settings = {}
        self.f = f

    def __call__(self, input_x: Tensor) -> Tensor:
        result: Tensor = with_hooks(input_x, [lambda gradients: in_trace(self.f)(*gradients)])
        return result


class HookBackward(Operator):
    """`HookBackward(hook_fn)(tensors)`: the tensors, whose gradients as a tuple are passed through `hook_fn`.

    A result of None leaves them unchanged. In eager mode, and if it never returns a value, `hook_fn` is called with
    numbers whenever gradients are computed; else once, while a graph is traced, with symbols.
    """

    def __init__(self, hook_fn: Callable[..., Any], cell_id: str = "") -> None:
        if not callable(hook_fn):
            raise GraphTypeError(f"HookBackward takes a function, not {hook_fn!r}.")
        self.settings = {"cell_id": cell_id}
        self.hook = hook_fn

    def __call__(self, *inputs: Tensor) -> Any:
        has_numbers = is_eager() or returns_none(self.hook)
        hook = of_gradients(self.hook, self.hook if has_numbers else in_trace(self.hook))
        return with_hooks(inputs[0] if len(inputs) == 1 else inputs, [hook])


class NMSWithMask(Operator):
    """`NMSWithMask(iou_threshold)(boxes)`: boxes (N, 5) by falling scores, their indices, and a mask of selected ones.

    A box has two corners and a score. It is dropped if its intersection over union with a better selected box is above
    the threshold. Has no gradient. Raises GraphValueError for another shape.
    """

    def __init__(self, iou_threshold: float = 0.5) -> None:
        self.settings = {"iou_threshold": iou_threshold}
        self.iou_threshold = float(iou_threshold)

    def __call__(self, bboxes: TensorLike) -> tuple[Tensor, ...]:
        x = tensor_of(bboxes)
        if x.ndim != 2 or x.shape[1] != 5:
            raise GraphValueError(f"NMSWithMask takes boxes of the shape (N, 5), not {x.shape}.")
        outputs = (x.shape, x.dtype), (x.shape[:1], int32), (x.shape[:1], bool_)
        results: tuple[Tensor, ...] = pure_callback(self._select, outputs, x)
        return results

    def _select(self, boxes: Any) -> Any:
        boxes = boxes[np.argsort(-boxes[:, 4], kind="stable")]
        mask = np.ones(len(boxes), bool)
        for i in range(len(boxes)):
            if mask[i]:
                mask[i + 1 :] &= _overlaps(boxes[i], boxes[i + 1 :]) <= self.iou_threshold
        return boxes, np.arange(len(boxes), dtype=np.int32), mask


def _overlaps(box: Any, others: Any) -> Any:
    """The intersection of a box with others divided by their union."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:4], others[:, 2:4])
    shared = np.prod(np.maximum(high - low, 0), 1)
    areas = np.prod(others[:, 2:4] - others[:, :2], 1) + np.prod(box[2:4] - box[:2])
    return shared / np.maximum(areas - shared, np.finfo(np.float32).tiny)


class EditDistance(Operator):
    """`EditDistance(normalize)(indices, values, shape, indices, values, shape)`: from sparse hypotheses to truths.

    Sequences lie along the last axis: row i of the indices (N, R), in rising order, is the position of value i in a
    tensor of the constant shape (R,). The result has the larger sizes of both shapes without the last, in float32, and
    no gradient. With `normalize`, distances are divided by the lengths of the truths. Raises GraphTypeError for a
    `normalize` that is not a bool and a shape that the graph computes, and GraphValueError for shapes that do not fit.
    """

    def __init__(self, normalize: bool = True) -> None:
        self.settings = {"normalize": normalize}
        self.normalize = boolean("EditDistance", "normalize", normalize)

    def __call__(
        self, hypothesis_indices: TensorLike, hypothesis_values: TensorLike, hypothesis_shape: TensorLike,
        truth_indices: TensorLike, truth_values: TensorLike, truth_shape: TensorLike,
    ) -> Tensor:  # fmt: skip
        tensors = [tensor_of(x) for x in (hypothesis_indices, hypothesis_values, truth_indices, truth_values)]
        shapes = [known("EditDistance", shape).tolist() for shape in (hypothesis_shape, truth_shape)]
        rank = len(shapes[0])
        fits = rank > 1 and len(shapes[1]) == rank
        for indices, values in (tensors[:2], tensors[2:]):
            fits = fits and indices.ndim == 2 and indices.shape == (*values.shape, rank)
        if not fits:
            types = ", ".join(str(t.type) for t in tensors)
            raise GraphValueError(f"EditDistance takes indices (N, R), values (N,) and R sizes, not {types}, {shapes}.")
        sizes = tuple(max(pair) for pair in zip(shapes[0][:-1], shapes[1][:-1], strict=True))
        result: Tensor = pure_callback(lambda *arrays: self._distances(sizes, *arrays), (sizes, float32), *tensors)
        return result

    def _distances(self, sizes: tuple[int, ...], *arrays: Any) -> Any:
        distances = np.zeros(sizes, np.float32)
        for index in product(*map(range, sizes)):
            hypothesis, truth = (_sequence(index, *arrays[i : i + 2]) for i in (0, 2))
            distances[index] = _levenshtein(hypothesis, truth)
            if self.normalize and distances[index]:
                distances[index] = distances[index] / len(truth) if len(truth) else np.inf
        return distances


def _sequence(index: tuple[int, ...], indices: Any, values: Any) -> Any:
    return values[(indices[:, :-1] == index).all(axis=1)]


def _levenshtein(hypothesis: Any, truth: Any) -> int:
    """The least number of insertions, deletions and substitutions between two sequences."""
    row = list(range(len(truth) + 1))
    for i, value in enumerate(hypothesis, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(truth, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (value != other))
    return row[-1]
