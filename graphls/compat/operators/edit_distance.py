"""The operator of MindSpore that counts how many edits make one sequence of another, which the host runs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from graphls.base.checks import boolean
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32
from graphls.ops.arrays.selection import known
from graphls.ops.host_calls import pure_callback
from graphls.ops.operands import tensor_of
from graphls.ops.primitive import Operator

__all__ = ["EditDistance"]


class EditDistance(Operator):
    """`EditDistance(normalize)(indices, values, shape, indices, values, shape)`: sparse sequences from sparse truths.

    Sequences lie along the last axis: row i of the indices (N, R) says where the value i stands, rising, in a tensor of
    the shape (R,), which is known. The result has the larger sizes of both shapes without the last, in float32, and no
    gradient. With `normalize`, distances are divided by the lengths of the truths. Raises GraphTypeError for a
    `normalize` that is no bool and a shape that the graph computes, and GraphValueError for shapes that do not fit.
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
            given = ", ".join(str(t.type) for t in tensors)
            raise GraphValueError(f"EditDistance takes indices (N, R), values (N,) and R sizes, not {given}, {shapes}.")
        sizes = tuple(max(pair) for pair in zip(shapes[0][:-1], shapes[1][:-1], strict=True))
        found: Tensor = pure_callback(lambda *arrays: self._distances(sizes, *arrays), (sizes, float32), *tensors)
        return found

    def _distances(self, sizes: tuple[int, ...], *arrays: Any) -> Any:
        found = np.zeros(sizes, np.float32)
        for place in product(*map(range, sizes)):
            made, true = (_sequence(place, *arrays[i : i + 2]) for i in (0, 2))
            found[place] = _edits(made, true)
            if self.normalize and found[place]:
                found[place] = found[place] / len(true) if len(true) else np.inf
        return found


def _sequence(place: tuple[int, ...], indices: Any, values: Any) -> Any:
    return values[(indices[:, :-1] == place).all(axis=1)]


def _edits(made: Any, true: Any) -> int:
    """How many values are put in, left out or changed at least: the distance of Levenshtein."""
    row = list(range(len(true) + 1))
    for i, value in enumerate(made, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(true, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (value != other))
    return row[-1]
